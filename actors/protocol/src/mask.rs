//! Texts that have the shape of a key, masked in what people read and pass on: logs, traces, exports, errors.
//!
//! A shape is a guess. So this is not for the journal, for arguments or for reasoning, which must stay what they were;
//! secrets that are known by their value are [`Secrets`](crate::Secrets)' work.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// What stands for a key.
const MASK: &str = "****";

/// One per line; what `before` and `after` match is left.
const SHAPES: &str = r"(?x)
    -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----(?s:.*?)(?:-----END\ [A-Z\ ]*PRIVATE\ KEY-----|\z)
  | \bsk-[A-Za-z0-9_-]{16,}
  | \b[srp]k_(?:live|test)_[A-Za-z0-9]{16,}
  | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
  | \bgh[pousr]_[A-Za-z0-9]{20,}
  | \bgithub_pat_[A-Za-z0-9_]{20,}
  | \bglpat-[A-Za-z0-9_-]{20,}
  | \bhf_[A-Za-z0-9]{30,}
  | \bnpm_[A-Za-z0-9]{36}
  | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
  | \bAIza[0-9A-Za-z_-]{35}
  | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
  | (?P<bearer>(?i:\bbearer)\ +)[A-Za-z0-9._~+/=-]{8,}
  | (?P<user>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?P<at>@)
";

/// A text without what has the shape of a key, a token, a private key or a password in a URL.
pub fn mask_patterns(text: &str) -> Cow<'_, str> {
    static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(SHAPES).ok());
    match &*SHAPE {
        Some(shape) => shape.replace_all(text, format!("${{bearer}}${{user}}{MASK}${{at}}")),
        // Nothing is shown that could not be looked at.
        None => Cow::Borrowed(MASK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f52_what_has_the_shape_of_a_key_is_masked_and_the_rest_is_left() {
        let long = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9";
        for key in [
            format!("sk-ant-{long}"),
            format!("sk_live_{long}"),
            format!("AKIA{}", "ABCDEFGH12345678"),
            format!("ghp_{long}"),
            format!("github_pat_{long}"),
            format!("glpat-{long}"),
            format!("hf_{long}"),
            format!("npm_{}", &long[..36]),
            format!("xoxb-1234567890-{long}"),
            format!("AIza{}", &long[..35]),
            format!("eyJhbGciOiJIUzI1NiJ9.{long}.{long}"),
            format!("-----BEGIN RSA PRIVATE KEY-----\n{long}\n{long}\n-----END RSA PRIVATE KEY-----"),
        ] {
            assert_eq!(mask_patterns(&format!("before {key} after")), "before **** after", "{key}");
            assert_eq!(mask_patterns(&format!("{{\"k\":\"{key}\"}}")), "{\"k\":\"****\"}", "{key}");
        }
        assert_eq!(mask_patterns(&format!("authorization: Bearer {long}, x")), "authorization: Bearer ****, x");
        assert_eq!(mask_patterns("at postgres://me:hunter2@db:5432/x"), "at postgres://me:****@db:5432/x");
        assert_eq!(mask_patterns("-----BEGIN PRIVATE KEY-----\ncut off"), "****");
    }

    #[test]
    fn f52_ordinary_text_has_no_shape_of_a_key() {
        for text in [
            "the task-list-of-many-words-in-a-row is at https://example.com:8080/a@b",
            "a bearer of news; Bearer short",
            "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
            "sk-short AKIAabc ghp_x eyJ.x.y https://host/path user@host:/folder",
            "[secret:OPENAI_API_KEY]",
        ] {
            assert_eq!(mask_patterns(text), text);
        }
        let masked = mask_patterns("https://me:pw@host Bearer abcdefgh12").into_owned();
        assert_eq!(mask_patterns(&masked), masked);
    }
}
