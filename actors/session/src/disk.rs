//! The two calls that decide whether a record is safe, behind a seam so that tests can make them fail.

use std::fs::File;
use std::io::{self, Write};

/// What a journal asks of the kernel.
pub trait Disk: Send + Sync + std::fmt::Debug + 'static {
    /// One `write(2)`; may write less than asked.
    fn write(&self, file: &File, record: &[u8]) -> io::Result<usize>;

    /// One `fdatasync(2)`.
    fn flush(&self, file: &File) -> io::Result<()>;
}

/// The kernel itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Disk for Kernel {
    fn write(&self, mut file: &File, record: &[u8]) -> io::Result<usize> {
        file.write(record)
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}
