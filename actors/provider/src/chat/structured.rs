//! Answers by a schema; pure.

use playhouse_protocol::compat::Structured;
use playhouse_protocol::{OpenAiCompat, ResponseFormat, StreamConfig};
use serde::Serialize;
use serde_json::Value;

use crate::wire::names::wire_name;
use crate::wire::schema::is_strict;

/// The request's field `response_format`.
#[derive(Serialize)]
pub(super) struct Format<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: String,
    schema: &'a Value,
    strict: bool,
}

impl<'a> Format<'a> {
    pub(super) fn of(format: &'a ResponseFormat) -> Self {
        let ResponseFormat { name, schema } = format;
        let strict = is_strict(schema);
        Self { r#type: "json_schema", json_schema: JsonSchema { name: wire_name(name).into_owned(), schema, strict } }
    }
}

/// The name of the tool by which the answer is given, if it is given by one. It is that of the format, unless a tool
/// on offer has it.
pub(super) fn answer_tool(config: &StreamConfig, compat: &OpenAiCompat) -> Option<String> {
    let format = config.response_format.as_deref()?;
    match compat.structured {
        Structured::JsonSchema => None,
        Structured::ForcedTool => {
            let mut name = wire_name(&format.name).into_owned();
            let mut n = 1;
            while config.tools.iter().any(|tool| *tool.name == *name) {
                n += 1;
                name = format!("answer_{n}");
            }
            Some(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strict(schema: Value) -> bool {
        let format = ResponseFormat { name: "answer".to_owned(), schema };
        serde_json::to_value(Format::of(&format)).unwrap()["json_schema"]["strict"] == true
    }

    #[test]
    fn a_schema_is_strict_only_if_the_service_can_enforce_it() {
        let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let n = || json!({"type": "integer"});
        assert!(strict(object(json!({"n": n()}), json!(["n"]))));
        assert!(strict(object(json!({}), json!([]))));
        let nested = object(json!({"m": n()}), json!(["m"]));
        assert!(strict(object(json!({"list": {"type": "array", "items": nested, "maxItems": 3}}), json!(["list"]))));
        let or_null = json!({"anyOf": [nested, {"type": "null"}]});
        assert!(strict(object(json!({"a": or_null, "b": {"enum": ["x", "y"]}}), json!(["a", "b"]))));
        let mut with_defs = object(json!({"a": {"$ref": "#/$defs/a"}}), json!(["a"]));
        with_defs["$defs"] = json!({"a": nested});
        assert!(strict(with_defs.clone()));

        // Not required, not closed, no object, at any depth.
        assert!(!strict(object(json!({"n": n(), "m": n()}), json!(["n"]))));
        assert!(!strict(json!({"type": "object", "properties": {"n": n()}, "required": ["n"]})));
        assert!(!strict(json!({"type": "array", "items": n()})));
        assert!(!strict(json!(true)));
        with_defs["$defs"] = json!({"a": {"type": "object", "properties": {}}});
        assert!(!strict(with_defs));
        let open = json!({"type": ["object", "null"], "properties": {"m": n()}, "required": []});
        assert!(!strict(object(json!({"list": {"type": "array", "items": open}}), json!(["list"]))));
        assert!(!strict(object(json!({"a": {"anyOf": [n(), open]}}), json!(["a"]))));
        // What the service does not know, or takes for too much.
        for odd in [json!({"type": "string", "default": ""}), json!({"type": "string", "format": "uri"}), json!({})] {
            assert!(!strict(object(json!({"a": odd}), json!(["a"]))), "{odd}");
        }
        let deep = (0..12).fold(n(), |inner, _| object(json!({"a": inner}), json!(["a"])));
        assert!(!strict(deep));
    }
}
