//! How much a command can do, by its name and its arguments.

use playhouse_protocol::Level;

use crate::name::{base, is_long, is_short};
use crate::readers::only_reads;
use crate::seen::{Doubt, of_argvs};
use crate::unwrap::is_shell;
use crate::wraps::is_language;
use crate::{SimpleCommand, git, wraps};

/// Programs that destroy, act as somebody else, reach other machines or change the system.
const DANGEROUS: [&str; 89] = [
    "apt",
    "apt-get",
    "aptitude",
    "at",
    "aws",
    "az",
    "batch",
    "bcdedit",
    "blkdiscard",
    "brew",
    "chattr",
    "chpasswd",
    "chroot",
    "cfdisk",
    "crontab",
    "cryptsetup",
    "curl",
    "dd",
    "diskpart",
    "diskutil",
    "dnf",
    "doas",
    "docker",
    "docker-compose",
    "dpkg",
    "fdisk",
    "firewall-cmd",
    "ftp",
    "gcloud",
    "gdisk",
    "groupdel",
    "halt",
    "helm",
    "init",
    "insmod",
    "iptables",
    "kill",
    "killall",
    "kubectl",
    "launchctl",
    "losetup",
    "lvremove",
    "mkswap",
    "modprobe",
    "mosh",
    "mount",
    "nc",
    "ncat",
    "nerdctl",
    "netcat",
    "nft",
    "nsenter",
    "pacman",
    "parted",
    "passwd",
    "pkexec",
    "pkill",
    "podman",
    "poweroff",
    "reboot",
    "rlogin",
    "rmmod",
    "rsh",
    "rsync",
    "runuser",
    "scp",
    "service",
    "setcap",
    "sftp",
    "sfdisk",
    "sgdisk",
    "shred",
    "shutdown",
    "snap",
    "socat",
    "ssh",
    "su",
    "sudo",
    "swapoff",
    "sysctl",
    "systemctl",
    "telinit",
    "telnet",
    "terraform",
    "umount",
    "unshare",
    "userdel",
    "usermod",
    "wget",
];

const ALSO_DANGEROUS: [&str; 10] =
    ["useradd", "visudo", "vgremove", "pvremove", "wipefs", "xfs_repair", "yum", "zfs", "zpool", "zypper"];

/// Words with which a package manager takes something away or publishes it.
const REMOVALS: [(&str, &[&str]); 7] = [
    ("npm", &["uninstall", "remove", "rm", "un", "r", "unlink", "publish", "unpublish", "deprecate"]),
    ("yarn", &["remove", "publish"]),
    ("pnpm", &["remove", "rm", "uninstall", "un", "publish"]),
    ("pip", &["uninstall"]),
    ("cargo", &["uninstall", "publish", "yank", "owner", "login"]),
    ("gem", &["uninstall", "push", "yank"]),
    ("go", &["clean"]),
];

/// How much a simple command can do.
///
/// [`Level::ReadOnly`] is for programs of which it is known that with these arguments they only read, start nothing,
/// and are pointed at nothing above or outside of the working directory. What is inside of a wrapper counts too.
pub fn level(command: &SimpleCommand) -> Level {
    let found = of_argvs([command.argv.as_slice()].into_iter());
    let deepest = found.iter().filter(|argv| **argv != command.argv).map(|argv| danger(argv)).max();
    let own = if only_reads(&command.argv) { Level::ReadOnly } else { danger(&command.argv) };
    own.max(deepest.unwrap_or(Level::None)).max(if wraps(&command.argv) { Level::Execute } else { Level::None })
}

/// How much a text can do of which only these commands were read.
pub(super) fn of_opaque(seen: &[Vec<String>], doubt: Doubt) -> Level {
    match doubt {
        Doubt::Some => Level::Dangerous,
        Doubt::None if seen.iter().any(|argv| might_be_dangerous(argv)) => Level::Dangerous,
        Doubt::None => Level::Execute,
    }
}

/// Whether a command whose words may not all be known is dangerous, or would be with other words in their place.
fn might_be_dangerous(argv: &[String]) -> bool {
    let Some((program, args)) = argv.split_first() else { return true };
    let is_known = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '+' | '-' | ':');
    let has_unknown = || args.iter().any(|word| word.contains(['$', '`']));
    let name = base(program);
    danger(argv) == Level::Dangerous
        || program.is_empty()
        || !(program == "[" || program.chars().all(is_known))
        || matches!(name.as_str(), "eval" | "source" | "." | "alias" | "trap")
        // What it is given on its input, or in a file that was made a moment ago, was not read.
        || (is_shell(program) && !args.iter().any(|word| is_short(word, &['c'])))
        || (has_unknown() && (wraps(argv) || REMOVALS.iter().any(|(manager, _)| *manager == name) || is_by_words(&name)))
        || (is_language(&name) && args.iter().all(|word| word.starts_with('-')))
}

/// Whether it depends on a program's words if it is dangerous.
fn is_by_words(name: &str) -> bool {
    matches!(name, "git" | "rm" | "chmod" | "chown" | "chgrp" | "find" | "fd")
}

/// The level of a command that does not only read.
fn danger(argv: &[String]) -> Level {
    let Some((program, args)) = argv.split_first() else { return Level::Execute };
    let name = base(program);
    let name = name.as_str();
    let removes = REMOVALS.iter().find(|(manager, _)| *manager == name).map(|(_, words)| *words).unwrap_or_default();
    let is_dangerous = DANGEROUS.contains(&name)
        || ALSO_DANGEROUS.contains(&name)
        || name.starts_with("mkfs")
        || match name {
            "git" => git::is_dangerous(args),
            "rm" => args.iter().any(|word| is_short(word, &['r', 'R']) || is_long(word, &["recursive"])),
            "chmod" | "chown" | "chgrp" => {
                args.iter().any(|word| is_short(word, &['R']) || is_long(word, &["recursive"]))
            }
            "find" | "fd" => args.iter().any(|word| word == "-delete"),
            _ => args.iter().any(|word| removes.contains(&word.as_str())),
        };
    if is_dangerous { Level::Dangerous } else { Level::Execute }
}
