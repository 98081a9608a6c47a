//! Names of tools and ids of calls as services take them back; pure.
//!
//! A history may hold what another service, or a model's fancy, put there, and one message that is refused would end
//! the conversation. What is mapped depends on the name or id alone, so a call and its result stay together.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// How many digits of the hash a mapped id has.
const DIGITS: usize = 24;

/// The longest name, and the longest id, that every service takes.
const LONGEST: usize = 64;

fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_plain(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.chars().all(fits)
}

/// A name of letters, digits, `_` and `-`, at most 64 of them.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    match name {
        "" => Cow::Borrowed("unknown"),
        name if is_plain(name) => Cow::Borrowed(name),
        name => Cow::Owned(name.chars().take(LONGEST).map(|c| if fits(c) { c } else { '_' }).collect()),
    }
}

/// The id itself if it is of letters, digits, `_` and `-`, at most 64 of them; else one made from it.
pub(crate) fn wire_id(id: &str) -> Cow<'_, str> {
    wire_id_if(id, is_plain)
}

/// The id itself where the service takes it, else `call_` and 24 hex digits of its hash.
pub(crate) fn wire_id_if(id: &str, fits: impl Fn(&str) -> bool) -> Cow<'_, str> {
    if fits(id) {
        return Cow::Borrowed(id);
    }
    let mut mapped = "call_".to_owned();
    for byte in Sha256::digest(id).iter().take(DIGITS / 2) {
        // Writing to a string does not fail.
        let _ = write!(mapped, "{byte:02x}");
    }
    Cow::Owned(mapped)
}

/// The id itself if it is nine letters and digits, else nine of its hash.
pub(crate) fn nine_id(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    let mut rest = Sha256::digest(id).iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    let mut mapped = String::with_capacity(9);
    for _ in 0..9 {
        mapped.extend(u32::try_from(rest % 36).ok().and_then(|digit| char::from_digit(digit, 36)));
        rest /= 36;
    }
    Cow::Owned(mapped)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_made_of_what_services_take() {
        assert_eq!(wire_name("read_file-2"), "read_file-2");
        assert_eq!(wire_name("no such.tool! ü"), "no_such_tool___");
        assert_eq!(wire_name(""), "unknown");
        assert_eq!(wire_name(&"é".repeat(200)), "_".repeat(64));
    }

    #[test]
    fn f10_an_id_is_kept_if_the_service_takes_it_and_mapped_if_not() {
        for own in ["toolu_01A09q90qw90lq917835lq9", "call_3_0", "a-b", &"x".repeat(64)] {
            assert_eq!(wire_id(own), own);
        }
        let odd = ["", "functions.read:0/é|fc_1", "a b", "a.b", &"x".repeat(65), &"x".repeat(200)];
        let mapped: HashSet<String> = odd.iter().map(|id| wire_id(id).into_owned()).collect();
        assert_eq!(mapped.len(), odd.len());
        for wire in &mapped {
            assert!(wire.len() == 29 && is_plain(wire), "{wire}");
            assert_eq!(wire_id(wire), *wire, "a mapped id is one that is kept");
        }
    }

    #[test]
    fn an_id_that_fits_stays_and_another_is_mapped_by_itself_alone() {
        let fits = |id: &str| !id.is_empty() && id.len() <= 40 && id.bytes().all(|byte| byte.is_ascii_graphic());
        assert_eq!(wire_id_if("call_1", fits), "call_1");
        let mut seen = HashSet::new();
        for id in ["", "é", "a b", &"x".repeat(41), &"x".repeat(42)] {
            let mapped = wire_id_if(id, fits).into_owned();
            assert!(fits(&mapped) && mapped.len() == 29, "{mapped}");
            assert_eq!(wire_id_if(id, fits), mapped);
            assert!(seen.insert(mapped));
        }
    }

    #[test]
    fn nine_letters_and_digits_stay_and_all_else_becomes_that() {
        assert_eq!(nine_id("aB3xK9mP2"), "aB3xK9mP2");
        let mut seen = HashSet::new();
        for n in 0..1_000 {
            let mapped = nine_id(&format!("call_{n}")).into_owned();
            assert!(mapped.len() == 9 && mapped.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{mapped}");
            assert!(seen.insert(mapped));
        }
        assert_eq!(nine_id("ééééx").len(), 9);
    }
}
