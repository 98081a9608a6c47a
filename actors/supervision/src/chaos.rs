//! Failing on purpose, for tests: with the feature `fail-points` an actor can be made to panic when it takes a message
//! of a given kind. Without it nothing of this is compiled in.

/// Where an actor may be struck: at the top of its handler, with its kind and the message's name. A supervisor is struck
/// by its id; the root is not meant to be, since nobody restarts it.
#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub fn strike(_actor: &str, _message: &'static str) {}

#[cfg(feature = "fail-points")]
pub use armed::{arm, disarm, is_armed, seen, strike};

#[cfg(feature = "fail-points")]
mod armed {
    use playhouse_protocol::lock;
    use std::collections::BTreeSet;
    use std::sync::{Mutex, MutexGuard};

    #[derive(Default)]
    struct Plan {
        target: Option<(String, String)>,
        /// How many messages of that kind pass unharmed first.
        spare: u32,
        struck: u32,
        seen: BTreeSet<(String, &'static str)>,
    }

    static PLAN: Mutex<Option<Plan>> = Mutex::new(None);

    fn plan() -> MutexGuard<'static, Option<Plan>> {
        lock(&PLAN)
    }

    /// Makes the next actor of this kind panic at a message of this name, after sparing `spare` of them.
    pub fn arm(actor: &str, message: &str, spare: u32) {
        let mut plan = plan();
        let plan = plan.get_or_insert_default();
        plan.target = Some((actor.to_owned(), message.to_owned()));
        plan.spare = spare;
        plan.struck = 0;
    }

    /// Lets everyone live again; says how often an actor was struck.
    pub fn disarm() -> u32 {
        plan().as_mut().map_or(0, |plan| {
            plan.target = None;
            plan.struck
        })
    }

    /// Whether a message of this name is waited for.
    pub fn is_armed(message: &str) -> bool {
        plan().as_ref().and_then(|plan| plan.target.as_ref()).is_some_and(|(_, m)| m == message)
    }

    /// Every kind of actor and message that has passed since the first call of [`arm`].
    pub fn seen() -> Vec<(String, &'static str)> {
        plan().as_ref().map(|plan| plan.seen.iter().cloned().collect()).unwrap_or_default()
    }

    /// Panics if this is the actor and message that [`arm`] named.
    pub fn strike(actor: &str, message: &'static str) {
        let strikes = {
            let mut plan = plan();
            let Some(plan) = plan.as_mut() else { return };
            plan.seen.insert((actor.to_owned(), message));
            match &plan.target {
                Some((a, m)) if a == actor && m == message && plan.spare > 0 => {
                    plan.spare -= 1;
                    false
                }
                Some((a, m)) if a == actor && m == message => {
                    plan.target = None;
                    plan.struck += 1;
                    true
                }
                Some(_) | None => false,
            }
        };
        if strikes {
            panic!("{actor} was struck at {message}");
        }
    }
}
