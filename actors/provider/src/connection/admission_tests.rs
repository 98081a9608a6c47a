use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use proptest::prelude::*;

use super::*;
use crate::connection::rules::BreakerRules;

fn model() -> Arc<str> {
    "m".into()
}

/// Tickets `1..=n` that wait for one model.
fn waiting(rules: ConnectionRules, n: u64, now: Instant) -> Admission {
    let mut admission = Admission::new(rules, now);
    (1..=n).for_each(|ticket| admission.arrive(ticket, &model(), 3));
    admission
}

/// Everyone who goes at this moment.
fn going(admission: &mut Admission, now: Instant) -> Vec<Ticket> {
    let mut tickets = Vec::new();
    while let Some(verdict) = admission.next(now) {
        match verdict {
            Verdict::Go { ticket, .. } => tickets.push(ticket),
            other => panic!("{other:?}"),
        }
    }
    tickets
}

fn after(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

const WAIT: Duration = Duration::from_millis(1_000);
const FINE: RequestEnd = RequestEnd::Answered { tokens: 10 };

#[test]
fn without_rules_everyone_goes_at_once_in_the_order_of_arrival() {
    let now = Instant::now();
    let mut admission = waiting(ConnectionRules::default(), 5, now);
    assert_eq!(going(&mut admission, now), [1, 2, 3, 4, 5]);
    assert_eq!(admission.load(), (5, 0));
    (1..=5).for_each(|ticket| assert!(admission.ended(ticket, FINE, now).is_empty()));
    assert_eq!((admission.load(), admission.wake_at(now)), ((0, 0), None));
    assert!(admission.models.is_empty(), "nothing is kept of a model that nobody asks");
}

#[test]
fn no_more_ask_at_once_than_may() {
    let now = Instant::now();
    let rules = ConnectionRules { concurrency: NonZeroUsize::new(2), ..ConnectionRules::default() };
    let mut admission = waiting(rules, 4, now);
    assert_eq!(going(&mut admission, now), [1, 2]);
    admission.ended(2, RequestEnd::Dropped, now);
    assert_eq!(going(&mut admission, now), [3]);
    admission.leave(4, &model());
    admission.ended(1, FINE, now);
    assert_eq!(going(&mut admission, now), Vec::<Ticket>::new());
}

#[test]
fn f06_after_a_rate_limit_one_probe_goes_first_and_the_others_follow() {
    let start = Instant::now();
    let mut admission = waiting(ConnectionRules::default(), 1, start);
    assert_eq!(going(&mut admission, start), [1]);
    (2..=9).for_each(|ticket| admission.arrive(ticket, &model(), 3));
    admission.arrive(20, &"other".into(), 3);
    assert!(admission.ended(1, RequestEnd::Limited { wait: WAIT }, start).is_empty());
    assert_eq!(going(&mut admission, start), [20], "another model has a gate of its own");
    assert_eq!(admission.wake_at(start), Some(after(start, 1_000)));
    assert_eq!(going(&mut admission, after(start, 999)), Vec::<Ticket>::new());
    let open = after(start, 1_000);
    assert_eq!(admission.next(open), Some(Verdict::Go { ticket: 2, watched: true }));
    assert_eq!(admission.next(open), None);
    admission.answering(2);
    assert_eq!(going(&mut admission, open), [3], "the probe still streams; one more goes");
    admission.answering(3);
    assert_eq!(going(&mut admission, open), [4]);
    admission.ended(2, FINE, open);
    assert_eq!(going(&mut admission, open), [5]);
    for ticket in 4..=9 {
        admission.answering(ticket);
        going(&mut admission, open);
    }
    assert_eq!(admission.load().1, 0);
    (30..=40).for_each(|ticket| admission.arrive(ticket, &model(), 3));
    assert_eq!(going(&mut admission, open).len(), 11, "the gate is open again");
}

#[test]
fn f05_a_later_limit_closes_the_gate_for_longer_and_an_earlier_one_does_not_open_it() {
    let start = Instant::now();
    let mut admission = waiting(ConnectionRules::default(), 3, start);
    assert_eq!(going(&mut admission, start).len(), 3);
    admission.arrive(4, &model(), 3);
    admission.ended(1, RequestEnd::Limited { wait: WAIT * 3 }, start);
    admission.ended(2, RequestEnd::Limited { wait: WAIT }, after(start, 100));
    admission.ended(3, FINE, after(start, 200));
    assert_eq!(going(&mut admission, after(start, 2_999)), Vec::<Ticket>::new());
    assert_eq!(going(&mut admission, after(start, 3_000)), [4]);
}

#[test]
fn a_probe_that_fails_or_is_cancelled_lets_another_go_ahead() {
    let start = Instant::now();
    let mut admission = waiting(ConnectionRules::default(), 1, start);
    going(&mut admission, start);
    (2..=4).for_each(|ticket| admission.arrive(ticket, &model(), 3));
    admission.ended(1, RequestEnd::Limited { wait: WAIT }, start);
    let open = after(start, 1_000);
    assert_eq!(going(&mut admission, open), [2]);
    admission.ended(2, RequestEnd::Dropped, open);
    assert_eq!(going(&mut admission, open), [3]);
    admission.ended(3, RequestEnd::Failed, open);
    assert_eq!(going(&mut admission, open), [4]);
}

#[test]
fn who_waits_gives_up_after_as_many_failed_probes_as_it_would_retry() {
    let mut now = Instant::now();
    let mut admission = waiting(ConnectionRules::default(), 1, now);
    going(&mut admission, now);
    for (ticket, patience) in [(2, 9), (3, 9), (4, 0), (5, 1)] {
        admission.arrive(ticket, &model(), patience);
    }
    assert!(admission.ended(1, RequestEnd::Limited { wait: WAIT }, now).is_empty(), "that was no probe");
    for (probe, gave_up) in [(2, 4), (3, 5)] {
        now += WAIT;
        assert_eq!(going(&mut admission, now), [probe]);
        let limited = admission.ended(probe, RequestEnd::Limited { wait: WAIT }, now);
        assert_eq!(limited, [Verdict::GaveUp { ticket: gave_up, why: WaitedFor::Limited }]);
    }
    assert_eq!(admission.load(), (0, 0));
}

#[test]
fn f07_a_service_that_fails_again_and_again_is_left_alone_and_then_probed() {
    let start = Instant::now();
    let breaker = BreakerRules { failures: 2, pause: WAIT, max_pause: WAIT * 3 };
    let rules = ConnectionRules { breaker, ..ConnectionRules::default() };
    let mut admission = waiting(rules, 3, start);
    assert_eq!(going(&mut admission, start).len(), 3);
    admission.ended(1, RequestEnd::Failed, start);
    assert_eq!(admission.breaker(), BreakerState::Closed);
    admission.ended(2, RequestEnd::Failed, start);
    assert_eq!(admission.breaker(), BreakerState::Open { until: start + WAIT });
    admission.arrive(4, &model(), 3);
    assert_eq!(admission.next(after(start, 400)), None);
    assert_eq!(admission.left_alone(after(start, 400)), Some(Some(Duration::from_millis(600))));
    assert_eq!(admission.wake_at(after(start, 400)), Some(start + WAIT));
    admission.leave(4, &model());
    // One that was on its way fails too: nothing new.
    admission.ended(3, RequestEnd::Failed, after(start, 500));
    assert_eq!(admission.breaker(), BreakerState::Open { until: start + WAIT });

    admission.arrive(5, &model(), 3);
    admission.arrive(6, &model(), 0);
    admission.arrive(7, &model(), 1);
    admission.arrive(8, &model(), 1);
    let half = start + WAIT;
    assert_eq!(admission.next(half), Some(Verdict::Go { ticket: 5, watched: true }));
    assert_eq!((admission.next(half), admission.breaker()), (None, BreakerState::HalfOpen));
    let gave_up = admission.ended(5, RequestEnd::Failed, half);
    assert_eq!(gave_up, [Verdict::GaveUp { ticket: 6, why: WaitedFor::Failing }]);
    assert_eq!(admission.breaker(), BreakerState::Open { until: half + WAIT * 2 }, "the pause doubles");

    let again = half + WAIT * 2;
    assert_eq!(going(&mut admission, again), [7]);
    admission.answering(7);
    assert_eq!(admission.breaker(), BreakerState::Closed);
    assert_eq!(going(&mut admission, again), [8]);
}

#[test]
fn f07_a_probe_that_begins_and_is_cut_short_opens_the_breaker_again_for_longer() {
    let start = Instant::now();
    let breaker = BreakerRules { failures: 2, pause: WAIT, max_pause: WAIT * 9 };
    let mut admission = waiting(ConnectionRules { breaker, ..ConnectionRules::default() }, 3, start);
    going(&mut admission, start);
    admission.ended(1, RequestEnd::Failed, start);
    admission.ended(2, RequestEnd::Failed, start);
    admission.ended(3, RequestEnd::Dropped, start);
    let half = start + WAIT;
    admission.arrive(4, &model(), 3);
    assert_eq!(going(&mut admission, half), [4]);
    assert_eq!(admission.left_alone(half), Some(None));
    admission.answering(4);
    assert_eq!(admission.breaker(), BreakerState::Closed);
    admission.ended(4, RequestEnd::Failed, half);
    assert_eq!(admission.breaker(), BreakerState::Open { until: half + WAIT * 2 });
}

#[test]
fn f07_only_an_answer_to_its_end_is_progress() {
    let now = Instant::now();
    let mut admission = waiting(ConnectionRules::default(), 1, now);
    going(&mut admission, now);
    admission.ended(1, RequestEnd::Limited { wait: WAIT }, now);
    for (ticket, end, answers) in [(2, RequestEnd::Limited { wait: WAIT }, 0), (3, FINE, 1), (4, FINE, 2)] {
        let at = now + WAIT * u32::try_from(ticket).unwrap() * 2;
        admission.arrive(ticket, &model(), 3);
        assert_eq!(going(&mut admission, at), [ticket]);
        admission.answering(ticket);
        admission.ended(ticket, end, at);
        assert_eq!(admission.answers("m"), answers, "{ticket}");
    }
}

#[test]
fn an_answer_or_a_refusal_ends_a_row_of_failures() {
    let now = Instant::now();
    let mut admission = waiting(ConnectionRules::default(), 100, now);
    going(&mut admission, now);
    for ticket in 1..=99 {
        let end = if ticket % 5 == 0 { FINE } else { RequestEnd::Failed };
        admission.ended(ticket, end, now);
        assert_eq!(admission.breaker(), BreakerState::Closed, "{ticket}");
    }
}

#[test]
fn requests_and_tokens_per_minute_are_kept() {
    let start = Instant::now();
    let rules = ConnectionRules { requests_per_minute: NonZeroU32::new(60), ..ConnectionRules::default() };
    let mut admission = waiting(rules, 100, start);
    assert_eq!(going(&mut admission, start).len(), 60);
    assert_eq!(admission.wake_at(start), Some(start + WAIT));
    assert_eq!(going(&mut admission, after(start, 999)).len(), 0);
    assert_eq!(going(&mut admission, after(start, 1_000)).len(), 1);
    assert_eq!(going(&mut admission, after(start, 11_000)).len(), 10);

    let rules = ConnectionRules { tokens_per_minute: NonZeroU64::new(600), ..ConnectionRules::default() };
    let mut admission = waiting(rules, 2, start);
    assert_eq!(going(&mut admission, start).len(), 2, "what a request takes is known when it has ended");
    admission.ended(1, RequestEnd::Answered { tokens: 1_199 }, start);
    admission.arrive(3, &model(), 3);
    assert_eq!(going(&mut admission, start).len(), 0);
    assert_eq!(admission.wake_at(start), Some(start + WAIT * 60));
    assert_eq!(going(&mut admission, start + WAIT * 60).len(), 1);
}

proptest! {
    /// Whatever happens in whatever order: nobody goes before a gate's time or past the limit, counts stay true, and
    /// in the end nobody is left behind.
    #[test]
    fn f06_nobody_goes_early_and_nobody_is_forgotten(
        steps in prop::collection::vec((0_u8..6, 0_u64..400), 1..300),
        limit in prop::option::of(1_usize..5),
    ) {
        let mut now = Instant::now();
        let rules = ConnectionRules { concurrency: limit.and_then(NonZeroUsize::new), ..ConnectionRules::default() };
        let mut admission = Admission::new(rules, now);
        let (mut flying, mut waiting, mut next) = (Vec::new(), Vec::new(), 0);
        let mut closed_until = now;
        let gone = |admission: &mut Admission, now, closed: Instant, flying: &mut Vec<Ticket>, waiting: &mut Vec<Ticket>| {
            while let Some(verdict) = admission.next(now) {
                let (Verdict::Go { ticket, .. } | Verdict::GaveUp { ticket, .. }) = verdict;
                waiting.retain(|other| *other != ticket);
                if let Verdict::Go { .. } = verdict {
                    assert!(now >= closed, "early");
                    flying.push(ticket);
                    assert!(limit.is_none_or(|most| flying.len() <= most));
                }
            }
        };
        for (step, n) in steps {
            now += Duration::from_millis(n);
            let some = flying.get(n as usize % flying.len().max(1)).copied();
            match (step, some) {
                (0 | 1, _) => {
                    next += 1;
                    admission.arrive(next, &model(), 3);
                    waiting.push(next);
                }
                (2, Some(ticket)) => admission.answering(ticket),
                (3, Some(ticket)) => {
                    flying.retain(|other| *other != ticket);
                    admission.ended(ticket, FINE, now);
                }
                (4, Some(ticket)) => {
                    flying.retain(|other| *other != ticket);
                    closed_until = closed_until.max(now + Duration::from_millis(n));
                    for verdict in admission.ended(ticket, RequestEnd::Limited { wait: Duration::from_millis(n) }, now) {
                        let Verdict::GaveUp { ticket, .. } = verdict else { panic!() };
                        waiting.retain(|other| *other != ticket);
                    }
                }
                (5, Some(ticket)) => {
                    flying.retain(|other| *other != ticket);
                    for verdict in admission.ended(ticket, if n % 2 == 0 { RequestEnd::Failed } else { RequestEnd::Dropped }, now) {
                        let Verdict::GaveUp { ticket, .. } = verdict else { panic!() };
                        waiting.retain(|other| *other != ticket);
                    }
                }
                _ => {}
            }
            gone(&mut admission, now, closed_until, &mut flying, &mut waiting);
            prop_assert_eq!(admission.load(), (flying.len(), waiting.len()));
        }
        // From here on the service is well.
        for _ in 0..10_000 {
            if waiting.is_empty() && flying.is_empty() {
                break;
            }
            for ticket in flying.drain(..) {
                admission.answering(ticket);
                admission.ended(ticket, FINE, now);
            }
            now = admission.wake_at(now).unwrap_or(now + Duration::from_millis(1));
            gone(&mut admission, now, closed_until, &mut flying, &mut waiting);
        }
        prop_assert_eq!(admission.load(), (0, 0), "someone was forgotten");
    }
}
