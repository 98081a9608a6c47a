//! Crash tests: a real process is killed with SIGKILL at every append of its journals and at random moments, and
//! another one resumes. Whatever the moment, every accepted input is there, no journaled response is asked for again,
//! no command is run twice, and the run comes to its end.
//!
//! The play is always the same: two tools at once, then a sub-agent with a tool of its own beside another command, then
//! the last word. See `model.rs`.

mod journal;
mod model;
mod play;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::Journals;
use model::{BEGUN, LINGER, PROMPT};
use play::{PATIENCE, Play};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many plays are on at once.
const STAGES: usize = 4;
/// How many random deaths there are at least.
const RANDOM_DEATHS: u64 = 100;
/// How many plays may be given for that: of six, five are killed.
const MOST_PLAYS: u64 = 4 * RANDOM_DEATHS;
/// Between the pieces of a response, so that a death may find one half arrived.
const STREAMING: Duration = Duration::from_millis(3);
/// What a play writes at least; fewer appends would mean that the fail points are not compiled in.
const APPENDS: u64 = 30;

static TURNS: Semaphore = Semaphore::const_new(STAGES);

/// Does `work` for 1, 2, 3 …, a few at a time, until one answers false.
async fn count_up<W: Future<Output = bool> + Send>(work: impl Fn(u64) -> W + Clone + Send + 'static) -> u64 {
    let (next, last) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(u64::MAX)));
    let mut workers = JoinSet::new();
    for _ in 0..STAGES {
        let (next, last, work) = (next.clone(), last.clone(), work.clone());
        workers.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::SeqCst);
                if n >= last.load(Ordering::SeqCst) {
                    return;
                }
                let _turn = TURNS.acquire().await.unwrap();
                if !work(n).await {
                    last.fetch_min(n, Ordering::SeqCst);
                }
            }
        });
    }
    join(workers).await;
    last.load(Ordering::SeqCst)
}

/// What all of them gave; the first that failed fails the test.
async fn join<T: 'static>(mut work: JoinSet<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(done) = work.join_next().await {
        all.push(done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
    }
    all
}

/// Kills the play at each of its appends in turn and resumes it.
async fn killed_at_every(point: &'static str, durability: &'static str) {
    let runs = count_up(move |n| async move {
        let mut play = Play::new(PROMPT, durability, Duration::ZERO).await;
        let process = play.start(Some((point, n)));
        let ended = play.end(process).await;
        if !ended.was_killed() {
            assert!(ended.is_well(), "{play}: {ended}");
            play.check_whole(&Journals::read(&play.data()));
            return false;
        }
        play.died(&ended);
        play.finish().await;
        true
    });
    let deaths = runs.await - 1;
    println!("{point}: {deaths} deaths");
    assert!(deaths >= APPENDS, "only {deaths} deaths");
}

#[tokio::test]
async fn f38_a_play_killed_before_any_append_is_resumed() {
    killed_at_every("append-before", "os").await;
}

#[tokio::test]
async fn f38_a_play_killed_after_any_append_is_resumed() {
    killed_at_every("append-after", "os").await;
}

#[tokio::test]
async fn f32_a_play_killed_after_any_flush_is_resumed() {
    killed_at_every("append-flushed", "flush").await;
}

/// Every process of the play dies at the same count of appends, those that resume included: what one of them adds is
/// enough to get there in the end.
#[tokio::test]
async fn f24_a_play_whose_every_process_is_killed_comes_to_its_end() {
    let mut plays = JoinSet::new();
    // One that resumes first notes that it did, in both journals, so that fewer than three appends would lead nowhere.
    for (point, n) in [("append-before", 5), ("append-after", 5), ("append-flushed", 6), ("append-before", 10)] {
        plays.spawn(async move {
            let _turn = TURNS.acquire().await.unwrap();
            let mut play = Play::new(PROMPT, "os", Duration::ZERO).await;
            let mut process = play.start(Some((point, n)));
            loop {
                let ended = play.end(process).await;
                if !ended.was_killed() {
                    assert!(ended.is_well(), "{play}: {ended}");
                    break;
                }
                play.died(&ended);
                assert!(play.deaths() < 60, "{play}: it does not get on");
                process = play.start_resume(Some((point, n)));
            }
            play.finish().await;
            println!("{point}:{n}: {} deaths", play.deaths());
            assert!(play.deaths() > 2, "{play}");
        });
    }
    join(plays).await;
}

