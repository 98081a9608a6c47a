//! Fail points for crash tests, compiled in by the feature `fail-points` only.
//!
//! `PLAYHOUSE_FAIL=<point>:<n>`, n from 1, counted over the whole process:
//!
//! | point | at |
//! |---|---|
//! | `append-before` | before the write of the n-th record: the process kills itself |
//! | `append-after` | after that write |
//! | `append-flushed` | after the flushes of the job that wrote the n-th record, before anyone hears of it |
//! | `write-short` | the n-th record is written by half |
//! | `disk-full` | the n-th record finds no room |
//! | `flush-error` | the n-th flush fails |
//! | `blob-before` | before the write of the n-th blob: the process kills itself |
//! | `blob-after` | after that write, before the blob has its name |
//! | `blob-full` | the n-th blob finds no room |

#[cfg(feature = "fail-points")]
mod armed {
    use std::fs::File;
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::store::files::disk::{Disk, Kernel};

    static RECORDS: AtomicU64 = AtomicU64::new(0);
    static FLUSHES: AtomicU64 = AtomicU64::new(0);
    static BLOBS: AtomicU64 = AtomicU64::new(0);
    static POINT: OnceLock<Option<(String, u64)>> = OnceLock::new();

    fn is(point: &str, count: u64) -> bool {
        armed_at(point) == Some(count)
    }

    fn armed_at(point: &str) -> Option<u64> {
        armed().filter(|(name, _)| name == point).map(|(_, n)| *n)
    }

    fn armed() -> Option<&'static (String, u64)> {
        let armed = POINT.get_or_init(|| {
            let text = std::env::var("PLAYHOUSE_FAIL").ok()?;
            let (name, n) = text.split_once(':')?;
            Some((name.to_owned(), n.parse().ok()?))
        });
        armed.as_ref()
    }

    fn die() -> ! {
        loop {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            std::thread::yield_now();
        }
    }

    /// The kernel, with the points of this module in between.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct FailingKernel;

    impl Disk for FailingKernel {
        fn write(&self, file: &File, record: &[u8]) -> io::Result<usize> {
            let n = RECORDS.fetch_add(1, Ordering::SeqCst) + 1;
            if is("append-before", n) {
                die();
            }
            if is("disk-full", n) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let record = match record.get(..record.len() / 2) {
                Some(half) if is("write-short", n) => half,
                _ => record,
            };
            let written = Kernel.write(file, record);
            if is("append-after", n) {
                die();
            }
            written
        }

        /// Without a point to strike at, records are written as they are without this module.
        fn write_batch(&self, file: &File, records: &[u8]) -> io::Result<usize> {
            let lines = records.split_inclusive(|byte| *byte == b'\n');
            if armed().is_none() {
                RECORDS.fetch_add(lines.count() as u64, Ordering::SeqCst);
                return Kernel.write_batch(file, records);
            }
            let mut done = 0;
            for record in lines {
                let written = self.write(file, record)?;
                done += written;
                if written < record.len() {
                    break;
                }
            }
            Ok(done)
        }

        fn flush(&self, file: &File) -> io::Result<()> {
            if is("flush-error", FLUSHES.fetch_add(1, Ordering::SeqCst) + 1) {
                return Err(io::Error::other("injected flush error"));
            }
            Kernel.flush(file)
        }

        fn write_blob(&self, file: &File, content: &[u8]) -> io::Result<()> {
            let n = BLOBS.fetch_add(1, Ordering::SeqCst) + 1;
            if is("blob-before", n) {
                die();
            }
            if is("blob-full", n) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let written = Kernel.write_blob(file, content);
            if is("blob-after", n) {
                die();
            }
            written
        }
    }

    /// Called when a job has flushed everything it had to.
    pub(crate) fn job_flushed() {
        if armed_at("append-flushed").is_some_and(|n| RECORDS.load(Ordering::SeqCst) >= n) {
            die();
        }
    }
}

#[cfg(feature = "fail-points")]
pub(crate) use armed::{FailingKernel as DefaultDisk, job_flushed};

#[cfg(not(feature = "fail-points"))]
pub(crate) use crate::store::files::disk::Kernel as DefaultDisk;

/// Called when a job has flushed everything it had to.
#[cfg(not(feature = "fail-points"))]
pub(crate) fn job_flushed() {}
