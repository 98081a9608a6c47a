//! What this crate relies on ractor to do. When a new version changes one of these, supervision must change first.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, ActorStatus, RpcReplyPort, SupervisionEvent};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

async fn soon<T>(wait: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), wait).await.expect("nothing happened within the deadline")
}

/// Tells what it sees of others.
struct Watcher(mpsc::UnboundedSender<Seen>);

#[derive(Debug, PartialEq)]
enum Seen {
    Started,
    Terminated { state: bool, reason: Option<String> },
    Failed(String),
}

impl Actor for Watcher {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let _ = self.0.send(match event {
            SupervisionEvent::ActorStarted(_) => Seen::Started,
            SupervisionEvent::ActorTerminated(_, state, reason) => Seen::Terminated { state: state.is_some(), reason },
            SupervisionEvent::ActorFailed(_, error) => Seen::Failed(error.to_string()),
            SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        });
        Ok(())
    }
}

async fn watcher() -> (ActorRef<()>, mpsc::UnboundedReceiver<Seen>) {
    let (tx, rx) = mpsc::unbounded_channel();
    (Actor::spawn(None, Watcher(tx), ()).await.unwrap().0, rx)
}

#[derive(Debug)]
enum Do {
    Note(&'static str),
    Wait { inside: oneshot::Sender<()>, until: oneshot::Receiver<()> },
    Panic,
    Fail,
    Answer(RpcReplyPort<()>),
}

#[derive(Clone, Default)]
struct Probe(Arc<Mutex<Vec<&'static str>>>);

impl Probe {
    fn notes(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// Notes that it was dropped.
struct Dropped(Probe, &'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push(self.1);
    }
}

impl Actor for Probe {
    type Msg = Do;
    type State = ();
    type Arguments = Option<&'static str>;

    async fn pre_start(&self, _: ActorRef<Do>, fail: Option<&'static str>) -> Result<(), ActorProcessingErr> {
        match fail {
            None => Ok(()),
            Some("panic") => panic!("in pre_start"),
            Some(reason) => Err(reason.into()),
        }
    }

    async fn handle(&self, _: ActorRef<Do>, message: Do, (): &mut ()) -> Result<(), ActorProcessingErr> {
        match message {
            Do::Note(note) => self.0.lock().unwrap().push(note),
            Do::Wait { inside, until } => {
                let _future = Dropped(self.clone(), "handler left");
                let _ = inside.send(());
                let _ = until.await;
                self.0.lock().unwrap().push("handler finished");
            }
            Do::Panic => panic!("boom"),
            Do::Fail => return Err("bang".into()),
            Do::Answer(reply) => {
                assert!(reply.send(()).is_err(), "the asker is gone");
                self.0.lock().unwrap().push("answered");
            }
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Do>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        self.0.lock().unwrap().push("post_stop");
        Ok(())
    }
}

async fn linked(probe: &Probe, to: ActorCell) -> ActorRef<Do> {
    Actor::spawn_linked(None, probe.clone(), None, to).await.unwrap().0
}

/// Puts a child inside a handler with one more message queued behind.
async fn busy(child: &ActorRef<Do>) -> oneshot::Sender<()> {
    let ((inside, entered), (release, until)) = (oneshot::channel(), oneshot::channel());
    child.send_message(Do::Wait { inside, until }).unwrap();
    child.send_message(Do::Note("queued")).unwrap();
    soon(entered).await.unwrap();
    release
}

#[tokio::test]
async fn stop_finishes_the_handler_drops_the_queue_and_reports_the_reason() {
    let ((above, mut seen), probe) = (watcher().await, Probe::default());
    let child = linked(&probe, above.get_cell()).await;
    assert_eq!(soon(seen.recv()).await, Some(Seen::Started));
    let release = busy(&child).await;
    child.stop(Some("why".into()));
    child.send_message(Do::Note("later")).unwrap();
    drop(release);
    assert_eq!(soon(seen.recv()).await, Some(Seen::Terminated { state: true, reason: Some("why".into()) }));
    assert_eq!(probe.notes(), ["handler finished", "handler left", "post_stop"]);
    let child = linked(&probe, above.get_cell()).await;
    assert_eq!(soon(seen.recv()).await, Some(Seen::Started));
    child.stop(None);
    assert_eq!(soon(seen.recv()).await, Some(Seen::Terminated { state: true, reason: None }));
}

#[tokio::test]
async fn drain_handles_the_queue_and_refuses_what_comes_later() {
    let ((above, mut seen), probe) = (watcher().await, Probe::default());
    let child = linked(&probe, above.get_cell()).await;
    assert_eq!(soon(seen.recv()).await, Some(Seen::Started));
    let release = busy(&child).await;
    child.drain().unwrap();
    child.send_message(Do::Note("later")).unwrap_err();
    drop(release);
    assert_eq!(soon(seen.recv()).await, Some(Seen::Terminated { state: true, reason: Some("Drained".into()) }));
    assert_eq!(probe.notes(), ["handler finished", "handler left", "queued", "post_stop"]);
}

#[tokio::test]
async fn kill_drops_the_handler_at_its_await_and_is_no_failure() {
    let ((above, mut seen), probe) = (watcher().await, Probe::default());
    let child = linked(&probe, above.get_cell()).await;
    assert_eq!(soon(seen.recv()).await, Some(Seen::Started));
    let release = busy(&child).await;
    child.kill();
    assert_eq!(soon(seen.recv()).await, Some(Seen::Terminated { state: true, reason: Some("killed".into()) }));
    assert!(release.is_closed());
    assert_eq!(probe.notes(), ["handler left"], "neither finished, nor the queue, nor post_stop");
}

#[tokio::test]
async fn a_panic_and_an_error_are_failures_without_post_stop() {
    let ((above, mut seen), probe) = (watcher().await, Probe::default());
    for (message, reason) in [(Do::Panic, "boom"), (Do::Fail, "bang")] {
        let child = linked(&probe, above.get_cell()).await;
        assert_eq!(soon(seen.recv()).await, Some(Seen::Started));
        child.send_message(message).unwrap();
        assert_eq!(soon(seen.recv()).await, Some(Seen::Failed(reason.into())));
        soon(child.wait(None)).await.unwrap();
        assert_eq!((child.get_status(), probe.notes()), (ActorStatus::Stopped, vec![]));
    }
}

#[tokio::test]
async fn a_failed_pre_start_is_only_an_error() {
    let ((above, mut seen), probe) = (watcher().await, Probe::default());
    for fail in ["panic", "no"] {
        Actor::spawn_linked(None, probe.clone(), Some(fail), above.get_cell()).await.unwrap_err();
    }
    assert!(above.get_children().is_empty());
    let child = linked(&probe, above.get_cell()).await;
    child.stop(None);
    assert_eq!(soon(seen.recv()).await, Some(Seen::Started), "the first thing seen is of the third");
}

#[tokio::test]
async fn by_default_any_exit_of_a_child_stops_the_parent() {
    let (probe, parent) = (Probe::default(), Probe::default());
    let (above, _) = Actor::spawn(None, parent.clone(), None).await.unwrap();
    let child = linked(&probe, above.get_cell()).await;
    child.stop(None);
    soon(above.wait(None)).await.unwrap();
    assert_eq!(parent.notes(), ["post_stop"]);
}

#[tokio::test]
async fn the_end_of_a_parent_kills_its_linked_children() {
    for kill in [false, true] {
        let ((above, _seen), probe) = (watcher().await, Probe::default());
        let child = linked(&probe, above.get_cell()).await;
        let grandchild = linked(&probe, child.get_cell()).await;
        if kill {
            above.kill()
        } else {
            above.stop(None)
        }
        soon(child.wait(None)).await.unwrap();
        soon(grandchild.wait(None)).await.unwrap();
        assert_eq!(probe.notes(), Vec::<&str>::new(), "killed, not stopped");
    }
}

#[tokio::test]
async fn nobody_can_be_linked_to_a_parent_that_has_ended() {
    let ((above, _seen), probe) = (watcher().await, Probe::default());
    above.stop_and_wait(None, None).await.unwrap();
    Actor::spawn_linked(None, probe, None, above.get_cell()).await.unwrap_err();
}

#[tokio::test]
async fn monitors_report_exits_but_not_those_of_the_dead() {
    let ((above, _), (monitor, mut seen), probe) = (watcher().await, watcher().await, Probe::default());
    let dead = linked(&probe, above.get_cell()).await;
    dead.stop_and_wait(None, None).await.unwrap();
    monitor.monitor(dead.get_cell());
    let child = linked(&probe, above.get_cell()).await;
    monitor.monitor(child.get_cell());
    child.send_message(Do::Fail).unwrap();
    loop {
        match soon(seen.recv()).await.unwrap() {
            Seen::Started => {} // it may come up after it is monitored
            other => break assert_eq!(other, Seen::Failed("bang".into()), "nothing of the dead one"),
        }
    }
    assert_eq!(dead.get_status(), ActorStatus::Stopped, "which is how one finds out");
}

#[tokio::test]
async fn an_unlinked_child_is_neither_reported_nor_killed() {
    let ((above, mut seen), probe) = (watcher().await, Probe::default());
    let child = linked(&probe, above.get_cell()).await;
    assert_eq!(soon(seen.recv()).await, Some(Seen::Started));
    child.unlink(above.get_cell());
    above.stop_and_wait(None, None).await.unwrap();
    assert_eq!(child.get_status(), ActorStatus::Running);
    child.stop_and_wait(None, None).await.unwrap();
    assert_eq!(soon(seen.recv()).await, None);
}

#[tokio::test]
async fn exits_come_before_messages_and_stops_before_exits() {
    /// Notes the order in which it sees things.
    struct Order(Probe);
    impl Actor for Order {
        type Msg = Do;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Do>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn handle(&self, myself: ActorRef<Do>, message: Do, (): &mut ()) -> Result<(), ActorProcessingErr> {
            self.0.handle(myself, message, &mut ()).await
        }

        async fn handle_supervisor_evt(
            &self,
            _: ActorRef<Do>,
            event: SupervisionEvent,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            if let SupervisionEvent::ActorTerminated(..) = event {
                self.0.0.lock().unwrap().push("exit");
            }
            Ok(())
        }
    }
    for stop in [false, true] {
        let (probe, quiet) = (Probe::default(), Probe::default());
        let (above, _) = Actor::spawn(None, Order(probe.clone()), ()).await.unwrap();
        let child = linked(&quiet, above.get_cell()).await;
        let release = busy(&above).await;
        child.stop_and_wait(None, None).await.unwrap();
        if stop {
            above.stop(None);
        } else {
            above.drain().unwrap();
        }
        drop(release);
        soon(above.wait(None)).await.unwrap();
        let expected = ["handler finished", "handler left", "exit", "queued"];
        assert_eq!(probe.notes(), if stop { &expected[..2] } else { &expected[..] });
    }
}

#[tokio::test]
async fn an_asker_that_went_away_hurts_nobody() {
    let probe = Probe::default();
    let (actor, _) = Actor::spawn(None, probe.clone(), None).await.unwrap();
    let (tx, rx) = oneshot::channel();
    drop(rx);
    actor.send_message(Do::Answer(tx.into())).unwrap();
    actor.drain_and_wait(None).await.unwrap();
    assert_eq!(probe.notes(), ["answered", "post_stop"]);
}

#[tokio::test]
async fn an_exit_is_reported_before_waiters_are_woken() {
    let ((above, mut seen), probe) = (watcher().await, Probe::default());
    for _ in 0..100 {
        let child = linked(&probe, above.get_cell()).await;
        child.kill();
        soon(child.wait(None)).await.unwrap();
        let exit = Some(Seen::Terminated { state: true, reason: Some("killed".into()) });
        loop {
            let next = soon(seen.recv()).await;
            if next != Some(Seen::Started) {
                // Killed before its loop began, it has no state to show.
                let early = Some(Seen::Terminated { state: false, reason: Some("killed".into()) });
                assert!(next == exit || next == early, "{next:?}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_task_survives_the_actor_that_spawned_it_and_dropping_references_ends_nobody() {
    struct Spawner(mpsc::UnboundedSender<&'static str>);
    impl Actor for Spawner {
        type Msg = oneshot::Receiver<()>;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn handle(
            &self,
            _: ActorRef<Self::Msg>,
            until: Self::Msg,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            let tx = self.0.clone();
            let _ = tx.send("handled");
            tokio::spawn(async move {
                let _ = until.await;
                let _ = tx.send("task finished");
            });
            Ok(())
        }
    }
    let (tx, mut rx) = mpsc::unbounded_channel();
    let (actor, running) = Actor::spawn(None, Spawner(tx), ()).await.unwrap();
    let (release, until) = oneshot::channel();
    actor.send_message(until).unwrap();
    let cell = actor.get_cell();
    drop(actor);
    assert_eq!(soon(rx.recv()).await, Some("handled"));
    assert!(!running.is_finished());
    cell.kill();
    soon(running).await.unwrap();
    drop(release);
    assert_eq!(soon(rx.recv()).await, Some("task finished"));
}
