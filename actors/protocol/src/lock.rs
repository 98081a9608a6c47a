//! How a lock is taken whose holder panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, also after a panic of whoever held it. For data that is never half changed while the lock is held: then
/// the panic concerns its own task and nobody else.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_taken_after_a_panic_with_what_was_there() {
        let mutex = Mutex::new(7);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock(&mutex);
            panic!("with the lock");
        }));
        assert!(panicked.is_err() && mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 7);
    }
}
