//! A data directory on a disk of its own that is really full. It is mounted where only the program sees it, which needs no
//! rights. Nothing here is skipped: where the kernel allows no user namespaces, this fails, as the sandbox does.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::support::{Desk, files};

/// A small disk that is there as long as this is.
struct SmallDisk {
    /// Waits for the end of its input.
    holder: Child,
    place: PathBuf,
}

impl SmallDisk {
    fn mounted_at(place: &Path) -> Self {
        std::fs::create_dir(place).unwrap();
        let mount = r#"mount -t tmpfs -o size=256k,mode=700 none "$0" && echo mounted && exec cat"#;
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount])
            .arg(place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "mounted\n", "a disk can be mounted in a user namespace");
        let place =
            Path::new("/proc").join(holder.id().to_string()).join("root").join(place.strip_prefix("/").unwrap());
        Self { holder, place }
    }

    /// Leaves not a byte; what is written into the last page of a file still finds room.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.place.join("fill")).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[0; 512]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }

    fn make_room(&self) {
        std::fs::remove_file(self.place.join("fill")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

fn status(desk: &Desk) -> Value {
    desk.sessions()[0]["status"].clone()
}

#[test]
fn f30_a_run_whose_disk_is_full_says_so_loses_nothing_and_is_resumed() {
    let mut desk = Desk::new();
    let disk = SmallDisk::mounted_at(&desk.data());
    desk.see_mounts_of(disk.holder.id());
    // More than the last page of a file has room for.
    let command = "echo ran >> ran; until [ -e go ]; do sleep 0.05; done; seq 2000";
    let turns = json!([{"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": "finished"}]);
    let script = desk.script("s.json", turns);
    let ran = || std::fs::read_to_string(desk.work().join("ran")).unwrap();
    let args = ["run", "the prompt", "--script", &script, "--permission", "yolo"];
    let running = desk.start_until(&args, "ToolExecutionStart");
    let session = running.session.clone();
    while !desk.work().join("ran").exists() {
        std::thread::yield_now();
    }
    disk.fill();
    desk.write("go", "");
    let (code, _, err) = running.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("see that there is space") && err.contains("playhouse resume"), "{err}");

    // Nothing goes on while it is full; what was acknowledged is there.
    let refused = desk.run(&["resume", &session]);
    assert!(refused.code == Some(1) && refused.err.contains("disk is full"), "{refused:?}");
    assert_eq!((status(&desk), ran().as_str()), (json!("unfinished"), "ran\n"));
    let shown = desk.run(&["sessions", "show", &session]);
    assert!(shown.code == Some(0) && shown.out.contains("the prompt"), "{shown:?}");

    disk.make_room();
    desk.run(&["resume", &session]).said("finished\n");
    assert_eq!((status(&desk), ran().as_str()), (json!("done"), "ran\n"), "what may have happened is not repeated");
    let verified = desk.run(&["audit", "verify", &session]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(files(&desk.data()).is_empty(), "it was on the small disk and nowhere else");
}
