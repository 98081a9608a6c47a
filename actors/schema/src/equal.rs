//! When two values are the same: 1 and 1.0 are, and the order of properties says nothing.

use serde_json::{Number, Value};

use crate::number::whole;

/// A value as a text that is another one for another value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(String);

impl Key {
    pub fn of(value: &Value) -> Self {
        let mut text = String::new();
        write(value, &mut text);
        Self(text)
    }
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
        Value::Number(number) => write_number(number, text),
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut all: Vec<(&String, &Value)> = map.iter().collect();
            all.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in all {
                write(&Value::String(name.clone()), text);
                text.push(':');
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
    }
}

fn write_number(number: &Number, text: &mut String) {
    match whole(number) {
        Some(whole) => text.push_str(&whole.to_string()),
        None => text.push_str(&number.to_string()),
    }
}
