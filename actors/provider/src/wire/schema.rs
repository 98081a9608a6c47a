//! What OpenAI's protocols ask of JSON Schemas, and which they can hold a model to; pure.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// How deep a strict schema may be.
const DEEPEST: usize = 10;

/// The formats of strings that a strict schema may ask for.
const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// What the service takes in a strict schema. `default`, `allOf`, `oneOf`, `minLength` and the rest it refuses.
const KEYWORDS: [&str; 21] = [
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
];

/// Whether the service takes a schema as strict, and so can hold the model to it: every object closed, with all of its
/// properties required, and nothing in it but what the service knows. Any other schema is advice to the model.
pub(crate) fn is_strict(schema: &Value) -> bool {
    let root = schema.as_object();
    root.is_some_and(|root| root.get("type") == Some(&json!("object")) && !root.contains_key("anyOf"))
        && strict_at(schema, 0)
}

fn strict_at(schema: &Value, depth: usize) -> bool {
    let Some(schema) = schema.as_object().filter(|_| depth < DEEPEST) else { return false };
    if schema.contains_key("$ref") {
        return schema.len() == 1;
    }
    let all = |schemas: &Map<String, Value>| schemas.values().all(|inner| strict_at(inner, depth + 1));
    let inner = schema.iter().all(|(keyword, value)| match keyword.as_str() {
        "type" => value.is_string() || value.is_array(),
        "properties" | "$defs" | "definitions" => value.as_object().is_some_and(all),
        "items" => strict_at(value, depth + 1),
        "format" => FORMATS.iter().any(|known| value == known),
        "anyOf" => value.as_array().is_some_and(|list| list.iter().all(|inner| strict_at(inner, depth + 1))),
        other => KEYWORDS.contains(&other),
    });
    let says_what = ["type", "anyOf", "enum", "const"].iter().any(|keyword| schema.contains_key(*keyword));
    let object_is_closed = !(is_of(schema, "object") || schema.contains_key("properties")) || is_closed(schema);
    let array_has_items = !is_of(schema, "array") || schema.contains_key("items");
    inner && says_what && object_is_closed && array_has_items
}

/// Whether a schema allows a type.
fn is_of(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        Some(_) | None => false,
    }
}

fn is_closed(schema: &Map<String, Value>) -> bool {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return false };
    let none = Vec::new();
    let required = schema.get("required").and_then(Value::as_array).unwrap_or(&none);
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.keys().all(|name| required.iter().any(|one| one == name))
        && required.iter().all(|one| one.as_str().is_some_and(|name| properties.contains_key(name)))
}

/// The parameters of a tool. The service refuses an object without `properties`, which is how many servers describe a
/// tool that takes nothing.
pub(crate) fn parameters(schema: &Value) -> Cow<'_, Value> {
    match schema {
        Value::Object(object) if object.get("type") == Some(&json!("object")) && !object.contains_key("properties") => {
            let mut object = object.clone();
            object.insert("properties".to_owned(), json!({}));
            Cow::Owned(Value::Object(object))
        }
        Value::Null => Cow::Owned(json!({"type": "object", "properties": {}})),
        schema => Cow::Borrowed(schema),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closed object with one required property.
    fn object(property: Value) -> Value {
        json!({"type": "object", "properties": {"a": property}, "required": ["a"], "additionalProperties": false})
    }

    #[test]
    fn a_schema_that_leaves_nothing_open_is_strict() {
        for schema in [
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
            object(json!({"type": "integer", "minimum": 1, "description": "d"})),
            object(json!({"type": ["string", "null"]})),
            object(json!({"enum": ["x", "y"]})),
            object(json!({"type": "array", "items": object(json!({"type": "string"})), "minItems": 1})),
            object(json!({"anyOf": [{"type": "string"}, object(json!({"type": "null"}))]})),
            json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["next"],
                "additionalProperties": false, "$defs": {"n": object(json!({"$ref": "#/$defs/n"}))}}),
        ] {
            assert!(is_strict(&schema), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_leaves_something_open_is_not() {
        let open = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        for schema in [
            json!(true),
            json!({}),
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
            json!({"type": "object", "properties": {}, "required": ["a"], "additionalProperties": false}),
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            open.clone(),
            object(open.clone()),
            object(json!({"type": "array", "items": open.clone()})),
            object(json!({"type": "array"})),
            object(json!({"anyOf": [open.clone()]})),
            object(json!({"properties": {"b": {"type": "string"}}, "type": ["object", "null"]})),
            object(json!({})),
            object(json!({"type": "string", "default": "x"})),
            object(json!({"type": "string", "minLength": 1})),
            object(json!({"oneOf": [{"type": "string"}]})),
            object(json!({"$ref": "#/$defs/n", "description": "d"})),
            json!({"type": "object", "properties": {}, "additionalProperties": false, "$defs": {"n": open}}),
            json!({"type": "object", "properties": {}, "additionalProperties": false, "anyOf": [{"type": "object"}]}),
        ] {
            assert!(!is_strict(&schema), "{schema}");
        }
    }

    #[test]
    fn a_schema_without_an_end_is_not_strict() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = object(deep);
        }
        assert!(!is_strict(&deep));
    }

    #[test]
    fn a_tool_that_takes_nothing_says_so() {
        assert_eq!(*parameters(&Value::Null), json!({"type": "object", "properties": {}}));
        assert_eq!(*parameters(&json!({"type": "object"})), json!({"type": "object", "properties": {}}));
        let open = json!({"type": "object", "properties": {"a": {}}});
        assert!(matches!(parameters(&open), Cow::Borrowed(same) if *same == open));
    }
}
