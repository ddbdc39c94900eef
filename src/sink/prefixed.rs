//! `text` with a prefix before each line.
//!
//! Unfinished lines appear at once. Where both streams go to one file, pipe or terminal, what is unfinished of
//! one is ended before the other speaks, and gets its prefix again when it goes on; otherwise nothing but
//! prefixes is added.

mod place;

use std::time::Duration;

use anstyle::Style;
use jiff::tz::TimeZone;

use crate::model::event::{Event, Stream};
use crate::model::line_prefix::Prefix;
use crate::model::outcome::StopReason;
use crate::model::spec::{Limits, Pty, Split};
use crate::model::template::{Part, Template};
use crate::sink::destination::{Destination, Lost};
use crate::sink::stop_message::StopMessage;
use crate::sink::{Account, Cut, Sink};
use crate::sys::descriptors::is_same_file;
use place::Place;

/// Shows a run as text with a prefix before each line.
#[derive(Debug)]
pub struct Prefixed {
    /// In the order of the streams; the second one is not used where both are one file.
    places: [Place; 2],
    is_shared: bool,
    /// In the order of the streams.
    prefixes: [Prefix; 2],
    lines: [Line; 2],
    split: Split,
    /// The number of the line that began last.
    seq: u64,
    /// When the prefix before was put.
    last: Duration,
    stop_message: StopMessage,
    result_last: bool,
}

/// The current line of a stream.
#[derive(Debug, Clone, Copy)]
struct Line {
    state: State,
    seq: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// What comes begins a line.
    New,
    /// It goes on.
    Within,
    /// It is ended by a CR, and a LF that comes next belongs to it.
    AfterCr,
}

/// What a [`Prefixed`] puts before lines.
#[derive(Debug)]
pub struct LinePrefix {
    /// What it says.
    pub template: Template,
    /// The zone of its local times.
    pub zone: TimeZone,
    /// How it looks, in the order of the streams.
    pub styles: [Style; 2],
}

impl Prefixed {
    /// Shows a run on these two destinations; a stop is told with the limit that was passed, and the result, if
    /// that is asked for, on the first one.
    #[must_use]
    pub fn new(
        destinations: [Destination; 2],
        prefix: &LinePrefix,
        split: Split,
        limits: Option<Limits>,
        pty: Pty,
        result_last: bool,
    ) -> Self {
        let [stdout, stderr] = &destinations;
        let is_shared = is_same_file(stdout, stderr);
        let end = split.line_end().unwrap_or(b'\n');
        let prefixes = Stream::ALL.map(|stream| {
            let template = styled(&prefix.template, prefix.styles[stream.index()]);
            Prefix::new(&template, stream, prefix.zone.clone())
        });
        Self {
            places: destinations.map(|out| Place::new(out, end)),
            is_shared,
            prefixes,
            lines: [Line { state: State::New, seq: 0 }; 2],
            split,
            seq: 0,
            last: Duration::ZERO,
            stop_message: StopMessage::new(limits, pty),
            result_last,
        }
    }

    /// Tells why the run was stopped, if that is to be told and was not.
    fn tell_stop(&mut self, reason: Option<StopReason>) -> Result<(), Lost> {
        let Some(message) = self.stop_message.of(reason) else { return Ok(()) };
        let place = self.place(Stream::Stderr);
        place.begin_line()?;
        place.put_own(message.as_bytes())?;
        place.flush()
    }

    fn place(&mut self, stream: Stream) -> &mut Place {
        &mut self.places[self.place_of(stream)]
    }

    fn place_of(&self, stream: Stream) -> usize {
        if self.is_shared { 0 } else { stream.index() }
    }

