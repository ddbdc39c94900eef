//! What stands before each line, made once for all lines that were read together, and put before them.
//!
//! Knows one stream. Which line is new, and what is at the end of a terminal, is not known here.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::model::event::Stream;
use crate::model::template::{Part, Template, TimeFormat, formatted};
use crate::model::wall_clock::WallClock;

/// How much of a prefix is copied in most cases, whatever its length: two sizes that are copied without a loop.
const SHORT_BYTES: usize = 32;
const USUAL_BYTES: usize = 64;

/// How wide the seconds of a time are at least: as far as 9999 s, so nearly three hours, they stand in a column.
const SECONDS_WIDTH: usize = 11;

/// What stands before the lines of one stream.
#[derive(Debug)]
pub struct Prefix {
    slots: Vec<Slot>,
    zone: TimeZone,
    clock: Option<WallClock>,
    /// What the slots say, or nothing as long as that has to be made anew.
    at: Option<Duration>,
    /// What was made, and zeros up to [`USUAL_BYTES`].
    bytes: Vec<u8>,
    length: usize,
}

/// A part of a prefix, with what it says.
#[derive(Debug)]
enum Slot {
    Fixed(Vec<u8>),
    Pid,
    Seq,
    Delta,
    Time { format: TimeFormat, text: Vec<u8> },
}

impl Prefix {
    /// What a template says of the lines of a stream, with times in this zone where they are local.
    #[must_use]
    pub fn new(template: &Template, stream: Stream, zone: TimeZone) -> Self {
        let slot = |part: &Part| match part {
            Part::Text(text) => Slot::Fixed(text.clone().into_bytes()),
            Part::Stream => Slot::Fixed(stream.as_str().as_bytes().to_vec()),
            Part::Pid => Slot::Pid,
            Part::Seq => Slot::Seq,
            Part::Time(TimeFormat::Delta) => Slot::Delta,
            Part::Time(format) => Slot::Time { format: format.clone(), text: Vec::new() },
        };
        let slots = template.parts.iter().map(slot).collect();
        Self { slots, zone, clock: None, at: None, bytes: Vec::new(), length: 0 }
    }

    /// Says what was started, and when.
    pub fn set_run(&mut self, pid: i32, clock: WallClock) {
        for slot in self.slots.iter_mut().filter(|slot| matches!(slot, Slot::Pid)) {
            *slot = Slot::Fixed(itoa::Buffer::new().format(pid).as_bytes().to_vec());
        }
        (self.clock, self.at) = (Some(clock), None);
    }

    /// Whether each line has another one.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Seq))
    }

    /// Whether the first of the lines that were read together has another one than the others.
    #[must_use]
    pub fn has_delta(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Delta))
    }

    /// Makes it for a line that was read at `at` since the start, `delta` after the line before.
    pub fn make(&mut self, at: Duration, delta: Duration, seq: u64) {
        let is_new = self.at.replace(at) != Some(at);
        self.bytes.clear();
        for slot in &mut self.slots {
            match slot {
                Slot::Fixed(text) => self.bytes.extend_from_slice(text),
                Slot::Pid => {}
                Slot::Seq => {
                    self.bytes.extend_from_slice(itoa::Buffer::new().format(seq).as_bytes());
                }
                Slot::Delta => put_seconds(&mut self.bytes, delta),
                Slot::Time { format, text } => {
                    if is_new {
                        text.clear();
                        put_time(text, format, at, self.clock, &self.zone);
                    }
                    self.bytes.extend_from_slice(text);
                }
            }
        }
        self.length = self.bytes.len();
        self.bytes.resize(self.length.max(USUAL_BYTES), 0);
    }

    /// What was made.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Copies whole lines, each behind the prefix, as many as there is room for.
    ///
    /// All bytes of `lines` are lines that `end` ends.
    #[must_use]
    pub fn put_lines(&self, lines: &[u8], end: u8, room: &mut [u8]) -> Progress {
        let (mut read, mut written) = (0, 0);
        // What is copied is at least this much.
        let head = self.length.max(USUAL_BYTES);
        for at in memchr::memchr_iter(end, lines) {
            let line = &lines[read..=at];
            let Some(place) = room[written..].get_mut(..head + line.len()) else { break };
            if self.length <= SHORT_BYTES {
                place[..SHORT_BYTES].copy_from_slice(&self.bytes[..SHORT_BYTES]);
            } else {
                place[..USUAL_BYTES].copy_from_slice(&self.bytes[..USUAL_BYTES]);
                if self.length > USUAL_BYTES {
                    place[..self.length].copy_from_slice(&self.bytes[..self.length]);
                }
            }
            place[self.length..self.length + line.len()].copy_from_slice(line);
            written += self.length + line.len();
            read = at + 1;
        }
        Progress { read, written }
    }
}

/// How far [`Prefix::put_lines`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of lines that were taken.
    pub read: usize,
    /// Bytes that were put.
    pub written: usize,
}

