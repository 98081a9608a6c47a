//! The coarse reader, for what no grammar reads: it takes everything between operators for a command.

use crate::name::is_assignment;

const BETWEEN: [char; 12] = [';', '&', '|', '\n', '\r', '(', ')', '{', '}', '<', '>', '`'];

/// Words that stand before a command.
const LEADING: [&str; 9] = ["if", "then", "else", "elif", "while", "until", "do", "!", "time"];

/// Everything that may be a command in a text.
pub(super) fn commands(text: &str) -> Vec<Vec<String>> {
    text.split(BETWEEN).filter_map(command).collect()
}

fn command(piece: &str) -> Option<Vec<String>> {
    let words = piece.split_whitespace().map(|word| word.replace(['\'', '"', '\\', '$'], ""));
    let argv: Vec<String> =
        words.skip_while(|word| word.is_empty() || LEADING.contains(&word.as_str()) || is_assignment(word)).collect();
    if argv.is_empty() { None } else { Some(argv) }
}