    /// All whole lines that the bytes begin with, at the start of one. Returns the rest.
    fn put_lines<'b>(
        &mut self,
        stream: Stream,
        bytes: &'b [u8],
        end: u8,
        read_at: Duration,
    ) -> Result<&'b [u8], Lost> {
        let Some(last_end) = memchr::memrchr(end, bytes) else { return Ok(bytes) };
        let (mut lines, rest) = bytes.split_at(last_end + 1);
        let prefix = &self.prefixes[stream.index()];
        // How far each line has a prefix for itself.
        let alone = match memchr::memchr(end, lines) {
            _ if prefix.counts() => lines.len(),
            Some(at) if prefix.has_delta() => at + 1,
            _ => 0,
        };
        let mut begin = 0;
        for at in memchr::memchr_iter(end, &lines[..alone]) {
            self.put_piece(stream, &lines[begin..=at], State::New, read_at)?;
            begin = at + 1;
        }
        lines = &lines[alone..];
        let place = self.place_of(stream);
        let place = &mut self.places[place];
        let prefix = &mut self.prefixes[stream.index()];
        place.begin_line()?;
        prefix.make(read_at, Duration::ZERO, self.seq);
        place.put_lines(prefix, lines)?;
        self.last = read_at;
        Ok(rest)
    }

    /// A line or a part of one, after which the stream is in this state.
    fn put_piece(
        &mut self,
        stream: Stream,
        bytes: &[u8],
        state: State,
        at: Duration,
    ) -> Result<(), Lost> {
        let place = self.place_of(stream);
        let (place, line) = (&mut self.places[place], &mut self.lines[stream.index()]);
        let is_new = line.state == State::New;
        if is_new {
            self.seq = self.seq.saturating_add(1);
            line.seq = self.seq;
        }
        line.state = state;
        let is_behind_own = place.open() == Some(stream);
        if is_new || !is_behind_own {
            // Behind a CR of its own stream a line is to be written over the one before.
            if !is_behind_own {
                place.begin_line()?;
            }
            let prefix = &mut self.prefixes[stream.index()];
            prefix.make(at, at.saturating_sub(self.last), line.seq);
            self.last = at;
            place.put_own(prefix.bytes())?;
        }
        place.put_output(bytes)?;
        place.set_open((state != State::New).then_some(stream));
        Ok(())
    }

    /// How long the line is that the bytes begin with, its end included, and the state of the stream after it.
    fn line(&self, bytes: &[u8]) -> (usize, State) {
        let found = match self.split {
            Split::Lf => memchr::memchr(b'\n', bytes),
            Split::Nul => memchr::memchr(0, bytes),
            Split::Cr => memchr::memchr2(b'\n', b'\r', bytes),
        };
        let Some(at) = found else { return (bytes.len(), State::Within) };
        match (bytes[at], bytes.get(at + 1)) {
            (b'\r', None) => (at + 1, State::AfterCr),
            (b'\r', Some(b'\n')) => (at + 2, State::New),
            _ => (at + 1, State::New),
        }
    }
}

/// The same in this style.
fn styled(template: &Template, style: Style) -> Template {
    let mut parts = template.parts.clone();
    if style != Style::new() {
        parts.insert(0, Part::Text(style.render().to_string()));
        parts.push(Part::Text(style.render_reset().to_string()));
    }
    Template { parts }
}

