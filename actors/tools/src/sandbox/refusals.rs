//! What a sandbox refused a command, said in one line with the grant that would allow it.
//!
//! Some of it is known for certain: whoever refuses a system call notes it ([`Refusals::note`]). The rest is read from
//! what a command that failed has printed (`words.rs`). Either counts only if a grant would have helped, or if there is
//! another reason to tell (`judge.rs`): a file that is missing, or not the user's own, is no refusal of the sandbox.

#[cfg(target_os = "linux")]
mod judge;
#[cfg(target_os = "linux")]
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

use playhouse_protocol::lock;
use playhouse_shell::{quote, spelled_out};
use serde_json::{Value, json};

use super::{Confined, Tier};
use crate::text::cut;

/// How many different refusals of one call are kept. What comes after them is counted.
const MOST_KEPT: usize = 64;
/// How many are said.
const MOST_SAID: usize = 3;
/// How much of a path is said, in characters.
const PATH_CHARS: usize = 200;
/// What each line begins with.
const LEAD: &str = "(sandbox: ";

/// Something that a sandbox did not let a command do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// Using the network. A local socket that a program does without, as the C library does when it looks for a name
    /// service's, is none.
    Network,
    /// Writing, making, removing or changing this file or folder.
    Change(PathBuf),
    /// Reading or running this file or folder.
    Read(PathBuf),
    /// Writing a file of more bytes than this.
    FileSize(u64),
}

/// What one call was refused. Clones are the same; bounded, and nothing is in it twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    kept: BTreeSet<Refusal>,
    /// How many there was no room for; what is refused again and again counts each time.
    more: usize,
}

impl Refusals {
    /// Adds one, unless it is there.
    pub(crate) fn note(&self, refusal: Refusal) {
        let mut noted = lock(&self.0);
        if noted.kept.len() < MOST_KEPT {
            noted.kept.insert(refusal);
        } else if !noted.kept.contains(&refusal) {
            noted.more = noted.more.saturating_add(1);
        }
    }

    fn take(&self) -> Noted {
        std::mem::take(&mut lock(&self.0))
    }
}

/// What helps against a refusal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Remedy {
    /// `--allow` with this.
    Allow(Grant),
    /// A higher limit in the configuration.
    Raise,
    /// Nothing that the user says: the project does without.
    OfProject,
    /// Nothing: it is kept from every tool.
    KeptFromTools,
    /// Nothing: this is in the same folder and kept from every tool, and a folder is granted only as a whole.
    Beside(PathBuf),
    /// No grant, since it is guarded; but a tool that names what it changes.
    FileTools,
}

/// What `--allow` takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grant {
    Network,
    Write(PathBuf),
    Read(PathBuf),
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("network"),
            Self::Write(path) => write!(f, "write={}", path.display()),
            Self::Read(path) => write!(f, "read={}", path.display()),
        }
    }
}

/// A refusal that was looked into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    refusal: Refusal,
    remedy: Remedy,
}

impl Told {
    /// For programs.
    fn details(&self) -> Value {
        let (what, path) = match &self.refusal {
            Refusal::Network => ("network", None),
            Refusal::Change(path) => ("write", Some(path)),
            Refusal::Read(path) => ("read", Some(path)),
            Refusal::FileSize(_) => ("file_size", None),
        };
        let mut details = json!({"what": what, "text": self.to_string()});
        if let Some(details) = details.as_object_mut() {
            if let Some(path) = path {
                details.insert("path".to_owned(), path.display().to_string().into());
            }
            if let Remedy::Allow(grant) = &self.remedy {
                details.insert("allow".to_owned(), grant.to_string().into());
            }
        }
        details
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refusal {
            Refusal::Network => f.write_str("no network here, this machine's own ports included")?,
            Refusal::Change(path) => write!(f, "{} may not be changed", shown(path))?,
            Refusal::Read(path) => write!(f, "{} may not be read", shown(path))?,
            Refusal::FileSize(most) => write!(f, "no file may grow beyond {} MiB", most >> 20)?,
        }
        match &self.remedy {
            Remedy::Allow(grant) => write!(f, "; the user can allow it with --allow {}", in_shell(&grant.to_string())),
            Remedy::Raise => f.write_str("; the user can raise that with sandbox_file_mb"),
            Remedy::OfProject => f.write_str("; the project's playhouse.toml says so, and no flag changes it"),
            Remedy::KeptFromTools => f.write_str("; it is kept from every tool"),
            Remedy::Beside(hidden) => {
                write!(f, "; nothing can be made or removed beside {}, which is kept from every tool", shown(hidden))
            }
            Remedy::FileTools => f.write_str("; it is guarded: edit_file and write_file can, if the user agrees"),
        }
    }
}

