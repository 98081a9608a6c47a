//! The name that was probably meant.

use playhouse_protocol::edit_distance;

/// A candidate and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Near<T> {
    pub(crate) candidate: T,
    pub(crate) distance: usize,
}

/// The nearest of some names, if it is near enough to be a slip. A name that only misses its section, or is in the
/// wrong one, is near too.
pub(crate) fn nearest<'a, T: Copy>(given: &str, candidates: impl IntoIterator<Item = (&'a str, T)>) -> Option<Near<T>> {
    let given = plain(given);
    let measured = candidates.into_iter().map(|(name, candidate)| Near { candidate, distance: far(&given, name) });
    let near = measured.min_by_key(|near| near.distance)?;
    let length = last(&given).chars().count();
    (near.distance <= 1 + length / 3).then_some(near)
}

fn far(given: &str, name: &str) -> usize {
    let name = plain(name);
    let whole = edit_distance(&given.replace('.', "_"), &name.replace('.', "_"));
    let elsewhere = edit_distance(last(given), last(&name)) + 1;
    whole.min(elsewhere)
}

fn plain(name: &str) -> String {
    name.chars().take(200).collect::<String>().to_lowercase().replace('-', "_")
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &str) -> Option<&'static str> {
        let names = ["model", "max_tokens", "tools", "limits", "limits.max_turns", "openai.base_url"];
        nearest(given, names.map(|name| (name, name))).map(|near| near.candidate)
    }

    #[test]
    fn slips_and_wrong_sections_are_found_and_nothing_else() {
        let found = [
            ("modle", "model"),
            ("Model", "model"),
            ("max-tokens", "max_tokens"),
            ("limts", "limits"),
            ("max_turns", "limits.max_turns"),
            ("maxturns", "limits.max_turns"),
            ("retry.max_turns", "limits.max_turns"),
            ("limits_max_turns", "limits.max_turns"),
            ("base_url", "openai.base_url"),
        ];
        for (given, expected) in found {
            assert_eq!(of(given), Some(expected), "{given}");
        }
        for given in ["", "colour", "api_key", "x", "mcp.servers", &"model".repeat(10_000)] {
            assert_eq!(of(given), None, "{given}");
        }
    }
}
