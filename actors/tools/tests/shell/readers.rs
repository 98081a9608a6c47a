//! Programs that are judged to only read, with every option they have, run in a sandbox while the kernel's calls are
//! watched: nothing is written, no variable is set, and nothing but the named programs runs.
//!
//! `PLAYHOUSE_LINES` says how many lines are run, or `PLAYHOUSE_SECONDS` for how long, and `PLAYHOUSE_SEED` where the
//! generator begins: `cargo xtask fuzz readers` sets them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fastrand::Rng;
use playhouse_protocol::Level;
use playhouse_tools::shell::{Line, Reading, level, quote, read, readers};

use crate::find;
use crate::trace::{self, Call};

/// How many lines one shell runs.
const BATCH: usize = 500;
/// How many are run when nobody says.
const SHORT: usize = 2_500;
const SEED: u64 = 62;

/// Values, operands, and what is special to one program or another.
const WORDS: [&str; 46] = [
    "in",
    "out",
    "victim.sh",
    "-in",
    "sub",
    "sub/in",
    ".",
    "-",
    "--",
    "",
    "0",
    "1",
    "2",
    "-1",
    "+1",
    "1,2",
    "2,1n",
    ",",
    ":",
    "x",
    "a",
    "[a-z]",
    "a\\n",
    "%s",
    "%d",
    "%b",
    "%n",
    "12345%n",
    "%(%s)T",
    "%*d",
    "-v",
    "PATH",
    "X",
    "X[0]",
    "md5",
    "always",
    "size",
    "long",
    "never",
    "+%s",
    "-o",
    "5p",
    "1,$p",
    "w victim.sh",
    "!",
    "/dev/null",
];
/// Names of files, most of which are there.
const FILES: [&str; 8] = ["in", "in", "-in", "sub/in", "victim.sh", "out", "-", "sub"];
/// What `find` and `test` take.
const PREDICATES: [&str; 34] = [
    "-name",
    "-type",
    "f",
    "d",
    "-newer",
    "-print",
    "-print0",
    "-ls",
    "-exec",
    "ls",
    "{}",
    ";",
    "+",
    "-delete",
    "-fprint",
    "-fls",
    "-fprintf",
    "-o",
    "-not",
    "(",
    ")",
    "-maxdepth",
    "-size",
    "-perm",
    "-empty",
    "-f",
    "-d",
    "-e",
    "-nt",
    "=",
    "-eq",
    "-a",
    "-v",
    "]",
];
/// What `sed` takes.
const SED: [&str; 16] = [
    "-n",
    "-E",
    "-i",
    "-s",
    "-z",
    "--",
    "-e",
    "p",
    "2p",
    "1,$p",
    "$p",
    "w victim.sh",
    "1e touch out",
    "s/a/b/w out",
    "in",
    "-f",
];
/// What `printf` takes.
const PRINTF: [&str; 9] = ["%n", "12345%n", "%5n", "%s", "-v", "-vX", "%(%s)T", "PATH", "X"];
const JOINS: [&str; 5] = ["; ", " && ", " || ", " | ", "\n"];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Makes lines of the options that programs say they have.
struct Generator {
    rng: Rng,
    programs: Vec<&'static str>,
    /// The long options of each program, as its help names them, with `=` where a value follows.
    long: BTreeMap<&'static str, Vec<String>>,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let programs: Vec<&'static str> = readers().collect();
        let long = programs.iter().map(|program| (*program, long_options(program))).collect();
        Self { rng: Rng::with_seed(seed), programs, long }
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.rng.usize(..words.len())]
    }

    /// A line that is judged to only read.
    fn line(&mut self) -> String {
        let mut line = self.command();
        for _ in 0..self.rng.usize(..6).saturating_sub(3) {
            line.push_str(self.pick(&JOINS));
            line.push_str(&self.command());
        }
        line
    }

    /// A command that is judged to only read; every program is as likely as the others.
    fn command(&mut self) -> String {
        let program = self.programs[self.rng.usize(..self.programs.len())];
        loop {
            let command = self.any_command(program);
            if only_reads(&command).is_some() {
                return command;
            }
        }
    }

    fn any_command(&mut self, program: &'static str) -> String {
        let mut words = vec![program.to_owned()];
        if self.rng.u8(..4) == 0 {
            words.push("--".to_owned());
        }
        for _ in 0..self.rng.usize(..5) {
            let word = self.word(program);
            // It has all the time there is.
            let is_time = program == "sleep" && word.starts_with(|c: char| c.is_ascii_digit());
            words.push(if is_time { "0".to_owned() } else { word });
        }
        if self.rng.bool() {
            let count = self.rng.usize(1..4);
            words.extend((0..count).map(|_| self.pick(&FILES).to_owned()));
        }
        if program == "[" {
            words.push("]".to_owned());
        }
        words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }

    fn word(&mut self, program: &'static str) -> String {
        let long = self.long[program].len();
        match self.rng.u8(..10) {
            0..=7 if program == "sed" => self.pick(&SED).to_owned(),
            0..=7 if program == "printf" => self.pick(&PRINTF).to_owned(),
            0..=2 => {
                let mut cluster = "-".to_owned();
                for _ in 0..self.rng.usize(1..4) {
                    cluster.push(if self.rng.u8(..8) == 0 { self.rng.digit(10) } else { self.rng.alphabetic() });
                }
                // A value within the word.
                if self.rng.u8(..4) == 0 {
                    cluster.push_str(self.pick(&WORDS));
                }
                cluster
            }
            3..=4 if long > 0 => {
                let at = self.rng.usize(..long);
                let option = self.long[program][at].clone();
                let (name, value) = option.split_once('=').map_or((option.as_str(), false), |(name, _)| (name, true));
                // What is short for an option counts as it.
                let kept = if self.rng.u8(..6) == 0 { self.rng.usize(3..=name.len()) } else { name.len() };
                let name = name.get(..kept).unwrap_or(name).to_owned();
                if value || self.rng.u8(..8) == 0 { format!("{name}={}", self.pick(&WORDS)) } else { name }
            }
            5..=7 if matches!(program, "find" | "test" | "[") => self.pick(&PREDICATES).to_owned(),

            5 => "--".to_owned(),
            _ => self.pick(&WORDS).to_owned(),
        }
    }
}

