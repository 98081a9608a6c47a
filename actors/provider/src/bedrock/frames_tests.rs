use proptest::prelude::*;

use super::super::frame_writer::{frame, raw, text_header};
use super::*;

fn read(bytes: &[u8], cap: usize) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Frames::new(cap);
    frames.push(bytes);
    let mut all = Vec::new();
    while let Some(frame) = frames.next()? {
        all.push(frame);
    }
    Ok(all)
}

#[test]
fn the_empty_frame_is_the_one_of_amazons_own_tests() {
    // The published vector `empty_message`.
    let bytes = [0, 0, 0, 0x10, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];
    assert_eq!(raw(&[], &[]), bytes);
    let frames = read(&bytes, 1 << 20).unwrap();
    assert_eq!(frames, [Frame { head: Bytes::new(), payload: Bytes::new() }]);
}

#[test]
fn headers_of_every_kind_are_passed_over_and_text_is_found() {
    let mut headers = Vec::new();
    for (kind, size) in [(0_u8, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
        headers.extend([1, b'k', kind]);
        headers.extend(vec![7_u8; size]);
    }
    headers.extend([1, b'b', 6, 0, 2, 1, 2]);
    headers.extend(text_header(":event-type", "métadonnées"));
    headers.extend(text_header("empty", ""));
    let frames = read(&raw(&headers, b"{}"), 1 << 20).unwrap();
    let [frame] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!(frame.text(":event-type"), Some("métadonnées"));
    assert_eq!((frame.text("empty"), frame.text("b"), frame.text("none")), (Some(""), None, None));
    assert_eq!(&frame.payload[..], b"{}");
}

#[test]
fn every_single_damaged_byte_is_seen() {
    let good = frame("event", ":event-type", "contentBlockDelta", r#"{"contentBlockIndex":0}"#);
    assert_eq!(read(&good, 1 << 20).unwrap().len(), 1);
    for place in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[place] ^= 1 << bit;
            assert!(matches!(read(&bad, 1 << 20), Err(FrameError::Damaged(_))), "byte {place}, bit {bit}");
        }
    }
}

#[test]
fn f12_a_frame_that_says_it_is_too_long_is_refused_at_its_first_bytes() {
    let long = raw(&[], &[b'x'; 1_000]);
    assert_eq!(read(&long[..12], 1_015), Err(FrameError::TooLong { cap: 1_015 }));
    assert_eq!(read(&long[..11], 1_015), Ok(vec![]));
    assert_eq!(read(&long, 1_016).unwrap().len(), 1);
}

#[test]
fn lengths_that_do_not_fit_are_damage() {
    for (total, headers) in [(0_u32, 0_u32), (15, 0), (16, 1), (20, u32::MAX)] {
        let mut bytes = [total.to_be_bytes(), headers.to_be_bytes()].concat();
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes.extend([0; 32]);
        assert_eq!(read(&bytes, 1 << 20), Err(FrameError::Damaged("its lengths do not fit")), "{total} {headers}");
    }
    for headers in [vec![5, b'a'], vec![1, b'a', 7, 0, 9, b'x'], vec![1, b'a', 99], vec![1, b'a', 5, 0], vec![1, b'a']]
    {
        let read = read(&raw(&headers, b"{}"), 1 << 20);
        assert_eq!(read, Err(FrameError::Damaged("its headers cannot be read")), "{headers:?}");
    }
}

proptest! {
    #[test]
    fn f04_garbage_is_no_panic_and_no_endless_loop(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, 4_096);
    }

    #[test]
    fn f04_garbage_in_whole_frames_is_no_panic(headers in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(frames) = read(&raw(&headers, b"{}"), 4_096) {
            for frame in frames {
                let _ = (frame.text(":event-type"), frame.text(""));
            }
        }
    }
}
