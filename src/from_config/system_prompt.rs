//! The system prompt of agents that nobody gave another: where they are, what they have and what they may do.
//!
//! It is made once, when a session begins, and is in its journal: a session that is resumed has the same words, and a
//! service's prompt cache keeps them.

use std::path::PathBuf;

use jiff::Timestamp;
use playhouse_protocol::entry::Settings;
use playhouse_protocol::{PermissionMode, SandboxMode};
use playhouse_tools::Network;

use crate::config::Confinement;
use crate::text::{cut, one_line};

/// How the prompt of an agent begins, and by what one is known.
const AGENT: &str = "You are an agent run by Playhouse. Work on the user's task with your tools until it is done. Then \
                     answer briefly: what you did, what you found, what is left.\n";
/// How that of a sub-agent begins.
const SUB_AGENT: &str = "You are a sub-agent run by Playhouse. Another agent gave you one task. It cannot be asked, and gets \
                         your last message as the result: put all that it needs into it.\n";
/// How the lines begin that follow settings.
const DIRECTORY: &str = "Working directory: ";
const TOOLS: &str = "Tools: ";
const SANDBOX: &str = "Sandbox: ";
/// The line where a sandbox is wanted and none works.
const NO_SANDBOX: &str = "Sandbox: none works on this machine.";
const UNCONFINED: &str = "Commands may do all that the user may, so be careful.";
const PERMISSION: &str = "Permission: ";
/// The most characters of a path or of a list.
const MOST: usize = 200;

/// Whether a person can answer questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attended {
    ByAPerson,
    ByNobody,
}

/// What the words are about, beside the settings of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    /// The time of the session's start; `None` leaves out all that is another one elsewhere or tomorrow.
    pub(super) now: Option<Timestamp>,
    pub(super) attended: Attended,
    pub(super) confinement: &'a Confinement,
    /// Whether a sandbox works on this machine, where any will do.
    pub(super) machine: Machine,
}

/// What a machine has for `SandboxMode::Auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    HasASandbox,
    HasNone,
}

/// The prompt of an agent with these settings.
pub(super) fn of_agent(settings: &Settings, around: Surroundings<'_>) -> String {
    let mut text = AGENT.to_owned();
    if let Some(now) = around.now {
        text.push_str(&directory(settings));
        text.push_str(&format!("System: {} on {}\n", std::env::consts::OS, std::env::consts::ARCH));
        text.push_str(&format!("Date: {} (UTC)\n", now.strftime("%Y-%m-%d")));
    }
    text.push_str(&tools(&settings.tools));
    text.push_str(&sandbox(settings.sandbox, around));
    text.push_str(&permission(settings.permission, around.attended));
    text
}

/// The prompt of the sub-agents of an agent that has this one: empty if that is not ours.
pub(super) fn of_sub_agent(settings: &Settings, sub_agent: &str) -> String {
    let Some(rest) = settings.system_prompt.strip_prefix(AGENT) else { return String::new() };
    let own: Vec<String> = settings.tools.iter().filter(|name| *name != sub_agent).cloned().collect();
    SUB_AGENT.to_owned() + &with_line(rest, TOOLS, &tools(&own))
}

/// The prompt of a stored session, with what its new settings change in it. One that is not ours stays as it is.
pub(super) fn renewed(stored: &Settings, settings: &Settings, around: Surroundings<'_>) -> String {
    let mut text = settings.system_prompt.to_string();
    if !text.starts_with(AGENT) {
        return text;
    }
    if stored.cwd != settings.cwd {
        text = with_line(&text, DIRECTORY, &directory(settings));
    }
    if stored.tools != settings.tools {
        text = with_line(&text, TOOLS, &tools(&settings.tools));
    }
    let told = if text.contains(NO_SANDBOX) { Machine::HasNone } else { Machine::HasASandbox };
    let has_moved = settings.sandbox == SandboxMode::Auto && told != around.machine;
    if stored.sandbox != settings.sandbox || has_moved {
        text = with_line(&text, SANDBOX, &sandbox(settings.sandbox, around));
    }
    if stored.permission != settings.permission {
        text = with_line(&text, PERMISSION, &permission(settings.permission, around.attended));
    }
    text
}

/// The text with another line in place of the one that begins so.
fn with_line(text: &str, begins: &str, new: &str) -> String {
    text.split_inclusive('\n').map(|line| if line.starts_with(begins) { new } else { line }).collect()
}

fn directory(settings: &Settings) -> String {
    format!("{DIRECTORY}{}\n", cut(&one_line(&settings.cwd.display().to_string()), MOST))
}

fn tools(names: &[String]) -> String {
    match names {
        [] => format!("{TOOLS}none; answer from what you know and were told.\n"),
        names => format!("{TOOLS}{}\n", cut(&names.join(", "), MOST)),
    }
}

fn sandbox(mode: SandboxMode, around: Surroundings<'_>) -> String {
    let confinement = around.confinement;
    let network = match confinement.network.value {
        Network::Denied => "have no network",
        Network::Granted => "may use the network",
    };
    match (mode, around.machine) {
        (SandboxMode::Off, _) => format!("{SANDBOX}none. {UNCONFINED}\n"),
        (SandboxMode::Auto, Machine::HasNone) => format!("{NO_SANDBOX} {UNCONFINED}\n"),
        (SandboxMode::Auto, Machine::HasASandbox) | (SandboxMode::Landlock | SandboxMode::Bwrap, _) => format!(
            "{SANDBOX}commands write only in the working directory{} and a temporary folder of their own, and {network}. \
             What is refused is said in their results: do not work around it, but say what you need and why. The user can \
             allow it with --allow network, --allow write=DIR or --allow read=DIR.\n",
            folders(&confinement.write.value)
        ),
    }
}