impl Sink for Prefixed {
    fn block(&mut self, stream: Stream, mut bytes: &[u8], at: Duration) -> Result<(), Lost> {
        if self.place(stream).is_lost() {
            return Ok(());
        }
        while !bytes.is_empty() {
            let state = &mut self.lines[stream.index()].state;
            if *state == State::AfterCr && bytes[0] != b'\n' {
                *state = State::New;
            }
            if let (State::New, Some(end)) = (*state, self.split.line_end()) {
                bytes = self.put_lines(stream, bytes, end, at)?;
            }
            if !bytes.is_empty() {
                let (length, state) = self.line(bytes);
                let (line, rest) = bytes.split_at(length);
                self.put_piece(stream, line, state, at)?;
                bytes = rest;
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.block(piece.stream, piece.piece.bytes(), piece.at)
    }

    fn break_line(&mut self, stream: Stream) -> Result<(), Lost> {
        self.lines[stream.index()].state = State::New;
        let place = self.place(stream);
        if place.open() == Some(stream) { place.begin_line() } else { Ok(()) }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        match event {
            Event::Started(started) => {
                for prefix in &mut self.prefixes {
                    prefix.set_run(started.pid, started.clock);
                }
            }
            Event::Stop(stop) => self.tell_stop(stop.reason)?,
            // What was read back may add up to any number.
            Event::Dropped(dropped) => self.seq = self.seq.saturating_add(dropped.chunks),
            Event::Result(result) => {
                let result_last = self.result_last;
                self.flush()?;
                if !self.place(Stream::Stderr).is_lost() {
                    self.tell_stop(result.stopped_by)?;
                }
                let place = self.place(Stream::Stdout);
                if result_last && !place.is_lost() {
                    place.put_event(event)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        let [stdout, stderr] = &mut self.places;
        let flushed = stdout.flush();
        flushed.and(stderr.flush())
    }

    fn is_lost(&self) -> bool {
        let [stdout, stderr] = &self.places;
        stdout.is_lost() && (self.is_shared || stderr.is_lost())
    }

    fn account(&self) -> Account {
        let delivered_bytes = self.places.iter().map(Place::delivered_bytes).sum();
        Account { delivered_bytes, ..Account::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::sink::destination::{Outlet, Patience};

    /// What a stream wrote, read at once.
    type OneRead = (Stream, Vec<u8>);

    fn file() -> File {
        tempfile::tempfile().expect("a file can be made")
    }

    fn content(file: &File) -> Vec<u8> {
        let mut content = Vec::new();
        let mut file = file;
        file.rewind().expect("a file can be read again");
        file.read_to_end(&mut content).expect("a file can be read");
        content
    }

    fn sink(fds: [OwnedFd; 2], template: &str, split: Split, patience: &Arc<Patience>) -> Prefixed {
        let template = Template::parse(template).expect("it makes sense");
        let prefix = LinePrefix { template, zone: TimeZone::UTC, styles: [Style::new(); 2] };
        let out = |fd| Destination::new(Outlet::Opened(fd), "a file", patience);
        Prefixed::new(fds.map(out), &prefix, split, None, Pty::No, false)
    }

    fn sink_on(files: [&File; 2], template: &str, split: Split) -> Prefixed {
        let fds = files.map(|file| file.try_clone().expect("a descriptor is free").into());
        sink(fds, template, split, &Arc::default())
    }

    /// What is in a file in which both streams are shown.
    fn shared(template: &str, split: Split, reads: &[(Stream, &[u8])]) -> String {
        let file = file();
        let mut sink = sink_on([&file, &file], template, split);
        for (at, (stream, bytes)) in reads.iter().enumerate() {
            let at = Duration::from_millis(at as u64);
            sink.block(*stream, bytes, at).expect("a file takes it");
        }
        sink.flush().expect("a file takes it");
        String::from_utf8_lossy(&content(&file)).into_owned()
    }

    const OUT: Stream = Stream::Stdout;
    const ERR: Stream = Stream::Stderr;

    #[test]
    fn what_is_unfinished_is_ended_before_the_other_stream_speaks_in_the_same_place() {
        let reads =
            [(OUT, &b"a\nask: "[..]), (ERR, b"b"), (ERR, b"b\n"), (OUT, b"yes\nc"), (ERR, b"d")];
        assert_eq!(
            shared("{seq} {stream}: ", Split::Lf, &reads),
            "1 stdout: a\n2 stdout: ask: \n3 stderr: bb\n2 stdout: yes\n4 stdout: c\n5 stderr: d"
        );
        let reads = [(OUT, &b"a\0b"[..]), (ERR, b"c\n\0"), (OUT, b"d\0")];
        assert_eq!(shared("> ", Split::Nul, &reads), "> a\0> b\0> c\n\0> d\0");
    }

    #[test]
    fn a_line_written_over_another_has_a_prefix_too() {
        let reads =
            [(OUT, &b"1%\r2%\r"[..]), (OUT, b"3%\r\n4%\r"), (OUT, b"\n5%\r"), (ERR, b"x\n")];
        assert_eq!(shared("> ", Split::Cr, &reads), "> 1%\r> 2%\r> 3%\r\n> 4%\r\n> 5%\r\n> x\n");
    }

    #[test]
    fn the_time_since_the_line_before_is_that_of_the_first_line_of_a_read() {
        let reads = [(OUT, &b"a\nb\n"[..]), (OUT, b"c\nd\ne"), (ERR, b"f")];
        assert_eq!(
            shared("{delta} ", Split::Lf, &reads).replace("   0.00", ""),
            "0000 a\n0000 b\n1000 c\n0000 d\n0000 e\n1000 f"
        );
    }

    #[test]
    fn a_line_longer_than_any_buffer_has_one_prefix() {
        let long = [&vec![b'x'; 700_000][..], b"\n"].concat();
        let reads = [(OUT, &long[..]), (OUT, b"y\n")];
        let shown = shared("> ", Split::Lf, &reads);
        assert_eq!(shown.len(), 2 + long.len() + 4);
        assert!(shown.starts_with("> xx") && shown.ends_with("x\n> y\n"));
    }

    #[test]
    fn what_a_reader_did_not_take_is_not_counted_as_delivered() {
        for template in ["{stream} | ", "{seq} "] {
            let (mut reader, writer) = std::io::pipe().expect("a pipe can be made");
            let patience = Arc::new(Patience::default());
            // Nothing is waited for any more.
            patience.end(None);
            let fds = [writer.into(), file().into()];
            let mut sink = sink(fds, template, Split::Lf, &patience);
            let lines = "some text of the command\n".repeat(2000);
            let mut lost = None;
            while lost.is_none() {
                lost = sink.block(OUT, lines.as_bytes(), Duration::ZERO).err();
            }
            assert!(matches!(lost, Some(Lost::Abandoned)), "{lost:?}");
            let delivered_bytes = sink.account().delivered_bytes;
            drop(sink);
            let mut taken = String::new();
            reader.read_to_string(&mut taken).expect("it is text");
            let whole = taken.split_inclusive('\n').filter(|line| line.ends_with('\n')).count();
            assert!(whole > 100, "{whole}");
            assert_eq!(delivered_bytes, (whole * "some text of the command\n".len()) as u64);
        }
    }

    fn reads(alphabet: Vec<u8>) -> impl Strategy<Value = Vec<OneRead>> {
        let byte = prop::sample::select(alphabet);
        let stream = any::<bool>().prop_map(|is_out| if is_out { OUT } else { ERR });
        let read = (stream, prop::collection::vec(byte, 1..30));
        prop::collection::vec(read, 0..20)
    }

    fn splits() -> impl Strategy<Value = (Split, Vec<u8>)> {
        prop::sample::select(vec![
            (Split::Lf, b"ab\r\n".to_vec()),
            (Split::Nul, b"ab\n\0".to_vec()),
            (Split::Cr, b"ab\r\n".to_vec()),
        ])
    }

    fn written(reads: &[OneRead], stream: Stream) -> Vec<u8> {
        reads.iter().filter(|read| read.0 == stream).flat_map(|read| read.1.clone()).collect()
    }

    fn without(bytes: &[u8], unwanted: &str) -> Vec<u8> {
        String::from_utf8_lossy(bytes).replace(unwanted, "").into_bytes()
    }

    proptest! {
        #[test]
        fn apart_each_stream_without_its_prefixes_is_exact_at_any_time(
            ((split, _), reads) in splits().prop_flat_map(|(split, alphabet)| {
                (Just((split, alphabet.clone())), reads(alphabet))
            }),
        ) {
            let files = [file(), file()];
            let mut sink = sink_on([&files[0], &files[1]], "{stream} | ", split);
            for (count, (stream, bytes)) in reads.iter().enumerate() {
                sink.block(*stream, bytes, Duration::ZERO).expect("a file takes it");
                sink.flush().expect("a file takes it");
                let shown = content(&files[stream.index()]);
                let prefix = format!("{} | ", stream.as_str());
                let written = written(&reads[..=count], *stream);
                prop_assert_eq!(without(&shown, &prefix), written);
            }
            for stream in Stream::ALL {
                let shown = content(&files[stream.index()]);
                let prefix = format!("{} | ", stream.as_str());
                if let Some(end) = split.line_end() {
                    let mut lines = shown.split_inclusive(|&byte| byte == end);
                    prop_assert!(lines.all(|line| line.starts_with(prefix.as_bytes())));
                }
            }
            let all: usize = reads.iter().map(|read| read.1.len()).sum();
            prop_assert_eq!(sink.account().delivered_bytes, all as u64);
        }

        #[test]
        fn together_every_line_is_of_the_stream_that_its_prefix_names(reads in reads(b"ab\n".to_vec())) {
            let file = file();
            let mut sink = sink_on([&file, &file], "{stream} | ", Split::Lf);
            for (stream, bytes) in &reads {
                sink.block(*stream, bytes, Duration::ZERO).expect("a file takes it");
            }
            sink.flush().expect("a file takes it");
            let shown = String::from_utf8_lossy(&content(&file)).into_owned();
            for stream in Stream::ALL {
                let prefix = format!("{} | ", stream.as_str());
                let of_it = shown.lines().filter_map(|line| line.strip_prefix(&prefix));
                let written = without(&written(&reads, stream), "\n");
                prop_assert_eq!(of_it.collect::<String>().into_bytes(), written);
            }
            let is_prefixed = |line: &str| line.starts_with("stdout | ") || line.starts_with("stderr | ");
            prop_assert!(shown.lines().all(is_prefixed));
        }
    }
}
