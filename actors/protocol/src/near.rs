//! Names that were probably meant.

/// How many characters must change to make one name of another (Levenshtein), looking at the first 80 of each.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(80).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(80).enumerate() {
        let mut next = vec![i + 1];
        for (pair, to) in row.windows(2).zip(&b) {
            if let ([diagonal, above], Some(left)) = (pair, next.last().copied()) {
                let replaced = diagonal + usize::from(from != *to);
                next.push(replaced.min(above + 1).min(left + 1));
            }
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// The nearest of some names, if it is near enough to be a slip: a third of its characters and one more. Capitals count
/// for nothing.
pub fn nearest_name<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.chars().take(200).collect::<String>().to_lowercase();
    let measured = names.into_iter().map(|name| (edit_distance(&given, &name.to_lowercase()), name));
    let (distance, name) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + given.chars().count() / 3).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_nothing_else() {
        let names = ["openai", "ollama", "openrouter"];
        for (given, near) in
            [("opnai", Some("openai")), ("OLAMA", Some("ollama")), ("cohere", None), ("", None), ("x", None)]
        {
            assert_eq!(nearest_name(given, names), near, "{given}");
        }
        assert_eq!(nearest_name("a", []), None);
    }
}
