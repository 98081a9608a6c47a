//! A call as it was asked for, and how often it was tried.

use std::sync::Arc;
use std::time::Duration;

use playhouse_protocol::{CallReport, Message, ProviderError, RetryConfig, StreamConfig};
use ractor::{ActorCell, DerivedActorRef};

use super::admission::RequestEnd;
use crate::call::CallOutcome;

/// Nobody waits longer than this, whatever a service asks for: what asks for more is told, and often a slip.
const LONGEST: Duration = Duration::from_secs(3_600);

/// What a call does when its service has to be waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// It waits in line until it may go.
    #[default]
    Waits,
    /// There is another model: when the service is left alone, or asks for a longer pause than a retry would take, the
    /// call fails at once.
    FallsBack,
}

/// What was asked, and how often it was tried.
pub(super) struct Order {
    pub(super) config: StreamConfig,
    pub(super) retry: RetryConfig,
    pub(super) patience: Patience,
    pub(super) agent: ActorCell,
    pub(super) reply: DerivedActorRef<CallReport>,
    /// Attempts so far; those that an earlier process made are in the config.
    pub(super) attempts: u32,
    /// Those that count against the cap.
    pub(super) retries: u32,
    /// How many requests for its model had been answered when it was last turned away.
    pub(super) answers: Option<u64>,
    /// The pause before the next attempt, where it is settled already.
    pub(super) pause: Option<Duration>,
    /// Whether other credentials were looked for already.
    pub(super) tried_refresh: bool,
    /// How often there had been others when the last attempt began.
    pub(super) refreshed: u64,
}

impl Order {
    pub(super) fn new(
        config: StreamConfig,
        retry: RetryConfig,
        patience: Patience,
        agent: ActorCell,
        reply: DerivedActorRef<CallReport>,
    ) -> Self {
        Self {
            config,
            retry,
            patience,
            agent,
            reply,
            attempts: 0,
            retries: 0,
            answers: None,
            pause: None,
            tried_refresh: false,
            refreshed: 0,
        }
    }

    /// The number of the attempt that is due or in flight.
    pub(super) fn attempt(&self) -> u32 {
        self.config.attempt.saturating_add(self.attempts)
    }

    pub(super) fn model(&self) -> &Arc<str> {
        &self.config.model_config.id
    }

    pub(super) fn retries_left(&self) -> u32 {
        self.retry.max_retries.saturating_sub(self.retries)
    }

    /// Tells the agent. One that is dead is no error: its calls are cancelled when its end is seen.
    pub(super) fn report(&self, report: CallReport) {
        let _ = self.reply.send_message(report);
    }
}

impl Order {
    /// What a retry after this error counts against the cap. Being turned away counts nothing while others get
    /// through: the service is well, there are just many who ask.
    pub(super) fn counts(&mut self, error: &ProviderError, answers: u64) -> u32 {
        match error {
            ProviderError::RateLimited { .. } => {
                u32::from(self.answers.replace(answers).is_none_or(|before| before == answers))
            }
            _ => 1,
        }
    }

    /// What an error says about the service. The pause that a rate limit asks for is the same for everybody.
    pub(super) fn end_of(&mut self, error: &ProviderError) -> RequestEnd {
        match error {
            ProviderError::RateLimited { .. } => {
                let wait = pause(self, error);
                self.pause = Some(wait);
                RequestEnd::Limited { wait }
            }
            ProviderError::Network { .. } => RequestEnd::Failed,
            ProviderError::Auth { .. }
            | ProviderError::Api { .. }
            | ProviderError::ContextOverflow { .. }
            | ProviderError::Empty { .. } => RequestEnd::Answered { tokens: 0 },
            ProviderError::Unavailable { .. }
            | ProviderError::Cancelled
            // It may have been refused here, and nothing was sent.
            | ProviderError::Picture { .. }
            | ProviderError::Other { .. }
            // The service had begun to answer, and what broke off may be the model's own fault.
            | ProviderError::Incomplete { .. }
            | ProviderError::Lost { .. } => RequestEnd::Dropped,
        }
    }

    pub(super) fn may_retry(&self, error: &ProviderError) -> bool {
        let waits = error.retry_after().unwrap_or_default() <= Duration::from_millis(self.retry.max_delay_ms);
        let hasty = match error {
            ProviderError::Unavailable { .. } => true,
            ProviderError::RateLimited { .. } => !waits,
            _ => false,
        };
        let endless = error.retry_after().is_some_and(|asked| asked > LONGEST);
        error.is_retryable() && !endless && self.retries_left() > 0 && !(hasty && self.patience == Patience::FallsBack)
    }
}

/// How long to wait before the next attempt: the backoff, and at least what the service asked for.
pub(super) fn pause(order: &Order, error: &ProviderError) -> Duration {
    let backoff = order.retry.delay_for_attempt(order.retries, fastrand::f64());
    error.retry_after().map_or(backoff, |asked| asked.min(LONGEST).max(backoff))
}

/// The model's message with what it cost.
pub(super) fn priced(message: Message, order: &Order) -> CallOutcome {
    match message {
        Message::Assistant { content, stop_reason, model, provider, usage, timestamp, error_message } => {
            let usage = usage.priced(order.config.model_config.prices.as_ref());
            Ok(Message::Assistant { content, stop_reason, model, provider, usage, timestamp, error_message })
        }
        Message::User { .. } | Message::ToolResult { .. } => {
            Err(ProviderError::Other { message: "the provider gave a message that is not the model's".to_owned() })
        }
    }
}

pub(super) fn tokens_of(message: &Message) -> u64 {
    match message {
        Message::Assistant { usage, .. } => usage.total(),
        Message::User { .. } | Message::ToolResult { .. } => 0,
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
