//! Paths: whatever a call names and whatever links lie in the working directory, the file tools show nothing and change
//! nothing outside of it, and no call panics.
//!
//! An input is a play in a fresh folder: links and folders are made as someone would who wants out, and tools are called
//! with paths of any form. Beside the working directory is a folder with a file that nobody may see or touch.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use playhouse_protocol::{Cancel, EffectClass, SessionId, ToolContext, ToolError, ToolResult};
use playhouse_tools::{Sandbox, ToolRuntime, ToolSet, Vetted, default_tools};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::bytes::Bytes;

pub(crate) const SEEDS: &[&[u8]] = &[
    // Reads of a file, through a link, upwards, and from the root of the file system.
    &[0, 5, 0xFF, 0, 8, 0xFF, 0, 2, 0, 14, 0xFF, 0, 12, 0, 14, 0xFF],
    // A link to the outside, then everything through it.
    &[5, 11, 0xFF, 2, 0, 13, 0xFF, 0, 11, 0, 14, 0xFF, 1, 11, 0xFF, 2, 11, 0, 3, 0xFF, 4, 11, 0xFF],
    // A file is read, edited and written; a folder is swapped for a link.
    &[0, 5, 0xFF, 3, 5, 0xFF, 2, 5, 0xFF, 7, 6, 0xFF, 10, 0xFF, 2, 6, 0, 3, 0xFF],
    // Links in a circle, and a pipe.
    &[5, 3, 0xFF, 4, 0xFF, 5, 4, 0xFF, 3, 0xFF, 0, 3, 0xFF, 0, 9, 0xFF, 2, 9, 0xFF],
];

/// What paths are made of, beside single characters.
const WORDS: [&str; 24] = [
    "/",
    ".",
    "..",
    "new",
    "more",
    "file",
    "folder",
    "inner",
    "link",
    "pipe",
    "up",
    "out",
    "/proc/self/root",
    "outside",
    "/etc/passwd",
    "ROOT",
    "OUTSIDE",
    "\0",
    "../",
    "./",
    "//",
    "/proc/self/cwd",
    "*",
    "ä",
];
/// How many words a path may have, and how many acts a play.
const MAX_WORDS: usize = 16;
const MAX_ACTS: usize = 12;

/// What the file outside is called and what is in it. No path can name it by accident.
const OUTSIDER: &str = "kept-from-everyone";
const SECRET: &str = "nobody reads this line";

static RUNTIME: LazyLock<ToolRuntime> = LazyLock::new(|| ToolRuntime::new("fuzz"));

static TOOLS: LazyLock<ToolSet> =
    LazyLock::new(|| ToolSet::new(default_tools()).expect("the built-in tools make a set"));

thread_local! {
    static STAGE: OnceCell<(TempDir, Runtime)> = const { OnceCell::new() };
}

/// Plays one input.
pub(crate) fn run(input: &[u8]) {
    STAGE.with(|stage| {
        let (folder, runtime) = stage.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            (TempDir::new().expect("a temporary folder"), runtime.expect("a runtime"))
        });
        let base = fs::canonicalize(folder.path()).expect("the folder is there");
        let scene = Scene::new(&base);
        runtime.block_on(scene.play(Bytes(input)));
    });
}

/// The working directory and what is beside it.
struct Scene {
    root: PathBuf,
    outside: PathBuf,
}

