//! Who may change a file now. A call that changes a file holds a claim on it from the check of its version to its
//! replacement; others wait in line, and after a while are told who holds it.
//!
//! The claims are the process's, not a house's: agents of two houses may change one file, and neither may overwrite what
//! the other has just written. A claim that is older than a minute is a hung call's: the next who
//! wants the file takes it over, and the late holder then finds that it may not replace anything any more. Nobody waits
//! on a thread: a call that finds a file claimed gives its thread back and waits as a task.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, TryLockError};
use std::time::{Duration, Instant};

use playhouse_protocol::{SessionId, ToolCallId, ToolContext, ToolError, lock};
use tokio::sync::oneshot;

use crate::files::Files;
use crate::files::paths::FileKey;
use crate::run::blocking;
use crate::runtime::ToolRuntime;

/// How long a claim holds against others.
const TTL: Duration = Duration::from_secs(60);
/// How long a call waits for a file.
const WAIT: Duration = Duration::from_secs(10);

/// Holds nothing but the files that are being changed at this moment.
static CLAIMS: LazyLock<Claims> = LazyLock::new(|| Claims::new(TTL));

/// The call that holds a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    session: SessionId,
    call: ToolCallId,
}

impl Holder {
    /// The call that runs here.
    pub(crate) fn of(ctx: &ToolContext) -> Self {
        Self { session: ctx.session_id.clone(), call: ctx.tool_call_id.clone() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call `{}` of session `{}`", self.call, self.session)
    }
}

/// What came of one attempt at a change.
pub(crate) enum Attempt<T> {
    /// The change was made.
    Done(T),
    /// Somebody else has the file.
    Taken(FileKey),
}

/// Makes a change of a file when the file is free, off the runtime. `work` is called again after each wait; it finds
/// the file, [takes](Turn::take) its claim and says if it could not.
pub(crate) async fn in_turn<T: Send + 'static>(
    ctx: &ToolContext,
    shown: &str,
    work: impl Fn(Turn, &playhouse_protocol::Cancel) -> Result<Attempt<T>, ToolError> + Send + Sync + 'static,
) -> Result<T, ToolError> {
    let (work, deadline) = (Arc::new(work), tokio::time::Instant::now() + WAIT);
    let (mut given, files) = (None, ToolRuntime::here().files);
    loop {
        let (again, turn) = (work.clone(), Turn { given: given.take(), holder: Holder::of(ctx), files: files.clone() });
        let file = match blocking(&ctx.cancel, move |cancel| again(turn, cancel)).await? {
            Attempt::Done(done) => return Ok(done),
            Attempt::Taken(file) => file,
        };
        let claim = tokio::select! {
            claim = CLAIMS.wait(&file, Holder::of(ctx), &files, deadline) => claim,
            () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
        };
        given = Some(claim.map_err(|holder| {
            let text = format!("`{shown}` is being changed by {holder}; nothing was written");
            ToolError::Failed(format!("{text}: try again later, or work on something else"))
        })?);
    }
}

/// A call's turn at a file, with the claim it has waited for.
pub(crate) struct Turn {
    given: Option<Claim>,
    holder: Holder,
    files: Arc<Files>,
}

impl Turn {
    /// The claim on a file, if it is free or was waited for.
    pub(crate) fn take(self, file: &FileKey) -> Option<Claim> {
        match self.given {
            Some(claim) if claim.file == *file => Some(claim),
            // The path leads elsewhere by now.
            Some(_) | None => CLAIMS.claim(file, self.holder, &self.files).ok(),
        }
    }
}

/// A file that is held for a change. Dropped, it goes to the next in line, and no cache has the file any more.
pub(crate) struct Claim {
    claims: &'static Claims,
    file: FileKey,
    /// What the holder's house knows of files.
    pub(crate) files: Arc<Files>,
    held: Arc<Holding>,
}

struct Holding {
    holder: Holder,
    since: Instant,
    standing: Mutex<Standing>,
}

enum Standing {
    Holds,
    /// Its time was over and somebody else has the file.
    LostTo(Holder),
}

impl Claim {
    /// Replaces the file, unless the claim was taken over: then it says by whom. While `replace` runs nobody takes over.
    pub(crate) fn replacing<T>(&self, replace: impl FnOnce() -> T) -> Result<T, Holder> {
        match &*lock(&self.held.standing) {
            Standing::Holds => Ok(replace()),
            Standing::LostTo(holder) => Err(holder.clone()),
        }
    }
}

#[cfg(test)]
impl Claim {
    /// A claim of another session, on a file that is free.
    pub(crate) fn for_test(file: &FileKey, session: &str) -> Self {
        let holder = Holder { session: SessionId::new(session).unwrap(), call: "held".into() };
        CLAIMS.claim(file, holder, &ToolRuntime::here().files).ok().unwrap()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.files.cache.forget(&self.file);
        self.claims.release(&self.file, &self.held);
    }
}

