//! How much a command can do, by its name and its arguments.

use playhouse_protocol::Level;

use crate::name::{base, is_long, is_short};
use crate::seen::of_argvs;
use crate::wraps::is_simple_sed;
use crate::{SimpleCommand, git, wraps};

/// How a program that only reads is kept to that.
enum Reads {
    /// Its words are text to it, not paths.
    Words,
    /// No option of it writes or starts anything.
    Any,
    /// At most so many words that are no options: one more is a file that it writes.
    AtMost(usize),
    /// These short options, alone or together, and these long ones.
    Options(&'static str, &'static [&'static str]),
    /// These words, besides those that don't start with a dash.
    Predicates(&'static [&'static str]),
    /// What its own check says.
    Check(fn(&[String]) -> bool),
}

const READERS: [(&str, Reads); 53] = [
    ("echo", Reads::Words),
    ("printf", Reads::Words),
    ("true", Reads::Words),
    ("false", Reads::Words),
    (":", Reads::Words),
    ("pwd", Reads::Words),
    ("type", Reads::Words),
    ("exit", Reads::Words),
    ("seq", Reads::Words),
    ("basename", Reads::Words),
    ("dirname", Reads::Words),
    ("expr", Reads::Words),
    ("tr", Reads::Words),
    ("nproc", Reads::Words),
    ("whoami", Reads::Words),
    ("id", Reads::Words),
    ("uname", Reads::Words),
    ("which", Reads::Words),
    ("sleep", Reads::Words),
    ("test", Reads::Any),
    ("[", Reads::Any),
    ("cd", Reads::Check(|args| args.len() == 1 && args.iter().all(|word| !word.starts_with('-')))),
    ("ls", Reads::Any),
    ("cat", Reads::Any),
    ("head", Reads::Any),
    ("tail", Reads::Any),
    ("wc", Reads::Any),
    ("stat", Reads::Any),
    ("grep", Reads::Any),
    ("nl", Reads::Any),
    ("tac", Reads::Any),
    ("rev", Reads::Any),
    ("cut", Reads::Any),
    ("paste", Reads::Any),
    ("comm", Reads::Any),
    ("cmp", Reads::Any),
    ("fold", Reads::Any),
    ("expand", Reads::Any),
    ("od", Reads::Any),
    ("du", Reads::Any),
    ("df", Reads::Any),
    ("readlink", Reads::Any),
    ("realpath", Reads::Any),
    ("md5sum", Reads::Any),
    ("sha1sum", Reads::Any),
    ("sha256sum", Reads::Any),
    ("sha512sum", Reads::Any),
    ("cksum", Reads::Any),
    ("uniq", Reads::AtMost(1)),
    ("sort", Reads::Options("bdfghiMnrRsuVcCz0123456789", &[])),
    ("diff", Reads::Options("abBcdeinNpqrstTuwyEZ0123456789", &["brief", "unified", "recursive", "stat"])),
    ("sed", Reads::Check(is_printing)),
    ("find", Reads::Predicates(&FIND)),
];

const FIND: [&str; 32] = [
    "-L",
    "-H",
    "-P",
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-type",
    "-maxdepth",
    "-mindepth",
    "-depth",
    "-not",
    "-o",
    "-a",
    "-or",
    "-and",
    "-print",
    "-print0",
    "-prune",
    "-size",
    "-empty",
    "-mtime",
    "-mmin",
    "-newer",
    "-perm",
    "-user",
    "-group",
    "-ls",
    "-xdev",
];

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
    let own = if reads(&command.argv) { Level::ReadOnly } else { danger(&command.argv) };
    own.max(deepest.unwrap_or(Level::None)).max(if wraps(&command.argv) { Level::Execute } else { Level::None })
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

fn reads(argv: &[String]) -> bool {
    let Some((program, args)) = argv.split_first() else { return false };
    let Some((_, how)) = READERS.iter().find(|(name, _)| name == program) else { return false };
    match how {
        Reads::Words => true,
        Reads::Any => stays(args),
        // A dash by itself is a file too: the input.
        Reads::AtMost(most) => {
            let is_file = |word: &&String| *word == "-" || !word.starts_with('-');
            stays(args) && args.iter().filter(is_file).count() <= *most
        }
        Reads::Options(short, long) => stays(args) && args.iter().all(|word| allows(word, short, long)),
        Reads::Predicates(known) => {
            stays(args) && args.iter().all(|word| !word.starts_with('-') || known.contains(&word.as_str()))
        }
        Reads::Check(check) => stays(args) && check(args),
    }
}

fn allows(word: &str, short: &str, long: &[&str]) -> bool {
    match (word.strip_prefix("--"), word.strip_prefix('-')) {
        (Some(option), _) => long.contains(&option),
        (None, Some(letters)) => letters.chars().all(|letter| short.contains(letter)),
        (None, None) => true,
    }
}

/// Whether no word leads out of the working directory, as far as words tell.
fn stays(args: &[String]) -> bool {
    args.iter().all(|word| {
        word == "/dev/null"
            || !(word.starts_with(['/', '~'])
                || word.split(['/', '=']).any(|part| part == "..")
                // An option with a path in it.
                || (word.starts_with('-') && word.contains('/')))
    })
}

/// Whether `sed` only prints lines.
fn is_printing(args: &[String]) -> bool {
    let mut words = args.iter().filter(|word| *word != "-n" && *word != "-E");
    let is_script = words.next().is_some_and(|script| {
        script
            .strip_suffix('p')
            .is_some_and(|lines| lines.bytes().all(|byte| byte.is_ascii_digit() || b",$".contains(&byte)))
    });
    is_script && is_simple_sed(args) && words.all(|word| !word.starts_with('-'))
}
