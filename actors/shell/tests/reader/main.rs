//! What a command line is, held against a corpus of them and against bash itself.

mod corpus;
mod properties;

use std::time::{Duration, Instant};

use corpus::Judgement;
use playhouse_protocol::Level;
use playhouse_shell::{Line, Pattern, Reading, grant, level, read, wraps};

fn judged(command: &str) -> (Judgement, Reading) {
    let reading = read(command);
    let judgement = match &reading {
        Reading::Opaque(_) => Judgement::Opaque(None),
        Reading::Plain(line) => Judgement::Plain {
            level: line.commands().iter().map(level).max().unwrap_or(Level::None),
            wraps: line.commands().iter().any(|command| wraps(&command.argv)),
        },
    };
    (judgement, reading)
}

fn plain(command: &str) -> Line {
    match read(command) {
        Reading::Plain(line) => line,
        Reading::Opaque(opaque) => panic!("{command}: {}", opaque.why),
    }
}

#[test]
fn f46_every_command_of_the_corpus_is_judged_as_it_should_be() {
    let cases = corpus::read();
    assert!(cases.len() >= 300, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let begun = Instant::now();
        let (judgement, reading) = judged(&case.command);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "line {} took {took:?}", case.number);
        let seen = reading.seen();
        let is_right = match &case.expected {
            Judgement::Opaque(Some(words)) => {
                judgement == Judgement::Opaque(None) && seen.iter().any(|argv| argv.starts_with(words))
            }
            expected => judgement == *expected,
        };
        if !is_right {
            let shown: String = format!("{reading:?}").chars().take(400).collect();
            let seen: String = format!("{seen:?}").chars().take(400).collect();
            wrong.push(format!("line {}: {judgement:?}, not {:?}: {shown}\n  seen {seen}", case.number, case.expected));
        }
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn f46_a_grant_covers_its_own_line_and_nothing_that_wraps_has_one() {
    for case in corpus::read() {
        let Reading::Plain(line) = read(&case.command) else { continue };
        let granted = grant(&line);
        assert_eq!(
            granted.is_none(),
            line.commands().iter().any(|command| wraps(&command.argv)),
            "line {}",
            case.number
        );
        let Some(granted) = granted else { continue };
        let patterns: Vec<Pattern> = granted.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        assert!(is_covered(&line, &patterns), "line {}: {granted:?}", case.number);
        let mut longer = line.commands()[0].argv.clone();
        longer.push("more".to_owned());
        assert!(!patterns.iter().any(|pattern| pattern.matches(&longer)), "line {}", case.number);
    }
}

#[test]
fn f46_a_yes_to_git_status_is_for_that_and_nothing_more() {
    let granted = grant(&plain("git status")).unwrap();
    assert_eq!(granted, ["git status"]);
    let patterns: Vec<Pattern> = granted.iter().map(|text| Pattern::parse(text).unwrap()).collect();
    for same in [
        "git status",
        "git  status",
        "  git⟨T⟩status ",
        "'git' \"status\"",
        "git status; git status",
        "git status 2>&1",
    ] {
        assert!(is_covered(&plain(&same.replace("⟨T⟩", "\t")), &patterns), "{same}");
    }
    for more in [
        "git status && curl x | sh",
        "git status; rm",
        "git status -s",
        "git status\nrm x",
        "git status | tee x",
        "git",
        "/tmp/git status",
        "git 'status '",
        "git -c x=y status",
        "git statu",
        "GIT status",
        "./git status",
    ] {
        assert!(!is_covered(&plain(more), &patterns), "{more}");
    }
    for opaque in ["git status & rm x", "git status $(rm x)", "X=1 git status", "git status > x", "git status `rm x`"] {
        assert!(matches!(read(opaque), Reading::Opaque(_)), "{opaque}");
    }
    let any = [Pattern::parse("git status *").unwrap()];
    assert!(is_covered(&plain("git status -s && git status"), &any));
    assert!(!is_covered(&plain("git status -s && curl x | sh"), &any));
}

/// Whether every part of a line matches one of the patterns.
fn is_covered(line: &Line, patterns: &[Pattern]) -> bool {
    line.commands().iter().all(|command| patterns.iter().any(|pattern| pattern.matches(&command.argv)))
}
