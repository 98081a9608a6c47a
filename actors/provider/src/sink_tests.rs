use super::*;
use std::sync::mpsc;

fn text(delta: &str) -> StreamEvent {
    StreamEvent::TextDelta { delta: delta.into() }
}

/// A sink whose batches can be looked at, each with the credit it holds.
fn sink() -> (StreamSink, mpsc::Receiver<(Vec<StreamDelta>, Credit)>) {
    let (out, batches) = mpsc::channel();
    let sink = StreamSink::with("c".into(), 0, move |report| match report {
        CallReport::Delta { deltas, credit, .. } => out.send((deltas, credit)).unwrap(),
        other => panic!("{other:?}"),
    });
    (sink, batches)
}

fn t(delta: &str) -> StreamDelta {
    StreamDelta::Text { delta: delta.into() }
}

#[test]
fn one_batch_is_out_and_the_rest_merges() {
    let (sink, batches) = sink();
    sink.push(text("a"));
    let (first, credit) = batches.try_recv().unwrap();
    assert_eq!(first, [t("a")]);
    for piece in ["b", "c"] {
        sink.push(text(piece));
    }
    sink.push(StreamEvent::ThinkingDelta { delta: "hm".into() });
    for call in ["{\"x\":1}", "{}"] {
        sink.push(StreamEvent::ToolCallStart { id: "i".into(), name: "t".into() });
        sink.push(StreamEvent::ToolCallDelta { delta: call.into() });
    }
    assert!(batches.try_recv().is_err(), "a second batch went out before the first was taken");
    drop(credit);
    let (second, _credit) = batches.try_recv().unwrap();
    let call = |delta: &str| StreamDelta::ToolCallDelta { delta: delta.into() };
    assert_eq!(second, [t("bc"), StreamDelta::Thinking { delta: "hm".into() }, call("{\"x\":1}"), call("{}")]);
}

#[test]
fn finishing_flushes_and_closes() {
    let (sink, batches) = sink();
    sink.push(text("a"));
    sink.push(text("b"));
    sink.finish();
    sink.push(text("late"));
    sink.finish();
    let all: Vec<_> = batches.try_iter().collect();
    assert_eq!(all.iter().map(|(deltas, _)| deltas.clone()).collect::<Vec<_>>(), [vec![t("a")], vec![t("b")]]);
    drop(all);
    assert!(batches.try_recv().is_err());
}

#[test]
fn abandoning_forgets() {
    let (sink, batches) = sink();
    sink.push(text("a"));
    sink.push(text("b"));
    sink.abandon();
    let (_, credit) = batches.try_recv().unwrap();
    drop(credit);
    sink.push(text("c"));
    sink.finish();
    assert!(batches.try_recv().is_err());
}

#[test]
fn an_agent_that_is_gone_is_no_error() {
    let sink = StreamSink::discard();
    for _ in 0..1_000 {
        sink.push(text("a"));
    }
    assert!(sink.0.lock().deltas.is_empty(), "a dropped credit let the next batch go");
    sink.finish();
}

/// Pieces pushed by one thread while another takes batches arrive whole and in order.
#[test]
fn f23_nothing_is_lost_or_reordered_between_threads() {
    for _ in 0..50 {
        let (sink, batches) = sink();
        let taker = std::thread::spawn(move || {
            let mut all = String::new();
            let mut count = 0;
            while let Ok((deltas, credit)) = batches.recv() {
                for delta in deltas {
                    match delta {
                        StreamDelta::Text { delta } => all.push_str(&delta),
                        other => panic!("{other:?}"),
                    }
                }
                count += 1;
                drop(credit);
            }
            (all, count)
        });
        let mut expected = String::new();
        for n in 0..2_000 {
            let piece = format!("{n},");
            expected.push_str(&piece);
            sink.push(StreamEvent::TextDelta { delta: piece });
        }
        sink.finish();
        drop(sink);
        let (all, count) = taker.join().unwrap();
        assert_eq!(all, expected);
        assert!(count <= 2_001);
    }
}

/// A credit that comes back while the sink is being pushed to must never be missed: then the last piece would wait
/// for ever. The window is a few instructions wide, so there are many rounds.
#[test]
fn the_last_piece_goes_out_without_another_push() {
    let (sink, batches) = sink();
    let (done, rounds) = mpsc::channel();
    let taker = std::thread::spawn(move || {
        let mut open = 0_usize;
        loop {
            // It spins: a thread that sleeps wakes up too late to meet the other in the window.
            let (deltas, credit) = match batches.try_recv() {
                Ok(batch) => batch,
                Err(mpsc::TryRecvError::Empty) => {
                    std::hint::spin_loop();
                    continue;
                }
                Err(mpsc::TryRecvError::Disconnected) => return,
            };
            drop(credit);
            for delta in deltas {
                match delta {
                    StreamDelta::Text { delta } => open += delta.len(),
                    other => panic!("{other:?}"),
                }
            }
            if open == 3 {
                open = 0;
                done.send(()).unwrap();
            }
        }
    });
    let begin = std::time::Instant::now();
    for round in 0..40_000 {
        // On one core every round takes a time slice.
        if begin.elapsed() > std::time::Duration::from_secs(3) {
            break;
        }
        sink.push(text("a"));
        for _ in 0..round % 40 {
            std::hint::spin_loop();
        }
        sink.push(text("b"));
        for _ in 0..round % 7 {
            std::hint::spin_loop();
        }
        sink.push(text("c"));
        if round % 2 == 0 {
            sink.push(StreamEvent::ToolCallStart { id: "i".into(), name: String::new() });
        }
        rounds.recv_timeout(std::time::Duration::from_secs(30)).expect("a piece is stuck in the sink");
    }
    drop(sink);
    taker.join().unwrap();
}
