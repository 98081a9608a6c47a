//! How large a picture is, from the start of its file; pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How much of a picture is looked at, in characters of base64: a JPEG may have a preview before its own size.
const LOOK: usize = 256 << 10;

/// The longer side of a picture in pixels, where its file says so at its start.
pub(super) fn longer_side(base64: &str) -> Option<u32> {
    let look = base64.len().min(LOOK) / 4 * 4;
    let bytes = STANDARD.decode(base64.get(..look)?).ok()?;
    let (width, height) = size(&bytes)?;
    Some(width.max(height))
}

/// Width and height in pixels.
pub(super) fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    png(bytes).or_else(|| gif(bytes)).or_else(|| webp(bytes)).or_else(|| jpeg(bytes))
}

/// The first chunk of a PNG says it: width and height after its signature, length and name.
fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?))
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    bytes.strip_prefix(b"GIF8")?;
    Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?))
}

/// Three kinds of the first chunk: lossy, lossless and extended.
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    bytes.strip_prefix(b"RIFF")?;
    match bytes.get(8..16)? {
        b"WEBPVP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        b"WEBPVP8L" => {
            let bits = little(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"WEBPVP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

/// Segments, each with its length, until the one that begins a frame (`SOFn`).
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    bytes.strip_prefix(b"\xff\xd8")?;
    let mut at = 2;
    while *bytes.get(at)? == 0xff {
        match *bytes.get(at + 1)? {
            // Filling before a marker.
            0xff => at += 1,
            // Tables and a reserved marker lie among the frames' numbers.
            0xc4 | 0xc8 | 0xcc => at += 2 + usize::try_from(big(bytes, at + 2, 2)?).ok()?,
            0xc0..=0xcf => return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?)),
            _ => at += 2 + usize::try_from(big(bytes, at + 2, 2)?).ok()?,
        }
    }
    None
}

pub(super) fn big(bytes: &[u8], at: usize, len: usize) -> Option<u32> {
    Some(bytes.get(at..at.checked_add(len)?)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

pub(super) fn little(bytes: &[u8], at: usize, len: usize) -> Option<u32> {
    Some(bytes.get(at..at.checked_add(len)?)?.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(bytes: &[u8]) -> Option<u32> {
        longer_side(&STANDARD.encode(bytes))
    }

    #[test]
    fn the_size_is_read_from_the_start_of_each_format() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend([0, 0, 0x1f, 0x41, 0, 0, 0, 7, 8, 2, 0, 0, 0]);
        assert_eq!(side(&png), Some(8_001));
        assert_eq!(side(b"GIF89a\x05\x00\x2c\x01\0\0\0"), Some(300));
        let mut lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a".to_vec();
        lossy.extend([0x80, 0x02, 0xe0, 0x01, 0, 0]);
        assert_eq!(side(&lossy), Some(640));
        let mut lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f".to_vec();
        lossless.extend((99_u32 | 199 << 14).to_le_bytes());
        lossless.extend([0, 0]);
        assert_eq!(side(&lossless), Some(200));
        let mut extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0".to_vec();
        extended.extend([9, 0, 0, 0xe7, 3, 0]);
        assert_eq!(side(&extended), Some(1_000));
        // Filling, a segment to skip, tables among the frames' numbers, then the frame.
        let mut jpeg = b"\xff\xd8\xff\xff\xe0\x00\x04ab\xff\xc4\x00\x03x\xff\xc2\x00\x11\x08".to_vec();
        jpeg.extend([0x02, 0x58, 0x03, 0x20, 3, 0, 0]);
        assert_eq!(side(&jpeg), Some(800));
    }

    #[test]
    fn what_cannot_be_read_has_no_size() {
        for bytes in [
            &b""[..],
            b"x",
            b"\x89PNG\r\n\x1a\n",
            b"GIF89a",
            b"RIFF\0\0\0\0WEBPVP9 ",
            b"\xff\xd8\xff\xe0\xff\xff",
            b"\xff\xd8\xff\xc0",
        ] {
            assert_eq!(side(bytes), None, "{bytes:?}");
        }
        assert_eq!(longer_side("no base64 at all, é"), None);
    }
}
