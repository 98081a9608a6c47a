//! What a word of the tree comes to, as far as the text says.

use std::collections::HashMap;

use tree_sitter::Node;

/// Words within words that are followed.
const MAX_DEPTH: usize = 8;

/// Variables that the text itself gives a value.
pub(super) type Variables = HashMap<String, String>;

/// The words that a node becomes: one, or more where an unquoted variable holds blanks.
pub(super) fn words(node: Node<'_>, text: &str, variables: &Variables) -> Vec<String> {
    let mut words = Words { done: Vec::new(), now: String::new(), text, variables };
    words.add(node, Quoting::Bare, 0);
    words.done.push(words.now);
    words.done
}

/// A node's own text.
pub(super) fn raw<'a>(node: Node<'_>, text: &'a str) -> &'a str {
    text.get(node.byte_range()).unwrap_or_default()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Bare,
    Quoted,
}

struct Words<'a> {
    done: Vec<String>,
    now: String,
    text: &'a str,
    variables: &'a Variables,
}

impl Words<'_> {
    fn add(&mut self, node: Node<'_>, place: Quoting, depth: usize) {
        let raw = raw(node, self.text);
        match node.kind() {
            "word" => unescape(raw, &mut self.now, |_| true),
            "raw_string" => self.now.push_str(raw.trim_matches('\'')),
            "ansi_c_string" => ansi(raw, &mut self.now),
            "string_content" => unescape(raw, &mut self.now, |c| matches!(c, '$' | '`' | '"' | '\\')),
            "string" if depth < MAX_DEPTH => self.children(node, Quoting::Quoted, depth),
            "command_name" | "concatenation" | "translated_string" if depth < MAX_DEPTH => {
                self.children(node, place, depth);
            }
            "simple_expansion" | "expansion" => self.expansion(raw, place),
            "\"" => {}
            // Their commands are found on their own.
            "command_substitution" | "process_substitution" => self.now.push_str("$(…)"),
            _ => self.now.push_str(raw),
        }
    }

    /// Each child, and what the grammar leaves out between them.
    fn children(&mut self, node: Node<'_>, place: Quoting, depth: usize) {
        let mut at = node.start_byte();
        let mut cursor = node.walk();
        let mut is_more = cursor.goto_first_child();
        while is_more {
            let child = cursor.node();
            self.now.push_str(self.text.get(at..child.start_byte()).unwrap_or_default());
            // The sign of `$"…"`.
            if child.kind() != "$" {
                self.add(child, place, depth + 1);
            }
            at = child.end_byte();
            is_more = cursor.goto_next_sibling();
        }
        self.now.push_str(self.text.get(at..node.end_byte()).unwrap_or_default());
    }

    fn expansion(&mut self, raw: &str, place: Quoting) {
        let name = raw.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
        let value = match name {
            "IFS" => Some(" "),
            _ => self.variables.get(name).map(String::as_str),
        };
        match (value, place) {
            (None, _) => self.now.push_str(raw),
            (Some(value), Quoting::Quoted) => self.now.push_str(value),
            (Some(value), Quoting::Bare) => {
                for (place, piece) in value.split([' ', '\t', '\n']).enumerate() {
                    if place > 0 {
                        self.done.push(std::mem::take(&mut self.now));
                    }
                    self.now.push_str(piece);
                }
            }
        }
    }
}

/// Takes the backslash from before the characters it counts for.
fn unescape(raw: &str, out: &mut String, counts: impl Fn(char) -> bool) {
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('\\', Some('\n')) => {
                chars.next();
            }
            ('\\', Some(next)) if counts(next) => {
                chars.next();
                out.push(next);
            }
            _ => out.push(c),
        }
    }
}

/// The text of `$'…'`.
fn ansi(raw: &str, out: &mut String) {
    let inner = raw.strip_prefix("$'").unwrap_or(raw);
    let mut chars = inner.strip_suffix('\'').unwrap_or(inner).chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let (radix, most) = match chars.peek() {
            Some('x') => (16, 2),
            Some('u') => (16, 4),
            Some('U') => (16, 8),
            Some('0'..='7') => (8, 3),
            Some('n') => {
                chars.next();
                out.push('\n');
                continue;
            }
            Some('t') => {
                chars.next();
                out.push('\t');
                continue;
            }
            _ => {
                out.extend(chars.next());
                continue;
            }
        };
        if radix == 16 {
            chars.next();
        }
        let mut code = 0_u32;
        for _ in 0..most {
            let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
            code = code.saturating_mul(radix).saturating_add(digit);
            chars.next();
        }
        out.extend(char::from_u32(code));
    }
}