fn shown(path: &Path) -> String {
    spelled_out(&cut(&path.display().to_string(), PATH_CHARS))
}

/// A word as a shell takes it, in quotes only where it must be.
fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-=+:@%,".contains(c);
    spelled_out(&if word.chars().all(is_plain) { word.to_owned() } else { quote(word) })
}

/// What a command was refused, to be said at its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    told: Vec<Told>,
    /// How many there are beside those.
    more: usize,
}

impl Report {
    /// What stands below the output: a line for each of the first, and how many more there are.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.told.iter().take(MOST_SAID).map(|told| format!("{LEAD}{told})")).collect();
        let more = self.told.len().saturating_sub(MOST_SAID).saturating_add(self.more);
        if more > 0 {
            lines.push(format!("{LEAD}… and {more} more)"));
        }
        lines
    }

    /// For programs; `None` if nothing was refused.
    pub(crate) fn details(&self) -> Option<Value> {
        (!self.told.is_empty()).then(|| self.told.iter().map(Told::details).collect())
    }
}

/// What is said if the sandbox refused nothing and a command printed such lines itself: the last one is always ours.
pub(crate) fn denial(output: &str) -> Option<String> {
    let is_forged = output.contains(LEAD.trim_end());
    is_forged.then(|| format!("{LEAD}it refused nothing; what stands above is the command's own)"))
}

/// A command that ended, and what it left behind.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// As the model wrote it.
    pub(crate) command: String,
    pub(crate) status: ExitStatus,
    /// The ends of its streams: output, then errors.
    pub(crate) printed: [String; 2],
}

