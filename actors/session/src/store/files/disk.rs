//! The calls that decide whether a record and its name are safe, behind a seam so that tests can make them fail, or cut
//! the power between any two.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::store::error::StoreError;

/// What a journal asks of the kernel.
pub trait Disk: Send + Sync + std::fmt::Debug + 'static {
    /// One `write(2)`; may write less than asked.
    fn write(&self, file: &File, record: &[u8]) -> io::Result<usize>;

    /// The records of one batch, each a whole line; may write less than asked. The kernel itself takes them in one
    /// `write(2)`; a disk that does something to single records gets them one by one.
    fn write_batch(&self, file: &File, records: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        for record in records.split_inclusive(|byte| *byte == b'\n') {
            let written = self.write(file, record)?;
            done += written;
            if written < record.len() {
                break;
            }
        }
        Ok(done)
    }

    /// One `fdatasync(2)`, of a journal or a blob.
    fn flush(&self, file: &File) -> io::Result<()>;

    /// Writes all of a blob to its new file.
    fn write_blob(&self, mut file: &File, content: &[u8]) -> io::Result<()> {
        file.write_all(content)
    }

    /// One `fsync(2)` of a folder in which the name of a journal or blob is.
    fn flush_folder(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }

    /// One `fsync(2)` that no commit waits for: of an owner record, of a tail that was cut, of the folder in which a
    /// name was made or removed.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    /// Opens a file that these options make.
    fn create(&self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        options.open(path)
    }

    /// Makes a folder that only its owner may use.
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    /// One `rename(2)` of a file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// One `unlink(2)` of a file.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Removes a folder with everything in it.
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}

/// The file system as the kernel gives it, without anything in between.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Disk for Kernel {
    fn write(&self, mut file: &File, record: &[u8]) -> io::Result<usize> {
        file.write(record)
    }

    fn write_batch(&self, mut file: &File, records: &[u8]) -> io::Result<usize> {
        loop {
            match file.write(records) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}

/// Writes a batch. What is not written at once is not written by a second call, whose bytes could land after someone
/// else's.
pub(crate) fn write_batch(disk: &dyn Disk, file: &File, records: &[u8], path: &Path) -> Result<(), StoreError> {
    match disk.write_batch(file, records) {
        Ok(written) if written == records.len() => Ok(()),
        Ok(written) => Err(StoreError::Io {
            doing: "append a batch",
            place: path.into(),
            reason: format!("only {written} of {} bytes were written; see that there is space", records.len()),
        }),
        Err(e) => Err(StoreError::io("append a batch", path, &e)),
    }
}

/// Makes names in a folder survive a power cut.
pub(crate) fn flush_folder(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    File::open(path).and_then(|folder| disk.flush_folder(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Notes what it is given, and is full after so many bytes.
    #[derive(Debug)]
    struct Notes(Mutex<Vec<String>>, usize);

    impl Disk for Notes {
        fn write(&self, _: &File, record: &[u8]) -> io::Result<usize> {
            let mut notes = self.0.lock().unwrap();
            let left = self.1 - notes.iter().map(String::len).sum::<usize>();
            let taken = &record[..record.len().min(left)];
            notes.push(String::from_utf8(taken.to_vec()).unwrap());
            Ok(taken.len())
        }

        fn flush(&self, _: &File) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_batch_is_one_write_for_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = File::create(&path).unwrap();
        write_batch(&Kernel, &file, b"a\nb\n", &path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a\nb\n");
    }

    #[test]
    fn a_disk_that_knows_records_gets_them_one_by_one_until_one_is_cut() {
        let file = File::open("/dev/null").unwrap();
        let disk = Notes(Mutex::default(), 6);
        let written = write_batch(&disk, &file, b"one\ntwo\nsix\n", Path::new("x"));
        let told = written.unwrap_err().to_string();
        assert_eq!(told, "x: could not append a batch: only 6 of 12 bytes were written; see that there is space");
        assert_eq!(*disk.0.lock().unwrap(), ["one\n", "tw"]);
    }
}
