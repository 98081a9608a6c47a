//! The tools an agent has, and what can be said about a call before it runs.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jsonschema::{PatternOptions, Validator};
use playhouse_protocol::entry::BlockStage;
use playhouse_protocol::{
    Access, EffectClass, Level, StateType, States, Subject, ToolDefinition, ToolError, ToolResult,
};
use playhouse_supervision::panic_text;
use serde_json::Value;

use crate::summary::{CallSummary, summary};
use crate::text::cut;
use crate::tool::Tool;

/// Caps on what a refusal tells the model.
const MAX_ERRORS: usize = 10;
const MAX_ERROR_CHARS: usize = 200;
/// Arguments come from a model: a pattern must not be able to hold up a mailbox.
const BACKTRACK_LIMIT: usize = 50_000;

/// An agent's tools: immutable, cheap to clone.
#[derive(Clone)]
pub struct ToolSet(Arc<Inner>);

struct Inner {
    tools: Vec<Arc<Compiled>>,
    by_name: HashMap<String, usize>,
    definitions: Arc<[ToolDefinition]>,
}

struct Compiled {
    tool: Arc<dyn Tool>,
    definition: ToolDefinition,
    validator: Validator,
    states: Vec<StateType>,
}

/// Why tools don't make a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolSetError {
    /// A name that providers refuse.
    #[error("`{name}` cannot name a tool: use 1 to 64 letters, digits, `_` or `-`")]
    InvalidName {
        /// The name as the tool gives it.
        name: String,
    },
    /// Two tools of one name.
    #[error("there are two tools named `{name}`: rename one of them")]
    Duplicate {
        /// The name that two tools have.
        name: String,
    },
    /// A schema that is none, or that refers to something outside itself.
    #[error("the parameters of the tool `{name}` are no JSON Schema that stands alone: {reason}")]
    InvalidSchema {
        /// The tool whose schema it is.
        name: String,
        /// The validator's words.
        reason: String,
    },
}

/// What can be said about a call before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vetted {
    /// It can run, once it is allowed.
    Ready {
        /// What a crash on the way would mean.
        effect: EffectClass,
        /// What it wants to do, if a person should know first.
        ask: Option<String>,
        /// How much harm it can do.
        level: Level,
        /// What it is about.
        subject: Subject,
        /// How long it may run.
        timeout: Duration,
    },
    /// It must not run.
    Blocked {
        /// The stage that refused.
        stage: BlockStage,
        /// Why, for the model.
        reason: String,
    },
}

