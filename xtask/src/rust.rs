//! As much of Rust's grammar as it takes to tell code from comments and strings, and tests from other functions.
//!
//! Pure: source text in, tokens and names out.

/// A piece of source text; comments are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// An identifier, a keyword or a number.
    Word(&'a str),
    /// What stands in a string.
    Text(&'a str),
    /// Anything else.
    Mark(char),
}

/// The tokens of a source text. What does not end is read to the end of the text.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = after(rest, "\n");
        } else if rest.starts_with("/*") {
            rest = after_comment(rest);
        } else if let Some(body) = rest.strip_prefix('"') {
            rest = string(body, &mut found);
        } else if let Some(body) = rest.strip_prefix('\'') {
            rest = after_quote(body);
        } else if is_wordly(first) {
            rest = word(rest, &mut found);
        } else {
            if !first.is_whitespace() {
                found.push(Token::Mark(first));
            }
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    found
}

fn is_wordly(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What follows the first `end` in a text.
fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// What follows a block comment; such comments nest.
fn after_comment(text: &str) -> &str {
    let mut depth = 0_usize;
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("/*") {
            depth += 1;
            rest = inner;
        } else if let Some(outer) = rest.strip_prefix("*/") {
            depth = depth.saturating_sub(1);
            rest = outer;
            if depth == 0 {
                return rest;
            }
        } else {
            let mut chars = rest.chars();
            chars.next();
            rest = chars.as_str();
        }
    }
    rest
}

/// Takes a string whose opening quote is behind us; gives what follows it.
fn string<'a>(body: &'a str, found: &mut Vec<Token<'a>>) -> &'a str {
    let mut is_escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => {
                found.push(Token::Text(body.get(..at).unwrap_or_default()));
                return body.get(at + 1..).unwrap_or_default();
            }
            _ => {}
        }
    }
    found.push(Token::Text(body));
    ""
}

/// What follows a character or the quote of a lifetime, whose first quote is behind us.
fn after_quote(body: &str) -> &str {
    let mut chars = body.chars();
    match (chars.next(), chars.next()) {
        // `'\''` and `'\u{1F600}'`: the escaped character, then up to the quote.
        (Some('\\'), Some(_)) => after(chars.as_str(), "'"),
        (Some(_), Some('\'')) => chars.as_str(),
        _ => body,
    }
}

/// Takes a word, or the string that it is the prefix of; gives what follows.
fn word<'a>(text: &'a str, found: &mut Vec<Token<'a>>) -> &'a str {
    let end = text.find(|c| !is_wordly(c)).unwrap_or(text.len());
    let (Some(word), Some(rest)) = (text.get(..end), text.get(end..)) else { return "" };
    match word {
        "r" | "br" | "cr" => {
            let inner = rest.trim_start_matches('#');
            let hashes = rest.get(..rest.len() - inner.len()).unwrap_or_default();
            if let Some(body) = inner.strip_prefix('"') {
                let (text, next) = body.split_once(&format!("\"{hashes}")).unwrap_or((body, ""));
                found.push(Token::Text(text));
                return next;
            }
            // `r#type` is the word `type`.
            if word == "r" && hashes == "#" && inner.starts_with(is_wordly) {
                return inner;
            }
        }
        "b" | "c" => {
            if let Some(body) = rest.strip_prefix('"') {
                return string(body, found);
            }
        }
        _ => {}
    }
    found.push(Token::Word(word));
    rest
}

/// The names of the test functions among tokens: those that an attribute ending in `test` marks. An ignored test
/// shows nothing and does not count.
pub fn test_names<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut is_test = false;
    let mut is_ignored = false;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1);
        match (token, next) {
            (Token::Mark('#'), Some(Token::Mark('['))) => {
                let (name, end) = attribute(tokens, at + 2);
                is_test |= name == Some("test");
                is_ignored |= name == Some("ignore");
                at = end;
                continue;
            }
            (Token::Word("fn"), Some(Token::Word(name))) => {
                if is_test && !is_ignored {
                    found.push(*name);
                }
                (is_test, is_ignored) = (false, false);
            }
            (Token::Mark('{' | '}' | ';'), _) => (is_test, is_ignored) = (false, false),
            _ => {}
        }
        at += 1;
    }
    found
}

/// The last part of an attribute's path (`test` of `tokio::test(…)`), and the place after its closing bracket.
fn attribute<'a>(tokens: &[Token<'a>], from: usize) -> (Option<&'a str>, usize) {
    let mut name = None;
    let mut in_path = true;
    let mut depth = 1_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token {
            Token::Word(word) if in_path => name = Some(*word),
            Token::Mark('[') => depth += 1,
            Token::Mark(']') => depth -= 1,
            Token::Mark(':') => {}
            Token::Word(_) | Token::Text(_) | Token::Mark(_) => in_path = false,
        }
        if depth == 0 {
            return (name, at + 1);
        }
    }
    (name, tokens.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        let word = |token| match token {
            Token::Word(word) => Some(word),
            Token::Text(_) | Token::Mark(_) => None,
        };
        tokens(source).into_iter().filter_map(word).collect()
    }

    fn texts(source: &str) -> Vec<&str> {
        let text = |token| match token {
            Token::Text(text) => Some(text),
            Token::Word(_) | Token::Mark(_) => None,
        };
        tokens(source).into_iter().filter_map(text).collect()
    }

    #[test]
    fn comments_are_left_out() {
        let source = "/// doc `a`\nlet b = 1; // c\n/* d /* e */ f */ g();\n//! h";
        assert_eq!(words(source), ["let", "b", "1", "g"]);
        assert_eq!(words("a /* open"), ["a"]);
    }

    #[test]
    fn strings_of_every_kind_are_texts() {
        let source = r####"x("a \" // b", r"c\", r#"d " e"#, br##"f"# g"##, b"h", c"i", "ü") y "open"####;
        assert_eq!(texts(source), ["a \\\" // b", "c\\", "d \" e", "f\"# g", "h", "i", "ü", "open"]);
        assert_eq!(words(source), ["x", "y"]);
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        let source = r#"fn f<'a>(x: &'a str) { m('"', '\'', '\u{41}', b'"', '(', 'static_name) } "t""#;
        assert_eq!(texts(source), ["t"]);
        assert_eq!(words(source), ["fn", "f", "a", "x", "a", "str", "m", "b", "static_name"]);
    }

    #[test]
    fn raw_names_are_names() {
        assert_eq!(words("r#type r.x br"), ["type", "r", "x", "br"]);
    }

    #[test]
    fn tests_are_known_by_their_attribute() {
        let source = r##"
            #[test]
            fn plain() {}
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[allow(clippy::x[0])]
            // a comment
            async fn waits() { fn inner() {} }
            proptest! { #[test] fn property(x in 0..9) {} }
            #[cfg(test)]
            mod tests { fn helper() {} }
            #[test]
            #[ignore = "a measurement"]
            fn ignored() {}
            const S: &str = "#[test] fn quoted() {}";
            /// #[test] fn documented() {}
            fn tested() {}
            #[some::test]
            struct NoFunction;
            fn after_it() {}
            #[test]
            fn last() {}
        "##;
        assert_eq!(test_names(&tokens(source)), ["plain", "waits", "property", "last"]);
    }
}
