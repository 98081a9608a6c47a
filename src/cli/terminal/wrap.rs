//! Lines no wider than a screen, broken between words.

use std::ops::Range;

use crate::cli::terminal::text::width_of;

/// The text on lines of at most so many columns, as far as there are as many; `None` is no screen, and changes nothing.
/// Lines that it breaks go on so many columns further in.
pub fn wrapped(text: &str, hang: usize, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (bare, end) = line.strip_suffix('\n').map_or((line, ""), |bare| (bare, "\n"));
        let chars: Vec<char> = bare.chars().collect();
        // Half of a narrow screen is for the text itself.
        let hang = hang.min(columns / 2);
        for (place, range) in broken(&chars, 0, hang, columns).into_iter().enumerate() {
            if place > 0 {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', hang));
            }
            out.extend(chars.get(range).unwrap_or_default());
        }
        out.push_str(end);
    }
    out
}

/// Which characters of a line go on which line of a screen. The first one has `lead` columns less, and the others `hang`.
/// Spaces stay as they are, except where a line is broken; a word is broken only if it is longer than a line, and then it
/// begins where it is.
pub fn broken(chars: &[char], lead: usize, hang: usize, columns: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    // Where the line begins, where its last word ends, and how wide it is up to there.
    let (mut from, mut to, mut used) = (0, 0, lead);
    let mut at = 0;
    while at < chars.len() {
        let (gap, after_gap) = stretch(chars, at, char::is_whitespace);
        let (width, end) = stretch(chars, after_gap, |c| !c.is_whitespace());
        at = end;
        if after_gap == end {
            break;
        }
        let is_first = to == from;
        if used + gap + width <= columns {
            (to, used) = (end, used + gap + width);
            continue;
        }
        let has_room = used + gap < columns;
        if !is_first && (hang + width <= columns || !has_room) {
            lines.push(from..to);
            (from, used) = (after_gap, hang);
        } else if has_room {
            used += gap;
        } else {
            from = after_gap;
        }
        to = after_gap;
        while let Some(c) = chars.get(to).filter(|_| to < end) {
            let width = width_of(c.encode_utf8(&mut [0; 4]));
            if used + width > columns && to > from {
                lines.push(from..to);
                (from, used) = (to, hang);
            }
            (to, used) = (to + 1, used + width);
        }
    }
    lines.push(from..to);
    lines
}

/// How wide the characters of a kind are from here on, and where they end.
fn stretch(chars: &[char], from: usize, is_of: impl Fn(char) -> bool) -> (usize, usize) {
    let some = chars.iter().skip(from).take_while(|c| is_of(**c));
    let (mut width, mut count) = (0, 0);
    for c in some {
        width += width_of(c.encode_utf8(&mut [0; 4]));
        count += 1;
    }
    (width, from + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_spaces_stay() {
        assert_eq!(wrapped("one  two three\nfour", 2, Some(10)), "one  two\n  three\nfour");
        assert_eq!(wrapped("one  two three\n\n", 2, None), "one  two three\n\n");
        assert_eq!(wrapped("  in  here", 4, Some(20)), "  in  here");
        assert_eq!(wrapped("", 4, Some(20)), "");
        assert_eq!(wrapped("error: $0.000075 is much", 0, Some(16)), "error: $0.000075\nis much");
    }

    #[test]
    fn a_word_longer_than_a_line_is_broken_and_wide_characters_count_twice() {
        assert_eq!(wrapped("see abcdefghijkl end", 2, Some(8)), "see abcd\n  efghij\n  kl end");
        assert_eq!(wrapped("seeing abcdefghijkl", 2, Some(7)), "seeing\n  abcde\n  fghij\n  kl");
        assert_eq!(wrapped("漢字漢字漢字", 0, Some(5)), "漢字\n漢字\n漢字");
        assert_eq!(wrapped("漢", 0, Some(1)), "漢", "there is no end otherwise");
    }

    #[test]
    fn no_width_loses_a_word_or_is_exceeded() {
        let text = "  The quick — 漢字 — brown fox: jumps over   the lazy ✅ dog, again and again.";
        for columns in 12..90 {
            let shown = wrapped(text, 3, Some(columns));
            assert!(shown.lines().all(|line| width_of(line) <= columns), "{columns}: {shown}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&shown), words(text), "{columns}");
        }
    }
}