fn folders(granted: &[PathBuf]) -> String {
    let told: Vec<String> = granted.iter().map(|folder| format!(", {}", folder.display())).collect();
    cut(&one_line(&told.concat()), MOST)
}

fn permission(mode: PermissionMode, attended: Attended) -> String {
    let asked = match mode {
        PermissionMode::Strict => "the user is asked before each tool runs.",
        PermissionMode::Ask => "the user is asked before a tool changes something.",
        PermissionMode::AutoSafe => "the user is asked before a tool does more than write files here.",
        PermissionMode::Yolo => "tools run without asking.",
    };
    let who = match attended {
        Attended::ByAPerson => "A person is there.",
        Attended::ByNobody => {
            "Nobody is there to answer: what would be asked about is denied. Decide by yourself, and say at the end what you \
             could not do."
        }
    };
    format!("{PERMISSION}{asked} {who}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::plain;
    use crate::config::Setting;
    use playhouse_protocol::Durability;

    fn settings() -> Settings {
        let tools = vec!["bash".to_owned(), "sub_agent".to_owned()];
        Settings { cwd: "/work\n\x1b[31mhere".into(), tools, ..plain(Durability::Flush) }
    }

    fn around(confinement: &Confinement) -> Surroundings<'_> {
        let now = Timestamp::from_second(1_800_000_000).ok();
        Surroundings { now, attended: Attended::ByNobody, confinement, machine: Machine::HasASandbox }
    }

    #[test]
    fn an_agent_is_told_where_it_is() {
        let confinement = Confinement::default();
        let text = of_agent(&settings(), around(&confinement));
        for line in ["Working directory: /work [31mhere\n", "Date: 2027-01-15 (UTC)\n", "Tools: bash, sub_agent\n"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains("have no network") && text.contains("Nobody is there"), "{text}");
        // What a recording answers must be the same elsewhere and tomorrow.
        let anywhere = of_agent(&settings(), Surroundings { now: None, ..around(&confinement) });
        assert!(
            !anywhere.contains("here\n") && !anywhere.contains("2027") && anywhere.contains("Tools: "),
            "{anywhere}"
        );
    }

    #[test]
    fn a_machine_without_a_sandbox_is_not_said_to_have_one() {
        let confinement = Confinement::default();
        let (here, there) = (around(&confinement), Surroundings { machine: Machine::HasNone, ..around(&confinement) });
        let sandbox = |text: &str| text.lines().find(|line| line.starts_with(SANDBOX)).unwrap_or_default().to_owned();
        let mut stored = settings();
        stored.system_prompt = of_agent(&stored, here).into();
        assert!(sandbox(&stored.system_prompt).starts_with("Sandbox: commands write only"));
        let moved = renewed(&stored, &stored, there);
        assert_eq!(
            sandbox(&moved),
            "Sandbox: none works on this machine. Commands may do all that the user may, so be careful."
        );
        assert_eq!(moved, of_agent(&stored, there), "a session that moves there is told");
        let back = Settings { system_prompt: moved.into(), ..stored.clone() };
        assert_eq!(renewed(&back, &back, here), &*stored.system_prompt, "and when it comes back");
    }

    #[test]
    fn it_is_short_whatever_is_in_it() {
        let long = "x".repeat(5_000);
        let write = Setting::default_of(vec![long.as_str().into(); 9]);
        let confinement = Confinement { write, ..Confinement::default() };
        let mut settings = Settings { cwd: long.as_str().into(), tools: vec![long; 9], ..settings() };
        for permission in [PermissionMode::Strict, PermissionMode::Ask, PermissionMode::AutoSafe, PermissionMode::Yolo]
        {
            settings.permission = permission;
            let text = of_agent(&settings, around(&confinement));
            settings.system_prompt = text.as_str().into();
            for text in [text, of_sub_agent(&settings, "sub_agent")] {
                assert!((1..=1_500).contains(&text.chars().count()), "{}: {text}", text.len());
            }
        }
    }

    #[test]
    fn a_sub_agent_has_its_own_and_new_settings_change_their_lines_alone() {
        let confinement = Confinement::default();
        let mut stored = settings();
        stored.system_prompt = of_agent(&stored, around(&confinement)).into();
        let child = of_sub_agent(&stored, "sub_agent");
        assert!(child.starts_with(SUB_AGENT) && child.contains("Tools: bash\n"), "{child}");
        assert_eq!(renewed(&stored, &stored, around(&confinement)), &*stored.system_prompt);
        let other = Settings { tools: Vec::new(), cwd: "/there".into(), ..stored.clone() };
        let text = renewed(&stored, &other, around(&confinement));
        let unlike: Vec<&str> = text.lines().filter(|line| !stored.system_prompt.contains(line)).collect();
        assert_eq!(unlike, ["Working directory: /there", "Tools: none; answer from what you know and were told."]);
        let users = Settings { system_prompt: "Be brief.".into(), ..stored.clone() };
        assert_eq!(renewed(&stored, &users, around(&confinement)), "Be brief.");
        assert_eq!(of_sub_agent(&users, "sub_agent"), "");
    }
}
