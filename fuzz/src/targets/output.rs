//! Output that is cut: any bytes in any pieces give the same bounded text, and a cut splits no character.

use playhouse_tools::Capture;

use crate::bytes::Bytes;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x08\x04\x03short",
    b"\x08\x04\x01a text that is longer than what is kept of it",
    "\x07\x05\x02ä€𝄞ä€𝄞ä€𝄞ä€𝄞ä€𝄞".as_bytes(),
    b"\x06\x09\x02\xff\xc3\xe2\x82\xf0\x9d\x84\x80\x80\x80\x80\x80\xc0\xfe",
];

/// Three bytes say how much is kept, how much of the end is asked for, and how large the pieces are; the rest is output.
pub(crate) fn run(input: &[u8]) {
    let mut input = Bytes(input);
    let (cap, max, step) = (usize::from(input.next()), usize::from(input.next()), usize::from(input.next()));
    let output = input.0;

    let mut pieces = Capture::new(cap);
    let mut rest = input;
    for size in (0..).map(|nth: usize| (nth * step) % 37) {
        pieces.push(rest.take(size.max(1)));
        if rest.is_empty() {
            break;
        }
    }
    let mut whole = Capture::new(cap);
    whole.push(output);
    let (text, last) = (pieces.text(), pieces.last(max));
    assert_eq!((&text, &last), (&whole.text(), &whole.last(max)), "the pieces do not matter");
    assert_eq!(pieces.total(), output.len() as u64);

    let half = cap / 2;
    assert_eq!(pieces.is_truncated(), output.len() > 2 * half, "{} bytes of {cap}", output.len());
    // A byte that is no text takes three; the line in the middle has a number of at most twenty digits.
    assert!(text.len() <= 3 * cap + 64, "{} bytes of text from {cap}", text.len());
    assert!(last.len() <= 3 * max, "{} bytes of text from {max}", last.len());
    if !pieces.is_truncated() {
        assert_eq!(text, String::from_utf8_lossy(output));
    }
    let Ok(output) = std::str::from_utf8(output) else { return };
    assert!(output.ends_with(&last), "{last:?} is not the end of {output:?}");
    let kept = if pieces.is_truncated() { half } else { output.len() };
    assert!(last.len() + 4 > max.min(kept), "{last:?} is less of the end than the {max} bytes that were asked for");
    if pieces.is_truncated() {
        let (head, tail) = (output.floor_char_boundary(half), output.ceil_char_boundary(output.len() - half));
        let expected = format!("{}\n… {} bytes omitted …\n{}", &output[..head], tail - head, &output[tail..]);
        assert_eq!(text, expected);
    }
}
