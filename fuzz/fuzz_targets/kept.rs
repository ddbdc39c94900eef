//! What the result keeps is the beginning, the end or half and half, exactly, without the parts of a character that
//! a cut left, and never more than it may; what is missing is counted. The same wherever the reads fall.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runcast::model::kept::Kept;
use runcast::model::lines::unfinished_character;
use runcast::model::spec::Keep;
use runcast_fuzz::{Reads, is_inside_character};

/// What is kept, made of the whole stream.
fn model(keep: Keep, max: usize, stream: &[u8]) -> Vec<u8> {
    if stream.len() <= max {
        return stream.to_vec();
    }
    let head = match keep {
        Keep::Head => max,
        Keep::Tail => 0,
        Keep::Both => max / 2,
    };
    let tail = max - head;
    let (head, tail) = (&stream[..head], &stream[stream.len() - tail..]);
    let head = &head[..head.len() - unfinished_character(head)];
    let rest = tail.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    [head, &tail[rest..]].concat()
}

fuzz_target!(|input: (u8, u8, Reads, &[u8])| {
    let (keep, max, reads, stream) = input;
    let keep = [Keep::Head, Keep::Tail, Keep::Both][usize::from(keep % 3)];
    let max = usize::from(max);
    let mut kept = Kept::new(keep, max as u64);
    let mut seen = 0;
    for read in reads.of(stream) {
        kept.push(read);
        seen += read.len();
        assert_eq!(&*kept.bytes(), model(keep, max, &stream[..seen]));
    }

    let bytes = kept.bytes().into_owned();
    let (length, missing) = (bytes.len(), stream.len() - bytes.len());
    assert!(length <= max && (stream.len() > max || missing == 0));
    assert_eq!(kept.kept_len(), length as u64);
    assert_eq!(kept.is_truncated(), missing > 0);
    let between = (keep == Keep::Both && missing > 0).then_some(missing as u64);
    assert_eq!(kept.omitted_between(), between);
    if missing > 0 {
        // Each cut leaves out at most three bytes, and is not inside a character.
        assert!(length + 6 >= max);
        assert!(keep != Keep::Head || !is_inside_character(stream, length));
        assert!(keep != Keep::Tail || !is_inside_character(stream, missing));
    }
    kept.settle();
    assert_eq!(&*kept.bytes(), bytes);
});
