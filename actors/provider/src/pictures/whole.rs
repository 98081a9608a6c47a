//! Whether all of a picture is there, by what its format says of its end; pure. What is in it is not looked at.

use super::pixels;

/// Whether the file of a PNG, JPEG, GIF or WebP has a size and an end.
pub fn is_whole_picture(bytes: &[u8]) -> bool {
    let has_size = pixels::size(bytes).is_some_and(|(width, height)| width > 0 && height > 0);
    has_size
        && match bytes {
            [0x89, b'P', ..] => png_ends(bytes).is_some(),
            // Some programs fill up with zeros.
            [b'G', b'I', ..] => bytes.iter().rev().find(|byte| **byte != 0) == Some(&b';'),
            [b'R', b'I', ..] => riff_ends(bytes),
            _ => bytes.windows(2).any(|marker| marker == [0xff, 0xd9]),
        }
}

/// Chunks, each with its length, until the one that ends the picture.
fn png_ends(bytes: &[u8]) -> Option<()> {
    let mut at = 8_usize;
    loop {
        let length = usize::try_from(pixels::big(bytes, at, 4)?).ok()?;
        let name = bytes.get(at.checked_add(4)?..at.checked_add(8)?)?;
        // After the length and the name come so many bytes, and a checksum.
        let next = at.checked_add(12)?.checked_add(length)?;
        bytes.get(at..next)?;
        if name == b"IEND" {
            return Some(());
        }
        at = next;
    }
}

/// The file's beginning says how long the rest is.
fn riff_ends(bytes: &[u8]) -> bool {
    let length = pixels::little(bytes, 4, 4).and_then(|length| usize::try_from(length).ok());
    length.and_then(|length| length.checked_add(8)).is_some_and(|length| length <= bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_whole_with_its_last_byte_and_not_before() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0crc!\0\0\0\0IENDcrc!";
        let gif = b"GIF89a\x01\0\x01\0\0\0\0;";
        let webp = b"RIFF\x16\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x01\0\x01\0";
        let jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xd9";
        for whole in [&png[..], gif, webp, jpeg] {
            assert!(is_whole_picture(whole), "{whole:?}");
            for end in 0..whole.len() {
                assert!(!is_whole_picture(&whole[..end]), "{end} of {whole:?}");
            }
        }
        assert!(is_whole_picture(b"GIF89a\x01\0\x01\0\0\0\0;\0\0"));
        assert!(!is_whole_picture(b"GIF89a\0\0\x01\0\0\0\0;"), "no width");
    }
}
