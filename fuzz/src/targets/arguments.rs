//! Calls as models write them: any text as the arguments of any built-in tool is judged without a panic, and what is
//! said of it is bounded.

use std::sync::LazyLock;

use playhouse_protocol::{ToolError, ToolResult};
use playhouse_tools::{ToolSet, Vetted, default_tools, summary};
use serde_json::{Value, json};

use crate::bytes::Bytes;

pub(crate) const SEEDS: &[&[u8]] = &[
    br#"0{"path": "src/lib.rs", "offset": 1, "limit": 10}"#,
    br#"1{"path": ".", "depth": 2}"#,
    br#"2{"pattern": "a+", "glob": "*.rs", "max_results": 5}"#,
    br#"3{"path": "a", "edits": [{"old_text": "b", "new_text": "c"}]}"#,
    br#"4{"path": "a", "content": "b"}"#,
    br#"5{"command": "ls -la", "timeout_ms": 500}"#,
    br#"6{"path": ["#,
];

static TOOLS: LazyLock<(ToolSet, Vec<String>)> = LazyLock::new(|| {
    let tools = ToolSet::new(default_tools()).expect("the built-in tools make a set");
    let names = tools.names().map(str::to_owned).chain(["no such tool".to_owned()]).collect();
    (tools, names)
});

/// The first byte names the tool, the rest is its arguments.
pub(crate) fn run(input: &[u8]) {
    let (tools, names) = &*TOOLS;
    let mut input = Bytes(input);
    let name = names[usize::from(input.next()) % names.len()].as_str();
    let text = String::from_utf8_lossy(input.0);
    // What does not parse is passed on as the text it is.
    let args = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.clone().into_owned()));
    let known = tools.get(name).is_some();
    match tools.vet(name, &args) {
        Vetted::Ready { timeout, .. } => {
            assert!(known && args.is_object(), "{name} would run with {args}");
            assert!(timeout.as_secs() <= 24 * 60 * 60, "{name} would run for {timeout:?}");
        }
        Vetted::Blocked { reason, .. } => {
            assert!(!reason.contains("crashed"), "{name} panicked at {args}: {reason}");
            assert!(reason.chars().count() <= 6_000, "{} characters", reason.chars().count());
        }
    }
    let details = args.get("details").cloned().unwrap_or(json!({"exit_code": 1, "bytes": 1}));
    let results = [
        Ok(ToolResult { details, ..ToolResult::text(&*text) }),
        Err(ToolError::Failed(text.clone().into_owned())),
        Err(ToolError::Cancelled),
    ];
    for result in results {
        let line = summary(name, &args, &result);
        assert!(line.chars().count() <= 120 && !line.chars().any(char::is_control), "{line:?}");
    }
}
