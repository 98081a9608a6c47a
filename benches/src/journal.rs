//! Records through the writers: how many per second, by durability and number of sessions.

use std::sync::Arc;

use playhouse::protocol::entry::{InputKind, QueuedInput};
use playhouse::protocol::{AgentMessage, Batch, Class, CommitReport, Durability, Entry, EntryBody, EntryId, SessionId};
use playhouse::session::{MemoryStore, Store, Writer, WriterArgs, WriterMsg, shard};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::hand::Error;
use crate::meter::{Meter, Used};

/// As many as a house has.
const WRITERS: usize = 4;

/// Writes `records` records to each of `sessions` journals: as an agent does, one at a time, the next when the last is
/// as safe as `durability` says.
pub async fn measure(durability: Durability, sessions: usize, records: u64) -> Result<Used, Error> {
    let data = tempfile::tempdir()?;
    let store: Arc<dyn Store> = playhouse::session::open(data.path())?;
    let memory: Arc<MemoryStore> = Arc::default();
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let args = WriterArgs::new(store.clone(), memory.clone(), Arc::default());
        writers.push(Actor::spawn(None, Writer, args).await?.0);
    }
    let mut casts = Vec::new();
    let mut ends = Vec::new();
    let meter = Meter::start();
    for n in 0..sessions {
        let session = SessionId::new(format!("session-{n}"))?;
        let writer = writers.get(shard(&session, WRITERS)).ok_or("there is no such writer")?.clone();
        let (done, end) = oneshot::channel();
        let author = State { session, writer, durability, written: 0, records, last: None, done: Some(done) };
        casts.push(Actor::spawn(None, Author, author).await?.0);
        ends.push(end);
    }
    for end in ends {
        end.await?.map_err(|error| format!("a journal refused a record: {error}"))?;
    }
    let used = meter.read();
    for author in casts {
        author.stop(None);
    }
    for writer in writers {
        writer.stop_and_wait(None, None).await?;
    }
    Ok(used)
}

/// Writes one journal.
struct Author;

struct State {
    session: SessionId,
    writer: ActorRef<WriterMsg>,
    durability: Durability,
    written: u64,
    records: u64,
    /// The last entry, which the next one follows.
    last: Option<EntryId>,
    done: Option<oneshot::Sender<Result<(), String>>>,
}

impl State {
    fn write(&mut self, myself: &ActorRef<CommitReport>) {
        let text = "a message of about two hundred bytes, as people and models send them; ".repeat(3);
        let input = QueuedInput {
            input_id: format!("{}/{}", self.session, self.written).into(),
            kind: InputKind::Prompt,
            messages: vec![Arc::new(AgentMessage::user(text, 1_794_700_800_000))],
            format: None,
        };
        let id = EntryId::from(format!("{}#{}", self.session, self.written));
        let entry = Arc::new(Entry {
            id: id.clone(),
            loop_id: None,
            parent: self.last.replace(id),
            at: 1_794_700_800_000,
            body: EntryBody::Input(input),
        });
        let batch = Batch { number: self.written, entries: Arc::from([entry]), class: Class::D };
        let (session, durability) = (self.session.clone(), self.durability);
        // A writer that is gone never answers, and whoever waits is told when this actor is dropped.
        let _ = self.writer.cast(WriterMsg::Append { session, durability, batch, reply: myself.get_derived() });
    }

    fn end(&mut self, result: Result<(), String>) {
        if let Some(done) = self.done.take() {
            let _ = done.send(result);
        }
    }
}

impl Actor for Author {
    type Msg = CommitReport;
    type State = State;
    type Arguments = State;

    async fn pre_start(&self, myself: ActorRef<CommitReport>, mut state: State) -> Result<State, ActorProcessingErr> {
        state.write(&myself);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<CommitReport>,
        report: CommitReport,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match report {
            CommitReport::Committed { .. } => {
                state.written += 1;
                match state.written < state.records {
                    true => state.write(&myself),
                    false => state.end(Ok(())),
                }
            }
            CommitReport::Failed { error, .. } => state.end(Err(error)),
        }
        Ok(())
    }
}
