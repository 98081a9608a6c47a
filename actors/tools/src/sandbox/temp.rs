//! The folder for the temporary files of a run's tools. It goes with the run, or with what a dead house left.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::process::mark::{nonce, plain};

/// A folder that is removed with everything in it.
#[derive(Debug)]
pub(crate) struct TempFolder(PathBuf);

impl TempFolder {
    /// Makes one for a house.
    pub(crate) fn new(house: &str) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        let above = of(house);
        match builder.create(&above) {
            // Another run's end may remove it in between, so it is not enough that it was there.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let path = fs::canonicalize(&above)?.join(format!("{:016x}", nonce()));
        builder.create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    /// Removes it here if it is empty, else on a thread: whoever drops it may not wait.
    fn drop(&mut self) {
        let remove = |path: &Path, all: fn(&Path) -> io::Result<()>| {
            let done = all(path);
            // The last one to go takes the house's folder with it.
            let _ = path.parent().map(fs::remove_dir);
            done
        };
        if remove(&self.0, |path| fs::remove_dir(path)).is_ok() {
            return;
        }
        let path = std::mem::take(&mut self.0);
        let work = move || {
            if let Err(error) = remove(&path, |path| fs::remove_dir_all(path))
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!("{} could not be removed: {error}", path.display());
            }
        };
        // Without a thread it stays until the house is looked after by the next one.
        let _ = std::thread::Builder::new().name("playhouse-temp".to_owned()).spawn(work);
    }
}

/// Removes what a dead house left.
pub(crate) fn clear(dead_house: &str) {
    let path = of(dead_house);
    match fs::remove_dir_all(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!("{} could not be removed: {error}", path.display()),
    }
}

fn of(house: &str) -> PathBuf {
    std::env::temp_dir().join(format!("playhouse-{}", plain(house)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    #[test]
    fn a_folder_is_private_and_goes_with_everything_in_it() {
        let house = format!("temp-test-{:x}", nonce());
        let (one, two) = (TempFolder::new(&house).unwrap(), TempFolder::new(&house).unwrap());
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir(two.path().join("a")).unwrap();
        fs::write(two.path().join("a/b"), "x").unwrap();
        drop(one);
        assert!(of(&house).exists(), "the other is still there");
        drop(two);
        let begun = Instant::now();
        while of(&house).exists() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_a_dead_house_left_is_removed() {
        let house = format!("temp-test-{:x}", nonce());
        let folder = TempFolder::new(&house).unwrap();
        fs::write(folder.path().join("x"), "x").unwrap();
        std::mem::forget(folder);
        clear(&house);
        assert!(!of(&house).exists());
        clear(&house);
    }
}
