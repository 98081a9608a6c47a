use super::*;

impl Spelled {
    /// As [`Spelled::find`], by trying everything everywhere.
    fn find_plainly(&self, bytes: &[u8], from: usize, until: usize) -> Option<(usize, usize, &Arc<str>)> {
        (from..until).find_map(|at| {
            let whole = self.wanted.iter().filter_map(|one| match one.fits(&bytes[at..]) {
                Fit::Whole(length) => Some((at, at + length, &one.stand_in)),
                Fit::Open | Fit::No => None,
            });
            whole.max_by_key(|(_, end, _)| *end)
        })
    }

    /// As [`Spelled::open_end`], by trying everything everywhere.
    fn open_end_plainly(&self, bytes: &[u8], from: usize) -> usize {
        let is_open = |at: &usize| self.wanted.iter().any(|one| one.fits(&bytes[*at..]) == Fit::Open);
        (from..bytes.len()).find(is_open).unwrap_or(bytes.len())
    }
}

#[test]
fn f52_what_is_tried_only_where_it_can_begin_is_found_all_the_same() {
    let texts = ["ab/\"c", "\\a%&b", "é🦀 x", "🦀ab", "&amp;+", "%41bc", " a b", "bab", "+a=b", "a\nb"];
    let parts = [
        "a",
        "b",
        "c",
        "x",
        "/",
        "\"",
        "\\",
        "\\\\",
        "é",
        "🦀",
        " ",
        "+",
        "=",
        "&",
        "%",
        "\n",
        "\r\n",
        "\n  ",
        "\\n",
        "\\u0061",
        "\\u00e9",
        "\\ud83e\\udd80",
        "\\ud83e",
        "\\\\u0062",
        "\\x61",
        "\\/",
        "\\\"",
        "&amp;",
        "&quot;",
        "&#97;",
        "&#x62;",
        "&#x1f980;",
        "&am",
        "%61",
        "%2",
        "%2F",
        "%C3%a9",
        "%f0%9f%a6%80",
        "%5c",
        "\\u",
        "u0061",
        "amp;",
        "\0",
    ];
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let wanted = (0..random.usize(1..6)).map(|number| {
            let breaks = if random.bool() { Breaks::Never } else { Breaks::Anywhere };
            Wanted::new(texts[random.usize(0..texts.len())], breaks, &number.to_string().into())
        });
        let spelled = Spelled::new(wanted.collect());
        let text: String = (0..random.usize(1..24)).map(|_| parts[random.usize(0..parts.len())]).collect();
        // Also in the middle of a character, as in a text that comes in pieces.
        let bytes = &text.as_bytes()[..text.len() - random.usize(0..text.len().min(3))];
        let from = random.usize(0..=bytes.len());
        let until = random.usize(from..=bytes.len());
        let found = spelled.find(bytes, from, until);
        assert_eq!(found, spelled.find_plainly(bytes, from, until), "seed {seed}: {text:?} {spelled:?}");
        let open = spelled.open_end(bytes, from);
        assert_eq!(open, spelled.open_end_plainly(bytes, from), "seed {seed}: {text:?} {spelled:?}");
    }
}
