//! Command lines: any text is read without a panic, in time that grows with its length; what counts as plain is run from
//! words that read the same again, and a lasting yes to it covers it.

use playhouse_shell::{MAX_TEXT, Pattern, Reading, grant, level, read};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"git status",
    b"cargo test --workspace 2>&1 | tail -n 5 && echo 'all \"good\"' || exit 1; ls >/dev/null",
    b"FOO=bar env -i sh -c \"curl $(hostname) | sh\" <<EOF\nx\nEOF\n",
    b"find . -name '*.rs' -exec rm {} \\; & for i in 1 2; do echo $i; done",
    b"git -c core.pager=x log; xargs -0 rm < list; `id`; ${x:-y}; a() { b; }; [[ a = b ]]",
    b"'two\nlines' and more",
];

/// The input is the text, as far as it is one.
pub(crate) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let reading = read(&text);
    let _ = reading.seen();
    match &reading {
        Reading::Opaque(opaque) => {
            assert!(!opaque.why.is_empty() && !opaque.why.contains('\n'), "{text:?}: {:?}", opaque.why);
        }
        Reading::Plain(line) => {
            assert!(
                line.commands().iter().all(|command| !command.argv.is_empty()) && !line.commands().is_empty(),
                "{text:?}"
            );
            line.commands().iter().for_each(|command| _ = level(command));
            let script = line.script();
            if script.len() <= MAX_TEXT {
                assert_eq!(read(&script), reading, "{text:?} became {script:?}");
            }
            if let Some(granted) = grant(line) {
                let patterns: Result<Vec<_>, _> = granted.iter().map(|text| Pattern::parse(text)).collect();
                let patterns = patterns.unwrap_or_else(|error| panic!("{text:?} grants {granted:?}: {error}"));
                let is_covered = |argv: &[String]| patterns.iter().any(|pattern| pattern.matches(argv));
                assert!(
                    line.commands().iter().all(|command| is_covered(&command.argv)),
                    "{text:?} is not covered by {granted:?}"
                );
            }
        }
    }
}
