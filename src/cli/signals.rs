//! Ctrl-C and SIGTERM: the first asks to stop, the second ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::stop::{INTERRUPTED, Stop};

/// Whether someone asked to stop. Clones see the same.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens from here on.
    pub fn listen() -> Result<Self, Stop> {
        let listen = |kind| signal(kind).map_err(|error| Stop::Refused(format!("signals cannot be heard: {error}")));
        let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let (asked, seen) = watch::channel(false);
        tokio::spawn(async move {
            either(&mut interrupt, &mut terminate).await;
            // Nobody waits any more when the program is about to end.
            let _ = asked.send(true);
            either(&mut interrupt, &mut terminate).await;
            std::process::exit(i32::from(INTERRUPTED));
        });
        Ok(Self(seen))
    }

    /// Whether someone asked.
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

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
