//! The sections: what belongs together, and what it means to the rest of the house.

pub(crate) mod confinement;
pub(crate) mod hooks;
pub(crate) mod model_name;
pub(crate) mod named;

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use playhouse_protocol::{ExecutionLimits, RetryConfig};
use playhouse_provider::{BreakerRules, ConnectionRules, Deadlines, ServiceOptions};

use playhouse_tools::policy::{RuleError, Rules};

use crate::config::Setting;

/// A service that only needs to be told where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Where it is; `None` is its vendor's own place.
    pub base_url: Setting<Option<String>>,
}

impl Default for Service {
    fn default() -> Self {
        Self { base_url: Setting::default_of(None) }
    }
}

/// `[azure]`: Azure OpenAI.
#[derive(Clone, Debug, PartialEq)]
pub struct Azure {
    /// Where the resource is.
    pub base_url: Setting<Option<String>>,
    /// The `api-version`; `None` is the addresses that have none.
    pub api_version: Setting<Option<String>>,
}

impl Default for Azure {
    fn default() -> Self {
        Self { base_url: Setting::default_of(None), api_version: Setting::default_of(None) }
    }
}

/// `[vertex]`: Google Vertex.
#[derive(Clone, Debug, PartialEq)]
pub struct Vertex {
    /// Where it is; `None` is the region's own place.
    pub base_url: Setting<Option<String>>,
    /// The project; `None` is what the environment says.
    pub project: Setting<Option<String>>,
    /// The region; `None` is what the environment says.
    pub region: Setting<Option<String>>,
}

impl Default for Vertex {
    fn default() -> Self {
        let unset = || Setting::default_of(None);
        Self { base_url: unset(), project: unset(), region: unset() }
    }
}

/// `[bedrock]`: Amazon Bedrock.
#[derive(Clone, Debug, PartialEq)]
pub struct Bedrock {
    /// Where it is; `None` is the region's own place.
    pub base_url: Setting<Option<String>>,
    /// The region; `None` is what the environment says.
    pub region: Setting<Option<String>>,
}

impl Default for Bedrock {
    fn default() -> Self {
        Self { base_url: Setting::default_of(None), region: Setting::default_of(None) }
    }
}

/// `[permissions]`: rules on what tools may do, stronger than the mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Permissions {
    /// What runs without a question.
    pub allow: Setting<Vec<String>>,
    /// What is asked about in any mode.
    pub ask: Setting<Vec<String>>,
    /// What never runs.
    pub forbid: Setting<Vec<String>>,
}

impl Default for Permissions {
    fn default() -> Self {
        let none = || Setting::default_of(Vec::new());
        Self { allow: none(), ask: none(), forbid: none() }
    }
}

impl Permissions {
    /// The rules as the house takes them. They were looked over when they were read.
    pub fn rules(&self) -> Result<Rules, RuleError> {
        Rules::parse(&self.allow.value, &self.ask.value, &self.forbid.value)
    }
}

/// `[connection]`: what every connection to a service keeps to; `None` is no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Requests at once.
    pub concurrency: Setting<Option<u32>>,
    /// Requests per minute.
    pub requests_per_minute: Setting<Option<u32>>,
    /// Tokens per minute.
    pub tokens_per_minute: Setting<Option<u64>>,
    /// Failures in a row after which a service is left alone.
    pub breaker_failures: Setting<u32>,
    /// For how long, at first.
    pub breaker_pause_ms: Setting<u64>,
    /// How long connecting may take.
    pub connect_ms: Setting<u64>,
    /// How long a service may take to begin its answer.
    pub first_event_ms: Setting<u64>,
    /// How long it may pause within one.
    pub idle_ms: Setting<u64>,
    /// How long one attempt may take.
    pub total_ms: Setting<Option<u64>>,
}

impl Default for Connection {
    fn default() -> Self {
        let (breaker, deadlines) = (BreakerRules::default(), Deadlines::default());
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            concurrency: Setting::default_of(None),
            requests_per_minute: Setting::default_of(None),
            tokens_per_minute: Setting::default_of(None),
            breaker_failures: Setting::default_of(breaker.failures),
            breaker_pause_ms: Setting::default_of(ms(breaker.pause)),
            connect_ms: Setting::default_of(ms(deadlines.connect)),
            first_event_ms: Setting::default_of(ms(deadlines.first_event)),
            idle_ms: Setting::default_of(ms(deadlines.idle)),
            total_ms: Setting::default_of(deadlines.total.map(ms)),
        }
    }
}