impl ToolSet {
    /// Compiles every schema; the order is kept.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, ToolSetError> {
        let compiled: Result<Vec<_>, _> = tools.into_iter().map(|tool| compile(tool).map(Arc::new)).collect();
        Self::of(compiled?)
    }

    /// These tools and then more. What is compiled stays so.
    pub fn with(&self, more: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolSetError> {
        let more = more.into_iter().map(|tool| compile(tool).map(Arc::new));
        let all: Result<Vec<_>, _> = self.0.tools.iter().cloned().map(Ok).chain(more).collect();
        Self::of(all?)
    }

    /// A set for agents that call nothing.
    pub fn empty() -> Self {
        static EMPTY: LazyLock<ToolSet> = LazyLock::new(|| {
            ToolSet(Arc::new(Inner { tools: Vec::new(), by_name: HashMap::new(), definitions: Arc::new([]) }))
        });
        EMPTY.clone()
    }

    fn of(tools: Vec<Arc<Compiled>>) -> Result<Self, ToolSetError> {
        let mut by_name = HashMap::new();
        for (at, compiled) in tools.iter().enumerate() {
            let name = compiled.definition.name.clone();
            if by_name.insert(name.clone(), at).is_some() {
                return Err(ToolSetError::Duplicate { name });
            }
        }
        let definitions = tools.iter().map(|compiled| compiled.definition.clone()).collect();
        Ok(Self(Arc::new(Inner { tools, by_name, definitions })))
    }

    /// The tools as a model sees them.
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        self.0.definitions.clone()
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.definitions.iter().map(|definition| definition.name.as_str())
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.find(name).map(|compiled| compiled.tool.clone())
    }

    /// The first tool that takes a state which is not among these, and the state's type.
    pub fn missing_state(&self, given: &States) -> Option<(&str, StateType)> {
        self.0.tools.iter().find_map(|compiled| {
            let missing = compiled.states.iter().find(|state| !given.has(**state))?;
            Some((compiled.definition.name.as_str(), *missing))
        })
    }

    fn find(&self, name: &str) -> Option<&Arc<Compiled>> {
        self.0.by_name.get(name).and_then(|at| self.0.tools.get(*at))
    }

    /// What a call touches, whether or not it can run: a call that is refused touches nothing for long.
    pub fn access(&self, name: &str, args: &Value) -> Access {
        let Some(compiled) = self.find(name) else { return Access::Free };
        let tool = &compiled.tool;
        let asked = catch_unwind(AssertUnwindSafe(|| (tool.effect(args), tool.level(args), tool.subject(args))));
        match asked {
            Ok((EffectClass::Child { .. }, _, _)) => Access::Free,
            Ok((EffectClass::Read, _, Subject::Path(path))) => Access::Reads(Some(path)),
            Ok((EffectClass::Read, _, Subject::Nothing | Subject::Command(_))) => Access::Reads(None),
            Ok((_, Level::Write, Subject::Path(path))) => Access::Writes(path),
            Ok((EffectClass::Once | EffectClass::Idempotent { .. } | EffectClass::Reconcilable { .. }, _, _))
            | Err(_) => Access::Alone,
        }
    }

    /// One line about a call, for people, of at most 120 characters: `bash: cargo test (exit 0)`.
    pub fn summary(&self, name: &str, args: &Value, result: &Result<ToolResult, ToolError>) -> String {
        let Some(compiled) = self.find(name) else { return summary(name, args, result) };
        let told = catch_unwind(AssertUnwindSafe(|| compiled.tool.summary(args, result.as_ref().ok())));
        told.unwrap_or_else(|_| CallSummary::of(args)).line(name, result)
    }

    /// Looks at a call: is there such a tool, do the arguments fit, must someone be asked. Pure, if the tool is.
    pub fn vet(&self, name: &str, args: &Value) -> Vetted {
        let Some(compiled) = self.find(name) else {
            let known: Vec<String> = self.names().map(str::to_owned).collect();
            let reason = format!("{}: {}", ToolError::NotFound(cut(name, 80)), list(&known));
            return Vetted::Blocked { stage: BlockStage::Lookup, reason };
        };
        let refused = |reason: String| Vetted::Blocked { stage: BlockStage::Schema, reason };
        if let Value::String(text) = args {
            let reason = format!("they are not valid JSON; send one JSON object, complete: {}", cut(text, 80));
            return refused(ToolError::InvalidArgs(reason).to_string());
        }
        if let Some(reason) = mismatch(&compiled.validator, args) {
            return refused(ToolError::InvalidArgs(reason).to_string());
        }
        let tool = &compiled.tool;
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let (effect, ask) = (tool.effect(args), tool.needs_permission(args));
            let (level, subject) = (tool.level(args), tool.subject(args));
            Vetted::Ready { effect, ask, level, subject, timeout: tool.timeout_for(args) }
        }));
        asked.unwrap_or_else(|panic| refused(panicked(&*panic).to_string()))
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

fn compile(tool: Arc<dyn Tool>) -> Result<Compiled, ToolSetError> {
    let name = tool.name().to_owned();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
        return Err(ToolSetError::InvalidName { name });
    }
    let parameters = tool.parameters_schema();
    let invalid = |reason: String| ToolSetError::InvalidSchema { name: name.clone(), reason };
    if !parameters.is_object() {
        return Err(invalid("it is not a JSON object".to_owned()));
    }
    let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT);
    let built = jsonschema::options().offline().with_pattern_options(patterns).build(&parameters);
    let validator = built.map_err(|error| invalid(cut(&error.to_string(), 500)))?;
    let definition = ToolDefinition { name, description: tool.description().to_owned(), parameters };
    let states = tool.states();
    Ok(Compiled { tool, definition, validator, states })
}

