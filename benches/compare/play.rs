//! The parts that this program plays when it starts itself again: what writes, what reads, what keeps busy.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

use crate::rounds::Random;

/// The first word of a command line that asks for a part.
pub(crate) const FLAG: &str = "--play";

/// Bytes of one large write.
const BLOCK_BYTES: usize = 64 * 1024;

/// About how many bytes are made before they repeat. Fewer, and what happens once in 200 lines is too even;
/// more, and they come from memory and not from the processor's cache, which slows the writer down.
const RING_BYTES: usize = 128 * 1024;

/// Lines after which a mixture repeats.
const MIXTURE_LINES: usize = 200;

/// What is in the lines that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Printable ASCII without quotes and backslashes.
    Plain,
    /// In 5 % of the lines characters that JSON escapes, in 0.5 % others than ASCII, in 0.5 % no UTF-8.
    Mixed,
    /// One line without an end.
    Endless,
}

impl Content {
    const ALL: [Self; 3] = [Self::Plain, Self::Mixed, Self::Endless];

    /// Its name, on a command line and in a title.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Mixed => "mixed",
            Self::Endless => "endless",
        }
    }
}

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// 64 KiB at a time, wherever that falls in a line.
    Blocks,
    /// Each with a write of its own.
    Lines,
}

impl Writes {
    const ALL: [Self; 2] = [Self::Blocks, Self::Lines];

    fn word(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Lines => "lines",
        }
    }
}

/// One part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Play {
    /// Writes so many bytes of such lines as fast as it can.
    Generate { bytes: u64, length: usize, content: Content, writes: Writes },
    /// Writes what it reads: for a look at what a peer writes.
    Copy,
    /// Reads to the end.
    Read,
    /// Reads at most so fast, and ends after so many seconds.
    ReadSlowly { bytes_per_second: u64, seconds: u64 },
    /// Writes so many lines, one each interval, each with the time of its write.
    Stamp { lines: usize, interval_us: u64 },
    /// Reads such lines to the end, and then writes how many nanoseconds each was under way.
    Delays,
    /// Keeps a processor busy for so many seconds.
    Spin { seconds: u64 },
}

impl Play {
    /// The command that plays it: this program.
    ///
    /// # Errors
    ///
    /// Where this program's path cannot be found out.
    pub(crate) fn argv(self) -> io::Result<Vec<String>> {
        let program = std::env::current_exe()?;
        let program = program.to_str().ok_or_else(|| io::Error::other("its path is no text"))?;
        let mut argv = vec![program.to_owned(), FLAG.to_owned()];
        argv.extend(self.words());
        Ok(argv)
    }

    /// The same, ready to be started.
    ///
    /// # Errors
    ///
    /// As [`Play::argv`].
    pub(crate) fn command(self) -> io::Result<Command> {
        let argv = self.argv()?;
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]);
        Ok(command)
    }

    fn words(self) -> Vec<String> {
        match self {
            Self::Generate { bytes, length, content, writes } => vec![
                "generate".to_owned(),
                bytes.to_string(),
                length.to_string(),
                content.word().to_owned(),
                writes.word().to_owned(),
            ],
            Self::Copy => vec!["copy".to_owned()],
            Self::Read => vec!["read".to_owned()],
            Self::ReadSlowly { bytes_per_second, seconds } => {
                vec!["read-slowly".to_owned(), bytes_per_second.to_string(), seconds.to_string()]
            }
            Self::Stamp { lines, interval_us } => {
                vec!["stamp".to_owned(), lines.to_string(), interval_us.to_string()]
            }
            Self::Delays => vec!["delays".to_owned()],
            Self::Spin { seconds } => vec!["spin".to_owned(), seconds.to_string()],
        }
    }

    /// The part that [`Play::argv`] asks for behind [`FLAG`].
    ///
    /// # Errors
    ///
    /// For words that it does not give.
    pub(crate) fn from_words(words: &[String]) -> io::Result<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Self::parse(&words)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such part to play"))
    }

    fn parse(words: &[&str]) -> Option<Self> {
        Some(match *words {
            ["generate", bytes, length, content, writes] => Self::Generate {
                bytes: bytes.parse().ok()?,
                length: length.parse().ok().filter(|&length| length > 0)?,
                content: Content::ALL.into_iter().find(|known| known.word() == content)?,
                writes: Writes::ALL.into_iter().find(|known| known.word() == writes)?,
            },
            ["copy"] => Self::Copy,
            ["read"] => Self::Read,
            ["read-slowly", bytes_per_second, seconds] => Self::ReadSlowly {
                bytes_per_second: bytes_per_second.parse().ok()?,
                seconds: seconds.parse().ok()?,
            },
            ["stamp", lines, interval_us] => {
                Self::Stamp { lines: lines.parse().ok()?, interval_us: interval_us.parse().ok()? }
            }
            ["delays"] => Self::Delays,
            ["spin", seconds] => Self::Spin { seconds: seconds.parse().ok()? },
            _ => return None,
        })
    }

    /// Plays it. That nobody reads any more is an end like any other.
    ///
    /// # Errors
    ///
    /// Where something cannot be read or written.
    pub(crate) fn perform(self) -> io::Result<()> {
        let done = match self {
            Self::Generate { bytes, length, content, writes } => {
                generate(bytes, length, content, writes)
            }
            Self::Copy => io::copy(&mut io::stdin().lock(), &mut io::stdout().lock()).map(drop),
            Self::Read => read(),
            Self::ReadSlowly { bytes_per_second, seconds } => {
                read_slowly(bytes_per_second, Duration::from_secs(seconds))
            }
            Self::Stamp { lines, interval_us } => stamp(lines, Duration::from_micros(interval_us)),
            Self::Delays => delays(),
            Self::Spin { seconds } => {
                spin(Duration::from_secs(seconds));
                Ok(())
            }
        };
        done.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })
    }
}