impl Scene {
    /// Sets it up anew.
    fn new(base: &Path) -> Self {
        let scene = Self { root: base.join("root"), outside: base.join("outside") };
        let set = || -> std::io::Result<()> {
            for folder in [&scene.root, &scene.outside] {
                if folder.exists() {
                    fs::remove_dir_all(folder)?;
                }
            }
            fs::create_dir_all(scene.root.join("folder"))?;
            fs::create_dir_all(scene.outside.join("folder"))?;
            fs::write(scene.root.join("file"), "a line\nanother line\n")?;
            fs::write(scene.root.join("folder/inner"), "an inner line\n")?;
            fs::write(scene.outside.join(OUTSIDER), SECRET)?;
            symlink("folder/inner", scene.root.join("link"))?;
            symlink("..", scene.root.join("up"))?;
            symlink(&scene.outside, scene.root.join("out"))?;
            symlink("../../outside", scene.root.join("folder/out"))?;
            mknodat(CWD, scene.root.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            Ok(())
        };
        set().expect("the scene is set");
        scene
    }

    async fn play(&self, mut input: Bytes<'_>) {
        for _ in 0..MAX_ACTS {
            if input.is_empty() {
                break;
            }
            match input.next() % 8 {
                0 => {
                    let path = self.path(&mut input);
                    self.call("read_file", &path, json!({"path": path})).await;
                }
                1 => {
                    let path = self.path(&mut input);
                    self.call("list_files", &path, json!({"path": path, "depth": 3})).await;
                }
                2 => {
                    let path = self.path(&mut input);
                    self.call("write_file", &path, json!({"path": path, "content": "written\n"})).await;
                }
                3 => {
                    let path = self.path(&mut input);
                    let edits = json!([{"old_text": input.one_of(&["a line", "written", "x"]), "new_text": "edited"}]);
                    self.call("edit_file", &path, json!({"path": path, "edits": edits})).await;
                }
                4 => {
                    let path = self.path(&mut input);
                    self.call("search", &path, json!({"path": path, "pattern": "line"})).await;
                }
                // What someone does who has a shell there, and may fail as it likes.
                5 => {
                    let (at, target) = (self.path(&mut input), self.path(&mut input));
                    let _ = self.place(&at).map(|at| symlink(target.replace('\0', ""), at));
                }
                6 => {
                    let at = self.path(&mut input);
                    let _ = self.place(&at).map(fs::create_dir_all);
                }
                _ => {
                    let (from, to) = (self.path(&mut input), self.path(&mut input));
                    if let (Some(from), Some(to)) = (self.place(&from), self.place(&to)) {
                        let _ = fs::rename(from, to);
                    }
                }
            }
        }
    }

    /// A path: words and characters up to 0xFF.
    fn path(&self, input: &mut Bytes<'_>) -> String {
        let mut path = String::new();
        for _ in 0..MAX_WORDS {
            if input.is_empty() {
                break;
            }
            let byte = input.next();
            match (byte, WORDS.get(usize::from(byte))) {
                (0xFF, _) => break,
                (_, Some(&"ROOT")) => path.push_str(&self.root.to_string_lossy()),
                (_, Some(&"OUTSIDE")) => path.push_str(&self.outside.to_string_lossy()),
                (_, Some(word)) => path.push_str(word),
                (_, None) => path.push(char::from(byte)),
            }
        }
        path
    }

    /// A place for what the play itself makes: beneath the root by its folder's real path, so that only tools can err.
    fn place(&self, path: &str) -> Option<PathBuf> {
        let full = self.root.join(path.replace('\0', ""));
        let name = full.file_name()?;
        let folder = fs::canonicalize(full.parent()?).ok()?;
        folder.starts_with(&self.root).then(|| folder.join(name))
    }

    /// Calls a tool as an agent would and checks what must hold.
    async fn call(&self, name: &str, path: &str, args: Value) {
        let Vetted::Ready { .. } = TOOLS.vet(name, &args) else { return };
        let tool = TOOLS.get(name).expect("a built-in tool");
        let result = RUNTIME.call(&*tool, Sandbox::default(), args.clone(), self.context(name)).await;
        self.check(&format!("{name} {args}"), path, &result);
    }

    fn context(&self, name: &str) -> ToolContext {
        ToolContext {
            tool_call_id: "call".into(),
            tool_name: name.to_owned(),
            session_id: SessionId::new("fuzz").expect("a session's id"),
            cwd: self.root.clone(),
            effect: EffectClass::Once,
            reconcile: false,
            cancel: Cancel::new(),
            states: Default::default(),
            on_update: None,
            on_progress: None,
        }
    }

    fn check(&self, call: &str, path: &str, result: &Result<ToolResult, ToolError>) {
        let said = format!("{result:?}");
        assert!(!said.contains(SECRET) && !said.contains(OUTSIDER), "{call} shows what is outside: {said}");
        let real = fs::canonicalize(self.root.join(path.replace('\0', "")));
        if let (Ok(_), Ok(real)) = (result, &real) {
            assert!(real.starts_with(&self.root), "{call} reached {}: {said}", real.display());
        }
        let mut beside = names(self.root.parent().expect("the root is in a folder"));
        beside.extend(names(&self.outside));
        beside.extend(names(&self.outside.join("folder")));
        assert_eq!(beside, ["outside", "root", "folder", OUTSIDER], "{call} changed what is outside: {said}");
        let kept = fs::read_to_string(self.outside.join(OUTSIDER)).expect("the file outside is there");
        assert_eq!(kept, SECRET, "{call} wrote outside: {said}");
    }
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> = entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