/// The line, if it is judged to only read.
fn only_reads(text: &str) -> Option<Line> {
    match read(text) {
        Reading::Plain(line) if line.commands().iter().all(|command| level(command) <= Level::ReadOnly) => Some(line),
        Reading::Plain(_) | Reading::Opaque(_) => None,
    }
}

/// The long options that a program's help names.
fn long_options(program: &str) -> Vec<String> {
    let Ok(told) = Command::new(program).arg("--help").env("LC_ALL", "C").output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices("--") {
        let rest = &text[at..];
        let name: String = rest.chars().take_while(|c| is_part(*c)).collect();
        let takes = rest[name.len()..].trim_start_matches('[').starts_with('=');
        let option = if takes { format!("{name}=") } else { name };
        if option.len() > 4 && !found.contains(&option) {
            found.push(option);
        }
    }
    found
}

/// What is run, and what was named.
struct Case {
    script: String,
    line: Line,
}

/// What a shell does to run these lines, each in a shell of its own; between them it goes to a folder that is not there.
fn script(lines: &[Case]) -> String {
    // What a line may not change, joined.
    let kept = "$PATH|$IFS|$HOME|$X|${X[*]}|$BASH_ENV|$a|$x";
    let mut script = format!("exec </dev/null >/dev/null 2>&1\nKEPT=\"{kept}\"\n");
    for (number, line) in lines.iter().enumerate() {
        let run = &line.script;
        writeln!(script, "cd /line-{number}\n( {run}\n[ \"{kept}\" = \"$KEPT\" ] || cd /changed )").unwrap();
    }
    script.push_str("cd /end\n");
    script
}

