//! Which characters a person can see.

/// Whether a character is invisible, turns its neighbours around or passes for a space: text that holds one does not
/// read as it is. Tabs and newlines are not among them.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        c if c.is_control() => true,
        ' ' => false,
        c if c.is_whitespace() => true,
        '\u{ad}'
        | '\u{34f}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'..='\u{891}'
        | '\u{8e2}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}'
        | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        // Not in any font: private use and what is no character.
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' | '\u{fdd0}'..='\u{fdef}' | '\u{fffe}'..='\u{ffff}' => {
            true
        }
        _ => false,
    }
}

/// Everything in the text on one line, nothing hidden: control characters, and what cannot be seen or passes for a space,
/// are written out.
pub fn spelled_out(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_known() {
        let hidden = ['\0', '\r', '\u{7f}', '\u{85}', '\u{a0}', '\u{200b}', '\u{202e}', '\u{2028}', '\u{3000}'];
        for c in hidden.into_iter().chain(['\u{feff}', '\u{e0041}', '\u{1b}', '\u{2800}', '\u{fe0f}']) {
            assert!(is_hidden(c), "{c:?}");
        }
        for c in ['a', ' ', '\t', '\n', 'é', 'ж', '漢', '🦀', '—', '…', '\u{301}'] {
            assert!(!is_hidden(c), "{c:?}");
        }
    }
}
