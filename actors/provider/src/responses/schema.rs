//! What the service asks of the schemas of tools; pure.

use std::borrow::Cow;

use serde_json::{Value, json};

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

    #[test]
    fn a_tool_that_takes_nothing_says_so() {
        assert_eq!(*parameters(&Value::Null), json!({"type": "object", "properties": {}}));
        assert_eq!(*parameters(&json!({"type": "object"})), json!({"type": "object", "properties": {}}));
        let open = json!({"type": "object", "properties": {"a": {}}});
        assert!(matches!(parameters(&open), Cow::Borrowed(same) if *same == open));
    }
}