fn place(folder: &Path) {
    let place = folder.join("place");
    fs::create_dir_all(place.join("sub")).unwrap();
    fs::create_dir_all(folder.join("tmp")).unwrap();
    for (name, text) in [("in", "b 2\na 1\na 1\n"), ("-in", "x\nx\n"), ("victim.sh", "kept\n"), ("sub/in", "c\n")] {
        fs::write(place.join(name), text).unwrap();
    }
    // What a variable that was set to a number would find.
    for name in (0..9).map(|count| count.to_string()).chain(["in.d".to_owned()]) {
        fs::create_dir(place.join(&name)).unwrap();
        for program in readers().filter(|program| program.len() > 1) {
            let file = place.join(&name).join(program);
            fs::write(&file, "#!/bin/sh\n:\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

/// Runs lines in a sandbox and gives the calls that were seen.
fn watch(folder: &Path, lines: &[Case]) -> Vec<Call> {
    let (log, file, place) = (folder.join("log"), folder.join("script"), folder.join("place"));
    fs::write(&file, script(lines)).unwrap();
    let output = Command::new(find("bwrap"))
        .args([
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--unshare-net",
            "--die-with-parent",
            "--bind",
        ])
        .args([folder, folder])
        .arg("--chdir")
        .arg(&place)
        .arg(find("strace"))
        .args(["-f", "--seccomp-bpf", "-qq", "-xx", "-s", "4096", "-e", "signal=none", "-e", trace::WATCHED, "-o"])
        .args([log.as_os_str(), find("bash").as_os_str()])
        .args(["--noprofile", "--norc", "-p"])
        .arg(&file)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &place)
        .env("TMPDIR", folder.join("tmp"))
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let text = fs::read_to_string(&log).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    trace::calls(&text)
}

/// What of a line's calls is more than reading, told for people.
fn wrong(line: &Line, calls: &[Call], folder: &Path) -> Vec<String> {
    let (tmp, place) = (folder.join("tmp"), folder.join("place"));
    let mut wrong = Vec::new();
    // A program is looked for in several folders; any other call counts, also one that the sandbox refuses.
    for call in calls.iter().filter(|call| call.has_succeeded || !call.name.starts_with("exec")) {
        let path = call.strings.first().map(String::as_str).unwrap_or_default();
        let is_fine = match call.name.as_str() {
            "execve" | "execveat" => {
                let argv = call.strings.get(1..).unwrap_or_default();
                let is_named = line.commands().iter().any(|command| command.argv.iter().take(32).eq(argv.iter()));
                is_named && path.starts_with('/') && !Path::new(path).starts_with(&place)
            }
            "open" | "openat" | "creat" => {
                let is_reading = call.name != "creat"
                    && !["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| call.text.contains(flag));
                is_reading || path == "/dev/null" || Path::new(path).starts_with(&tmp)
            }
            "chdir" => path != "/changed",
            // What a program keeps for itself while it works, and takes away.
            "unlink" | "unlinkat" => Path::new(path).starts_with(&tmp),
            _ => false,
        };
        if !is_fine {
            wrong.push(call.text.chars().take(300).collect());
        }
    }
    wrong
}

/// Runs lines, and gives what each of them did that is more than reading, and how many programs they started.
fn run(folder: &Path, cases: &[Case]) -> (Vec<Vec<String>>, usize) {
    let calls = watch(folder, cases);
    let mark = |name: String| {
        let is_mark = |call: &Call| call.name == "chdir" && call.strings.first() == Some(&name);
        calls.iter().position(is_mark).unwrap_or_else(|| panic!("no {name} in the trace"))
    };
    let mut found = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let next = if number + 1 < cases.len() { format!("/line-{}", number + 1) } else { "/end".to_owned() };
        found.push(wrong(&case.line, &calls[mark(format!("/line-{number}")) + 1..mark(next)], folder));
    }
    let started = calls.iter().filter(|call| call.name == "execve" && call.has_succeeded).count();
    (found, started)
}

#[test]
fn f62_programs_that_are_judged_to_only_read_do_so_with_any_options() {
    let wanted = number("PLAYHOUSE_LINES").and_then(|lines| usize::try_from(lines).ok()).unwrap_or(SHORT);
    let seconds = number("PLAYHOUSE_SECONDS").map(Duration::from_secs);
    let seed = number("PLAYHOUSE_SEED").unwrap_or(SEED);
    let begun = Instant::now();
    let mut generator = Generator::new(seed);
    let folder = tempfile::tempdir().unwrap();
    place(folder.path());
    let (mut ran, mut started) = (0, 0);
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        let batch = match seconds {
            Some(seconds) if begun.elapsed() >= seconds => 0,
            Some(_) => BATCH,
            None => BATCH.min(wanted - ran),
        };
        if batch == 0 {
            break;
        }
        let lines = (0..batch).map(|_| generator.line());
        let case = |text: String| {
            let line = only_reads(&text).unwrap_or_else(|| panic!("{text:?} is judged otherwise than its parts"));
            Case { script: line.script(), line }
        };
        let cases: Vec<Case> = lines.map(case).collect();
        let (found, programs) = run(folder.path(), &cases);
        for (case, found) in cases.iter().zip(found) {
            let text = &case.script;
            assert!(found.is_empty(), "seed {seed}: {text:?} was judged to only read, and did {found:#?}");
            for command in case.line.commands() {
                *used.entry(command.argv[0].clone()).or_default() += 1;
            }
        }
        ran += cases.len();
        started += programs;
    }
    let unused: Vec<&str> = readers().filter(|program| !used.contains_key(*program)).collect();
    println!("seed {seed}: {ran} lines started {started} programs, and all of them only read");
    assert!(unused.is_empty() || ran < SHORT, "no line has {unused:?}");
    assert!(started * 2 > ran, "{started} programs for {ran} lines");
    assert_eq!(fs::read_to_string(folder.path().join("place/victim.sh")).unwrap(), "kept\n");
}

/// The watch itself: it sees what it is there to see.
#[test]
fn f62_what_writes_runs_another_program_or_sets_a_variable_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    place(folder.path());
    let plain = |text: &str| match read(text) {
        Reading::Plain(line) => line,
        Reading::Opaque(opaque) => panic!("{text}: {}", opaque.why),
    };
    // The line that is run, and the one that was named.
    let seen = [
        ("printf -- '12345%n' PATH", "printf x"),
        ("printf -v X x", "printf x"),
        ("printf -- '12345%n' PATH; ls", "ls"),
        ("uniq -- -in victim.sh", "uniq -- -in victim.sh"),
        ("sort -o out in", "sort -o out in"),
        ("env ls", "env ls"),
        ("find . -name in -exec cat '{}' ';'", "find . -name in"),
        ("diff -l in sub/in", "diff -l in sub/in"),
        ("touch in", "touch in"),
        ("chmod 600 in", "chmod 600 in"),
        ("echo x >victim.sh", "echo x"),
        ("mkdir new", "mkdir new"),
        ("rm in", "rm in"),
        // The sandbox refuses it, and it is seen all the same.
        ("touch /usr/made", "touch /usr/made"),
    ];
    let unseen =
        [("ls -la", "ls -la"), ("cat victim.sh | tac | sort", "cat victim.sh | tac | sort"), ("cd sub", "cd sub")];
    let case = |(script, named): &(&str, &str)| Case { script: (*script).to_owned(), line: plain(named) };
    let cases: Vec<Case> = seen.iter().chain(&unseen).map(case).collect();
    let (found, _) = run(folder.path(), &cases);
    for (number, (case, found)) in cases.iter().zip(found).enumerate() {
        assert_eq!(found.is_empty(), number >= seen.len(), "{}: {found:?}", case.script);
    }
}
