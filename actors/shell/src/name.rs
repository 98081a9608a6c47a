//! Which program a name means.

/// The file name of a program, in small letters and without a version: `/usr/bin/Python3.11` is `python`.
pub(super) fn base(program: &str) -> String {
    let name = file(program).to_ascii_lowercase();
    let trimmed = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if trimmed.is_empty() { name } else { trimmed.to_owned() }
}

/// The last part of a path.
pub(super) fn file(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Whether a word assigns a variable.
pub(super) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a word is an option.
pub(super) fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// Whether a word is one of these long options or may stand for one: programs take what is short for one.
pub(super) fn is_long(word: &str, options: &[&str]) -> bool {
    let Some(given) = word.strip_prefix("--") else { return false };
    let given = given.split('=').next().unwrap_or(given);
    given.len() > 1 && options.iter().any(|option| option.starts_with(given))
}

/// Whether a word is a cluster of short options that has one of these letters, or gives it a value.
pub(super) fn is_short(word: &str, letters: &[char]) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(letters)
}
