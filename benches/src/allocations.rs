//! Allocations per turn of one long conversation with Playhouse: they must not grow with it, the request's body apart.
//!
//! The program that uses this has an allocator that counts.

use std::sync::{Arc, Mutex};

use playhouse::protocol::lock;
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats};

use crate::checkpoint::Checkpoint;
use crate::hand::Error;
use crate::house::BenchHouse;
use crate::suite::Service;
use crate::table::{Goal, Row, Value};

/// Over how many turns is counted.
const TURNS: u64 = 10;
/// How much more may be allocated late in a conversation than early in it: maps and lists grow now and then.
const SLACK: f64 = 1.1;
/// A large request takes longer to send, and the HTTP client reads once more meanwhile, into a buffer of this size. The
/// addresses of a conversation of a thousand turns are twice that, so a copy of those would be noticed.
const READ_BUFFER: f64 = 8192.0;

/// What one turn allocates, the middle of `TURNS`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerTurn {
    /// From this turn on.
    pub turn: u64,
    /// How many allocations, growing ones counted again.
    pub count: f64,
    /// How many bytes, without the request's body.
    pub bytes: f64,
}

/// Counts around each of these turns.
pub fn count(turns: &[u64]) -> Result<Vec<PerTurn>, Error> {
    let mut service = Service::start()?;
    let marks: Vec<u64> = turns.iter().flat_map(|turn| (*turn..=turn + TURNS).collect::<Vec<_>>()).collect();
    let last = marks.last().copied().unwrap_or_default();
    // Room beforehand, so that counting allocates nothing.
    let seen: Arc<Mutex<Vec<Stats>>> = Arc::new(Mutex::new(Vec::with_capacity(marks.len())));
    let noted = seen.clone();
    let checkpoint = Checkpoint::at(&marks, 1, move |_| {
        lock(&noted).push(INSTRUMENTED_SYSTEM.stats());
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(converse(service.port(), &format!("tools-{}", last + 2), &checkpoint))?;
    let bodies = service.bodies()?;
    let seen = lock(&seen);
    let mut all = Vec::new();
    for (turn, stats) in turns.iter().zip(seen.chunks(1 + usize::try_from(TURNS)?)) {
        let (mut counts, mut bytes) = (Vec::new(), Vec::new());
        for (n, pair) in stats.windows(2).enumerate() {
            let [before, after] = pair else { continue };
            // Between two calls of the tool, the request that follows the first is made.
            let body = bodies.get(usize::try_from(*turn)? + n + 1).copied().unwrap_or_default();
            let grown = (after.bytes_reallocated - before.bytes_reallocated).max(0);
            let reallocations = after.reallocations - before.reallocations;
            counts.push((after.allocations - before.allocations + reallocations) as f64);
            bytes.push((after.bytes_allocated - before.bytes_allocated) as f64 + grown as f64 - body as f64);
        }
        all.push(PerTurn { turn: *turn, count: crate::table::median(counts), bytes: crate::table::median(bytes) });
    }
    Ok(all)
}

/// The rows of the table; the first turn's numbers are the goal of the others.
pub fn rows(all: &[PerTurn]) -> Vec<Row> {
    let mut rows = Vec::new();
    for at in all {
        let goals = match all.first() {
            Some(first) if first.turn < at.turn => (
                Goal::AtMost(Value::Count((first.count * SLACK).ceil())),
                Goal::AtMost(Value::Kilobytes(first.bytes * SLACK + READ_BUFFER)),
            ),
            Some(_) | None => (Goal::None, Goal::None),
        };
        rows.push(Row::alone(format!("allocations per turn at turn {}", at.turn), Value::Count(at.count), goals.0));
        let name = format!("bytes allocated per turn at turn {}, without the request's body", at.turn);
        rows.push(Row::alone(name, Value::Kilobytes(at.bytes), goals.1));
    }
    rows
}

async fn converse(port: u16, model: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
    let house = BenchHouse::open(None).await?;
    for agent in house.spawn(1, port, model, checkpoint).await? {
        BenchHouse::converse(&agent).await?;
    }
    house.close().await;
    Ok(())
}
