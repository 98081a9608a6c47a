//! Options, read as `getopt_long` reads them.

use crate::name::is_option;

/// The options that a program may have, as C programs write them down: `:` after a name says that a value follows, in
/// the same word or the next, and `::` that one may follow in the same word. Long options count by their whole names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub short: &'static str,
    /// Separated by spaces.
    pub long: &'static str,
}

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// It may, in the same word.
    Maybe,
    /// In the same word or the next.
    Value,
}

impl Options {
    /// How many words are no options nor values of them; `None` if there is an option that is not among these.
    ///
    /// Some programs take options after the first such word and some don't, or not where `POSIXLY_CORRECT` is set: from
    /// there on each word must pass as an option, and is counted.
    pub(super) fn operands(&self, args: &[String]) -> Option<usize> {
        let mut words = args.iter();
        let mut first = None;
        while let Some(word) = words.next() {
            // What is left, this one included.
            let left = words.len() + 1;
            if word == "--" {
                return Some(first.unwrap_or(left - 1));
            }
            let takes_next = if !is_option(word) {
                first = first.or(Some(left));
                false
            } else if let Some(long) = word.strip_prefix("--") {
                self.long(long)?
            } else {
                self.short(word.get(1..)?)?
            };
            if takes_next {
                words.next()?;
            }
        }
        Some(first.unwrap_or(0))
    }

    /// What follows the options at the beginning; `None` if one of them is not among these.
    pub(super) fn after<'a>(&self, args: &'a [String]) -> Option<&'a [String]> {
        let mut rest = args;
        while let Some((word, after)) = rest.split_first().filter(|(word, _)| is_option(word)) {
            let takes_next = match word.strip_prefix("--") {
                Some(long) => self.long(long)?,
                None => self.short(word.get(1..)?)?,
            };
            rest = if takes_next { after.get(1..)? } else { after };
        }
        Some(rest)
    }

    /// Whether the next word is this long option's value.
    fn long(&self, word: &str) -> Option<bool> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if name.contains(':') {
            return None;
        }
        let takes = self.long.split(' ').find_map(|known| takes(known.strip_prefix(name)?))?;
        match (takes, value) {
            (Takes::Nothing, Some(_)) => None,
            (Takes::Value, None) => Some(true),
            (Takes::Nothing | Takes::Maybe, None) | (Takes::Maybe | Takes::Value, Some(_)) => Some(false),
        }
    }

    /// Whether the next word is the value of the last of these short options.
    fn short(&self, cluster: &str) -> Option<bool> {
        let mut letters = cluster.chars();
        while let Some(letter) = letters.next() {
            let (_, after) = self.short.split_once(letter).filter(|_| letter != ':')?;
            match takes(after.get(..after.len() - after.trim_start_matches(':').len())?)? {
                Takes::Nothing => {}
                Takes::Maybe => return Some(false),
                Takes::Value => return Some(letters.as_str().is_empty()),
            }
        }
        Some(false)
    }
}

/// What colons after a name mean; `None` if it is not colons.
fn takes(after: &str) -> Option<Takes> {
    match after {
        "" => Some(Takes::Nothing),
        ":" => Some(Takes::Value),
        "::" => Some(Takes::Maybe),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options { short: "ab:c::1", long: "all base: color::" };

    fn operands(line: &str) -> Option<usize> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        OPTIONS.operands(&args)
    }

    #[test]
    fn f62_options_are_told_from_operands_as_getopt_does() {
        for (line, expected) in [
            ("", Some(0)),
            ("x", Some(1)),
            ("-", Some(1)),
            ("-a x", Some(1)),
            ("-a1 x y", Some(2)),
            ("-b x", Some(0)),
            ("-ab x y", Some(1)),
            ("-bx y", Some(1)),
            ("-b -z y", Some(1)),
            ("-b -- y", Some(1)),
            ("-b", None),
            ("-ca y", Some(1)),
            ("-c a", Some(1)),
            ("-- -z -b", Some(2)),
            ("-a --", Some(0)),
            ("x -a", Some(2)),
            ("x -- -a", Some(3)),
            ("x -z", None),
            ("-z", None),
            ("-az", None),
            ("-:", None),
            ("--all", Some(0)),
            ("--al", None),
            ("--all=x", None),
            ("--base", None),
            ("--base x y", Some(1)),
            ("--base=x y", Some(1)),
            ("--base: y", None),
            ("--color x", Some(1)),
            ("--color=x", Some(0)),
            ("--=x", None),
        ] {
            assert_eq!(operands(line), expected, "{line}");
        }
    }
}