fn mismatch(validator: &Validator, args: &Value) -> Option<String> {
    let mut told = Vec::new();
    let mut more = 0_usize;
    for error in validator.iter_errors(args) {
        if told.len() == MAX_ERRORS {
            more += 1;
            continue;
        }
        let path = error.instance_path().to_string();
        let at = if path.is_empty() { "arguments" } else { path.as_str() };
        told.push(format!("{}: {}", cut(at, MAX_ERROR_CHARS), cut(&error.to_string(), MAX_ERROR_CHARS)));
    }
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// A tool's panic, with at most 500 characters of what it said.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> ToolError {
    ToolError::Panicked(cut(&panic_text(panic), 500))
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { cut(&names.join(", "), 1_000) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEFAULT_TIMEOUT, default_tools};
    use async_trait::async_trait;
    use playhouse_protocol::ToolContext;
    use serde_json::json;

    struct Odd(&'static str, Value);

    #[async_trait]
    impl Tool for Odd {
        fn name(&self) -> &str {
            self.0
        }
        fn description(&self) -> &str {
            "odd"
        }
        fn parameters_schema(&self) -> Value {
            self.1.clone()
        }
        fn needs_permission(&self, args: &Value) -> Option<String> {
            assert!(args["boom"].is_null(), "asked about a bomb");
            None
        }
        fn summary(&self, args: &Value, result: Option<&ToolResult>) -> CallSummary {
            assert!(args["boom"].is_null(), "asked about a bomb");
            CallSummary { about: "oddly".into(), ending: result.map(|_| "evenly".into()).unwrap_or_default() }
        }
        async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
            Ok(ToolResult::default())
        }
    }

    fn odd(name: &'static str, schema: Value) -> Arc<dyn Tool> {
        Arc::new(Odd(name, schema))
    }

    fn defaults() -> ToolSet {
        ToolSet::new(default_tools()).unwrap()
    }

    fn blocked(stage: BlockStage, vetted: Vetted) -> String {
        match vetted {
            Vetted::Blocked { stage: found, reason } if found == stage => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_tool_has_its_own_word_in_the_line_about_its_call() {
        let set = defaults().with([odd("odd", json!({}))]).unwrap();
        let (args, ok) = (json!({"path": "a"}), Ok(ToolResult::default()));
        assert_eq!(set.summary("odd", &args, &ok), "odd: oddly (evenly)");
        assert_eq!(set.summary("odd", &args, &Err(ToolError::Cancelled)), "odd: oddly (cancelled)");
        assert_eq!(set.summary("odd", &json!({"path": "a", "boom": 1}), &ok), "odd: a", "one that panics says nothing");
        assert_eq!(set.summary("gone", &args, &Err(ToolError::NotFound("gone".into()))), "gone: a (no such tool)");
        assert_eq!(set.summary("bash", &json!({"command": "ls"}), &ok), "bash: ls");
    }

    #[test]
    fn a_set_is_checked_when_it_is_built() {
        let twice = ToolSet::new(vec![odd("a", json!({})), odd("a", json!({}))]);
        assert_eq!(twice.unwrap_err(), ToolSetError::Duplicate { name: "a".into() });
        let named = ToolSet::new(vec![odd("a b", json!({}))]);
        assert_eq!(named.unwrap_err(), ToolSetError::InvalidName { name: "a b".into() });
        for schema in [json!({"type": "nothing"}), json!(true), json!({"properties": 3})] {
            let error = ToolSet::new(vec![odd("a", schema)]).unwrap_err();
            assert!(matches!(error, ToolSetError::InvalidSchema { .. }), "{error}");
        }
    }

    #[test]
    fn schemas_are_never_fetched() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let url = format!("http://{}/schema.json", server.local_addr().unwrap());
        let file = format!("file://{}", std::env::current_exe().unwrap().display());
        for target in [url, file] {
            let error = ToolSet::new(vec![odd("a", json!({"$ref": target}))]).unwrap_err();
            assert!(matches!(error, ToolSetError::InvalidSchema { .. }), "{error}");
        }
        assert_eq!(server.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody called");
    }

    #[test]
    fn a_call_that_can_run_is_described() {
        let vetted = defaults().vet("bash", &json!({"command": "ls", "timeout_ms": 1500}));
        let ask = Some("run a shell command".to_owned());
        let (level, subject) = (Level::ReadOnly, Subject::Command("ls".into()));
        // It ends its commands itself, and has five seconds for that.
        let timeout = Duration::from_millis(6_500);
        assert_eq!(vetted, Vetted::Ready { effect: EffectClass::Once, ask, level, subject, timeout });
        let levels = [("cargo test", Level::Execute), ("rm -rf x", Level::Dangerous), ("rm -rf /", Level::Forbidden)];
        for (command, expected) in levels {
            let vetted = defaults().vet("bash", &json!({"command": command}));
            assert!(matches!(vetted, Vetted::Ready { level, .. } if level == expected), "{command}: {vetted:?}");
        }
        let vetted = defaults().vet("read_file", &json!({"path": "x"}));
        assert!(matches!(vetted, Vetted::Ready { effect: EffectClass::Read, ask: None, .. }));
        let once = |ask: &str| Vetted::Ready {
            effect: EffectClass::Once,
            ask: Some(ask.into()),
            level: Level::Write,
            subject: Subject::Path("x".into()),
            timeout: DEFAULT_TIMEOUT,
        };
        assert_eq!(defaults().vet("write_file", &json!({"path": "x", "content": ""})), once("write a file"));
        let edits = json!([{"old_text": "a", "new_text": ""}]);
        assert_eq!(defaults().vet("edit_file", &json!({"path": "x", "edits": edits})), once("edit a file"));
        let vetted = defaults().vet("search", &json!({"pattern": "x"}));
        assert!(matches!(vetted, Vetted::Ready { effect: EffectClass::Read, ask: None, .. }));
    }

    #[test]
    fn what_a_call_touches_follows_from_what_it_does() {
        let touches = |name: &str, args: Value| defaults().access(name, &args);
        assert_eq!(touches("read_file", json!({"path": "a"})), Access::Reads(Some("a".into())));
        assert_eq!(touches("list_files", json!({})), Access::Reads(Some(".".into())));
        assert_eq!(touches("write_file", json!({"path": "a"})), Access::Writes("a".into()));
        assert_eq!(touches("edit_file", json!({"path": "b"})), Access::Writes("b".into()));
        assert_eq!(touches("bash", json!({"command": "ls"})), Access::Alone);
        let set = ToolSet::new(vec![odd("odd", json!({}))]).unwrap();
        assert_eq!(set.access("odd", &json!({})), Access::Alone);
        assert_eq!(set.access("odd", &json!({"boom": 1})), Access::Alone, "one that panics");
        assert_eq!(set.access("missing", &json!({})), Access::Free);
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_tools_there_are() {
        let reason = blocked(BlockStage::Lookup, defaults().vet("bsh", &json!({})));
        assert!(reason.starts_with(&ToolError::NotFound("bsh".into()).to_string()), "{reason}");
        assert!(reason.contains("read_file, list_files, search, edit_file, write_file, bash"), "{reason}");
    }

    #[test]
    fn f09_arguments_that_did_not_parse_never_run() {
        for broken in ["", "{", "{\"command\": \"rm", "[1,"] {
            let reason = blocked(BlockStage::Schema, defaults().vet("bash", &json!(broken)));
            assert!(reason.contains("not valid JSON"), "{reason}");
        }
        // Not even where the schema would take a string.
        let set = ToolSet::new(vec![odd("any", json!({}))]).unwrap();
        blocked(BlockStage::Schema, set.vet("any", &json!("{\"a\":")));
    }

    #[test]
    fn every_mismatch_is_told_with_its_path_and_the_text_is_capped() {
        let reason = blocked(BlockStage::Schema, defaults().vet("read_file", &json!({"offset": "x", "limit": 0})));
        for part in ["/offset", "/limit", "path"] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        let set = ToolSet::new(vec![odd("many", schema)]).unwrap();
        let many: serde_json::Map<_, _> = (0..500).map(|i| (format!("k{i}"), json!("ä".repeat(9_999)))).collect();
        let reason = blocked(BlockStage::Schema, set.vet("many", &Value::Object(many)));
        assert!(reason.contains("and 490 more") && reason.chars().count() < 5_000, "{}", reason.len());
    }

    #[test]
    fn f18_a_panic_while_vetting_is_a_refusal() {
        let set = ToolSet::new(vec![odd("a", json!({}))]).unwrap();
        let reason = blocked(BlockStage::Schema, set.vet("a", &json!({"boom": 1})));
        assert!(reason.contains("crashed") && reason.contains("bomb"), "{reason}");
    }
}
