//! The file of `--last-message`: a plain one has all of the message or what it had before; anything else is written to.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::fstat;

/// How many links are followed, as Linux does.
const MOST_LINKS: usize = 40;

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where a path leads, which need not be there.
pub fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        if is_open_file(&place) {
            return Ok(place);
        }
        match place.read_link() {
            Ok(target) => place = folder_of(&place).join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::other("too many links lead on from here: name the file itself"))
}

/// Whether this is a file that a process has open already, such as what `/dev/stdout` and `/dev/fd/3` lead to.
fn is_open_file(place: &Path) -> bool {
    folder_of(place).canonicalize().is_ok_and(|folder| folder.starts_with("/proc"))
}

/// Writes the text: a plain file is replaced by one with all of it, what else there is is written to.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let place = behind_links(path)?;
    match place.metadata() {
        Ok(found) if is_stdout(&found) => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()
        }
        Ok(found) if is_stderr(&found) => io::stderr().lock().write_all(text.as_bytes()),
        Ok(found) if found.is_file() && !is_open_file(&place) => replace(&place, text),
        // What others have open keeps what they wrote.
        Ok(_) => OpenOptions::new().append(true).open(&place)?.write_all(text.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(&place, text),
        Err(error) => Err(error),
    }
}

fn is_stdout(found: &Metadata) -> bool {
    fstat(io::stdout()).is_ok_and(|own| (own.st_dev, own.st_ino) == (found.dev(), found.ino()))
}

fn is_stderr(found: &Metadata) -> bool {
    fstat(io::stderr()).is_ok_and(|own| (own.st_dev, own.st_ino) == (found.dev(), found.ino()))
}

fn replace(place: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile::Builder::new();
    file.prefix(".playhouse-");
    // What the user's mask takes away is taken away, as from any file.
    file.permissions(PermissionsExt::from_mode(0o666));
    let mut file = file.tempfile_in(folder_of(place))?;
    file.write_all(text.as_bytes())?;
    File::sync_all(file.as_file())?;
    file.persist(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::fs::write(&file, "old").unwrap();
        write(&link, "new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n");
        assert!(link.is_symlink());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_ne!(mode & 0o200, 0, "{mode:o}");
        assert!(write(&folder.path().join("no/such"), "x").is_err());
    }
}
