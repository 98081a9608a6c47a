//! Settings in layers: defaults, the user's file, the project's file, the environment, flags. The later wins.
//!
//! - `keys`: one table says which keys there are, what they take, who may set them and which setting of an agent they
//!   are; reading, names of variables, flags, corrections, [`Config::rows`] and the documentation follow from it.
//! - `sections`: what belongs together; a section that is added is a struct here and rows in the table. Those that have
//!   names of their own, `[models."…"]` and `[providers.…]`, are [`NamedSections`]; `[[hooks.…]]` are [`HookSetting`]s.
//! - `sources`: files, the environment and flags, one laid over the other.
//!
//! A project's file was written by whoever wrote the project. It sets what shapes the conversation, and for the rest
//! it may only narrow what the user allows. No key of a service is in a file: keys come from the environment.
//!
//! [`Config::load`] reads files; the environment is passed in, as [`Sources`].

mod keys;
mod problem;
mod rule_file;
mod sections;
mod sources;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use playhouse_protocol::{CacheConfig, Durability, PermissionMode, SandboxMode, ThinkingLevel, ToolExecutionStrategy};
use playhouse_tools::default_tools;

pub use keys::shown::{Row, Shown};
pub use keys::{ByProject, Flag, Key, keys};
pub use problem::{Problem, Problems};
pub use rule_file::RuleFile;
pub use sections::confinement::Confinement;
pub use sections::hooks::HookSetting;
pub use sections::keys_set::KeySet;
pub use sections::model_name::{ModelName, known_provider};
pub use sections::named::{ModelFacts, NamedRow, NamedSections, ProviderFacts};
pub use sections::{Azure, Bedrock, Connection, Limits, Permissions, Retry, Service, Vertex};
pub use sources::Sources;
pub use sources::environment::Variables;
pub use sources::paths::Platform;

pub use crate::tool_names::TOOLS;

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file, as it was found or named.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it: the value is built in.
    Default,
    /// The user's file, at this place.
    User(Position),
    /// The project's file, at this place.
    Project(Position),
    /// The variable of this name.
    Environment(String),
    /// The flag of this name, with its dashes.
    Flag(&'static str),
}

impl Origin {
    /// Which layer it is: a later one wins over an earlier one.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::User(_) => 1,
            Self::Project(_) => 2,
            Self::Environment(_) => 3,
            Self::Flag(_) => 4,
        }
    }
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
    /// Where in the project's file.
    pub at: Position,
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<T> {
    /// The value that holds.
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

    /// The value, if a project's file gave it.
    pub(crate) fn by_project(&self) -> Option<&T> {
        match self.origin {
            Origin::Project(_) => Some(&self.value),
            Origin::Default | Origin::User(_) | Origin::Environment(_) | Origin::Flag(_) => None,
        }
    }
}

sections::settings! {
    /// Every setting with its origin. The default is what holds when nobody sets anything, on a machine without a home
    /// directory.
    Config {
        /// Who answers, and who is fallen back on, in this order. When nobody said and one key is set, it is the default
        /// model of that key's service, with the key's variable as its origin; else it is empty.
        model: Vec<ModelName> = Vec::new(),
        /// Where the first model's service is; `None` is where its section or its vendor says.
        base_url: Option<String> = None,
        /// What the model is told before the conversation; `None` is Playhouse's own words, empty is nothing.
        system: Option<String> = None,
        /// The file with what it is told, in place of `system`.
        system_file: Option<PathBuf> = None,
        /// The tools by name.
        tools: Vec<String> = default_tools().iter().map(|tool| tool.name().to_owned()).collect(),
        /// Which tool calls are asked about before they run.
        permission: PermissionMode = PermissionMode::Ask,
        /// How long a question on a terminal waits; `None` is as long as it takes.
        question_timeout: Option<Duration> = None,
        /// What the processes of tools are kept in.
        sandbox: SandboxMode = SandboxMode::Auto,
        /// How safe a session is.
        durability: Durability = Durability::Flush,
        /// Where sessions are kept; `None` when there is no home to keep them under.
        data_dir: Option<PathBuf> = None,
        /// How much the model reasons.
        thinking: ThinkingLevel = ThinkingLevel::Off,
        /// The output limit of a response in tokens; `None` is the model's own.
        max_tokens: Option<u32> = None,
        /// The sampling temperature; `None` is the model's own.
        temperature: Option<f32> = None,
        /// How the tool calls of one response are run.
        tool_execution: ToolExecutionStrategy = ToolExecutionStrategy::Parallel,
        /// Where requests carry marks for the service's prompt cache.
        cache: CacheConfig = CacheConfig::default(),
    }
    beside {
        /// Rules on what tools may do.
        permissions: Permissions,
        /// What the sandbox grants, and which variables tools get.
        confinement: Confinement,
        /// Where OpenAI is, for chat completions and Responses.
        openai: Service,
        /// Where Anthropic's service is.
        anthropic: Service,
        /// Where a resource of Azure OpenAI is, and with which version it is asked.
        azure: Azure,
        /// Where Google Gemini is.
        google: Service,
        /// Where Google Vertex is, and as which project it is asked.
        vertex: Vertex,
        /// Where Amazon Bedrock is.
        bedrock: Bedrock,
        /// Where Ollama listens.
        ollama: Service,
        /// What every connection to a service keeps to.
        connection: Connection,
        /// Caps on a run.
        limits: Limits,
        /// How often and when a failed request is sent again.
        retry: Retry,
        /// What the user knows of models, and sends to providers.
        named: NamedSections,
        /// Commands that are told of what happens, in the order in which they stand in the file.
        hooks: Vec<HookSetting>,
        /// Where the user's file is, or would be, for rules that are added to it; `None` without a home.
        user_file: Option<PathBuf>,
        /// Tools of the program's own that rules may name: [`Sources::tools`].
        tool_names: Vec<String>,
        /// The keys of services that are set.
        keys_set: Vec<KeySet>,
    }
}

impl Config {
    /// Every layer laid over the one before. All that is wrong is told at once.
    pub fn load(sources: &Sources) -> Result<Self, Problems> {
        sources::load(sources)
    }

    /// Where a provider is, as its section or its vendor's variable says; `None` for one without a section.
    pub fn base_url_of(&self, provider: &str) -> Option<&Setting<Option<String>>> {
        match provider {
            "openai" | "openai-responses" => Some(&self.openai.base_url),
            "anthropic" => Some(&self.anthropic.base_url),
            "azure" => Some(&self.azure.base_url),
            "google" => Some(&self.google.base_url),
            "vertex" => Some(&self.vertex.base_url),
            "bedrock" => Some(&self.bedrock.base_url),
            "ollama" => Some(&self.ollama.base_url),
            _ => None,
        }
    }

    /// Every key with its value and origin, in the order of the table.
    pub fn rows(&self) -> Vec<Row<'_>> {
        keys().iter().map(|key| key.row(self)).collect()
    }
}
