//! A word as bash takes it literally.

/// Puts a word in single quotes. A NUL has no place in a word and is left out.
pub fn quote(word: &str) -> String {
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('\'');
    for c in word.chars() {
        match c {
            '\'' => quoted.push_str(r"'\''"),
            '\0' => {}
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}
