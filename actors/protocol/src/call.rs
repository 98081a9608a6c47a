//! What passes between an agent and a provider connection.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cancel::Credit;
use crate::config::CacheConfig;
use crate::ids::{CallId, ToolCallId};
use crate::message::{AgentMessage, History, Message};
use crate::model::{ModelConfig, ThinkingLevel};
use crate::provider_error::ProviderError;
use crate::tool::ToolDefinition;

/// What a call is for. A turn is part of the conversation; the others serve it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A turn of the conversation.
    #[default]
    Turn,
    /// A summary for compaction.
    Summary,
    /// A judge among branches.
    Judge,
    /// A child's last word before its deadline.
    Wrapup,
    /// A second try at structured output.
    Repair,
}

/// One request to a model.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// The model that answers, with its key.
    pub model_config: Arc<ModelConfig>,
    /// The system prompt; empty is none.
    pub system_prompt: Arc<str>,
    /// The conversation's key: what a service was sent of it before is found by it.
    pub conversation: Arc<str>,
    /// The conversation; providers send [`StreamConfig::sendable`].
    pub messages: History,
    /// Messages that follow the conversation in this request and are no part of it.
    pub tail: Vec<Arc<AgentMessage>>,
    /// What the model may call; empty is none.
    pub tools: Arc<[ToolDefinition]>,
    /// How much the model should reason before it answers.
    pub thinking_level: ThinkingLevel,
    /// The output limit; overrides the model's.
    pub max_tokens: Option<u32>,
    /// Sampling temperature; `None` leaves it to the service.
    pub temperature: Option<f32>,
    /// Which parts of the prompt the provider should cache.
    pub cache_config: CacheConfig,
    /// What the call is for.
    pub purpose: Purpose,
    /// How many model responses the session's chain held before this one.
    pub response: u64,
    /// The number of this attempt at the response, from 0; the connection counts on from here.
    pub attempt: u32,
    /// The text of the session's first prompt.
    pub first_prompt: Arc<str>,
    /// The form that the answer must have, if it must have one. The answer is then JSON in a text block, whichever
    /// way its protocol came by it.
    pub response_format: Option<Arc<ResponseFormat>>,
}

impl StreamConfig {
    /// What a provider may be shown: the conversation and what follows it, without extensions and failed or empty
    /// responses.
    pub fn sendable(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let tail = self.tail.iter().filter_map(|message| message.llm()).filter(|message| message.is_sendable());
        self.messages.sendable().chain(tail)
    }
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseFormat {
    /// A name for it: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// A JSON Schema that the answer must fit.
    pub schema: Value,
}

/// A piece of a response as it streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum StreamDelta {
    /// A piece of the answer's text.
    Text {
        /// Follows what came before it of the same kind.
        delta: String,
    },
    /// A piece of the model's reasoning.
    Thinking {
        /// Follows what came before it of the same kind.
        delta: String,
    },
    /// A piece of a tool call's arguments.
    ToolCallDelta {
        /// Part of a JSON text, cut anywhere.
        delta: String,
    },
}

impl StreamDelta {
    /// Appends `next` to this delta if both are of one kind; gives it back otherwise.
    pub fn merge(&mut self, next: StreamDelta) -> Result<(), StreamDelta> {
        match (self, next) {
            (Self::Text { delta }, Self::Text { delta: more })
            | (Self::Thinking { delta }, Self::Thinking { delta: more })
            | (Self::ToolCallDelta { delta }, Self::ToolCallDelta { delta: more }) => {
                delta.push_str(&more);
                Ok(())
            }
            (_, next) => Err(next),
        }
    }
}

/// What a wire protocol reads from a response, before it is merged and sent on.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The service has begun to answer.
    Start,
    /// A piece of the answer's text.
    TextDelta {
        /// Follows the text before it.
        delta: String,
    },
    /// A piece of the model's reasoning.
    ThinkingDelta {
        /// Follows the reasoning before it.
        delta: String,
    },
    /// A tool call opened: the argument pieces that follow are its own.
    ToolCallStart {
        /// The provider's id for it, possibly empty.
        id: ToolCallId,
        /// The tool's name, as the model wrote it.
        name: String,
    },
    /// A piece of a tool call's arguments.
    ToolCallDelta {
        /// Part of a JSON text, cut anywhere.
        delta: String,
    },
    /// The protocol's own terminal event: the response is complete.
    Done {
        /// An assistant message, with what the call consumed.
        message: Box<Message>,
    },
    /// The protocol reported an error inside the stream.
    Error {
        /// Classified, so that the connection knows whether to ask again.
        error: ProviderError,
    },
}

/// What a connection tells the agent it works for.
#[derive(Debug)]
pub enum CallReport {
    /// Pieces of the response; at most one batch is on its way.
    Delta {
        /// The agent's id for the call.
        call: CallId,
        /// The attempt it belongs to.
        attempt: u32,
        /// In order; neighbours of one kind are merged.
        deltas: Vec<StreamDelta>,
        /// Given back when it has been taken.
        credit: Credit,
    },
    /// An attempt failed; the next one comes after a pause, once the agent has said that it knows.
    Retrying {
        /// The agent's id for the call.
        call: CallId,
        /// The number of the attempt that failed.
        attempt: u32,
        /// The failure that makes another attempt worthwhile.
        error: ProviderError,
        /// How long the pause is.
        delay_ms: u64,
    },
    /// The response is complete; nothing more of this call follows.
    Responded {
        /// The agent's id for the call.
        call: CallId,
        /// The number of the attempt that succeeded.
        attempt: u32,
        /// An assistant message, with what the call consumed.
        message: Message,
    },
    /// The call failed for good.
    Failed {
        /// The agent's id for the call.
        call: CallId,
        /// The number of the last attempt that was made.
        attempt: u32,
        /// The failure of that attempt.
        error: ProviderError,
    },
}

impl CallReport {
    /// The call it speaks of.
    pub fn call(&self) -> &CallId {
        match self {
            Self::Delta { call, .. }
            | Self::Retrying { call, .. }
            | Self::Responded { call, .. }
            | Self::Failed { call, .. } => call,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_of_one_kind_merge() {
        let mut delta = StreamDelta::Text { delta: "a".into() };
        delta.merge(StreamDelta::Text { delta: "b".into() }).unwrap();
        assert_eq!(delta, StreamDelta::Text { delta: "ab".into() });
        assert!(delta.merge(StreamDelta::Thinking { delta: "c".into() }).is_err());
    }
}
