//! Typed tools, through the front door.

#[path = "support/kit.rs"]
mod kit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use playhouse::prelude::*;
use playhouse::protocol::{Cancel, SessionId};
use playhouse::schemars::JsonSchema;
use playhouse::serde::{Deserialize, Serialize};
use playhouse::tools::Vetted;

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(crate = "playhouse::serde", rename_all = "lowercase")]
#[schemars(crate = "playhouse::schemars")]
enum Suit {
    Hearts,
    Spades,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(crate = "playhouse::serde")]
#[schemars(crate = "playhouse::schemars")]
struct Card {
    suit: Suit,
    rank: u8,
}

fn one() -> usize {
    1
}

/// Deals cards.
///
/// Use it when someone asks for a hand:
///   - once per player
#[tool]
async fn deal(
    /// Who gets them.
    player: String,
    /// The card on top.
    top: Option<Card>,
    #[schemars(range(min = 1, max = 52))]
    #[serde(default = "one")]
    count: usize,
    r#type: Option<Suit>,
    mut hands: Vec<Card>,
) -> Vec<Card> {
    hands.extend(top);
    hands.extend(r#type.map(|suit| Card { suit, rank: player.len() as u8 }));
    hands.truncate(count);
    hands
}

#[test]
fn name_description_and_schema_come_from_the_function() {
    assert_eq!(deal.name(), "deal");
    assert_eq!(deal.description(), "Deals cards.\n\nUse it when someone asks for a hand:\n  - once per player");
    let suit = json!({"type": "string", "enum": ["hearts", "spades"]});
    let card = |ty: Value, more: Value| {
        let rank = json!({"type": "integer", "minimum": 0, "maximum": 255});
        let mut card = json!({"type": ty, "properties": {"suit": suit, "rank": rank}, "required": ["suit", "rank"]});
        card.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        card
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "player": {"type": "string", "description": "Who gets them."},
            "top": card(json!(["object", "null"]), json!({"description": "The card on top."})),
            "count": {"type": "integer", "minimum": 1, "maximum": 52, "default": 1},
            "type": {"type": ["string", "null"], "enum": ["hearts", "spades", null]},
            "hands": {"type": "array", "items": card(json!("object"), json!({}))},
        },
        "required": ["player", "hands"],
        "additionalProperties": false,
    });
    assert_eq!(deal.parameters_schema(), schema);
}

/// Does nothing.
#[tool]
async fn nothing() {}

/// A list of lists.
#[derive(Deserialize, JsonSchema)]
#[serde(crate = "playhouse::serde")]
#[schemars(crate = "playhouse::schemars")]
struct Nested(#[allow(dead_code, reason = "only its schema is of interest")] Vec<Nested>);

/// Goes deep.
#[tool]
async fn deep(nested: Nested) -> bool {
    !nested.0.is_empty()
}

/// Is left out, all of it.
#[tool]
#[cfg(any())]
async fn left_out(nothing: NoSuchType) {}

#[test]
fn every_schema_stands_alone() {
    let empty = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(nothing.parameters_schema(), empty);
    let set = ToolSet::new(vec![Arc::new(nothing), Arc::new(deep), Arc::new(deal)]).unwrap();
    assert!(matches!(set.vet("nothing", &json!({})), Vetted::Ready { .. }));
    assert!(matches!(set.vet("nothing", &json!({"a": 1})), Vetted::Blocked { .. }));
    assert!(matches!(set.vet("deep", &json!({"nested": [[], [[]]]})), Vetted::Ready { .. }));
    assert!(matches!(set.vet("deep", &json!({"nested": [[], 7]})), Vetted::Blocked { .. }));
}

/// Reads.
#[tool(read_only, timeout_secs = 7)]
async fn reading() -> &'static str {
    "read"
}

/// Sets a value.
#[tool(idempotent, name = "set-value", ask = "set a value")]
async fn setting(key: String, ctx: ToolContext) -> Result<EffectClass, String> {
    match key.is_empty() {
        true => Err("a key has letters".to_owned()),
        false => Ok(ctx.effect),
    }
}

