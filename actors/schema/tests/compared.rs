//! The same verdict as another validator, for schemas and values that are made up.

use playhouse_schema::Schema;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

/// Names that schemas, values and references share, so that they meet.
const NAMES: [&str; 4] = ["a", "b", "ab", "c/d"];

fn name() -> impl Strategy<Value = String> {
    select(&NAMES[..]).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-4_i64..5).prop_map(Value::from),
        (-8_i64..9).prop_map(|n| json!(n as f64 / 2.0)),
        (-8_i64..9).prop_map(|n| json!(n as f64 / 10.0)),
        // None that a float cannot hold: the other one divides those as floats.
        select(vec![json!(1.0), json!(1_000_003), json!(1e15), json!(0.1)]),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        select(vec!["", "a", "ab", "abc", "äö", "1", "a b", "\u{1F600}"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn size() -> impl Strategy<Value = Value> {
    (0_u32..4).prop_map(Value::from)
}

fn names() -> impl Strategy<Value = Value> {
    subsequence(&NAMES[..], 0..3).prop_map(|names| json!(names))
}

fn types() -> impl Strategy<Value = Value> {
    const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
    prop_oneof![select(&TYPES[..]).prop_map(Value::from), subsequence(&TYPES[..], 1..4).prop_map(|types| json!(types)),]
}

fn pattern() -> impl Strategy<Value = String> {
    select(vec!["^a", "b$", r"^\w+$", r"\d", r"^(?!a)", "^[^ab]*$", r"\s", "^.$"]).prop_map(str::to_owned)
}

/// A schema's keywords that hold no other schema.
fn simple() -> impl Strategy<Value = Map<String, Value>> {
    let one = prop_oneof![
        types().prop_map(|v| ("type", v)),
        prop::collection::vec(value(), 1..4).prop_map(|v| ("enum", json!(v))),
        value().prop_map(|v| ("const", v)),
        (select(vec!["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]), number()),
        select(vec![json!(1), json!(2), json!(0.5), json!(0.1), json!(1.5)]).prop_map(|v| ("multipleOf", v)),
        (select(vec!["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"]), size()),
        pattern().prop_map(|v| ("pattern", json!(v))),
        any::<bool>().prop_map(|v| ("uniqueItems", json!(v))),
        names().prop_map(|v| ("required", v)),
        (name(), names()).prop_map(|(when, v)| ("dependentRequired", json!({when: v}))),
    ];
    prop::collection::vec(one, 0..3).prop_map(object)
}

fn object<K: Into<String>>(keywords: Vec<(K, Value)>) -> Map<String, Value> {
    keywords.into_iter().map(|(keyword, value)| (keyword.into(), value)).collect()
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        8 => simple().prop_map(Value::Object),
        1 => any::<bool>().prop_map(Value::from),
        1 => select(vec!["#/$defs/one", "#/$defs/two", "#three"]).prop_map(|to| json!({"$ref": to})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let named = prop::collection::btree_map(name(), inner.clone(), 0..3);
        const ONE: [&str; 12] = [
            "not",
            "if",
            "then",
            "else",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedItems",
            "unevaluatedProperties",
            "unevaluatedItems",
            "unevaluatedProperties",
        ];
        let keyword = prop_oneof![
            4 => (select(&ONE[..]), inner.clone()).prop_map(|(keyword, v)| (keyword, v)),
            3 => (select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]), list).prop_map(|(k, v)| (k, json!(v))),
            3 => (select(vec!["properties", "dependentSchemas"]), named).prop_map(|(k, v)| (k, json!(v))),
            1 => prop::collection::btree_map(pattern(), inner, 0..3).prop_map(|v| ("patternProperties", json!(v))),
            1 => (select(vec!["minContains", "maxContains"]), size()),
        ];
        (simple(), prop::collection::vec(keyword, 1..4)).prop_map(|(mut all, more)| {
            all.extend(object(more));
            Value::Object(all)
        })
    })
}

/// A schema with others in it that it may refer to.
fn whole() -> impl Strategy<Value = Value> {
    (schema(), simple(), schema()).prop_map(|(mut root, one, two)| {
        if let Some(root) = root.as_object_mut() {
            // The third has the name of its anchor, and may refer to the others.
            let three = json!({"$anchor": "three", "anyOf": [{"type": "string"}, {"properties": {"a": two}}]});
            root.insert("$defs".to_owned(), json!({"one": one, "two": {"items": {"$ref": "#three"}}, "x": three}));
        }
        root
    })
}

/// How many schemas are tried.
fn runs() -> ProptestConfig {
    ProptestConfig::with_cases(std::env::var("PLAYHOUSE_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000))
}

proptest! {
    #![proptest_config(runs())]

    #[test]
    fn the_verdict_is_that_of_another_validator(schema in whole(), values in prop::collection::vec(value(), 8)) {
        let theirs = jsonschema::options().offline().build(&schema);
        match (Schema::new(&schema), theirs) {
            (Ok(ours), Ok(theirs)) => {
                for value in values {
                    prop_assert_eq!(ours.fits(&value), theirs.is_valid(&value), "{} {}", schema, value);
                    prop_assert_eq!(ours.fits(&value), ours.misfits(&value, 3).is_empty(), "{} {}", schema, value);
                }
            }
            // A schema that is part of itself is refused by us alone; there is none among these that theirs refuses.
            (Err(ours), _) => prop_assert!(ours.reason.contains("leads back"), "{schema}: {ours}"),
            (Ok(_), Err(theirs)) => prop_assert!(false, "{schema}: {theirs}"),
        }
    }
}

/// Schemas of the older drafts, and references of all kinds, each with values that fit and that do not.
#[test]
fn older_drafts_and_references_are_as_another_validator_has_them() {
    const OLD: &str = "http://json-schema.org/draft-07/schema#";
    const OLDEST: &str = "http://json-schema.org/draft-04/schema#";
    let cases = [
        (
            json!({"$schema": OLD, "items": [{"type": "string"}], "additionalItems": {"type": "number"}}),
            json!(["a", 1]),
            json!(["a", "b"]),
        ),
        (json!({"$schema": OLDEST, "minimum": 1, "exclusiveMinimum": true}), json!(2), json!(1)),
        (json!({"$schema": OLDEST, "maximum": 1, "exclusiveMaximum": false}), json!(1), json!(2)),
        (
            json!({"$schema": OLD, "dependencies": {"a": ["b"], "c": {"maxProperties": 1}}}),
            json!({"a": 1, "b": 1}),
            json!({"a": 1}),
        ),
        (
            json!({"$schema": OLD, "dependencies": {"c": {"maxProperties": 1}}}),
            json!({"c": 1}),
            json!({"c": 1, "d": 1}),
        ),
        // What stands beside a reference counts from 2019-09 on.
        (
            json!({"$schema": OLD, "properties": {"a": {"$ref": "#/definitions/n", "maximum": 1}}, "definitions": {"n": {"type": "number"}}}),
            json!({"a": 5}),
            json!({"a": "x"}),
        ),
        (
            json!({"properties": {"a": {"$ref": "#/definitions/n", "maximum": 1}}, "definitions": {"n": {"type": "number"}}}),
            json!({"a": 1}),
            json!({"a": 5}),
        ),
        // By `$id`, relative and whole, and by a pointer into what is no schema's place.
        (
            json!({"$id": "http://x/y/root", "$ref": "other", "$defs": {"o": {"$id": "other", "type": "null"}}}),
            json!(null),
            json!(1),
        ),
        (
            json!({"$id": "http://x/y/root", "$ref": "http://x/y/other#/$defs/n", "$defs": {"o": {"$id": "/y/other", "$defs": {"n": {"type": "null"}}}}}),
            json!(null),
            json!(1),
        ),
        (
            json!({"$schema": OLD, "$ref": "#n", "definitions": {"n": {"$id": "#n", "type": "null"}}}),
            json!(null),
            json!(1),
        ),
        (
            json!({"properties": {"a%b": {"type": "null"}, "x": {"$ref": "#/properties/a%25b"}}}),
            json!({"x": null}),
            json!({"x": 1}),
        ),
        (json!({"$defs": {"a~b/c": {"type": "null"}}, "$ref": "#/$defs/a~0b~1c"}), json!(null), json!(1)),
        // A reference within a schema that has an `$id` is to that one.
        (
            json!({"items": {"$id": "http://x/inner", "$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}}),
            json!([null]),
            json!([1]),
        ),
        // Recursive.
        (
            json!({"properties": {"next": {"$ref": "#"}}, "additionalProperties": false}),
            json!({"next": {"next": {}}}),
            json!({"next": {"x": 1}}),
        ),
        (json!({"type": "array", "items": {"$ref": "#"}}), json!([[], [[]]]), json!([[1]])),
        // As schemars makes it of a flattened type that denies what it does not know.
        (
            json!({"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}], "unevaluatedProperties": false}),
            json!({"a": 1, "b": 1}),
            json!({"c": 1}),
        ),
    ];
    for (schema, yes, no) in cases {
        let ours = Schema::new(&schema).unwrap();
        let theirs = jsonschema::options().offline().build(&schema).unwrap();
        assert_eq!((ours.fits(&yes), ours.fits(&no)), (true, false), "{schema}");
        assert_eq!((theirs.is_valid(&yes), theirs.is_valid(&no)), (true, false), "{schema}");
    }
}