fn put_time(
    text: &mut Vec<u8>,
    format: &TimeFormat,
    at: Duration,
    clock: Option<WallClock>,
    zone: &TimeZone,
) {
    if matches!(format, TimeFormat::Elapsed) {
        return put_seconds(text, at);
    }
    // It is told with what was started, before any output.
    let Some(clock) = clock else { return };
    let pattern = match format {
        TimeFormat::Local => "%Y-%m-%dT%H:%M:%S.%6f%:z",
        TimeFormat::Pattern(pattern) => pattern,
        _ => return text.extend_from_slice(clock.utc(at).as_bytes()),
    };
    let zoned = clock.at(at).to_zoned_datetime(zone.clone());
    // What it refuses it refused when it was parsed.
    if let Ok(time) = formatted(&zoned, pattern) {
        text.extend_from_slice(time.as_bytes());
    }
}

/// Seconds with microseconds, to the right of their column.
fn put_seconds(text: &mut Vec<u8>, time: Duration) {
    let (mut whole, mut micros) = (itoa::Buffer::new(), itoa::Buffer::new());
    let whole = whole.format(time.as_secs());
    // The seventh digit is there only to keep the zeros behind it.
    let micros = micros.format(1_000_000 + time.subsec_micros());
    let width = whole.len() + micros.len();
    text.resize(text.len() + SECONDS_WIDTH.saturating_sub(width), b' ');
    text.extend_from_slice(whole.as_bytes());
    text.push(b'.');
    text.extend_from_slice(&micros.as_bytes()[1..]);
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn prefix(typed: &str, zone: TimeZone) -> Prefix {
        let template = Template::parse(typed).unwrap_or_else(|why| panic!("{typed}: {why}"));
        started(Prefix::new(&template, Stream::Stderr, zone))
    }

    fn started(mut prefix: Prefix) -> Prefix {
        let start: Timestamp = "2026-11-30T23:59:59Z".parse().expect("that is a time");
        prefix.set_run(4711, WallClock(start));
        prefix
    }

    fn of_time(format: &str, zone: TimeZone, at: Duration) -> String {
        let format = TimeFormat::parse(format).unwrap_or_else(|why| panic!("{format}: {why}"));
        let template = Template::of_time(format);
        let mut prefix = started(Prefix::new(&template, Stream::Stdout, zone));
        prefix.make(at, Duration::from_millis(20), 1);
        String::from_utf8_lossy(prefix.bytes()).into_owned()
    }

    #[test]
    fn each_placeholder_is_what_it_names() {
        let mut prefix = prefix("{stream} {pid} {seq} {time} {elapsed} {delta}>", TimeZone::UTC);
        prefix.make(Duration::from_micros(1_000_002), Duration::from_micros(3), 42);
        assert_eq!(
            String::from_utf8_lossy(prefix.bytes()),
            "stderr 4711 42 2026-12-01T00:00:00.000002Z    1.000002    0.000003>"
        );
        assert!(prefix.counts() && prefix.has_delta());
    }

    #[test]
    fn a_time_is_written_as_asked() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("that is a time zone");
        let at = Duration::from_millis(1500);
        assert_eq!(of_time("iso", berlin.clone(), at), "2026-12-01T00:00:00.500000Z ");
        assert_eq!(of_time("local", berlin.clone(), at), "2026-12-01T01:00:00.500000+01:00 ");
        assert_eq!(of_time("[%H:%M:%S%.3f %Z]", berlin, at), "[01:00:00.500 CET] ");
        assert_eq!(of_time("elapsed", TimeZone::UTC, at), "   1.500000 ");
        assert_eq!(of_time("delta", TimeZone::UTC, at), "   0.020000 ");
    }

    #[test]
    fn seconds_stand_in_a_column_as_long_as_they_fit() {
        for (seconds, shown) in
            [(0, "   0.000000"), (9999, "9999.000000"), (123_456, "123456.000000")]
        {
            let mut text = Vec::new();
            put_seconds(&mut text, Duration::from_secs(seconds));
            assert_eq!(String::from_utf8_lossy(&text), shown);
        }
    }

    proptest! {
        #[test]
        fn lines_without_their_prefixes_are_the_input(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..40),
            end in prop::sample::select(vec![b'\n', 0]),
            text in "[a-z |{}]{1,90}",
            room_bytes in 0_usize..3000,
        ) {
            let input: Vec<u8> = lines
                .iter()
                .flat_map(|line| line.iter().copied().filter(|byte| *byte != end).chain([end]))
                .collect();
            let mut prefix = prefix(&text.replace('{', "{{").replace('}', "}}"), TimeZone::UTC);
            prefix.make(Duration::ZERO, Duration::ZERO, 1);
            prop_assert_eq!(prefix.bytes(), text.as_bytes());
            let mut room = vec![0xee; room_bytes];
            let Progress { read, written } = prefix.put_lines(&input, end, &mut room);
            let put = room[..written].split_inclusive(|byte| *byte == end);
            let bare: Option<Vec<_>> = put.map(|line| line.strip_prefix(text.as_bytes())).collect();
            let bare = bare.map(|lines| lines.concat());
            prop_assert_eq!(bare.as_deref(), Some(&input[..read]));
            // It stops only where there may be no room for the next line.
            let next = input[read..].split_inclusive(|byte| *byte == end).next();
            let needed = next.map(|next| written + text.len().max(USUAL_BYTES) + next.len());
            prop_assert!(needed.is_none_or(|needed| needed > room_bytes));
        }
    }
}