fn generate(bytes: u64, length: usize, content: Content, writes: Writes) -> io::Result<()> {
    let mut ring = made_lines(length, content);
    let step = match writes {
        Writes::Blocks => BLOCK_BYTES,
        Writes::Lines => length,
    };
    let around = ring.len();
    // Behind its end the ring begins again, so that every write is whole.
    ring.extend_from_within(..step);
    let mut at = 0;
    let mut left = bytes;
    while left > 0 {
        let count = left.min(step as u64) as usize;
        write_all(&ring[at..at + count])?;
        at = (at + count) % around;
        left -= count as u64;
    }
    Ok(())
}

/// Whole lines of this length, its end included, and as many as a mixture needs.
fn made_lines(length: usize, content: Content) -> Vec<u8> {
    const LETTERS: &[u8] =
        b"abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 .,:;-_/=()[]";
    let mut random = Random::new(length as u64);
    let count = RING_BYTES.div_ceil(length).next_multiple_of(MIXTURE_LINES);
    let mut bytes: Vec<u8> =
        (0..count * length).map(|_| LETTERS[random.below(LETTERS.len())]).collect();
    if content == Content::Endless {
        return bytes;
    }
    for (number, line) in bytes.chunks_mut(length).enumerate() {
        let (end, line) = line.split_last_mut().expect("a line has at least its end");
        *end = b'\n';
        if content == Content::Mixed {
            mix(number % MIXTURE_LINES, line, &mut random);
        }
    }
    bytes
}

/// Makes one line of a mixture of a plain one.
fn mix(number: usize, line: &mut [u8], random: &mut Random) {
    const ESCAPED: &[u8] = b"\"\\\t\x1b";
    let euro = "\u{20ac}".as_bytes();
    match number {
        57 => {
            for place in line.chunks_mut(10).filter(|place| place.len() >= euro.len()).take(3) {
                place[..euro.len()].copy_from_slice(euro);
            }
        }
        157 => line[random.below(line.len())] = 0xff,
        _ if number % 20 == 3 => {
            for _ in 0..line.len().div_ceil(30) {
                line[random.below(line.len())] = ESCAPED[random.below(ESCAPED.len())];
            }
        }
        _ => {}
    }
}

/// Past the buffer of std, which would cut and join writes.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(io::stdout().as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// One read of what is there; 0 is the end.
fn read_some(room: &mut [u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::read(io::stdin().as_fd(), room) {
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

fn read() -> io::Result<()> {
    let mut room = vec![0; 256 * 1024];
    while read_some(&mut room)? > 0 {}
    Ok(())
}

fn read_slowly(bytes_per_second: u64, longest: Duration) -> io::Result<()> {
    let mut room = vec![0; 8 * 1024];
    let begin = Instant::now();
    let mut bytes = 0;
    while begin.elapsed() < longest {
        let count = read_some(&mut room)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        let due = Duration::from_micros(bytes * 1_000_000 / bytes_per_second);
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
    }
    Ok(())
}

/// Nanoseconds on the clock that all processes share and nobody sets.
fn now_ns() -> io::Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    // Neither is negative on this clock.
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

fn stamp(lines: usize, interval: Duration) -> io::Result<()> {
    let begin = Instant::now();
    for number in 0..lines {
        let due = interval * number as u32;
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        let line = format!("@{}@ {:.<70}\n", now_ns()?, number);
        write_all(line.as_bytes())?;
    }
    Ok(())
}

fn delays() -> io::Result<()> {
    let mut delays = Vec::new();
    let mut room = vec![0; 256 * 1024];
    let mut unfinished = Vec::new();
    loop {
        let count = read_some(&mut room)?;
        if count == 0 {
            break;
        }
        let now = now_ns()?;
        unfinished.extend_from_slice(&room[..count]);
        let whole = memchr::memrchr(b'\n', &unfinished).map_or(0, |end| end + 1);
        let lines = unfinished[..whole].split(|&byte| byte == b'\n');
        delays.extend(lines.filter_map(stamped_at).map(|then| now.saturating_sub(then)));
        unfinished.drain(..whole);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    for delay in delays {
        writeln!(out, "{delay}")?;
    }
    out.flush()
}

/// The time of writing that a line carries. One with several is no line of the source but the result of a run,
/// with all of its output.
fn stamped_at(line: &[u8]) -> Option<u64> {
    let mut parts = line.split(|&byte| byte == b'@');
    let (_, stamp, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    std::str::from_utf8(stamp).ok()?.parse().ok()
}

fn spin(longest: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < longest {
        std::hint::spin_loop();
    }
}
