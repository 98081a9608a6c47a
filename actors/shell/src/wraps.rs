//! Which commands run what their arguments, their input or a script says, so that a name says nothing about them.

use crate::builtin::{is_builtin, is_other};
use crate::git;
use crate::name::{base, file, is_assignment, is_long, is_option, is_short};
use crate::readers::readers;
use crate::unwrap::{PREFIXES, is_shell};

/// Languages, by how their names begin: `python3.11-dbg`, `perl5.36.0`, `nodejs`.
const LANGUAGES: [&str; 22] = [
    "python",
    "pypy",
    "ipython",
    "perl",
    "ruby",
    "jruby",
    "irb",
    "node",
    "deno",
    "bun",
    "php",
    "lua",
    "tclsh",
    "wish",
    "expect",
    "julia",
    "rscript",
    "groovy",
    "scala",
    "guile",
    "racket",
    "osascript",
];

/// Programs that run what they are told to, or have a way out to a shell.
const OTHERS: [&str; 107] = [
    "ansible",
    "ansible-playbook",
    "awk",
    "bunx",
    "byobu",
    "cpulimit",
    "crontab",
    "cscript",
    "csh",
    "cu",
    "dc",
    "docker",
    "docker-compose",
    "dosbox",
    "dotnet",
    "dvtm",
    "ed",
    "elinks",
    "elixir",
    "emacs",
    "emacsclient",
    "erl",
    "ex",
    "fish",
    "ftp",
    "gawk",
    "gcore",
    "gdb",
    "gdbserver",
    "ghc",
    "ghci",
    "gnuplot",
    "go-task",
    "helm",
    "info",
    "iex",
    "java",
    "jrunscript",
    "jshell",
    "joe",
    "kakoune",
    "kotlin",
    "kubectl",
    "less",
    "lftp",
    "links",
    "lldb",
    "lxc",
    "lynx",
    "m4",
    "machinectl",
    "mail",
    "mailx",
    "man",
    "matlab",
    "mawk",
    "maxima",
    "micro",
    "mono",
    "more",
    "mosh",
    "most",
    "mutt",
    "mysql",
    "nano",
    "nawk",
    "ncat",
    "nerdctl",
    "netcat",
    "nc",
    "npx",
    "nvim",
    "ocaml",
    "octave",
    "original-awk",
    "pico",
    "pipx",
    "pnpx",
    "podman",
    "powershell",
    "psql",
    "pwsh",
    "qemu",
    "r",
    "rake",
    "rlogin",
    "rsh",
    "runghc",
    "runhaskell",
    "rvim",
    "sftp",
    "slogin",
    "socat",
    "sqlite",
    "swift",
    "telnet",
    "uvx",
    "vagrant",
    "vi",
    "view",
    "vim",
    "vimdiff",
    "w3m",
    "wine",
    "wscript",
    "xterm",
    "zx",
];

/// Package managers' and builders' words for "run this".
const RUNNERS: [(&str, &[&str]); 13] = [
    ("npm", &["exec", "x", "explore", "init", "create"]),
    ("pnpm", &["exec", "dlx", "create"]),
    ("yarn", &["exec", "dlx", "node", "create"]),
    ("uv", &["run", "tool", "x"]),
    ("poetry", &["run", "shell"]),
    ("pipenv", &["run", "shell"]),
    ("conda", &["run"]),
    ("bundle", &["exec"]),
    ("rustup", &["run"]),
    ("go", &["run", "tool", "generate"]),
    ("ip", &["exec"]),
    ("nix", &["run", "shell", "develop"]),
    ("direnv", &["exec"]),
];

