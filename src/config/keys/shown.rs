//! A value for people and programs, whatever its type.

use serde_json::{Value, json};

use crate::config::{HeldBack, Key, Origin};

/// A value as `config show` writes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// Nobody set it and it has no default.
    Unset,
    /// A string, without quotes.
    Text(String),
    /// A number without a fraction.
    Whole(u64),
    /// A number that need not be whole.
    Number(f64),
    /// A list of strings.
    List(Vec<String>),
}

impl Shown {
    /// As a TOML value on one line, which a user's file could have; `None` when there is none.
    pub fn to_toml(&self) -> Option<String> {
        match self {
            Self::Unset => None,
            Self::Text(text) => Some(quoted(text)),
            Self::Whole(number) => Some(number.to_string()),
            Self::Number(number) => Some(format!("{number:?}")),
            Self::List(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                Some(format!("[{}]", texts.join(", ")))
            }
        }
    }

    /// As JSON; `null` when there is none.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Unset => Value::Null,
            Self::Text(text) => json!(text),
            Self::Whole(number) => json!(number),
            Self::Number(number) => json!(number),
            Self::List(texts) => json!(texts),
        }
    }
}

/// A basic string. What would name a variable in a file, and what could control or reorder a terminal, is escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '$' if matches!(chars.peek(), Some('$' | '{')) => out.push_str("$$"),
            c => push_escaped(c, &mut out),
        }
    }
    out.push('"');
    out
}

/// A key as a file writes it, in quotes if it needs them. Nothing in it names a variable.
pub(crate) fn name_in_toml(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare {
        return name.to_owned();
    }
    let mut out = String::from('"');
    name.chars().for_each(|c| push_escaped(c, &mut out));
    out.push('"');
    out
}

fn push_escaped(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        c if c.is_control() || is_format(c) => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        c => out.push(c),
    }
}

/// Characters of the basic plane that hide or reorder others.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A key with its value and origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// The key that it is about.
    pub key: &'static Key,
    /// What it is set to.
    pub value: Shown,
    /// Where the value came from.
    pub origin: &'a Origin,
    /// What a project's file asked for in vain.
    pub held_back: Option<&'a HeldBack>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_written_on_one_line_and_read_back_the_same() {
        for text in ["", "plain", "a \"b\" \\c", "two\nlines\r\n\ttab", "\u{1b}[31m\u{7f}\0", "\u{202e}\u{feff}é🎭"]
        {
            let toml = Shown::Text(text.to_owned()).to_toml().unwrap();
            assert!(!toml.chars().any(|c| c.is_control() || c == '\u{202e}'), "{toml}");
            let line = format!("x = {toml}");
            let read = toml_edit::Document::parse(line.as_str()).unwrap();
            assert_eq!(read["x"].as_str(), Some(text), "{toml}");
        }
    }

    #[test]
    fn values_have_one_form_in_toml_and_one_in_json() {
        assert_eq!(Shown::Text("$a $${b} $".into()).to_toml(), Some(r#""$a $$$${b} $""#.into()));
        let list = Shown::List(vec!["a".into(), "b\"".into()]);
        let toml = |shown: Shown| shown.to_toml();
        assert_eq!(toml(Shown::Unset), None);
        assert_eq!(toml(Shown::Whole(50)), Some("50".into()));
        assert_eq!(toml(Shown::Number(2.0)), Some("2.0".into()));
        assert_eq!(toml(list.clone()), Some(r#"["a", "b\""]"#.into()));
        assert_eq!(toml(Shown::List(Vec::new())), Some("[]".into()));
        let shown = [Shown::Unset, Shown::Text("t".into()), Shown::Whole(7), Shown::Number(0.5), list];
        let json: Vec<Value> = shown.iter().map(Shown::to_json).collect();
        assert_eq!(json, [Value::Null, json!("t"), json!(7), json!(0.5), json!(["a", "b\""])]);
    }
}