#[test]
fn options_say_effect_timeout_and_what_to_ask() {
    let set = ToolSet::new(vec![Arc::new(reading), Arc::new(setting), Arc::new(nothing)]).unwrap();
    let ready = |name: &str, args: Value| match set.vet(name, &args) {
        Vetted::Ready { effect, ask, timeout, .. } => (effect, ask, timeout),
        blocked => panic!("{blocked:?}"),
    };
    assert_eq!(ready("reading", json!({})), (EffectClass::Read, None, Duration::from_secs(7)));
    assert_eq!(ready("nothing", json!({})), (EffectClass::Once, None, playhouse::tools::DEFAULT_TIMEOUT));
    let (first, ask, _) = ready("set-value", json!({"key": "a"}));
    assert_eq!(ask.as_deref(), Some("set a value"));
    assert!(matches!(&first, EffectClass::Idempotent { key } if key.len() == 32), "{first:?}");
    assert_eq!(ready("set-value", json!({"key": "a"})).0, first, "the same call has the same key");
    assert_ne!(ready("set-value", json!({"key": "b"})).0, first, "another call has another");
}

fn context() -> ToolContext {
    ToolContext {
        tool_call_id: "call".into(),
        tool_name: "tool".to_owned(),
        session_id: SessionId::new("session").unwrap(),
        cwd: std::env::temp_dir(),
        effect: EffectClass::Read,
        reconcile: false,
        cancel: Cancel::new(),
        states: Default::default(),
        on_update: None,
        on_progress: None,
    }
}

async fn answer(tool: impl Tool, args: Value) -> Result<ToolResult, ToolError> {
    tool.execute(args, context()).await
}

/// Gives a result of its own.
#[tool]
async fn whole(ctx: &ToolContext) -> Result<ToolResult, ToolError> {
    Ok(ToolResult { details: json!({"id": ctx.tool_call_id}), ..ToolResult::text("whole") })
}

/// Waits in vain.
#[tool]
async fn cancelled() -> Result<(), ToolError> {
    Err(ToolError::Cancelled)
}

type Answer = Result<Option<u8>, Worse>;

/// An error with a cause.
#[derive(Debug)]
struct Worse;

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if f.alternate() { "worse: it rains" } else { "worse" })
    }
}

/// Counts down.
#[tool]
async fn down(from: u8) -> Answer {
    match from {
        0 => Err(Worse),
        1 => Ok(None),
        from => Ok(Some(from - 1)),
    }
}

/// Has no JSON.
#[tool]
async fn odd() -> std::collections::HashMap<Vec<u8>, u8> {
    [(vec![1], 1)].into()
}

