//! What the shell does itself, and which of it a plain line may have.

use crate::lex::{NotPlain, Simple};
use crate::name::is_option;

/// Done by the shell, and harmless: they run nothing and change nothing that a later command depends on, but for the
/// working directory.
const PLAIN: [&str; 12] = ["cd", "echo", "printf", "test", "[", "true", "false", ":", "pwd", "type", "exit", "kill"];

/// Done by the shell, and able to change what later words mean, or to run a text.
const OTHERS: [&str; 49] = [
    ".",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "times",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

const RESERVED: [&str; 22] = [
    "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in",
    "function", "time", "coproc", "{", "}", "!", "[[", "]]",
];

/// Whether the shell does this itself.
pub(super) fn is_builtin(name: &str) -> bool {
    PLAIN.contains(&name) || is_other(name)
}

/// Whether the shell does this itself and a plain line may not have it.
pub(super) fn is_other(name: &str) -> bool {
    OTHERS.contains(&name)
}

/// Whether a program is named by a path from the working directory.
pub(super) fn is_relative(name: &str) -> bool {
    name.contains('/') && !name.starts_with('/')
}

/// Whether every command of a line has a plain name and no more power than one command should have.
pub(super) fn check(simples: &[Simple]) -> Result<(), NotPlain> {
    let mut is_elsewhere = false;
    for simple in simples {
        let mut words = simple.words.iter().map(|word| word.text.as_str());
        let name = words.next().unwrap_or_default();
        check_name(name)?;
        match name {
            "cd" => is_elsewhere = true,
            // These evaluate the subscript of an array, with all that is in it.
            "test" | "[" if words.clone().any(|word| matches!(word, "-v" | "-R")) => {
                return Err(NotPlain::Builtin(format!("{name} -v")));
            }
            "[" if words.clone().next_back() != Some("]") => return Err(NotPlain::Name(name.to_owned())),
            "printf" => check_printf(words.clone())?,
            _ if is_elsewhere && is_relative(name) => {
                return Err(NotPlain::Misplaced(name.to_owned()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether `printf` only prints, its words taken as bash does: one `--` may stand before the format, and nothing else
/// that begins with a dash, but for a dash alone.
fn check_printf<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<(), NotPlain> {
    let format = match words.next() {
        Some("--") => words.next(),
        Some(option) if is_option(option) => return Err(NotPlain::Builtin("printf with an option".to_owned())),
        format => format,
    };
    // `%n` sets a variable, `PATH` for one: only what is known to print is let through.
    if format.is_none_or(only_prints) {
        return Ok(());
    }
    Err(NotPlain::Builtin("printf with a format that can do more than print".to_owned()))
}

/// Whether every directive of a format prints something.
fn only_prints(format: &str) -> bool {
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c == '%' {
            let directive = rest.find(|c| !matches!(c, '0'..='9' | '-' | '+' | ' ' | '#' | '.'));
            if !directive.is_some_and(|c| "sdiuxXocbqfeEgG%".contains(c)) {
                return false;
            }
        }
    }
    true
}

fn check_name(name: &str) -> Result<(), NotPlain> {
    if RESERVED.contains(&name) {
        return Err(NotPlain::Reserved(name.to_owned()));
    }
    if is_other(name) {
        return Err(NotPlain::Builtin(name.to_owned()));
    }
    if PLAIN.contains(&name) {
        return Ok(());
    }
    // Letters that look like others, spaces and signs have no place in a name that a person says yes to.
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./+-".contains(&byte));
    if name.is_empty() || name.starts_with('-') || !is_plain { Err(NotPlain::Name(name.to_owned())) } else { Ok(()) }
}
