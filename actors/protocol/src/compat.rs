//! How services that speak chat completions differ from OpenAI.

use serde::{Deserialize, Serialize};

/// What a service that speaks chat completions takes and gives where it differs; the default is OpenAI itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAiCompat {
    /// The name of the output limit.
    pub max_tokens_field: MaxTokensField,
    /// The role of the system prompt.
    pub system_role: SystemRole,
    /// Where reasoning is, in answers and when it is sent back.
    pub reasoning_field: ReasoningField,
    /// How much reasoning is asked for.
    pub reasoning_effort: EffortField,
    /// Whether the tokens used are asked for.
    pub usage: UsageInStream,
    /// What is said about keeping the response.
    pub store: Store,
    /// What comes between tool results and the user's next words.
    pub after_tool_results: AfterToolResults,
    /// Whether reasoning goes back to the model.
    pub replay_reasoning: ReplayReasoning,
    /// What is done with the names of tools in calls.
    pub tool_names: ToolNames,
    /// How an answer by a schema is asked for.
    pub structured: Structured,
    /// Whether the service takes tools.
    pub tools: ToolSupport,
    /// Which ids of calls the service takes back.
    pub call_ids: CallIds,
    /// What the arguments of a call may be when it is sent back.
    pub call_arguments: CallArguments,
}

/// The name of the output limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_completion_tokens`, as OpenAI has it.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`, as most others have it.
    MaxTokens,
}

/// The role of the system prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`, which every service takes.
    #[default]
    System,
    /// `developer`, which OpenAI's reasoning models prefer.
    Developer,
}

/// The field that holds reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// `reasoning_content`, as most services have it.
    #[default]
    ReasoningContent,
    /// `reasoning`, a plain text.
    Reasoning,
    /// `reasoning_details`: a list of blocks that go back unchanged.
    ReasoningDetails,
}

/// How much reasoning is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortField {
    /// By the field `reasoning_effort`.
    #[default]
    ReasoningEffort,
    /// By the field `reasoning`, an object with `effort` in it.
    Reasoning,
    /// The service has no field for it, so none is sent.
    None,
}

/// Whether the tokens used are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageInStream {
    /// Yes, by `stream_options.include_usage`.
    #[default]
    Asked,
    /// By the same, and without the random padding that OpenAI adds to every piece.
    AskedUnpadded,
    /// The service sends them unasked, or refuses the question.
    NotAsked,
}

/// What is said about keeping the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Store {
    /// The field is not sent: the service does as it does by default.
    #[default]
    Unsaid,
    /// `store: false` is sent.
    No,
}

/// What comes between tool results and the user's next words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterToolResults {
    /// Nothing: the user's message follows the results.
    #[default]
    Nothing,
    /// An empty message of the model's, without which some templates lose the results.
    EmptyAssistant,
    /// A message of the model's in a few words, where the service wants one and takes none that is empty.
    ShortAssistant,
}

/// Whether reasoning goes back to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayReasoning {
    /// It is left out of what is sent.
    #[default]
    Never,
    /// With the messages that call tools, and with those that follow the results.
    WithTools,
    /// With every message that has some.
    Always,
}

/// What is done with the names of tools in calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolNames {
    /// They are taken as they come.
    #[default]
    AsTheyCome,
    /// They are cut at `<|`, where some models let their own marks follow.
    CutAtMark,
}

/// How an answer by a schema is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structured {
    /// By `response_format` with the schema.
    #[default]
    JsonSchema,
    /// By a tool that must be called.
    ForcedTool,
}

/// Whether a service takes tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSupport {
    /// It does.
    #[default]
    Taken,
    /// It refuses requests with tools: none are sent, and the model calls none.
    NotTaken,
}

/// Which ids of calls the service takes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Any of up to 40 characters.
    #[default]
    Any,
    /// Nine letters and digits.
    NineAlphanumeric,
}

/// What the arguments of a call may be when it is sent back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallArguments {
    /// The model's own text, JSON or not.
    #[default]
    AsWritten,
    /// Only a JSON object: a text that is none is wrapped in one.
    AlwaysObject,
}
