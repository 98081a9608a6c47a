//! The programs of which it is known that they only read, with the options that keep them to that.
//!
//! What is not listed is not read-only. Left out on purpose, of the options that GNU programs have: what writes
//! (`sort -o`, `-T`), what runs a program (`sort --compress-program`, `diff -l`), what takes the names of files from
//! a file, which may name any (`--files0-from`, `md5sum -c`), what follows every link that it meets (`grep -R`, `find -L`,
//! `ls -L`, `du -L`), what never ends (`tail -f`), and `df --sync`.

use crate::options::Options;
use crate::wraps::is_simple_sed;

/// How a program that only reads is kept to that.
enum Reads {
    /// Its words are text to it, not paths.
    Words,
    /// These options, and files.
    Files(Options),
    /// These options, and at most so many operands: one more is a file that it writes.
    AtMost(usize, Options),
    /// These words, besides those that don't start with a dash.
    Predicates(&'static [&'static str]),
    /// What its own check says.
    Check(fn(&[String]) -> bool),
}

const fn files(short: &'static str, long: &'static str) -> Reads {
    Reads::Files(Options { short, long })
}

const DIGEST: Options = Options { short: "btz", long: "binary tag text zero help version" };

const READERS: [(&str, Reads); 53] = [
    ("echo", Reads::Words),
    // Its format is checked where a line is read.
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
    ("sleep", Reads::Words),
    ("which", files("a", "")),
    // It has no options; `-v` and `-R` make a line opaque.
    ("test", Reads::Check(|_| true)),
    ("[", Reads::Check(|_| true)),
    ("cd", Reads::Check(|args| args.len() == 1 && args.iter().all(|word| !word.starts_with('-')))),
    (
        "ls",
        files(
            "aAbBcCdDfFgGhHiI:klmnNopqQrRsStT:uUvw:xXZ1",
            "all almost-all author escape block-size: ignore-backups color:: directory dired classify:: file-type \
             format: full-time group-directories-first no-group human-readable si dereference-command-line \
             dereference-command-line-symlink-to-dir hide: hyperlink:: indicator-style: inode ignore: kibibytes \
             numeric-uid-gid literal hide-control-chars show-control-chars quote-name quoting-style: \
             reverse recursive size sort: time: time-style: tabsize: width: context zero help version",
        ),
    ),
    (
        "cat",
        files(
            "AbeEnstTuv",
            "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting help version",
        ),
    ),
    ("head", files("c:n:qvz0123456789", "bytes: lines: quiet silent verbose zero-terminated help version")),
    ("tail", files("c:n:qvz0123456789", "bytes: lines: quiet silent verbose zero-terminated help version")),
    ("wc", files("cmlLw", "bytes chars lines max-line-length words help version")),
    ("stat", files("Lfc:t", "dereference file-system cached: format: printf: terse help version")),
    (
        "grep",
        files(
            "EFGPe:f:iywxzsvVm:bnHhoqaId:D:rLlcTZA:B:C:U0123456789",
            "extended-regexp fixed-strings basic-regexp perl-regexp regexp: file: ignore-case no-ignore-case \
             word-regexp line-regexp null-data no-messages invert-match version help max-count: byte-offset \
             line-number line-buffered with-filename no-filename label: only-matching quiet silent binary-files: \
             text directories: devices: recursive include: exclude: exclude-from: \
             exclude-dir: files-without-match files-with-matches count initial-tab null before-context: \
             after-context: context: group-separator: no-group-separator color:: colour:: binary",
        ),
    ),
    (
        "nl",
        files(
            "b:d:f:h:i:l:n:ps:v:w:",
            "body-numbering: section-delimiter: footer-numbering: header-numbering: line-increment: \
             join-blank-lines: number-format: no-renumber number-separator: starting-line-number: number-width: \
             help version",
        ),
    ),
    ("tac", files("brs:", "before regex separator: help version")),
    ("rev", files("hV", "help version")),
    (
        "cut",
        files(
            "b:c:d:f:nsz",
            "bytes: characters: delimiter: fields: complement only-delimited output-delimiter: zero-terminated \
             help version",
        ),
    ),
    ("paste", files("d:sz", "delimiters: serial zero-terminated help version")),
    ("comm", files("123z", "check-order nocheck-order output-delimiter: total zero-terminated help version")),
    ("cmp", files("bi:ln:sv", "print-bytes ignore-initial: verbose bytes: quiet silent help version")),
    ("fold", files("bsw:", "bytes spaces width: help version")),
    ("expand", files("it:0123456789", "initial tabs: help version")),
    (
        "od",
        files(
            "A:j:N:S:t:vw::abcdfilosx",
            "address-radix: endian: skip-bytes: read-bytes: strings:: format: output-duplicates width:: \
             traditional help version",
        ),
    ),
    (
        "du",
        files(
            "0aB:bcDd:HhklmPSst:X:x",
            "null all apparent-size block-size: bytes total dereference-args max-depth: human-readable inodes \
             count-links no-dereference separate-dirs si summarize threshold: time:: time-style: \
             exclude-from: exclude: one-file-system help version",
        ),
    ),
    (
        "df",
        files(
            "aB:hHiklPt:Tx:v",
            "all block-size: human-readable si inodes local no-sync output:: portability total type: print-type \
             exclude-type: help version",
        ),
    ),
    (
        "readlink",
        files(
            "femnqsvz",
            "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero help \
             version",
        ),
    ),
    (
        "realpath",
        files(
            "emLPqsz",
            "canonicalize-existing canonicalize-missing logical physical quiet relative-to: relative-base: strip \
             no-symlinks zero help version",
        ),
    ),
    ("md5sum", Reads::Files(DIGEST)),
    ("sha1sum", Reads::Files(DIGEST)),
    ("sha256sum", Reads::Files(DIGEST)),
    ("sha512sum", Reads::Files(DIGEST)),
    ("cksum", files("a:l:z", "algorithm: length: tag untagged zero debug help version")),
    (
        "uniq",
        Reads::AtMost(
            1,
            Options {
                short: "cdDf:is:uzw:0123456789",
                long: "count repeated all-repeated:: skip-fields: group:: ignore-case skip-chars: unique zero-terminated \
             check-chars: help version",
            },
        ),
    ),
    (
        "sort",
        files(
            "bdfgiMhnRrVcCk:mst:uz",
            "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting \
             month-sort human-numeric-sort numeric-sort random-sort reverse sort: version-sort check:: debug key: \
             merge stable field-separator: unique zero-terminated help version",
        ),
    ),
    (
        "diff",
        files(
            "qscC:uU:enyW:pF:tTrNx:X:S:iEZbwBI:aD:dv0123456789",
            "normal brief report-identical-files context:: unified:: ed rcs side-by-side width: left-column \
             suppress-common-lines show-c-function show-function-line: label: expand-tabs initial-tab tabsize: \
             suppress-blank-empty recursive no-dereference new-file unidirectional-new-file ignore-file-name-case \
             no-ignore-file-name-case exclude: exclude-from: starting-file: from-file: to-file: ignore-case \
             ignore-tab-expansion ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines \
             ignore-matching-lines: text strip-trailing-cr ifdef: minimal horizon-lines: speed-large-files \
             color:: help version",
        ),
    ),
    ("sed", Reads::Check(is_printing)),
    ("find", Reads::Predicates(&FIND)),
];

const FIND: [&str; 31] = [
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

/// The programs that are known to only read, with some options at least.
pub fn readers() -> impl Iterator<Item = &'static str> {
    READERS.iter().map(|(name, _)| *name)
}

/// Whether the words of a program that only reads are files to it, those that are no options.
pub fn reads_files(program: &str) -> bool {
    READERS.iter().any(|(name, how)| *name == program && !matches!(how, Reads::Words))
}

/// Whether a command is known to only read, to start nothing, and to look at nothing above or outside of the working
/// directory, as far as its words tell.
pub(super) fn only_reads(argv: &[String]) -> bool {
    let Some((program, args)) = argv.split_first() else { return false };
    let Some((_, how)) = READERS.iter().find(|(name, _)| name == program) else { return false };
    match how {
        Reads::Words => true,
        Reads::Files(options) => stays(args) && options.operands(args).is_some(),
        Reads::AtMost(most, options) => stays(args) && options.operands(args).is_some_and(|count| count <= *most),
        Reads::Predicates(known) => {
            stays(args) && args.iter().all(|word| !word.starts_with('-') || known.contains(&word.as_str()))
        }
        Reads::Check(check) => stays(args) && check(args),
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
