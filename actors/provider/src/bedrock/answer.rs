//! An answer of a given form, asked for as the call of a tool: Converse has no other way; pure.

use std::borrow::Cow;

use playhouse_protocol::StreamConfig;
use serde_json::{Value, json};

use crate::wire::names::wire_name;

/// The key under which an answer that is no object lies.
pub(super) const VALUE: &str = "value";

/// The tool whose call is the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerTool {
    pub(super) name: String,
    pub(super) shape: Shape,
}

/// How the answer lies in the call's arguments, which are always an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The arguments are the answer.
    Object,
    /// It is their [`VALUE`].
    Wrapped,
}

impl AnswerTool {
    /// The tool of a turn that must be answered in a form. Its name is no other tool's.
    pub(super) fn of(config: &StreamConfig) -> Option<Self> {
        let format = config.response_format.as_ref()?;
        let mut name: String = wire_name(&format.name).chars().take(60).collect();
        while config.tools.iter().any(|tool| wire_name(&tool.name) == name) {
            name.push('_');
        }
        let is_object = format.schema.get("type").and_then(Value::as_str) == Some("object");
        Some(Self { name, shape: if is_object { Shape::Object } else { Shape::Wrapped } })
    }

    /// The schema of its arguments.
    pub(super) fn schema<'a>(&self, config: &'a StreamConfig) -> Cow<'a, Value> {
        let empty = || Cow::Owned(json!({"type": "object"}));
        let Some(format) = &config.response_format else { return empty() };
        match self.shape {
            Shape::Object => Cow::Borrowed(&format.schema),
            Shape::Wrapped => Cow::Owned(json!({
                "type": "object", "properties": {VALUE: format.schema}, "required": [VALUE],
            })),
        }
    }

    /// What tells the model to call it.
    pub(super) fn instruction(&self) -> String {
        format!("Give your final answer only by calling the tool `{}`, never as text.", self.name)
    }
}