/// Long options that name a program, by the program that takes them.
const LONG: [(&str, &[&str]); 23] = [
    (
        "tar",
        &[
            "to-command",
            "checkpoint-action",
            "use-compress-program",
            "rsh-command",
            "info-script",
            "new-volume-script",
            "rmt-command",
        ],
    ),
    ("bsdtar", &["use-compress-program"]),
    ("rsync", &["rsh", "rsync-path"]),
    ("sort", &["compress-program"]),
    ("split", &["filter"]),
    ("csplit", &["filter"]),
    ("install", &["strip-program"]),
    ("zip", &["unzip-command"]),
    ("rg", &["pre", "hostname-bin", "search-zip"]),
    ("fd", &["exec", "exec-batch"]),
    ("fdfind", &["exec", "exec-batch"]),
    ("make", &["eval", "file", "makefile", "directory", "include-dir"]),
    ("gmake", &["eval", "file", "makefile", "directory", "include-dir"]),
    ("cargo", &["config"]),
    ("pandoc", &["filter", "lua-filter", "pdf-engine"]),
    ("wget", &["use-askpass", "execute", "config"]),
    ("curl", &["config"]),
    ("nmap", &["script"]),
    ("openvpn", &["up", "down", "route-up", "ipchange"]),
    ("apt", &["option", "config-file"]),
    ("apt-get", &["option", "config-file"]),
    ("ctags", &["options"]),
    ("gpg", &["photo-viewer", "agent-program", "dirmngr-program"]),
];

/// Short options that name a program, by the program that takes them.
const SHORT: [(&str, &[char]); 17] = [
    ("tar", &['I', 'F']),
    ("bsdtar", &['I']),
    ("rsync", &['e']),
    ("scp", &['S', 'o', 'F']),
    ("zip", &['T']),
    ("rg", &['z']),
    ("fd", &['x', 'X']),
    ("fdfind", &['x', 'X']),
    ("make", &['f', 'C', 'I', 'E']),
    ("gmake", &['f', 'C', 'I', 'E']),
    ("pandoc", &['F', 'L']),
    ("wget", &['e']),
    ("curl", &['K']),
    ("tcpdump", &['z']),
    ("apt", &['o', 'c']),
    ("apt-get", &['o', 'c']),
    ("cmake", &['P', 'E']),
];

/// Single-dash words that make a compiler or a builder start a program of the caller's choice.
const WORDS: [&str; 15] = [
    "-wrapper",
    "-exec",
    "-toolexec",
    "-vettool",
    "-specs",
    "-fplugin",
    "-shell-escape",
    "--shell-escape",
    "-execdir",
    "-ok",
    "-okdir",
    "-enable-write18",
    "-jar",
    "-plugin",
    "-load",
];

/// Whether a command is an interpreter or a wrapper: what it runs is in its arguments or its input, so a lasting yes
/// to it would be one to anything.
///
/// When in doubt it is one: that costs a question, and the other mistake costs a machine.
pub fn wraps(argv: &[String]) -> bool {
    let Some((program, args)) = argv.split_first() else { return true };
    if is_assignment(program) || is_other(program) {
        return true;
    }
    let name = base(program);
    let name = name.as_str();
    // Some names end in a digit that is no version: `m4`.
    let whole = file(program).to_ascii_lowercase();
    if is_shell(program)
        || PREFIXES.contains(&name)
        || OTHERS.contains(&name)
        || OTHERS.contains(&whole.as_str())
        || is_language(name)
        || name.starts_with("qemu-")
        // The loader runs the program it is given.
        || name.starts_with("ld-linux")
        || name.starts_with("ld-musl")
        || name.starts_with("ld.so")
    {
        return true;
    }
    match name {
        "git" => git::wraps(args),
        "sed" => !is_simple_sed(args),
        // Variables on its line can be `SHELL` or a compiler.
        "make" | "gmake" if args.iter().any(|word| is_assignment(word)) => true,
        // The old style has no dash.
        "tar" if args.first().is_some_and(|word| !word.starts_with('-') && word.contains(['I', 'F'])) => true,
        "rsync" | "scp" if args.iter().any(|word| !is_option(word) && word.contains(':')) => true,
        "mvn" if args.iter().any(|word| word.starts_with("exec:")) => true,
        "rustc" | "cc" | "gcc" | "g++" | "c++" | "clang" | "clang++" | "ld"
            if args.iter().any(|word| word.starts_with("-B") || word.contains("linker") || word.contains("plugin")) =>
        {
            true
        }
        _ => by_argument(name, args),
    }
}

