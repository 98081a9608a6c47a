use super::*;
use playhouse_protocol::{Outcome, Seq, ToolResult, TurnTrigger, Usage};

fn event_of(agent: &str, seq: u64, event: AgentEvent) -> Arc<Event> {
    Arc::new(Event {
        id: EventId { seq: Seq(seq), k: 0 },
        agent_id: agent.into(),
        session_id: SessionId::new(agent).unwrap(),
        loop_id: None,
        timestamp: Default::default(),
        event,
    })
}

fn event(seq: u64, event: AgentEvent) -> Arc<Event> {
    event_of("a", seq, event)
}

fn piece_of(agent: &str, seq: u64, text: &str) -> Arc<Event> {
    let delta = StreamDelta::Text { delta: text.into() };
    event_of(agent, seq, AgentEvent::MessageUpdate { message_id: "m".into(), delta })
}

fn piece(seq: u64, text: &str) -> Arc<Event> {
    piece_of("a", seq, text)
}

fn end_of(agent: &str, seq: u64) -> Arc<Event> {
    let outcome = Outcome::Stop;
    event_of(agent, seq, AgentEvent::AgentEnd { messages: vec![], usage: Usage::default(), outcome, rejection: None })
}

fn end(seq: u64) -> Arc<Event> {
    end_of("a", seq)
}

fn turn(seq: u64) -> Arc<Event> {
    event(seq, AgentEvent::TurnStart { turn_index: 0, triggered_by: TurnTrigger::User })
}

fn rest(ring: &Ring) -> Vec<Arc<Event>> {
    std::iter::from_fn(|| ring.try_next()).collect()
}

fn lagged(missed: u64, after: Option<u64>) -> AgentEvent {
    AgentEvent::Lagged { missed, after: after.map(|seq| EventId { seq: Seq(seq), k: 0 }) }
}

#[test]
fn pieces_of_one_message_merge_while_nobody_reads() {
    let ring = Ring::new(4);
    for n in 0..100_000 {
        ring.push(&piece(n, "x"));
    }
    ring.push(&end(100_000));
    assert_eq!(rest(&ring), [piece(99_999, &"x".repeat(100_000)), end(100_000)]);
}

#[test]
fn pieces_of_agents_that_talk_at_once_merge_with_their_own() {
    let ring = Ring::new(4);
    for n in 0..1_000 {
        ring.push(&piece_of("a", n, "x"));
        ring.push(&piece_of("b", n, "y"));
    }
    assert_eq!(rest(&ring), [piece_of("a", 999, &"x".repeat(1_000)), piece_of("b", 999, &"y".repeat(1_000))]);
}

#[test]
fn pieces_that_nobody_reads_have_a_bound_in_bytes() {
    let ring = Ring::new(1_024);
    let text = "x".repeat(1_000);
    for n in 0..10_000 {
        ring.push(&piece(n, &text));
        let fleeting = ring.held().fleeting;
        assert!(fleeting <= FLEETING, "{fleeting} bytes are held");
    }
    ring.push(&end(10_000));
    let read = rest(&ring);
    assert!(matches!(read[0].event, AgentEvent::Lagged { .. }), "{:?}", read[0]);
    assert_eq!(read.last(), Some(&end(10_000)));
    assert_eq!(ring.held().fleeting, 0);
}

#[test]
fn a_newer_partial_result_takes_the_place_of_the_unread_one() {
    let ring = Ring::new(4);
    let update = |seq, text: &str| {
        let (tool_call_id, tool_name) = ("c".into(), "bash".to_owned());
        event(seq, AgentEvent::ToolExecutionUpdate { tool_call_id, tool_name, partial_result: ToolResult::text(text) })
    };
    for n in 0..1_000 {
        ring.push(&update(n, &"x".repeat(1_000)));
    }
    assert_eq!(ring.held().fleeting, 1_000);
    assert_eq!(rest(&ring), [update(999, &"x".repeat(1_000))]);
}

#[test]
fn a_full_ring_keeps_what_closes_and_tells_of_the_rest() {
    let ring = Ring::new(2);
    ring.push(&turn(1));
    assert_eq!(ring.try_next(), Some(turn(1)));
    ring.push(&turn(2));
    ring.push(&end(3));
    ring.push(&turn(4));
    ring.push(&end(5));
    let read = rest(&ring);
    assert_eq!(read[0].event, lagged(2, Some(1)));
    assert_eq!(read[1..], [end(3), end(5)]);
}

#[test]
fn each_session_is_told_of_its_own_gap() {
    let ring = Ring::new(2);
    let turn_of =
        |agent, seq| event_of(agent, seq, AgentEvent::TurnStart { turn_index: 0, triggered_by: TurnTrigger::User });
    ring.push(&turn_of("a", 7));
    assert_eq!(ring.try_next(), Some(turn_of("a", 7)));
    for seq in 8..10 {
        ring.push(&turn_of("a", seq));
        ring.push(&turn_of("b", seq));
    }
    ring.push(&end_of("a", 10));
    ring.push(&end_of("b", 10));
    let read = rest(&ring);
    assert_eq!((read[0].agent_id.as_str(), &read[0].event), ("a", &lagged(2, Some(7))));
    assert_eq!((read[1].agent_id.as_str(), &read[1].event), ("b", &lagged(2, None)));
    assert_eq!(read[2..], [end_of("a", 10), end_of("b", 10)]);
}

#[test]
fn even_what_closes_has_a_bound_and_so_has_what_is_known_of_sessions() {
    let ring = Ring::new(3);
    for n in 0..1_000 {
        ring.push(&end_of(&format!("agent-{n}"), n));
    }
    assert_eq!(ring.held().events.len(), 3);
    assert_eq!(ring.held().tracks.len(), 3);
    let missed: u64 = rest(&ring)
        .iter()
        .map(|event| if let AgentEvent::Lagged { missed, .. } = event.event { missed } else { 0 })
        .sum();
    assert_eq!(missed, 997);
}

#[test]
fn a_piece_larger_than_the_ring_reaches_a_reader_that_keeps_up() {
    let ring = Ring::new(16);
    let large = "x".repeat(4 * FLEETING);
    for n in 0..3 {
        ring.push(&turn(4 * n));
        ring.push(&piece(4 * n + 1, &large));
        // The reader is on its way, and more comes.
        ring.push(&piece(4 * n + 2, "y"));
        ring.push(&end(4 * n + 3));
        assert_eq!(rest(&ring), [turn(4 * n), piece(4 * n + 2, &format!("{large}y")), end(4 * n + 3)]);
    }
    // One that stands still costs no more than that.
    for n in 100..200 {
        ring.push(&piece(n, &large));
        assert!(ring.held().fleeting <= FLEETING + large.len());
    }
    assert!(rest(&ring).iter().any(|event| matches!(event.event, AgentEvent::Lagged { .. })));
}
