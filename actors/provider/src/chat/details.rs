//! `reasoning_details`: blocks of reasoning that the service seals and wants back unchanged; pure.
//!
//! A block streams in pieces, which are told by its type, index and id; their texts are joined.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The fields of a block that come in pieces.
const PIECES: [&str; 3] = ["text", "summary", "data"];

/// How many blocks back a piece may belong: looking at all of them for every piece would let a service cost much.
const OPEN: usize = 32;

/// The blocks so far.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Takes a list of pieces, and gives the words in them that can be read. What is no such list says nothing.
    pub(super) fn add(&mut self, list: &RawValue) -> String {
        let mut words = String::new();
        let pieces: Vec<Map<String, Value>> = serde_json::from_str(list.get()).unwrap_or_default();
        for piece in pieces {
            for field in ["text", "summary"] {
                words.push_str(piece.get(field).and_then(Value::as_str).unwrap_or_default());
            }
            match self.0.iter_mut().rev().take(OPEN).find(|block| belongs(block, &piece)) {
                Some(block) => join(block, piece),
                None => self.0.push(piece),
            }
        }
        words
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The seal by which the blocks go back: the list as JSON.
    pub(super) fn seal(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| serde_json::to_string(&self.0).ok()).flatten()
    }
}

/// The blocks in a seal; none if it is of another kind.
pub(super) fn blocks(seal: &str) -> Vec<&RawValue> {
    serde_json::from_str(seal).unwrap_or_default()
}

/// Whether a piece goes on with a block.
fn belongs(block: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let same = |name: &str| field(block, name) == field(piece, name);
    let may_be_same = |name: &str| match (field(block, name), field(piece, name)) {
        (Some(one), Some(two)) => one == two,
        (None, _) | (_, None) => true,
    };
    // What was signed is whole: words after it are of the next block.
    let signed = field(block, "signature").is_some() && PIECES.iter().any(|name| says(piece, name));
    same("type") && same("index") && may_be_same("id") && !signed
}

fn field<'a>(of: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    of.get(name).filter(|value| !value.is_null())
}

fn says(piece: &Map<String, Value>, field: &str) -> bool {
    piece.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

fn join(block: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (field, value) in piece {
        match (block.get_mut(&field), value) {
            (Some(Value::String(text)), Value::String(more)) if PIECES.contains(&field.as_str()) => {
                text.push_str(&more);
            }
            (Some(old @ Value::Null), value) => *old = value,
            (Some(_), _) => {}
            (None, value) => {
                block.insert(field, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(lists: &[Value]) -> (Vec<String>, Value) {
        let mut details = Details::default();
        let raw = |list: &Value| RawValue::from_string(list.to_string()).unwrap();
        let words = lists.iter().map(|list| details.add(&raw(list))).collect();
        (words, details.seal().map_or(Value::Null, |seal| serde_json::from_str(&seal).unwrap()))
    }

    #[test]
    fn pieces_of_a_block_are_joined_and_its_signature_is_taken() {
        let piece = |text: &str| json!([{"type": "reasoning.text", "text": text, "format": "f", "index": 0}]);
        let (words, blocks) = merged(&[
            piece("I "),
            piece("think"),
            json!([{"type": "reasoning.text", "text": "", "signature": "sig", "id": null, "index": 0}]),
        ]);
        assert_eq!(words, ["I ", "think", ""]);
        let whole = json!({
            "type": "reasoning.text", "text": "I think", "signature": "sig", "id": null, "format": "f", "index": 0,
        });
        assert_eq!(blocks, json!([whole]));
    }

    #[test]
    fn blocks_are_told_apart_by_type_index_and_id_and_by_what_was_signed() {
        let all = json!([
            {"type": "reasoning.summary", "summary": "s", "index": 0, "id": "rs_1"},
            {"type": "reasoning.encrypted", "data": "AA", "index": 0, "id": "rs_1"},
            {"type": "reasoning.encrypted", "data": "BB", "index": 0, "id": "rs_2"},
            {"type": "reasoning.text", "text": "a", "signature": "x", "index": 1},
            {"type": "reasoning.text", "text": "b", "signature": "y", "index": 1},
            {"type": "reasoning.text", "text": "c", "index": 2},
        ]);
        assert_eq!(merged(std::slice::from_ref(&all)), (vec!["sabc".to_owned()], all));
        let later = json!([{"type": "reasoning.encrypted", "data": "CC", "index": 0, "id": "rs_1"}]);
        let first = json!([{"type": "reasoning.encrypted", "data": "AA", "index": 0}]);
        let whole = json!([{"type": "reasoning.encrypted", "data": "AACC", "index": 0, "id": "rs_1"}]);
        assert_eq!(merged(&[first, later]).1, whole);
    }

    #[test]
    fn what_is_no_list_of_blocks_says_nothing() {
        assert_eq!(merged(&[json!("words"), json!([]), json!(null), json!([1])]).1, Value::Null);
        assert!(blocks("c2VhbA==").is_empty() && blocks("{}").is_empty() && blocks("[]").is_empty());
        assert_eq!(blocks(r#"[{"a":1},{"b":2}]"#).len(), 2);
    }
}