/// Programs whose words are files, targets and names to them, and never a program to start, as long as they don't
/// [wrap](wraps).
const STARTING_NONE: [&str; 41] = [
    "apropos", "cargo", "cc", "chgrp", "chmod", "chown", "clang", "cp", "dd", "file", "gcc", "git", "go", "gunzip",
    "gzip", "install", "jq", "ln", "make", "mkdir", "mktemp", "mv", "npm", "patch", "pip", "pnpm", "rg", "rm", "rmdir",
    "rustc", "rustfmt", "rustup", "strings", "tar", "tee", "touch", "tree", "truncate", "whatis", "whereis", "yarn",
];

/// Whether it is known of a program that it starts none that its words name. Of most programs that is not known.
pub fn starts_none(argv: &[String]) -> bool {
    let Some(program) = argv.first() else { return true };
    let name = file(program);
    !wraps(argv)
        && (is_builtin(name) || readers().any(|reader| reader == name) || STARTING_NONE.contains(&base(name).as_str()))
}

/// Whether a program, by its plain name, runs a language.
pub(super) fn is_language(name: &str) -> bool {
    LANGUAGES.iter().any(|language| name.starts_with(language))
}

fn by_argument(name: &str, args: &[String]) -> bool {
    let of = |(program, _): &&(&str, &[&str])| *program == name;
    let runners = RUNNERS.iter().find(of).map(|(_, words)| *words).unwrap_or_default();
    let long = LONG.iter().find(of).map(|(_, words)| *words).unwrap_or_default();
    let short = SHORT.iter().find(|(program, _)| *program == name).map(|(_, letters)| *letters).unwrap_or_default();
    let first = args.iter().find(|word| !is_option(word));
    first.is_some_and(|word| word == "x" && runners.contains(&"x"))
        || args.iter().any(|word| {
            (word != "x" && runners.contains(&word.as_str()))
                || is_long(word, long)
                || is_short(word, short)
                || WORDS.contains(&word.split('=').next().unwrap_or(word))
        })
}

/// Whether every script of `sed` is one that can only print, delete and replace: others write files and run programs.
pub(super) fn is_simple_sed(args: &[String]) -> bool {
    let mut has_script = false;
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-e" => match rest.next() {
                Some(script) if is_simple_script(script) => has_script = true,
                _ => return false,
            },
            "-n" | "-E" | "-r" | "-i" | "-s" | "-u" | "-z" | "-nE" | "-nr" | "-En" | "-rn" => {}
            option if option.starts_with('-') => return false,
            script if !has_script => {
                if !is_simple_script(script) {
                    return false;
                }
                has_script = true;
            }
            _ => {}
        }
    }
    has_script
}

fn is_simple_script(script: &str) -> bool {
    let is_address = |text: &str| {
        text.split(',').all(|part| !part.is_empty() && (part == "$" || part.bytes().all(|byte| byte.is_ascii_digit())))
    };
    if let Some(address) = script.strip_suffix(['p', 'd', 'q']) {
        return address.is_empty() || is_address(address);
    }
    let mut chars = script.chars();
    let (Some('s'), Some(mark @ ('/' | '|' | '#' | ',' | '@' | ':'))) = (chars.next(), chars.next()) else {
        return false;
    };
    let body = chars.as_str();
    // A backslash could hide where a part ends, and a newline starts another command.
    let parts: Vec<&str> = body.split(mark).collect();
    let [_, _, flags] = parts.as_slice() else { return false };
    !body.contains(['\n', '\\', ';', '{', '}'])
        && flags.bytes().all(|flag| flag.is_ascii_digit() || b"gpiI".contains(&flag))
}