impl Connection {
    /// The rules alone.
    pub fn rules(&self) -> ConnectionRules {
        let pause = Duration::from_millis(self.breaker_pause_ms.value);
        let usual = BreakerRules::default();
        ConnectionRules {
            concurrency: self
                .concurrency
                .value
                .and_then(|most| NonZeroUsize::new(usize::try_from(most).unwrap_or(usize::MAX))),
            requests_per_minute: self.requests_per_minute.value.and_then(NonZeroU32::new),
            tokens_per_minute: self.tokens_per_minute.value.and_then(NonZeroU64::new),
            breaker: BreakerRules {
                failures: self.breaker_failures.value,
                pause,
                max_pause: usual.max_pause.max(pause),
            },
        }
    }

    /// The deadlines, with the usual limits of a response.
    pub fn options(&self) -> ServiceOptions {
        let deadlines = Deadlines {
            connect: Duration::from_millis(self.connect_ms.value),
            first_event: Duration::from_millis(self.first_event_ms.value),
            idle: Duration::from_millis(self.idle_ms.value),
            total: self.total_ms.value.map(Duration::from_millis),
        };
        ServiceOptions { deadlines, ..ServiceOptions::default() }
    }
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

impl Default for Limits {
    fn default() -> Self {
        let limits = ExecutionLimits::default();
        Self {
            max_turns: Setting::default_of(limits.max_turns),
            max_total_tokens: Setting::default_of(limits.max_total_tokens),
            max_duration: Setting::default_of(limits.max_duration),
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

impl Default for Retry {
    fn default() -> Self {
        let retry = RetryConfig::default();
        Self {
            max_retries: Setting::default_of(retry.max_retries),
            initial_delay_ms: Setting::default_of(retry.initial_delay_ms),
            backoff_multiplier: Setting::default_of(retry.backoff_multiplier),
            max_delay_ms: Setting::default_of(retry.max_delay_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::plain;
    use crate::config::{Config, keys};
    use playhouse_protocol::Durability;
    use playhouse_protocol::entry::Settings;

    #[test]
    fn the_defaults_are_those_of_the_house() {
        let connection = Connection::default();
        assert_eq!((connection.rules(), connection.options()), Default::default());
        let usual = plain(Durability::Flush);
        let limits = ExecutionLimits { max_turns: Some(1), max_total_tokens: Some(2), max_duration: None };
        let retry = RetryConfig { max_retries: 9, initial_delay_ms: 9, backoff_multiplier: 9.0, max_delay_ms: 9 };
        let mut settings = Settings { limits, retry, ..usual.clone() };
        keys().iter().for_each(|key| key.apply(&Config::default(), &mut settings));
        assert_eq!(Settings { tools: Vec::new(), ..settings }, usual);
    }

    #[test]
    fn each_number_of_a_connection_has_its_place() {
        let connection = Connection {
            concurrency: Setting::default_of(Some(1)),
            requests_per_minute: Setting::default_of(Some(2)),
            tokens_per_minute: Setting::default_of(Some(3)),
            breaker_failures: Setting::default_of(4),
            breaker_pause_ms: Setting::default_of(500_000),
            connect_ms: Setting::default_of(6),
            first_event_ms: Setting::default_of(7),
            idle_ms: Setting::default_of(8),
            total_ms: Setting::default_of(Some(9)),
        };
        let pause = Duration::from_secs(500);
        let rules = ConnectionRules {
            concurrency: NonZeroUsize::new(1),
            requests_per_minute: NonZeroU32::new(2),
            tokens_per_minute: NonZeroU64::new(3),
            breaker: BreakerRules { failures: 4, pause, max_pause: pause },
        };
        let ms = Duration::from_millis;
        let deadlines = Deadlines { connect: ms(6), first_event: ms(7), idle: ms(8), total: Some(ms(9)) };
        assert_eq!(connection.rules(), rules);
        assert_eq!(connection.options(), ServiceOptions { deadlines, ..ServiceOptions::default() });
    }
}
