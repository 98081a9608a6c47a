//! A Writer on a stage of its own, with those who hear it.

use std::path::Path;
use std::sync::Arc;

use playhouse_protocol::{Batch, Class, CommitReport, Durability, Entry, Seq, SessionId};
use playhouse_session::{Loaded, Store, StoreError, Writer, WriterArgs, WriterMsg};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{PATIENCE, TestDisk, store_on};

/// Hears commit reports, like an agent.
pub struct Ear;

impl Actor for Ear {
    type Msg = CommitReport;
    type State = mpsc::Sender<CommitReport>;
    type Arguments = mpsc::Sender<CommitReport>;

    async fn pre_start(&self, _: ActorRef<CommitReport>, to: Self::State) -> Result<Self::State, ActorProcessingErr> {
        Ok(to)
    }

    async fn handle(
        &self,
        _: ActorRef<CommitReport>,
        report: CommitReport,
        to: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        to.try_send(report).unwrap();
        Ok(())
    }
}

/// Hears how a Writer ends.
pub struct Watch;

impl Actor for Watch {
    type Msg = ();
    type State = mpsc::Sender<String>;
    type Arguments = mpsc::Sender<String>;

    async fn pre_start(&self, _: ActorRef<()>, to: Self::State) -> Result<Self::State, ActorProcessingErr> {
        Ok(to)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        to: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        // By the time it is heard of, the Writer's state, which comes with the event, is dropped.
        let end = match event {
            SupervisionEvent::ActorFailed(_, error) => format!("failed: {error}"),
            SupervisionEvent::ActorTerminated(_, _, reason) => format!("ended: {reason:?}"),
            _ => return Ok(()),
        };
        to.try_send(end).unwrap();
        Ok(())
    }
}

/// A Writer, the agent it reports to, and its supervisor.
pub struct Stage {
    pub args: WriterArgs,
    pub writer: ActorRef<WriterMsg>,
    pub watch: ActorRef<()>,
    pub ends: mpsc::Receiver<String>,
    pub ear: ActorRef<CommitReport>,
    pub reports: mpsc::Receiver<CommitReport>,
    pub numbers: u64,
}

impl Stage {
    pub async fn on(store: Arc<dyn Store>) -> Self {
        let args = WriterArgs::new(store, Arc::default(), Arc::default());
        let (to, ends) = mpsc::channel(100);
        let (watch, _) = Actor::spawn(None, Watch, to).await.unwrap();
        let (to, reports) = mpsc::channel(10_000);
        let (ear, _) = Actor::spawn(None, Ear, to).await.unwrap();
        let (writer, _) = Actor::spawn_linked(None, Writer, args.clone(), watch.get_cell()).await.unwrap();
        Self { args, writer, watch, ends, ear, reports, numbers: 0 }
    }

    pub async fn restart(&mut self) {
        let (writer, _) = Actor::spawn_linked(None, Writer, self.args.clone(), self.watch.get_cell()).await.unwrap();
        self.writer = writer;
    }

    pub fn send_as(
        &mut self,
        session: &SessionId,
        entries: &[Arc<Entry>],
        class: Class,
        durability: Durability,
    ) -> u64 {
        self.numbers += 1;
        let batch = Batch { number: self.numbers, entries: entries.into(), class };
        let reply = self.ear.get_derived();
        self.writer.cast(WriterMsg::Append { session: session.clone(), durability, batch, reply }).unwrap();
        self.numbers
    }

    pub fn send(&mut self, session: &SessionId, entries: &[Arc<Entry>]) -> u64 {
        self.send_as(session, entries, Class::D, Durability::Flush)
    }

    pub async fn report(&mut self) -> CommitReport {
        timeout(PATIENCE, self.reports.recv()).await.expect("no report came").unwrap()
    }

    pub async fn end(&mut self) -> String {
        timeout(PATIENCE, self.ends.recv()).await.expect("the writer did not end").unwrap()
    }

    pub async fn ask<T: Send + 'static>(&self, message: impl FnOnce(RpcReplyPort<T>) -> WriterMsg) -> T {
        let (to, answer) = ractor::concurrency::oneshot();
        self.writer.cast(message(to.into())).unwrap();
        timeout(PATIENCE, answer).await.expect("no answer came").expect("the question was dropped")
    }

    pub async fn load(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        self.ask(|reply| WriterMsg::Load { session: session.clone(), reply }).await
    }

    pub async fn settle(&self) {
        self.ask(|reply| WriterMsg::Settle { reply }).await
    }
}

pub fn committed(session: &SessionId, batch: u64, seqs: impl IntoIterator<Item = u64>) -> CommitReport {
    CommitReport::Committed { session: session.clone(), batch, seqs: seqs.into_iter().map(Seq).collect() }
}

pub async fn stage_on(folder: &Path, disk: &Arc<TestDisk>) -> Stage {
    Stage::on(Arc::new(store_on(folder, disk))).await
}
