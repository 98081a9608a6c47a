//! Settings in layers: defaults, the user's file, the project's file, the environment, flags. The later wins.
//!
//! One table, [`keys`], says which keys there are, what they take and who may set them; reading, names of variables,
//! corrections, [`Config::rows`] and the documentation follow from it. A section that is added is rows in the table
//! and a struct here.
//!
//! A project's file was written by whoever wrote the project. It sets what shapes the conversation, and for the rest
//! it may only narrow what the user allows. No key of a service is in a file: keys come from the environment.
//!
//! [`Config::load`] reads files; the environment is passed in, as [`Sources`].

mod codec;
mod codecs;
mod environment;
mod expand;
mod file;
mod keys;
mod layers;
mod model;
mod narrow;
mod nearest;
mod places;
mod problem;
mod shown;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use playhouse_protocol::{
    Durability, ExecutionLimits, PermissionMode, RetryConfig, ThinkingLevel, ToolExecutionStrategy,
};
use playhouse_tools::default_tools;

pub use environment::Variables;
pub use keys::{ByProject, Key, keys};
pub use layers::Sources;
pub use model::ModelName;
pub use places::Platform;
pub use problem::{Problem, Problems};
pub use shown::{Row, Shown};

/// The tools that can be named.
pub const TOOLS: [&str; 4] = ["read_file", "list_files", "bash", "sub_agent"];

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The user's file.
    User(Place),
    /// The project's file.
    Project(Place),
    /// This variable.
    Environment(String),
    /// This flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(at) => write!(f, "user {}:{}", at.path.display(), at.line),
            Self::Project(at) => write!(f, "project {}:{}", at.path.display(), at.line),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// What a project's file asked for and did not get, because it may only narrow.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldBack {
    /// What it asked for.
    pub wanted: Shown,
    /// Where.
    pub at: Place,
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
    /// What a project's file asked for in vain.
    pub held_back: Option<HeldBack>,
}

impl<T> Setting<T> {
    /// A value that nobody set.
    pub fn default_of(value: T) -> Self {
        Self { value, origin: Origin::Default, held_back: None }
    }

    /// The value, if a flag gave it.
    pub fn by_flag(&self) -> Option<&T> {
        match self.origin {
            Origin::Flag(_) => Some(&self.value),
            Origin::Default | Origin::User(_) | Origin::Project(_) | Origin::Environment(_) => None,
        }
    }
}

/// Every setting with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Who answers.
    pub model: Setting<Option<ModelName>>,
    /// The system prompt.
    pub system: Setting<String>,
    /// The tools by name.
    pub tools: Setting<Vec<String>>,
    /// Whether tools ask.
    pub permission: Setting<PermissionMode>,
    /// How safe a session is.
    pub durability: Setting<Durability>,
    /// Where sessions are kept; `None` when there is no home to keep them under.
    pub data_dir: Setting<Option<PathBuf>>,
    /// How much the model reasons.
    pub thinking: Setting<ThinkingLevel>,
    /// The output limit of a response; `None` is the model's own.
    pub max_tokens: Setting<Option<u32>>,
    /// The sampling temperature; `None` is the model's own.
    pub temperature: Setting<Option<f32>>,
    /// How the tool calls of one response are run.
    pub tool_execution: Setting<ToolExecutionStrategy>,
    /// The services.
    pub openai: OpenAi,
    /// Caps on a run.
    pub limits: Limits,
    /// The retry layer's numbers.
    pub retry: Retry,
}

/// `[openai]`: OpenAI, or a service that speaks its protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenAi {
    /// Where the service is; `None` is OpenAI's own place.
    pub base_url: Setting<Option<String>>,
}

/// `[limits]`: caps on one run; `None` is off.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Model calls.
    pub max_turns: Setting<Option<u32>>,
    /// Tokens of all calls together.
    pub max_total_tokens: Setting<Option<u64>>,
    /// Running time.
    pub max_duration: Setting<Option<Duration>>,
}

impl Limits {
    /// The caps alone.
    pub fn values(&self) -> ExecutionLimits {
        ExecutionLimits {
            max_turns: self.max_turns.value,
            max_total_tokens: self.max_total_tokens.value,
            max_duration: self.max_duration.value,
        }
    }
}

/// `[retry]`: how often and when a failed request is sent again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Retries after the first attempt.
    pub max_retries: Setting<u32>,
    /// Before the first retry.
    pub initial_delay_ms: Setting<u64>,
    /// Growth from one delay to the next.
    pub backoff_multiplier: Setting<f64>,
    /// The longest delay.
    pub max_delay_ms: Setting<u64>,
}

impl Retry {
    /// The numbers alone.
    pub fn values(&self) -> RetryConfig {
        RetryConfig {
            max_retries: self.max_retries.value,
            initial_delay_ms: self.initial_delay_ms.value,
            backoff_multiplier: self.backoff_multiplier.value,
            max_delay_ms: self.max_delay_ms.value,
        }
    }
}

impl Default for Config {
    /// What holds when nobody sets anything, on a machine without a home directory.
    fn default() -> Self {
        let (limits, retry) = (ExecutionLimits::default(), RetryConfig::default());
        Self {
            model: Setting::default_of(None),
            system: Setting::default_of(String::new()),
            tools: Setting::default_of(default_tools().iter().map(|tool| tool.name().to_owned()).collect()),
            permission: Setting::default_of(PermissionMode::Ask),
            durability: Setting::default_of(Durability::Flush),
            data_dir: Setting::default_of(None),
            thinking: Setting::default_of(ThinkingLevel::Off),
            max_tokens: Setting::default_of(None),
            temperature: Setting::default_of(None),
            tool_execution: Setting::default_of(ToolExecutionStrategy::Parallel),
            openai: OpenAi { base_url: Setting::default_of(None) },
            limits: Limits {
                max_turns: Setting::default_of(limits.max_turns),
                max_total_tokens: Setting::default_of(limits.max_total_tokens),
                max_duration: Setting::default_of(limits.max_duration),
            },
            retry: Retry {
                max_retries: Setting::default_of(retry.max_retries),
                initial_delay_ms: Setting::default_of(retry.initial_delay_ms),
                backoff_multiplier: Setting::default_of(retry.backoff_multiplier),
                max_delay_ms: Setting::default_of(retry.max_delay_ms),
            },
        }
    }
}

impl Config {
    /// Every layer laid over the one before. All that is wrong is told at once.
    pub fn load(sources: &Sources) -> Result<Self, Problems> {
        layers::load(sources)
    }

    /// Every key with its value and origin, in the order of the table.
    pub fn rows(&self) -> Vec<Row<'_>> {
        keys().iter().map(|key| key.row(self)).collect()
    }
}
