//! The parts that every byte of output passes through, each by itself: cutting, escaping, keeping, showing.
//!
//! ```text
//! cargo bench --bench micro
//! ```

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};

use runcast::model::escape::{LEAST_ROOM, escape_until};
use runcast::model::event::Stream;
use runcast::model::kept::Kept;
use runcast::model::lines::{LineCounter, LineCutter, Piece};
use runcast::model::spec::{Keep, Split};
use runcast::sink::destination::{Destination, Outlet};
use runcast::sink::lined::LineFormat;
use runcast::sink::ndjson::Ndjson;

fn main() {
    divan::main();
}

/// What one read of a fast command gives.
const BLOCK_BYTES: usize = 64 * 1024;

/// The defaults of `--max-line` and `--max-output`.
const MAX_LINE_BYTES: usize = 1 << 20;
const MAX_OUTPUT_BYTES: u64 = 256 << 10;

/// Lengths of lines, their end included.
const LENGTHS: [usize; 3] = [8, 100, 1000];

/// What is in a line.
#[derive(Debug, Clone, Copy)]
enum Content {
    Plain,
    /// Every tenth byte needs an escape.
    Escapes,
    /// Every tenth line is no UTF-8.
    Invalid,
}

/// A block as it is read: lines of this length, the first and the last of them cut in the middle.
fn block(length: usize, content: Content) -> Vec<u8> {
    let byte = |at: usize| match (content, at % length, at / length) {
        (_, in_line, _) if in_line == length - 1 => b'\n',
        (Content::Escapes, _, _) if at.is_multiple_of(10) => b'"',
        (Content::Invalid, 3, line) if line.is_multiple_of(10) => 0xff,
        _ => b'a' + (at % 26) as u8,
    };
    let begin = length / 2;
    (begin..begin + BLOCK_BYTES).map(byte).collect()
}

/// Cuts the same block again and again.
fn cut_block(bencher: Bencher<'_, '_>, block: &[u8], split: Split) {
    let mut cutter = LineCutter::new(split, MAX_LINE_BYTES);
    bencher.counter(BytesCount::of_slice(block)).bench_local(|| {
        cutter.push(black_box(block), &mut |piece: Piece<'_>| {
            black_box(piece);
        });
    });
}

/// Whole lines are cut off together, with one search from the block's end.
#[divan::bench(args = LENGTHS)]
fn cut(bencher: Bencher<'_, '_>, length: usize) {
    cut_block(bencher, &block(length, Content::Plain), Split::Lf);
}

/// Where CR ends lines too, each is cut off by itself.
#[divan::bench(args = LENGTHS)]
fn cut_at_cr(bencher: Bencher<'_, '_>, length: usize) {
    cut_block(bencher, &block(length, Content::Plain), Split::Cr);
}

#[divan::bench]
fn cut_endless(bencher: Bencher<'_, '_>) {
    cut_block(bencher, &[b'x'; BLOCK_BYTES], Split::Lf);
}

#[divan::bench(args = LENGTHS)]
fn count(bencher: Bencher<'_, '_>, length: usize) {
    let block = block(length, Content::Plain);
    let mut counter = LineCounter::new(Split::Lf);
    bencher.counter(BytesCount::of_slice(&block)).bench_local(|| counter.push(black_box(&block)));
}

/// Escapes a block line by line, as the sink does.
#[divan::bench(args = [Content::Plain, Content::Escapes])]
fn escape(bencher: Bencher<'_, '_>, content: Content) {
    let block = block(100, content);
    // No escape is longer than six bytes.
    let mut output = vec![0; 6 * BLOCK_BYTES + LEAST_ROOM];
    bencher.counter(BytesCount::of_slice(&block)).bench_local(|| {
        let (mut read, mut written) = (0, 0);
        while read < block.len() {
            let progress = escape_until(&block[read..], &mut output[written..], Some(b'\n'));
            read += progress.read;
            written += progress.written;
        }
        black_box(&output);
    });
}

/// Of a stream that is already longer than what is kept.
#[divan::bench(args = [Keep::Head, Keep::Tail, Keep::Both])]
fn keep(bencher: Bencher<'_, '_>, keep: Keep) {
    let block = block(100, Content::Plain);
    let mut kept = Kept::new(keep, MAX_OUTPUT_BYTES);
    while !kept.is_truncated() {
        kept.push(&block);
    }
    bencher.counter(BytesCount::of_slice(&block)).bench_local(|| kept.push(black_box(&block)));
}

/// Cuts a block and shows it as NDJSON on `/dev/null`.
fn show_block(bencher: Bencher<'_, '_>, block: &[u8]) {
    let null = File::options().write(true).open("/dev/null").expect("every Linux has it");
    let out = Destination::new(Outlet::Opened(null.into()), "/dev/null", &Arc::default());
    let mut sink = Ndjson::new(out, &[], false);
    let mut cutter = LineCutter::new(Split::Lf, MAX_LINE_BYTES);
    bencher.counter(BytesCount::of_slice(block)).bench_local(|| {
        cutter.push(black_box(block), &mut |piece| {
            sink.lines(Stream::Stdout, piece, Duration::from_millis(1500))
                .expect("/dev/null takes everything");
        });
    });
}

#[divan::bench(args = LENGTHS)]
fn ndjson(bencher: Bencher<'_, '_>, length: usize) {
    show_block(bencher, &block(length, Content::Plain));
}

#[divan::bench(args = [Content::Escapes, Content::Invalid])]
fn ndjson_other(bencher: Bencher<'_, '_>, content: Content) {
    show_block(bencher, &block(100, content));
}

#[divan::bench]
fn ndjson_endless(bencher: Bencher<'_, '_>) {
    show_block(bencher, &[b'x'; BLOCK_BYTES]);
}
