//! The sections: what belongs together, and what it means to the rest of the house.

pub(crate) mod confinement;
pub(crate) mod hooks;
pub(crate) mod keys_set;
pub(crate) mod model_name;
pub(crate) mod named;

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use playhouse_protocol::{ExecutionLimits, RetryConfig};
use playhouse_provider::{BreakerRules, ConnectionRules, Deadlines, ServiceOptions};

use playhouse_tools::policy::{RuleError, Rules};

/// Settings that belong together, each with what it is and what holds when nobody sets it; and what is beside them.
macro_rules! settings {
    (
        $(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)* }
        $(beside { $($(#[$other_doc:meta])* $other:ident: $other_type:ty,)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $crate::config::Setting<$type>,)*
            $($($(#[$other_doc])* pub $other: $other_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $crate::config::Setting::default_of($default),)*
                    $($($other: Default::default(),)*)?
                }
            }
        }
    };
}
pub(crate) use settings;

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

settings! {
    /// A service that only needs to be told where it is.
    Service {
        /// Where it is; `None` is its vendor's own place.
        base_url: Option<String> = None,
    }
}

settings! {
    /// `[azure]`: a resource of Azure OpenAI.
    Azure {
        /// Where the resource is.
        base_url: Option<String> = None,
        /// The `api-version`; `None` is the addresses that have none.
        api_version: Option<String> = None,
    }
}

settings! {
    /// `[vertex]`: Gemini on Google Cloud.
    Vertex {
        /// Where it is; `None` is the region's own place.
        base_url: Option<String> = None,
        /// The project; `None` is what the environment says.
        project: Option<String> = None,
        /// The region; `None` is what the environment says.
        region: Option<String> = None,
    }
}

settings! {
    /// `[bedrock]`: the models on Amazon Bedrock.
    Bedrock {
        /// Where it is; `None` is the region's own place.
        base_url: Option<String> = None,
        /// The region; `None` is what the environment says.
        region: Option<String> = None,
    }
}

settings! {
    /// `[permissions]`: rules on what tools may do, stronger than the mode.
    Permissions {
        /// What runs without a question.
        allow: Vec<String> = Vec::new(),
        /// What is asked about in any mode.
        ask: Vec<String> = Vec::new(),
        /// What never runs, whoever says yes.
        forbid: Vec<String> = Vec::new(),
    }
}

impl Permissions {
    /// The rules as the house takes them. They were looked over when they were read.
    pub(crate) fn rules(&self) -> Result<Rules, RuleError> {
        Rules::parse(&self.allow.value, &self.ask.value, &self.forbid.value)
    }
}

settings! {
    /// `[connection]`: what every connection to a service keeps to; `None` is no limit.
    Connection {
        /// The most requests that are under way at once.
        concurrency: Option<u32> = None,
        /// The most requests that begin within a minute.
        requests_per_minute: Option<u32> = None,
        /// The most tokens that are used within a minute, as the service counts them.
        tokens_per_minute: Option<u64> = None,
        /// Failures in a row after which a service is left alone.
        breaker_failures: u32 = BreakerRules::default().failures,
        /// For how long, at first.
        breaker_pause_ms: u64 = millis(BreakerRules::default().pause),
        /// How long connecting may take.
        connect_ms: u64 = millis(Deadlines::default().connect),
        /// How long a service may take to begin its answer.
        first_event_ms: u64 = millis(Deadlines::default().first_event),
        /// How long it may pause within one.
        idle_ms: u64 = millis(Deadlines::default().idle),
        /// How long one attempt may take.
        total_ms: Option<u64> = Deadlines::default().total.map(millis),
    }
}

impl Connection {
    /// The limits and the breaker, without the deadlines.
    pub(crate) fn rules(&self) -> ConnectionRules {
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
    pub(crate) fn options(&self) -> ServiceOptions {
        let deadlines = Deadlines {
            connect: Duration::from_millis(self.connect_ms.value),
            first_event: Duration::from_millis(self.first_event_ms.value),
            idle: Duration::from_millis(self.idle_ms.value),
            total: self.total_ms.value.map(Duration::from_millis),
        };
        ServiceOptions { deadlines, ..ServiceOptions::default() }
    }
}

settings! {
    /// `[limits]`: caps on one run; `None` is off.
    Limits {
        /// The most model calls.
        max_turns: Option<u32> = ExecutionLimits::default().max_turns,
        /// Tokens of all calls together.
        max_total_tokens: Option<u64> = ExecutionLimits::default().max_total_tokens,
        /// The longest running time; waiting for a person does not count.
        max_duration: Option<Duration> = None,
    }
}

settings! {
    /// `[retry]`: how often and when a failed request is sent again.
    Retry {
        /// Retries after the first attempt.
        max_retries: u32 = RetryConfig::default().max_retries,
        /// Before the first retry.
        initial_delay_ms: u64 = RetryConfig::default().initial_delay_ms,
        /// Growth from one delay to the next.
        backoff_multiplier: f64 = RetryConfig::default().backoff_multiplier,
        /// The longest delay before a retry, however many came before.
        max_delay_ms: u64 = RetryConfig::default().max_delay_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::plain;
    use crate::config::{Config, Setting, keys};
    use playhouse_protocol::Durability;
    use playhouse_protocol::entry::Settings;

    #[test]
    fn the_defaults_are_those_of_the_house() {
        let connection = Connection::default();
        assert_eq!((connection.rules(), connection.options()), Default::default());
        let usual = plain(Durability::Flush);
        // On the command line a run may take as long as it takes.
        let usual = Settings { limits: ExecutionLimits { max_duration: None, ..usual.limits }, ..usual };
        let limits = ExecutionLimits {
            max_turns: Some(1),
            max_total_tokens: Some(2),
            max_duration: Some(std::time::Duration::from_secs(3)),
        };
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