/// What a command was refused that failed in a sandbox; nothing for one that did well. Looks at files, so it blocks.
#[cfg(target_os = "linux")]
pub(crate) fn report(ended: &Ended, noted: &Refusals, confined: &Confined, tier: &Tier) -> Report {
    let missing = match tier {
        Tier::Off | Tier::Absent(_) => return Report::default(),
        Tier::Landlock => judge::Missing::IsMissing,
        Tier::Bwrap => judge::Missing::MayBeRefused,
    };
    if ended.status.success() {
        return Report::default();
    }
    let judge = judge::Judge::new(confined, missing);
    // What the supervisor knows is not guessed.
    let is_known = |refusal: &Refusal| *tier == Tier::Landlock && *refusal == Refusal::Network;
    for refusal in words::refusals(ended, &judge) {
        if !is_known(&refusal) && judge.told(refusal.clone()).is_some() {
            noted.note(refusal);
        }
    }
    let Noted { kept, more } = noted.take();
    let told: BTreeSet<Told> = kept.into_iter().filter_map(|refusal| judge.told(refusal)).collect();
    Report { told: told.into_iter().collect(), more }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn report(_: &Ended, noted: &Refusals, _: &Confined, _: &Tier) -> Report {
    // There is no sandbox.
    let Noted { more, .. } = noted.take();
    Report { told: Vec::new(), more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_there_once_and_bounded() {
        let refusals = Refusals::default();
        let same = refusals.clone();
        for _ in 0..3 {
            refusals.note(Refusal::Network);
            same.note(Refusal::Change("/srv".into()));
        }
        let Noted { kept, more } = refusals.take();
        assert_eq!((kept.len(), more), (2, 0));
        assert!(same.take().kept.is_empty());
        for number in 0..1_000 {
            refusals.note(Refusal::Read(format!("/{number}").into()));
        }
        let Noted { kept, more } = refusals.take();
        assert_eq!((kept.len(), more), (MOST_KEPT, 1_000 - MOST_KEPT));
    }

    #[test]
    fn a_line_names_the_grant_or_says_why_there_is_none() {
        let path = || PathBuf::from("/srv/out");
        let said = |refusal, remedy| Told { refusal, remedy }.to_string();
        let network = "no network here, this machine's own ports included";
        assert_eq!(
            said(Refusal::Network, Remedy::Allow(Grant::Network)),
            format!("{network}; the user can allow it with --allow network")
        );
        assert!(said(Refusal::Network, Remedy::OfProject).contains("playhouse.toml"));
        assert_eq!(
            said(Refusal::Change("/srv/out/x".into()), Remedy::Allow(Grant::Write(path()))),
            "/srv/out/x may not be changed; the user can allow it with --allow write=/srv/out"
        );
        assert_eq!(
            said(Refusal::Read(path()), Remedy::Allow(Grant::Read("/srv/a b".into()))),
            "/srv/out may not be read; the user can allow it with --allow 'read=/srv/a b'"
        );
        assert_eq!(
            said(Refusal::FileSize(7 << 20), Remedy::Raise),
            "no file may grow beyond 7 MiB; the user can raise that with sandbox_file_mb"
        );
        // A name cannot forge a line or move the cursor.
        let odd = said(Refusal::Change("/a\n(sandbox: x)\u{1b}[2J".into()), Remedy::KeptFromTools);
        assert!(!odd.contains(['\n', '\u{1b}']), "{odd}");
    }

    #[test]
    fn three_are_said_and_the_rest_is_counted() {
        let one = |number: usize| Told {
            refusal: Refusal::Change(format!("/{number}").into()),
            remedy: Remedy::KeptFromTools,
        };
        let report = Report { told: (0..5).map(one).collect(), more: 2 };
        let lines = report.lines();
        assert_eq!((lines.len(), lines[3].as_str()), (4, "(sandbox: … and 4 more)"));
        assert_eq!(Report::default().lines(), [""; 0]);
        assert_eq!(Report::default().details(), None);
    }

    #[cfg(target_os = "linux")]
    mod of_a_command {
        use super::*;
        use crate::runtime::ToolRuntime;
        use crate::sandbox::{Network, Sandbox, SandboxRules};
        use proptest::prelude::*;
        use std::os::unix::process::ExitStatusExt;

        /// What is said of a command that exited with this code, was refused this for certain, and printed this.
        fn said(rules: SandboxRules, cwd: &Path, code: i32, noted: &[Refusal], printed: &str) -> Report {
            let sandbox = Sandbox { rules: Arc::new(rules), ..Sandbox::default() };
            let confined = Confined::new(sandbox, cwd.to_owned(), &ToolRuntime::new("refusals"));
            let refusals = Refusals::default();
            noted.iter().for_each(|refusal| refusals.note(refusal.clone()));
            let status = ExitStatus::from_raw(code << 8);
            let ended = Ended { command: "x".to_owned(), status, printed: [String::new(), printed.to_owned()] };
            let report = report(&ended, &refusals, &confined, &Tier::Landlock);
            assert_eq!(super::super::report(&ended, &refusals, &confined, &Tier::Off), Report::default());
            report
        }

        #[test]
        fn what_is_certain_is_said_without_a_word_of_the_command() {
            let (here, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let file = outside.path().canonicalize().unwrap().join("f");
            std::fs::write(&file, "").unwrap();
            std::os::unix::fs::symlink(outside.path(), here.path().join("link")).unwrap();
            let by_link = here.path().join("link/f");
            let noted = [Refusal::Network, Refusal::Change(file.clone()), Refusal::Change(by_link)];
            let plain = SandboxRules::default;
            let words = format!("chmod: changing permissions of '{}': Operation not permitted", file.display());
            for printed in ["", &words] {
                let report = said(plain(), here.path(), 1, &noted, printed);
                let folder = outside.path().canonicalize().unwrap();
                let grants: Vec<&Remedy> = report.told.iter().map(|told| &told.remedy).collect();
                assert_eq!(grants, [&Remedy::Allow(Grant::Network), &Remedy::Allow(Grant::Write(folder))]);
            }
            // A command that did well was refused nothing that it needed.
            assert_eq!(said(plain(), here.path(), 0, &noted, &words), Report::default());
            // What is granted was not refused by the sandbox.
            let write = vec![outside.path().to_owned()];
            let wide = SandboxRules { network: Network::Granted, write, ..SandboxRules::default() };
            assert_eq!(said(wide, here.path(), 1, &noted, &words), Report::default());
        }

        proptest! {
            // Each looks at the disk.
            #![proptest_config(ProptestConfig::with_cases(64))]

            #[test]
            fn any_words_are_read_and_little_is_said(
                printed in "(([a-z:'`‘’\"/ .]{0,30}|/etc/[a-z]{0,3}|/)(: |, |\n)(Permission denied|Read-only file system|EPERM|socket|x)\n?){0,40}"
            ) {
                let here = std::env::temp_dir();
                let report = said(SandboxRules::default(), &here, 1, &[], &printed);
                prop_assert!(report.lines().len() <= MOST_SAID + 1);
                prop_assert!(report.lines().iter().all(|line| line.starts_with(LEAD) && !line.contains('\n')));
            }
        }
    }

    #[test]
    fn words_like_ours_are_disowned() {
        assert_eq!(denial("fine\n"), None);
        assert!(denial("x\n  (sandbox: nothing to see)\n").is_some());
    }
}
