//! A call: one attempt at one streaming request.
//!
//! - Belongs to its [`Connection`](crate::Connection), which holds it; dropped, it ends at its next await, and with it
//!   the HTTP request. It is a task and no actor: nobody but its connection knows it, and a mailbox that takes one
//!   message costs every stream eight kilobytes.
//! - Owns: the request's future.
//! - Says its end once, whatever ends it. A panic, or an end without a result, is [`ProviderError::Lost`].

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use playhouse_protocol::{Message, ProviderError, StreamConfig};
use tokio::task::AbortHandle;

use crate::provider::StreamProvider;
use crate::sink::StreamSink;

/// What the fail points of tests know it by: its kind, and its one step.
pub(crate) const KIND: (&str, &[&str]) = ("call", &["Run"]);

/// An attempt that is under way.
pub(crate) struct Call(AbortHandle);

/// One attempt.
pub(crate) struct Job {
    pub(crate) provider: Arc<dyn StreamProvider>,
    pub(crate) config: StreamConfig,
    pub(crate) sink: StreamSink,
}

/// How an attempt ended.
pub(crate) type Outcome = Result<Message, ProviderError>;

impl Call {
    /// Starts an attempt; `end` is told how it ended.
    pub(crate) fn start(job: Job, end: impl FnOnce(Outcome) + Send + 'static) -> Self {
        let task = tokio::spawn(async move {
            // Dropped last, so that nothing of the request is left when its end is told.
            let end = End(Some(end));
            let work = AssertUnwindSafe(async move {
                playhouse_supervision::chaos::strike("call", "Run");
                job.provider.stream(&job.config, &job.sink).await
            });
            let outcome = work.catch_unwind().await;
            end.tell(outcome.unwrap_or_else(|panic| Err(ProviderError::Lost { message: panic_text(panic.as_ref()) })));
        });
        Self(task.abort_handle())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells the end of a call that was dropped before it had one.
struct End<F: FnOnce(Outcome)>(Option<F>);

impl<F: FnOnce(Outcome)> End<F> {
    fn tell(mut self, outcome: Outcome) {
        if let Some(end) = self.0.take() {
            end(outcome);
        }
    }
}

impl<F: FnOnce(Outcome)> Drop for End<F> {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end(Err(ProviderError::Lost { message: "it was stopped".to_owned() }));
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.as_deref().unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio::sync::oneshot;

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
        let (end, ended) = oneshot::channel();
        let job = Job { provider: Arc::new(Hangs), config: config("hi"), sink: StreamSink::discard() };
        let call = Call::start(job, |outcome| end.send(outcome).unwrap());
        tokio::task::yield_now().await;
        drop(call);
        assert_eq!(ended.await.unwrap(), Err(ProviderError::Lost { message: "it was stopped".to_owned() }));
    }
}
