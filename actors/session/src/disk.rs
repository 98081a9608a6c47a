//! The calls that decide whether a record is safe, behind a seam so that tests can make them fail.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::store::StoreError;

/// What a journal asks of the kernel.
pub trait Disk: Send + Sync + std::fmt::Debug + 'static {
    /// One `write(2)`; may write less than asked.
    fn write(&self, file: &File, record: &[u8]) -> io::Result<usize>;

    /// One `fdatasync(2)`, of a journal or a blob.
    fn flush(&self, file: &File) -> io::Result<()>;

    /// Writes all of a blob to its new file.
    fn write_blob(&self, mut file: &File, content: &[u8]) -> io::Result<()> {
        file.write_all(content)
    }

    /// One `fsync(2)` of a folder in which a blob's name is.
    fn flush_folder(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }
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

/// One record, one `write(2)`: never a second one for the rest, which could land after someone else's bytes.
pub(crate) fn write_record(disk: &dyn Disk, file: &File, line: &[u8], path: &Path) -> Result<(), StoreError> {
    loop {
        return match disk.write(file, line) {
            Ok(written) if written == line.len() => Ok(()),
            Ok(written) => Err(StoreError::Io {
                doing: "append a record",
                path: path.to_owned(),
                reason: format!("only {written} of {} bytes were written; see that there is space", line.len()),
            }),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => Err(StoreError::io("append a record", path, &e)),
        };
    }
}
