//! A run: how it began, how it ended, what it was configured with.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::LimitHit;
use crate::ids::EntryId;
use crate::model::{ApiProtocol, ThinkingLevel};

/// How a run relates to the ones before it. Tags are RFC 3339 UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContinuationKind {
    /// The first of its conversation.
    Initial,
    /// Goes on from where the conversation stands.
    Default,
    /// Does the last run again, from before its first response.
    Rerun {
        /// When it was asked for.
        tag: String,
    },
    /// Goes on from an earlier entry, on another path.
    Branch {
        /// When it was asked for.
        tag: String,
        /// The entry to go on from; `None` is where the conversation stands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<EntryId>,
    },
    /// Goes on after a compaction.
    Compaction,
    /// Carries out changes that were planned and approved.
    Plan {
        /// Their numbers in the plan, in its order.
        changes: Vec<u32>,
    },
}

/// What a turn answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnTrigger {
    /// A prompt, from a user or a program.
    User,
    /// The task that a parent agent gave.
    SubAgent,
    /// Tool results, steering, a follow-up or a continued run.
    Continuation,
    /// The first turn of a run on another path.
    Branch,
}

/// Whether a run has an answer, or why it has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    /// The model was done, and nothing kept it from stopping.
    Stop,
    /// The model ran into its output limit.
    Length,
    /// The provider failed for good.
    Error {
        /// The text of the last failure.
        message: String,
    },
    /// Someone asked for its end.
    Aborted,
    /// An execution limit stopped it.
    Limit {
        /// The limit and its value.
        limit: LimitHit,
    },
    /// An input filter rejected the prompt.
    Rejected {
        /// The filter's words.
        reason: String,
    },
    /// A hook said no: `before_loop` or `before_turn`.
    Halted {
        /// Which hook, and why if it failed.
        reason: String,
    },
}

impl Outcome {
    /// Whether there is an answer: whole, or cut off by the model's output limit.
    pub fn is_success(&self) -> bool {
        match self {
            Self::Stop | Self::Length => true,
            Self::Error { .. } | Self::Aborted | Self::Limit { .. } | Self::Rejected { .. } | Self::Halted { .. } => {
                false
            }
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stop => f.write_str("the run is done"),
            Self::Length => f.write_str("the model ran into its output limit"),
            Self::Error { message } => write!(f, "the run failed: {message}"),
            Self::Aborted => f.write_str("the run was aborted"),
            Self::Limit { limit } => write!(f, "stopped: {limit}"),
            Self::Rejected { reason } => write!(f, "the prompt was rejected: {reason}"),
            Self::Halted { reason } => write!(f, "the run was halted: {reason}"),
        }
    }
}

/// What a run was configured with, for its record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopConfigSnapshot {
    /// The model's id, as the service knows it.
    pub model: Arc<str>,
    /// The service's name, as in the model's configuration.
    pub provider: Arc<str>,
    /// The `{config}` segment of the loop id.
    pub config_id: String,
    /// The model's name for people, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// The protocol that the service is spoken to in.
    pub api: ApiProtocol,
    /// Where the service is; `None` is the protocol's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The context window, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The output limit, where set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Whether the model can reason, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// How much it was asked to.
    pub thinking_level: ThinkingLevel,
    /// Sampling temperature; `None` leaves it to the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
}
