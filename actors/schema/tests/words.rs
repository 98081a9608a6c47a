//! What is refused, and in what words.

use playhouse_schema::{Misfit, Misfits, Schema};
use serde_json::{Value, json};

fn told(schema: Value, value: Value) -> Vec<(String, String)> {
    let Misfits { first, more } = Schema::new(&schema).unwrap().misfits(&value, 10);
    assert_eq!(more, 0);
    first.into_iter().map(|Misfit { path, text }| (path, text)).collect()
}

fn refused(schema: Value) -> String {
    Schema::new(&schema).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2},
            "people": {"type": ["integer", "null"], "minimum": 0},
            "tags/all": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true},
        },
        "required": ["name", "place"],
        "additionalProperties": false,
    });
    let value = json!({"name": "x", "people": -3, "tags/all": ["a", "c", "a"], "more": 1});
    let expected = [
        ("", "\"place\" is a required property"),
        ("", "Additional properties are not allowed ('more' was unexpected)"),
        ("/name", "\"x\" is shorter than 2 characters"),
        ("/people", "-3 is less than the minimum of 0"),
        ("/tags~1all", "has \"a\" more than once"),
        ("/tags~1all/1", "\"c\" is not one of \"a\", \"b\""),
    ];
    let mut found = told(schema.clone(), value);
    found.sort();
    assert_eq!(found, expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
    assert_eq!(told(schema, json!("x")), [(String::new(), "\"x\" is not of type \"object\"".to_owned())]);
}

#[test]
fn one_that_may_be_null_is_told_of_by_what_else_it_may_be() {
    let schema = json!({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]});
    assert_eq!(told(schema.clone(), json!({})), [(String::new(), "\"a\" is a required property".to_owned())]);
    assert_eq!(told(schema, json!(1))[0].1, "1 fits none of the 2 schemas that it may fit");
}

#[test]
fn a_schema_that_is_none_is_refused_with_the_place() {
    for (schema, place, part) in [
        (json!({"type": "nothing"}), "#/type", "no type"),
        (json!({"properties": 3}), "#/properties", "an object"),
        (json!({"$defs": {"a": {"items": 3}}}), "#/$defs/a/items", "an object or a boolean"),
        (json!({"properties": {"a": {"pattern": "("}}}), "#/properties/a/pattern", "no pattern"),
        (json!({"minLength": -1}), "#/minLength", "whole number"),
        (json!({"multipleOf": 0}), "#/multipleOf", "above 0"),
        (json!({"required": true}), "#/required", "list of texts"),
        (json!({"anyOf": []}), "#/anyOf", "empty"),
        (json!({"$ref": "#/$defs/none"}), "#/$ref", "not in this schema"),
        (json!({"$ref": "http://localhost/s.json"}), "#/$ref", "nothing is fetched"),
        (json!({"items": {"$dynamicRef": "#x"}}), "#/items/$dynamicRef", "not supported"),
        (json!({"$ref": "#"}), "#", "leads back"),
        (
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            "#",
            "leads back",
        ),
    ] {
        let error = refused(schema);
        assert!(error.starts_with(&format!("at `{place}`: ")) && error.contains(part), "{error}");
    }
}

#[test]
fn a_schema_that_multiplies_is_given_up() {
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d60".to_owned(), json!({}));
    let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
    assert!(!Schema::new(&schema).unwrap().fits(&json!(1)));
}

#[test]
fn what_is_left_is_counted() {
    let schema = Schema::new(&json!({"items": {"type": "string"}})).unwrap();
    let misfits = schema.misfits(&Value::Array(vec![json!(1); 500]), 10);
    assert_eq!((misfits.first.len(), misfits.more), (10, 490));
}
