//! Properties of the reader, with bash as the judge.

use std::fs;
use std::process::Command;

use playhouse_shell::{Join, Line, Pattern, Reading, grant, level, quote, read, wraps};
use proptest::prelude::*;

/// Notes the words of every command that is not found, which is every one. Each has a process of its own and writes to a
/// file of its own: commands of a pipeline run at once, and bash writes at every newline.
const HANDLER: &str = "command_not_found_handle() { printf '%s\\0' \"$@\" $'\\1' >>\"$OUT/$BASHPID\"; }\n";

/// What bash makes of a text: the words of each command it would run, in any order.
fn commands(text: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let bash = Command::new("/bin/bash")
        .args(["--noprofile", "--norc", "-p", "-c", &format!("{HANDLER}{text}")])
        .env_clear()
        .env("PATH", "/nowhere")
        .env("LC_ALL", "C.UTF-8")
        .env("OUT", &out)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let notes = fs::read_dir(&out).unwrap().map(|note| fs::read_to_string(note.unwrap().path()).unwrap());
    let seen: String = notes.collect();
    let runs = seen.split("\u{1}\0").filter(|run| !run.is_empty());
    let words = |run: &str| run.strip_suffix('\0').unwrap_or(run).split('\0').map(str::to_owned).collect();
    let mut found: Vec<Vec<String>> = runs.map(words).collect();
    found.sort();
    assert!(fs::read_dir(folder.path()).unwrap().count() == 1, "{text:?} left something behind: {bash:?}");
    found
}

/// What of a line runs when every command succeeds.
fn expected(line: &Line) -> Vec<Vec<String>> {
    let mut is_skipped = false;
    let mut runs = Vec::new();
    for command in line.commands() {
        match command.join {
            Join::Or => is_skipped = true,
            Join::Then | Join::And => is_skipped = false,
            Join::Pipe => {}
        }
        if !is_skipped {
            runs.push(command.argv.clone());
        }
    }
    runs.sort();
    runs
}

/// A character that a person can't see makes a line opaque, wherever it is.
fn is_visible(word: &str) -> bool {
    matches!(read(&format!("a {}", quote(word))), Reading::Plain(_))
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => any::<String>(),
        2 => "[ -~]{0,12}",
        2 => "[a-zé漢🦀 '\"\\\\$`!*?~#&|;<>(){}\\n\\t]{0,12}",
    ]
}

/// Pieces that mean something to a shell, and some that don't.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z]{1,3}",
        6 => Just(" ".to_owned()),
        2 => prop::sample::select(vec!["'", "\"", "\\", "''", "\"\"", "'a b'", "\"c d\"", "\\ ", "\\'", "\\\""])
            .prop_map(str::to_owned),
        2 => prop::sample::select(vec![";", "&&", "||", "|", "\n", "&", "|&", ";;", "(", ")", "{", "}", "{}", "#"])
            .prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            ">/dev/null", "2>&1", " 2>/dev/null", "</dev/null", " >&2", "&>/dev/null", "1>&2", ">", "<", "<<", "2>", "> a",
        ])
        .prop_map(str::to_owned),
        1 => prop::sample::select(vec![
            "$", "`", "$(", "${", "$'", "$\"", "*", "?", "[", "]", "~", "!", "^", "=", "a=b", "%", "@", "+", ",", ":", "-",
            "é", "\u{a0}", "\r", "\t", "\u{200b}", "漢", "if", "then", "time", "1", "2", "[[", "in", "do", ".", "..",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Mostly whole words and operators between commands.
fn tame() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[a-z0-9_./,:@%+=~^#é漢-]{1,5}".prop_map(|word| format!(" {word}")),
        3 => "[ -~é漢\\n\\t]{0,6}".prop_map(|word| format!(" {}", quote(&word))),
        2 => "[ a-z'#&|;<>(){}~*?\\n]{0,6}".prop_map(|word| format!(" \"{word}\"")),
        2 => "[!-~]".prop_map(|c| format!("\\{c}")),
        2 => prop::sample::select(vec![" && a", "||b", "; c", ";d", " | e", "|f", "\ng", " &&\n h", "|\n\ni", "\n\nj "])
            .prop_map(str::to_owned),
        1 => prop::sample::select(vec![" 2>&1", ">/dev/null", " 2>  /dev/null", "</dev/null", " >&2", " &>/dev/null "])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| format!("a{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn f46_what_is_quoted_is_read_as_it_was(words in prop::collection::vec(word(), 0..6)) {
        let argv: Vec<String> = ["show".to_owned()].into_iter().chain(words).collect();
        let text = argv.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        match read(&text) {
            Reading::Plain(line) => {
                prop_assert_eq!(&line.commands()[0].argv, &argv);
                prop_assert_eq!(line.commands().len(), 1);
                prop_assert_eq!(line.script(), text);
                let granted = grant(&line).unwrap();
                prop_assert!(Pattern::parse(&granted[0]).unwrap().matches(&argv));
            }
            Reading::Opaque(opaque) => {
                prop_assert!(!argv.iter().all(|word| is_visible(word)), "{}", opaque.why);
                prop_assert!(argv.iter().any(|word| word.chars().any(|c| !c.is_ascii() || c.is_control())));
            }
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in prop_oneof![any::<String>(), soup()]) {
        let reading = read(&text);
        for argv in reading.seen() {
            let _ = wraps(&argv);
        }
        if let Reading::Plain(line) = &reading {
            line.commands().iter().for_each(|command| { let _ = level(command); });
        }
        let _ = Pattern::parse(&text);
    }

    #[test]
    fn f46_bash_reads_a_plain_line_as_we_do(text in prop_oneof![soup(), tame()]) {
        if let Reading::Plain(line) = read(&text)
            && !line.commands().iter().any(|command| command.is_builtin() || command.argv[0].contains('/'))
        {
            let expected = expected(&line);
            prop_assert_eq!(commands(&line.script()), expected.clone(), "the script of {:?}", &text);
            prop_assert_eq!(commands(&text), expected, "{:?}", &text);
        }
    }
}