#[tokio::test]
async fn answers_of_every_type_reach_the_model() {
    let text = |text: &str| Ok(ToolResult::text(text));
    assert_eq!(answer(nothing, json!({})).await, text("done"));
    assert_eq!(answer(reading, json!({})).await, text("read"));
    assert_eq!(answer(deep, json!({"nested": [[]]})).await, text("true"));
    let hands = json!([{"suit": "hearts", "rank": 1}]);
    let dealt = answer(deal, json!({"player": "ann", "hands": hands, "type": "spades", "count": 2})).await;
    assert_eq!(dealt, text(r#"[{"suit":"hearts","rank":1},{"suit":"spades","rank":3}]"#));
    assert_eq!(answer(whole, json!({})).await.unwrap().details, json!({"id": "call"}));
    assert_eq!(answer(whole, json!({})).await.unwrap().content, ToolResult::text("whole").content);
    assert_eq!(answer(setting, json!({"key": "a"})).await, text(r#"{"type":"read"}"#));
    // A `Result` under another name is one.
    assert_eq!(answer(down, json!({"from": 3})).await, text("2"));
    assert_eq!(answer(down, json!({"from": 1})).await, text("null"));
}

#[tokio::test]
async fn errors_of_every_type_reach_the_model() {
    let failed = |text: &str| Err(ToolError::Failed(text.to_owned()));
    assert_eq!(answer(cancelled, json!({})).await, Err(ToolError::Cancelled));
    assert_eq!(answer(setting, json!({"key": ""})).await, failed("a key has letters"));
    assert_eq!(answer(down, json!({"from": 0})).await, failed("worse: it rains"));
    let error = answer(odd, json!({})).await.unwrap_err();
    assert!(error.to_string().starts_with("the tool's answer is no JSON: "), "{error}");
    // What the schema would have refused, had it been asked.
    let error = answer(down, json!({"from": 3.5})).await.unwrap_err();
    assert!(matches!(&error, ToolError::InvalidArgs(reason) if reason.contains("3.5")), "{error}");
}

#[tokio::test]
async fn a_model_calls_a_typed_tool_and_misfits_never_reach_it() {
    let house = House::in_memory().await.unwrap();
    let call = |args| Step::text("").tool_call("down", args);
    let misfits = [call(json!({"from": "x"})), call(json!({"from": 1, "by": 2}))];
    let fits = [call(json!({"from": 0})), call(json!({"from": 9})), Step::text("Eight.")];
    let model = Scripted::new(misfits.into_iter().chain(fits).collect::<Vec<_>>());
    let agent = house.agent().provider_override(model).tool(down).spawn().await.unwrap();
    let output = kit::soon("the run", agent.prompt("Count down.")).await.unwrap();
    let results: Vec<(bool, String)> = output
        .messages
        .iter()
        .filter_map(|message| match message.llm() {
            Some(message @ Message::ToolResult { is_error, .. }) => Some((*is_error, message.text())),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 4, "{results:?}");
    assert!(results[0].0 && results[0].1.contains("/from"), "{results:?}");
    assert!(results[1].0 && results[1].1.contains("by"), "{results:?}");
    assert_eq!(results[2..], [(true, "worse: it rains".to_owned()), (false, "8".to_owned())]);
    assert_eq!(output.text(), "Eight.");
    house.shutdown(Duration::ZERO).await;
}

/// What tools hold: as a pool of connections to a database would be.
struct Counter {
    counted: std::sync::atomic::AtomicU32,
}

#[tool]
impl Counter {
    fn new(counted: u32) -> Self {
        Self { counted: counted.into() }
    }

    /// Counts on.
    #[tool(name = "count_on", timeout_secs = 7, ask = "count")]
    async fn count(
        &self,
        /// How far.
        by: u32,
        ctx: &ToolContext,
    ) -> Result<u32, String> {
        if by == 0 {
            return Err(format!("{} counts nothing", ctx.tool_name));
        }
        Ok(self.counted.fetch_add(by, std::sync::atomic::Ordering::Relaxed) + by)
    }

    /// Says how far it is.
    #[tool(read_only)]
    async fn so_far(&self) -> u32 {
        self.counted.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Is left out, its tool too.
    #[tool]
    #[cfg(any())]
    async fn left_out(&self, nothing: NoSuchType) {}
}

#[tokio::test]
async fn methods_are_tools_that_share_the_value_that_has_them() {
    let tools = Counter::new(3).tools();
    let set = ToolSet::new(tools.clone()).unwrap();
    assert_eq!(set.names().collect::<Vec<_>>(), ["count_on", "so_far"]);
    let [count, so_far] = tools.as_slice() else { panic!("{}", tools.len()) };
    let by = json!({"type": "integer", "minimum": 0, "description": "How far."});
    let schema = json!({"type": "object", "properties": {"by": by}, "required": ["by"], "additionalProperties": false});
    assert_eq!((count.description(), count.parameters_schema()), ("Counts on.", schema));
    assert_eq!((count.timeout(), count.effect(&json!({}))), (Duration::from_secs(7), EffectClass::Once));
    assert_eq!(count.needs_permission(&json!({})), Some("count".to_owned()));
    assert_eq!(so_far.effect(&json!({})), EffectClass::Read);

    let house = House::in_memory().await.unwrap();
    let call = |name, args| Step::text("").tool_call(name, args);
    let steps = [call("count_on", json!({"by": 4})), call("count_on", json!({"by": 0})), call("so_far", json!({}))];
    let model = Scripted::new(steps.into_iter().chain([Step::text("Seven.")]).collect::<Vec<_>>());
    let agent = house.agent().provider_override(model).tools(tools).permission(PermissionMode::Yolo);
    let agent = agent.spawn().await.unwrap();
    let output = kit::soon("the run", agent.prompt("Count.")).await.unwrap();
    let results: Vec<String> = output
        .messages
        .iter()
        .filter_map(|message| message.llm())
        .filter(|message| matches!(message, Message::ToolResult { .. }))
        .map(Message::text)
        .collect();
    assert_eq!(results, ["7", "count_on counts nothing", "7"]);
    house.shutdown(Duration::ZERO).await;
}
