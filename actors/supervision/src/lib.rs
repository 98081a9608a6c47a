//! Supervisors, restart budgets, stable addresses, admission and the live tree, on ractor.
//!
//! ractor reports a dead child and restarts nothing; this crate adds what a long-lived house needs.
//! [`RestartPolicy`], [`RestartBudget`] and [`Backoff`] are pure: values, with time and chance passed in. [`Supervisor`]
//! is the actor that lives by them; a [`Roster`] keeps the children that one was given later. [`Directory`] gives
//! addresses that outlive actors, [`Admission`] bounds what waits for one, [`Tree`] shows what is alive, [`Threads`] have
//! room for work that blocks, and [`unwinding`] refuses a build in which none of this could work.
//!
//! It does no I/O but timers, tasks and threads. It never drops a child silently, never restarts without a bound, never
//! ends itself because a child keeps failing, never waits in a handler, and remembers nothing about a child that
//! has ended.
//!
//! # Policy × exit
//!
//! | | finished ([`finish`]) | asked for (`Stop`, `Shutdown`) | failed: panic, error, start error, a stop nobody asked the supervisor for | killed, unasked |
//! |---|---|---|---|---|
//! | exit | [`Exit::Normal`] | [`Exit::Intended`] | [`Exit::Failed`] | [`Exit::Killed`] |
//! | [`RestartPolicy::Permanent`] | restart | leave | restart | restart |
//! | [`RestartPolicy::Transient`] | leave | leave | restart | restart |
//! | [`RestartPolicy::Temporary`] | leave | leave | leave | leave |
//!
//! - *Restart*: after a pause that doubles, with jitter; when the [`RestartBudget`] is spent the child is *parked*
//!   instead: down, listed, shown in the tree with the reason, started again by `Resume` with a fresh budget.
//! - *Leave*: the child is forgotten; its id is free.
//!
//! A child is restarted and parked alone: nobody else pays for its exits.
//!
//! # Shutdown
//!
//! | | message at work | messages queued | `post_stop` | if it takes longer |
//! |---|---|---|---|---|
//! | [`Shutdown::Kill`] | dropped at its next await | dropped | no | – |
//! | [`Shutdown::Stop`] | finished | dropped | yes | killed |
//! | [`Shutdown::Drain`] | finished | all handled | yes | killed |
//!
//! What is still there [`KILL_GRACE`] after a kill blocks its thread: it is given up with
//! [`SupervisorError::Stuck`]. Such a handler may also hold up whatever its thread woke last, a supervisor included:
//! blocking work belongs on [`Threads`] of its own. A supervisor that is stopped (`Shutdown`, or by its own supervisor) ends its
//! children first, the last started first; one that is killed or crashes takes its children with it at once.

mod admission;
pub mod chaos;
mod child;
mod directory;
mod lru;
mod restart;
mod roster;
mod selftest;
mod supervisor;
mod task;
mod threads;
mod tree;

pub use admission::{Admission, Busy, Permit};
pub use child::{ChildSpec, KILL_GRACE, Shutdown, StartFn, finish, start_fn};
pub use directory::{Absent, Directory};
pub use lru::Lru;
pub use restart::{Backoff, Decision, Exit, RestartBudget, RestartHistory, RestartPolicy};
pub use roster::Roster;
pub use selftest::{PanicAborts, unwinding};
pub use supervisor::{
    Census, Notice, NoticeFn, ShutdownOrder, Supervisor, SupervisorArgs, SupervisorError, SupervisorMsg,
};
pub use task::Task;
pub use threads::{NoResult, ThreadPermit, Threads, panic_text};
pub use tree::{NodeSnapshot, NodeState, Tree, TreeNode};
