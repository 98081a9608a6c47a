//! Which tools a rule or a list may name.

use crate::nearest::nearest;

/// The tools that can be named.
pub const TOOLS: [&str; 7] = ["read_file", "list_files", "search", "edit_file", "write_file", "bash", "sub_agent"];

/// Whether there is such a tool, of the program's own too, or may be one of a server, which has its server's name before
/// it: `git__log`.
pub(crate) fn is_tool(name: &str, own: &[String]) -> bool {
    TOOLS.contains(&name) || name.contains("__") || own.iter().any(|own| own == name)
}

/// That there is no such tool, and which was meant: one that is built in, or another of these.
pub(crate) fn no_tool(name: &str, own: &[String]) -> String {
    let near = nearest(name, TOOLS.into_iter().chain(own.iter().map(String::as_str)).map(|tool| (tool, tool)));
    let hint = near.map(|near| format!(" (did you mean `{}`?)", near.candidate)).unwrap_or_default();
    let name: String = name.chars().take(80).collect();
    format!("there is no tool `{name}`{hint}; the tools are: {}", TOOLS.join(", "))
}