struct Claims {
    ttl: Duration,
    files: Mutex<HashMap<FileKey, ClaimedFile>>,
}

/// A file that is being changed.
struct ClaimedFile {
    held: Arc<Holding>,
    /// Who waits, first come first served; those who gave up are passed over.
    line: VecDeque<(Holder, oneshot::Sender<Arc<Holding>>)>,
}

impl Holding {
    fn new(holder: Holder) -> Arc<Self> {
        Arc::new(Self { holder, since: Instant::now(), standing: Mutex::new(Standing::Holds) })
    }
}

impl Claims {
    fn new(ttl: Duration) -> Self {
        Self { ttl, files: Mutex::default() }
    }

    /// Claims a file that is free or whose holder's time is over; else says who has it.
    fn claim(&'static self, file: &FileKey, holder: Holder, files: &Arc<Files>) -> Result<Claim, Holder> {
        let held = self.claim_in(&mut lock(&self.files), file, holder)?;
        Ok(Claim { claims: self, file: file.clone(), files: files.clone(), held })
    }

    fn claim_in(
        &self,
        files: &mut HashMap<FileKey, ClaimedFile>,
        file: &FileKey,
        holder: Holder,
    ) -> Result<Arc<Holding>, Holder> {
        let held = Holding::new(holder);
        match files.get_mut(file) {
            None => drop(files.insert(file.clone(), ClaimedFile { held: held.clone(), line: VecDeque::new() })),
            Some(place) => {
                if place.held.since.elapsed() < self.ttl || !place.held.gives_way_to(&held.holder) {
                    return Err(place.held.holder.clone());
                }
                place.held = held.clone();
            }
        }
        Ok(held)
    }

    /// Waits for a file until it is free, its holder's time is over, or the deadline is: then it says who has it.
    async fn wait(
        &'static self,
        file: &FileKey,
        holder: Holder,
        known: &Arc<Files>,
        deadline: tokio::time::Instant,
    ) -> Result<Claim, Holder> {
        loop {
            let (waiting, expires) = {
                let mut files = lock(&self.files);
                let has = match self.claim_in(&mut files, file, holder.clone()) {
                    Ok(held) => return Ok(Claim { claims: self, file: file.clone(), files: known.clone(), held }),
                    Err(has) => has,
                };
                if tokio::time::Instant::now() >= deadline {
                    return Err(has);
                }
                let Some(place) = files.get_mut(file) else { continue };
                place.line.retain(|(_, next)| !next.is_closed());
                let (next, given) = oneshot::channel();
                place.line.push_back((holder.clone(), next));
                // A holder that is just replacing the file cannot be made to give way: it is asked again a little later.
                let left = self.ttl.saturating_sub(place.held.since.elapsed()).max(Duration::from_millis(10));
                (
                    PlaceInLine { claims: self, file: file.clone(), files: known.clone(), given },
                    tokio::time::Instant::now() + left,
                )
            };
            if let Some(claim) = waiting.until(expires.min(deadline)).await {
                return Ok(claim);
            }
        }
    }

    /// Gives a file to the next in line, unless it was taken over.
    fn release(&'static self, file: &FileKey, held: &Arc<Holding>) {
        let mut files = lock(&self.files);
        let Some(place) = files.get_mut(file).filter(|place| Arc::ptr_eq(&place.held, held)) else { return };
        while let Some((holder, next)) = place.line.pop_front() {
            let held = Holding::new(holder);
            if next.send(held.clone()).is_ok() {
                place.held = held;
                return;
            }
        }
        files.remove(file);
    }
}

impl Holding {
    /// Gives the file up, unless it is being replaced at this very moment.
    fn gives_way_to(&self, next: &Holder) -> bool {
        let mut standing = match self.standing.try_lock() {
            Ok(standing) => standing,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        *standing = Standing::LostTo(next.clone());
        true
    }
}

/// A place in the line. A claim that comes when nobody waits any more is passed on.
struct PlaceInLine {
    claims: &'static Claims,
    file: FileKey,
    files: Arc<Files>,
    given: oneshot::Receiver<Arc<Holding>>,
}

impl PlaceInLine {
    async fn until(mut self, deadline: tokio::time::Instant) -> Option<Claim> {
        match tokio::time::timeout_at(deadline, &mut self.given).await {
            Ok(Ok(held)) => {
                let (file, files) = (self.file.clone(), self.files.clone());
                Some(Claim { claims: self.claims, file, files, held })
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

impl Drop for PlaceInLine {
    fn drop(&mut self) {
        self.given.close();
        if let Ok(held) = self.given.try_recv() {
            self.claims.release(&self.file, &held);
        }
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