#[tokio::test]
async fn f32_a_play_killed_at_a_random_moment_is_resumed() {
    let seed = match std::env::var("PLAYHOUSE_SEED") {
        Ok(seed) => seed.parse().expect("PLAYHOUSE_SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("PLAYHOUSE_SEED={seed}");
    let length = Arc::new(Mutex::new(undisturbed().await));
    let deaths = Arc::new(AtomicU64::new(0));
    let (measured, counted) = (length.clone(), deaths.clone());
    let plays = count_up(move |n| {
        let (length, deaths) = (measured.clone(), counted.clone());
        async move {
            if random_deaths(seed.wrapping_add(n), &length).await > 0 {
                deaths.fetch_add(1, Ordering::SeqCst);
            }
            n < MOST_PLAYS && deaths.load(Ordering::SeqCst) < RANDOM_DEATHS
        }
    });
    let (plays, deaths) = (plays.await, deaths.load(Ordering::SeqCst));
    let length = length.lock().unwrap();
    println!("{deaths} of {plays} plays were killed; undisturbed a play takes {length:?}");
    assert!(deaths >= RANDOM_DEATHS, "only {deaths} of {plays} plays were killed; one takes {length:?}");
}

/// How long a play takes.
async fn undisturbed() -> Duration {
    let _turn = TURNS.acquire().await.unwrap();
    let mut play = Play::new(PROMPT, "os", STREAMING).await;
    let process = play.start(None);
    let ended = play.end(process).await;
    assert!(ended.is_well(), "{play}: {ended}");
    play.check_whole(&Journals::read(&play.data()));
    ended.took
}

/// A play that is killed at a random moment, and sometimes its resumption too. Answers how many deaths there were.
///
/// The moment may lie after the end: such a play tells how long plays take by now, so that the moments keep spreading
/// over all of it when the machine gets slower or faster.
async fn random_deaths(seed: u64, length: &Mutex<Duration>) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let durability = if random.u8(..4) == 0 { "flush" } else { "os" };
    let mut play = Play::new(PROMPT, durability, STREAMING).await;
    let mut process = play.start(None);
    loop {
        let moment = length.lock().unwrap().mul_f64(1.2 * random.f64());
        let ended = play.end_by(process, moment).await;
        if !ended.was_killed() {
            assert!(ended.is_well(), "{play}: {ended}");
            if play.deaths() == 0 {
                let mut length = length.lock().unwrap();
                *length = (*length + ended.took) / 2;
            }
            break;
        }
        play.died(&ended);
        if random.u8(..3) > 0 {
            break;
        }
        process = play.start_resume(None);
    }
    play.finish().await;
    play.deaths()
}

#[tokio::test]
async fn f14_what_a_dead_house_left_running_is_killed_before_the_play_goes_on() {
    let _turn = TURNS.acquire().await.unwrap();
    let mut play = Play::new(LINGER, "os", Duration::ZERO).await;
    let mut process = play.start(None);
    let begun = play.cwd().join(BEGUN);
    let beginning = async {
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, beginning).await.expect("the command did not begin");
    process.kill();
    let ended = play.end(process).await;
    assert!(ended.was_killed(), "{play}: {ended}");
    play.died(&ended);
    let left = play.running().len();
    assert!(left >= 2, "{left} processes were left");
    play.finish().await;
    assert_eq!(play.lines(), "");
}
