//! A call: one attempt at one streaming request.
//!
//! - Belongs to its [`Connection`](crate::Connection), which holds it; dropped, it ends at its next await, and with it
//!   the HTTP request. It is a task and no actor: nobody but its connection knows it, and a mailbox that takes one
//!   message costs every stream eight kilobytes.
//! - Owns: the request's future.
//! - Says its end once, whatever ends it. A panic, or an end without a result, is [`ProviderError::Lost`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use playhouse_protocol::{Message, ProviderError, StreamConfig};
use playhouse_supervision::{Task, panic_text};

use crate::provider::StreamProvider;
use crate::sink::StreamSink;

/// What the fail points of tests know it by: its kind, and its one step.
pub(crate) const KIND: (&str, &[&str]) = ("call", &["Run"]);

/// What an attempt needs: whom to ask, what, and where the pieces go.
pub(crate) struct Job {
    pub(crate) provider: Arc<dyn StreamProvider>,
    pub(crate) config: StreamConfig,
    pub(crate) sink: StreamSink,
}

/// How an attempt ended.
pub(crate) type CallOutcome = Result<Message, ProviderError>;

/// What a call says of itself.
#[derive(Debug)]
pub(crate) enum CallNews {
    /// The attempt is over. Told once.
    Ended(CallOutcome, Lingering),
    /// What was left is done.
    Done,
}

/// Whether a call that has ended still has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lingering {
    /// Nothing: its request is over.
    No,
    /// It reads the rest of what the service sends.
    Yes,
}

/// Starts an attempt, which is under way until it is dropped; `say` is told how it ended, and then when what was left is done.
pub(crate) fn start(job: Job, say: impl Fn(CallNews) + Send + 'static) -> Task {
    Task::spawn(async move {
        // Dropped last, so that nothing of the request is left when its end is told.
        let end = End(Some(say));
        let sink = job.sink.clone();
        let work = AssertUnwindSafe(async move {
            playhouse_supervision::chaos::strike("call", "Run");
            job.provider.stream(&job.config, &job.sink).await
        });
        let outcome = work.catch_unwind().await;
        let rest = sink.rest();
        let left = if rest.is_some() { Lingering::Yes } else { Lingering::No };
        let outcome = outcome.unwrap_or_else(|panic| {
            Err(ProviderError::Lost { message: format!("it panicked: {}", panic_text(panic.as_ref())) })
        });
        let say = end.tell(outcome, left);
        if let (Some(rest), Some(say)) = (rest, say) {
            // However it ends, it has ended.
            let _ = AssertUnwindSafe(rest).catch_unwind().await;
            say(CallNews::Done);
        }
    })
}

/// Tells the end of a call that was dropped before it had one.
struct End<F: Fn(CallNews)>(Option<F>);

impl<F: Fn(CallNews)> End<F> {
    fn tell(mut self, outcome: CallOutcome, rest: Lingering) -> Option<F> {
        let say = self.0.take()?;
        say(CallNews::Ended(outcome, rest));
        Some(say)
    }
}

impl<F: Fn(CallNews)> Drop for End<F> {
    fn drop(&mut self) {
        if let Some(say) = self.0.take() {
            say(CallNews::Ended(Err(ProviderError::Lost { message: "it was stopped".to_owned() }), Lingering::No));
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio::sync::mpsc;

    use super::*;
    use crate::testing::config;

    struct Hangs;

    #[async_trait]
    impl StreamProvider for Hangs {
        fn provider_id(&self) -> &str {
            "hangs"
        }

        async fn stream(&self, _: &StreamConfig, _: &StreamSink) -> Result<Message, ProviderError> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn f21_a_call_that_ends_without_a_result_is_lost() {
        let (end, mut ended) = mpsc::channel(1);
        let job = Job { provider: Arc::new(Hangs), config: config("hi"), sink: StreamSink::discard() };
        let call = start(job, move |said| end.try_send(said).unwrap());
        tokio::task::yield_now().await;
        drop(call);
        let Some(CallNews::Ended(outcome, Lingering::No)) = ended.recv().await else { panic!() };
        assert_eq!(outcome, Err(ProviderError::Lost { message: "it was stopped".to_owned() }));
    }
}
