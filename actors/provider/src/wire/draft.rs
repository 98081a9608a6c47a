//! A response while it is being put together; pure.

use playhouse_protocol::{Content, ProviderError, StopReason, StreamEvent, Usage};
use serde_json::Value;

use super::decoder::{Finish, Limits, Response, too_long};

/// A response so far: blocks in the order in which the model opened them.
#[derive(Debug)]
pub(crate) struct Draft {
    limits: Limits,
    content_bytes: usize,
    blocks: Vec<Block>,
    /// What the call consumed, as last said.
    pub(crate) usage: Usage,
    /// The model that the service says answers.
    pub(crate) model: Option<String>,
}

/// A block that may still grow.
#[derive(Debug)]
pub(crate) enum Block {
    /// Text of the answer.
    Text(String),
    /// Reasoning, with the seal that lets it be sent back.
    Thinking { text: String, seal: String },
    /// A call of a tool.
    Call { id: String, name: String, arguments: String },
}

/// Which block of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockIndex(usize);

/// Why the model stopped, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It was done, or wants tools.
    Whole,
    /// It ran into its output limit.
    Length,
    /// It was stopped in the middle, by a filter for instance: what it said stands, a call it was at does not.
    CutShort,
}

impl Draft {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, content_bytes: 0, blocks: Vec::new(), usage: Usage::default(), model: None }
    }

    /// Opens a block with what it already holds, and tells so.
    pub(crate) fn open(
        &mut self,
        block: Block,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<BlockIndex, ProviderError> {
        // A block costs memory beyond its bytes; the cap on content then bounds their number too.
        self.count(std::mem::size_of::<Block>() + block.len())?;
        match &block {
            Block::Text(text) if !text.is_empty() => emit(StreamEvent::TextDelta { delta: text.clone() }),
            Block::Thinking { text, .. } if !text.is_empty() => {
                emit(StreamEvent::ThinkingDelta { delta: text.clone() })
            }
            Block::Text(_) | Block::Thinking { .. } => {}
            Block::Call { id, name, arguments } => {
                emit(StreamEvent::ToolCallStart { id: id.as_str().into(), name: name.clone() });
                if !arguments.is_empty() {
                    emit(StreamEvent::ToolCallDelta { delta: arguments.clone() });
                }
            }
        }
        self.blocks.push(block);
        Ok(BlockIndex(self.blocks.len() - 1))
    }

    /// Adds to what a block says, and tells so: to text, reasoning or arguments, whichever it is.
    pub(crate) fn say(
        &mut self,
        at: BlockIndex,
        piece: &str,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), ProviderError> {
        if piece.is_empty() {
            return Ok(());
        }
        self.count(piece.len())?;
        let delta = piece.to_owned();
        match self.blocks.get_mut(at.0) {
            None => {}
            Some(Block::Text(text)) => {
                text.push_str(piece);
                emit(StreamEvent::TextDelta { delta });
            }
            Some(Block::Thinking { text, .. }) => {
                text.push_str(piece);
                emit(StreamEvent::ThinkingDelta { delta });
            }
            Some(Block::Call { arguments, .. }) => {
                arguments.push_str(piece);
                emit(StreamEvent::ToolCallDelta { delta });
            }
        }
        Ok(())
    }

    /// Adds to the seal of a block of reasoning.
    pub(crate) fn seal(&mut self, at: BlockIndex, piece: &str) -> Result<(), ProviderError> {
        self.count(piece.len())?;
        if let Some(Block::Thinking { seal, .. }) = self.blocks.get_mut(at.0) {
            seal.push_str(piece);
        }
        Ok(())
    }

    /// A block, to look at or to set right.
    pub(crate) fn block(&mut self, at: BlockIndex) -> Option<&mut Block> {
        self.blocks.get_mut(at.0)
    }

    /// The last block, if there is one.
    pub(crate) fn last(&self) -> Option<(BlockIndex, &Block)> {
        let at = self.blocks.len().checked_sub(1)?;
        Some((BlockIndex(at), self.blocks.get(at)?))
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::Call { .. }))
    }

    /// The whole response. Blocks that say nothing are left out; calls get ids that the conversation has once.
    pub(crate) fn whole(self, ended: Stopped, with: &Finish<'_>) -> Response {
        let last = self.blocks.len().saturating_sub(1);
        let own: Vec<&str> = self.blocks.iter().filter_map(Block::call_id).collect();
        let mut ids = unique_ids(&own, with).into_iter();
        let mut calls = 0;
        let mut content = Vec::with_capacity(self.blocks.len());
        for (place, block) in self.blocks.into_iter().enumerate() {
            match block {
                Block::Text(text) if text.is_empty() => {}
                Block::Text(text) => content.push(Content::Text { text }),
                Block::Thinking { text, seal } if text.is_empty() && seal.is_empty() => {}
                Block::Thinking { text, seal } => {
                    let signature = (!seal.is_empty()).then_some(seal);
                    content.push(Content::Thinking { thinking: text, signature });
                }
                Block::Call { name, arguments, .. } => {
                    calls += 1;
                    let id = ids.next().unwrap_or_default().into();
                    // Cut before its arguments came, they are unknown, not empty.
                    let unknown = ended != Stopped::Whole && place == last && arguments.trim().is_empty();
                    let arguments = if unknown { Value::String(arguments) } else { parse_arguments(arguments) };
                    content.push(Content::ToolCall { id, name, arguments });
                }
            }
        }
        let stop_reason = match (ended, calls) {
            (Stopped::Length, _) => StopReason::Length,
            (Stopped::Whole, 0) => StopReason::Stop,
            (Stopped::CutShort, 0) => StopReason::Refusal,
            (Stopped::Whole | Stopped::CutShort, _) => StopReason::ToolUse,
        };
        Response { content, stop_reason, usage: self.usage, model: self.model }
    }

    fn count(&mut self, bytes: usize) -> Result<(), ProviderError> {
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        if self.content_bytes > self.limits.content_bytes {
            return Err(too_long(self.limits.content_bytes));
        }
        Ok(())
    }
}

impl Block {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Thinking { text, seal } => text.len() + seal.len(),
            Self::Call { id, name, arguments } => id.len() + name.len() + arguments.len(),
        }
    }

    fn call_id(&self) -> Option<&str> {
        match self {
            Self::Call { id, .. } => Some(id),
            Self::Text(_) | Self::Thinking { .. } => None,
        }
    }
}

/// Empty arguments are `{}`; what is no JSON object stays the text it is, and is never run.
pub(crate) fn parse_arguments(raw: String) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    match serde_json::from_str::<Value>(&raw) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) | Err(_) => Value::String(raw),
    }
}

/// An id for each call: its own, or `call_<response>_<place>` where it has none, has one that another of the calls has,
/// or one that the conversation already has.
pub(crate) fn unique_ids(calls: &[&str], with: &Finish<'_>) -> Vec<String> {
    let mut ids: Vec<String> = Vec::with_capacity(calls.len());
    for (place, own) in calls.iter().enumerate() {
        let own = own.trim();
        let free = |ids: &[String], id: &str| !(with.taken)(id) && !ids.iter().any(|used| used == id);
        if !own.is_empty() && free(&ids, own) {
            ids.push(own.to_owned());
            continue;
        }
        let mut id = format!("call_{}_{place}", with.response);
        while calls.contains(&id.as_str()) || !free(&ids, &id) {
            id.push('x');
        }
        ids.push(id);
    }
    ids
}
