//! How an agent is to behave: limits, retries, queues, caching.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// Hard caps on one run; `None` is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionLimits {
    /// Turns, each of which is one model call with its tools.
    pub max_turns: Option<u32>,
    /// Tokens of all calls together.
    pub max_total_tokens: Option<u64>,
    /// Running time; time between a crash and its resume does not count.
    pub max_duration: Option<Duration>,
}

impl Default for ExecutionLimits {
    fn default() -> Self {
        Self { max_turns: Some(50), max_total_tokens: Some(1_000_000), max_duration: Some(Duration::from_secs(600)) }
    }
}

impl ExecutionLimits {
    /// No limits at all.
    pub fn none() -> Self {
        Self { max_turns: None, max_total_tokens: None, max_duration: None }
    }
}

/// Which limit stopped a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    /// The turns are used up.
    Turns(u32),
    /// The tokens are used up.
    Tokens(u64),
    /// The time is used up.
    Duration(Duration),
}

impl std::fmt::Display for LimitHit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turns(n) => write!(f, "max turns reached ({n})"),
            Self::Tokens(n) => write!(f, "max tokens reached ({n})"),
            Self::Duration(d) => write!(f, "max duration reached ({} s)", d.as_secs_f64()),
        }
    }
}

/// What a run has used of its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionTracker {
    /// Turns that have ended.
    pub turns: u32,
    /// Tokens of all calls together, empty answers included.
    pub tokens_used: u64,
    /// Running time, journaled at each turn's end.
    pub elapsed: Duration,
}

impl ExecutionTracker {
    /// Counts a finished turn with what its call consumed; `elapsed` is the run's time as of now.
    pub fn turn_ended(&mut self, usage: &Usage, elapsed: Duration) {
        self.turns = self.turns.saturating_add(1);
        self.tokens_used = self.tokens_used.saturating_add(usage.total());
        self.elapsed = elapsed;
    }

    /// The limit that forbids another turn, if one does; `elapsed` is the running time as of now.
    pub fn exceeded(&self, limits: &ExecutionLimits, elapsed: Duration) -> Option<LimitHit> {
        if let Some(max) = limits.max_turns.filter(|max| self.turns >= *max) {
            return Some(LimitHit::Turns(max));
        }
        if let Some(max) = limits.max_total_tokens.filter(|max| self.tokens_used >= *max) {
            return Some(LimitHit::Tokens(max));
        }
        limits.max_duration.filter(|max| elapsed >= *max).map(LimitHit::Duration)
    }
}

/// The one retry layer's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryConfig {
    /// Retries after the first attempt.
    pub max_retries: u32,
    /// The pause before the first retry, in milliseconds.
    pub initial_delay_ms: u64,
    /// Growth from one delay to the next.
    pub backoff_multiplier: f64,
    /// The longest delay, before jitter.
    pub max_delay_ms: u64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { max_retries: 3, initial_delay_ms: 1_000, backoff_multiplier: 2.0, max_delay_ms: 30_000 }
    }
}

impl RetryConfig {
    /// How long to wait after attempt `attempt` (from 0) failed. `roll` in 0..=1 is the caller's randomness and
    /// becomes ±20 % of jitter.
    pub fn delay_for_attempt(&self, attempt: u32, roll: f64) -> Duration {
        let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
        let grown = self.initial_delay_ms as f64 * self.backoff_multiplier.max(1.0).powi(exponent);
        let capped = grown.min(self.max_delay_ms as f64);
        let jittered = capped * (0.8 + 0.4 * roll.clamp(0.0, 1.0));
        Duration::from_millis(jittered as u64)
    }
}

/// How a queue of steering messages or follow-ups is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// One message each time the queue is looked at.
    #[default]
    OneAtATime,
    /// All that wait when the queue is looked at.
    All,
}

/// How the tool calls of one response are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolExecutionStrategy {
    /// All at once; steering is looked at after the last.
    #[default]
    Parallel,
    /// One after the other; steering is looked at after each.
    Sequential,
    /// In groups of at most `size`; steering is looked at after each group.
    Batched {
        /// The size of a group; 0 counts as 1.
        size: usize,
    },
}

impl ToolExecutionStrategy {
    /// How many calls a group holds.
    pub fn group_size(self) -> usize {
        match self {
            Self::Parallel => usize::MAX,
            Self::Sequential => 1,
            Self::Batched { size } => size.max(1),
        }
    }
}

/// Which tool calls need a yes, where no rule speaks of them; see [`PermissionMode::stance`]. Without anyone to ask,
/// what needs a yes is denied. The strictest comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionMode {
    /// All that do anything, reading included; what is dangerous is refused.
    Strict,
    /// All that change something, in files or elsewhere.
    #[default]
    Ask,
    /// All that do more than write files beneath the working directory.
    AutoSafe,
    /// No call needs a yes; what is forbidden is still refused.
    Yolo,
}

/// Whether an agent acts or plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its tools run, as far as they are permitted.
    #[default]
    Act,
    /// Tools that change something are queued until someone approves of the plan.
    Plan,
}

impl Mode {
    /// Whether this is the default.
    pub(crate) fn is_act(&self) -> bool {
        *self == Self::Act
    }
}

/// Prompt-caching hints for providers that take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheConfig {
    /// Whether marks are set at all; `false` counts before `strategy`.
    pub enabled: bool,
    /// Where the marks go, if they are set.
    pub strategy: CacheStrategy,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { enabled: true, strategy: CacheStrategy::Auto }
    }
}

/// After which parts of a prompt a provider is told to cache what came so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheStrategy {
    /// Where the protocol profits most.
    #[default]
    Auto,
    /// No marks are set.
    Disabled,
    /// After the parts that the user names.
    Manual {
        /// After the system prompt.
        cache_system: bool,
        /// After the tools.
        cache_tools: bool,
        /// After the second-to-last message.
        cache_messages: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_are_capped_and_jitter_by_a_fifth() {
        let retry = RetryConfig::default();
        let middle: Vec<u64> = (0..7).map(|n| retry.delay_for_attempt(n, 0.5).as_millis() as u64).collect();
        assert_eq!(middle, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(retry.delay_for_attempt(0, 0.0), Duration::from_millis(800));
        assert_eq!(retry.delay_for_attempt(0, 1.0), Duration::from_millis(1_200));
        assert_eq!(retry.delay_for_attempt(u32::MAX, 7.0), Duration::from_millis(36_000));
    }

    #[test]
    fn limits_name_what_was_hit_and_none_is_off() {
        let mut tracker = ExecutionTracker::default();
        let limits = ExecutionLimits { max_turns: Some(1), ..ExecutionLimits::none() };
        assert_eq!(tracker.exceeded(&limits, Duration::ZERO), None);
        tracker.turn_ended(&Usage::of(5, 5, 0, 0, 0), Duration::from_secs(2));
        assert_eq!(tracker.exceeded(&limits, Duration::ZERO), Some(LimitHit::Turns(1)));
        assert_eq!(tracker.exceeded(&ExecutionLimits::none(), Duration::MAX), None);
        let limits = ExecutionLimits { max_total_tokens: Some(10), ..ExecutionLimits::none() };
        assert_eq!(tracker.exceeded(&limits, Duration::ZERO), Some(LimitHit::Tokens(10)));
        let limits = ExecutionLimits { max_duration: Some(Duration::from_secs(3)), ..ExecutionLimits::none() };
        assert_eq!(tracker.exceeded(&limits, tracker.elapsed), None);
        assert!(tracker.exceeded(&limits, Duration::from_secs(3)).is_some());
    }
}
