//! How far one name is from another.

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
