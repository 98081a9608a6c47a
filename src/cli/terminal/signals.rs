//! Signals. The first Ctrl-C, SIGTERM or SIGHUP asks to stop: the run is aborted and journaled, its tools end. The second
//! does not wait, and SIGQUIT never does; neither leaves a process of a tool behind.

use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, mpsc};

use playhouse::House;
use playhouse::protocol::lock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::cli::exit::{Exit, INTERRUPTED};
use crate::cli::terminal::entry;

/// What a program that a signal ended exits with: this and the signal's number.
const BY_SIGNAL: u8 = 128;

/// The exit code of the first signal that came.
static FIRST: AtomicU8 = AtomicU8::new(INTERRUPTED);

/// A signal ends the program as soon as no process of a tool is left.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The houses of this process, by the names that processes of their tools are marked with.
static HOUSES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The exit code of a program that was asked to stop.
pub fn exit_code() -> u8 {
    FIRST.load(Ordering::Relaxed)
}

/// Returns unless a signal is about to end the program: its tools go first.
pub fn let_end() {
    while IS_ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// From here on, processes of this house's tools do not outlive this one.
pub fn watch_over(house: &House) {
    lock(&HOUSES).push(house.services().tools.runtime.house().to_owned());
}

/// Whether someone asked to stop. Clones see the same.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens from here on, on a thread of its own: whoever is stuck in a write does not hold it up.
    pub fn listen() -> Result<Self, Exit> {
        let deaf = |error: std::io::Error| Exit::Refused(format!("signals cannot be heard: {error}"));
        let (asked, seen) = watch::channel(false);
        let (ready, is_ready) = mpsc::sync_channel(1);
        let work = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            runtime.block_on(async {
                match Heard::new() {
                    Ok(heard) => {
                        let _ = ready.send(Ok(()));
                        stop(heard, asked).await
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            });
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(work).map_err(deaf)?;
        // A thread that died without a word hears nothing either.
        is_ready.recv().unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(deaf)?;
        Ok(Self(seen))
    }

    /// Whether a signal has asked to stop.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until someone asks.
    pub async fn asked(&mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Asks whoever sees it to stop at the first signal, and ends the program at the second.
async fn stop(mut heard: Heard, asked: watch::Sender<bool>) {
    let first = heard.next().await;
    FIRST.store(code(first), Ordering::Relaxed);
    // Also before an end that does not wait: what is aborted starts no more tools. Nobody sees it when the program is
    // about to end by itself.
    let _ = asked.send(true);
    if first != SignalKind::quit() && heard.next().await == SignalKind::quit() {
        FIRST.store(code(SignalKind::quit()), Ordering::Relaxed);
    }
    end(exit_code())
}

/// The signals that ask to stop.
struct Heard {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    /// `None` where it is ignored, as under `nohup`: it stays so.
    hang_up: Option<Signal>,
}

impl Heard {
    fn new() -> std::io::Result<Self> {
        let hang_up = if is_ignored(SignalKind::hangup()) { None } else { Some(signal(SignalKind::hangup())?) };
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, quit: signal(SignalKind::quit())?, hang_up })
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> SignalKind {
        let hung_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.quit.recv() => SignalKind::quit(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = hung_up => SignalKind::hangup(),
        }
    }
}

fn code(kind: SignalKind) -> u8 {
    u8::try_from(kind.as_raw_value()).map_or(INTERRUPTED, |number| BY_SIGNAL.saturating_add(number))
}

/// Whether this process was started with the signal ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    u32::try_from(kind.as_raw_value() - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or_default() & 1 == 1)
}

/// Ends every process of a tool, then this one.
fn end(code: u8) -> ! {
    IS_ENDING.store(true, Ordering::SeqCst);
    entry::give_back();
    for house in lock(&HOUSES).iter() {
        playhouse::tools::kill_leftovers(&[house.as_str()]);
    }
    exit(i32::from(code))
}
