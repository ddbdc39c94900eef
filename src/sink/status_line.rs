//! One line under the output of text on a terminal: how long the run has lasted, how much it has written.
//!
//! It is gone before anything else is written to the terminal, and drawn again only where the output is at the
//! start of a line. What it looks like is indicatif's affair; the bytes go out as all others do, so that a
//! terminal which takes nothing holds up no stop.

use std::fmt::Write;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstyle::Style;
use indicatif::{
    FormattedDuration, HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle,
    TermLike,
};

use crate::model::event::{Event, Stream};
use crate::sink::destination::{Destination, Lost};
use crate::sink::{Account, Cut, Seen, Sink};
use crate::sys::terminal;

/// When it is first drawn. Sooner, and it flashes under commands that end at once; later, and a command that
/// says nothing looks like a hang.
const FIRST: Duration = Duration::from_millis(250);

/// How long it is not drawn again after it was. Shorter, and a terminal has more of it than of the output;
/// longer, and it is missing where lines come one by one.
const PAUSE: Duration = Duration::from_millis(50);

/// The width of a terminal that does not tell its own.
const DEFAULT_WIDTH: u16 = 80;

const CLEAR: &str = "\r\x1b[2K";

/// Whether it is on the terminal now. There is one standard error, and all that writes there is to know.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// What is to be written to standard error before anything else is.
pub(super) fn clearing() -> &'static str {
    if IS_DRAWN.swap(false, Ordering::Relaxed) { CLEAR } else { "" }
}

/// Shows a run in another sink, with the status under it.
pub struct StatusLine {
    shown: Box<dyn Sink>,
    terminal: Destination,
    canvas: Arc<Canvas>,
    bar: ProgressBar,
    style: Style,
    timeout: Option<Duration>,
    /// In the order of the streams: whether what it shows of them is on a terminal.
    on_terminal: [bool; 2],
    /// Whether the terminal is at the start of a line.
    at_line_start: bool,
    /// When it was last drawn.
    drawn: Option<Duration>,
    /// No more of it is drawn.
    is_over: bool,
}

impl StatusLine {
    /// Shows a run in this sink, and its status on this terminal, which is standard error. `on_terminal` says
    /// which streams are shown on a terminal, in their order.
    #[must_use]
    pub fn new(
        shown: Box<dyn Sink>,
        terminal: Destination,
        on_terminal: [bool; 2],
        style: Style,
        timeout: Option<Duration>,
    ) -> Self {
        let canvas = Arc::new(Canvas::default());
        let target = ProgressDrawTarget::term_like(Box::new(OnCanvas(Arc::clone(&canvas))));
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{wide_msg}").expect("that is a template"));
        Self {
            shown,
            terminal,
            canvas,
            bar,
            style,
            timeout,
            on_terminal,
            at_line_start: true,
            drawn: None,
            is_over: false,
        }
    }

    /// Makes room on the terminal.
    fn clear(&mut self) {
        self.write(clearing().as_bytes());
    }

    /// A terminal that is lost is the other sink's to tell.
    fn write(&mut self, bytes: &[u8]) {
        if let (_, Err(_)) = self.terminal.write(bytes) {
            self.is_over = true;
        }
    }

    /// Makes room for output of this stream that ends with these bytes.
    fn make_way(&mut self, stream: Stream, bytes: &[u8]) {
        if self.on_terminal[stream.index()] {
            self.clear();
            if let Some(last) = bytes.last() {
                self.at_line_start = *last == b'\n';
            }
        }
    }

    fn text(&self, now: Duration, seen: Seen<'_>) -> String {
        let second = |time: Duration| FormattedDuration(Duration::from_secs(time.as_secs()));
        let mut text = self.style.render().to_string();
        // A string takes all that is written.
        let _ = write!(text, "{}", second(now));
        if let Some(timeout) = self.timeout {
            let _ = write!(text, " / {}", second(timeout));
        }
        let [lines, bytes] = [seen.lines, seen.bytes].map(|of| of.iter().sum::<u64>());
        let word = if lines == 1 { "line" } else { "lines" };
        let _ = write!(text, " | {} {word} | {}", HumanCount(lines), HumanBytes(bytes));
        let _ = match bytes {
            0 => write!(text, " | no output yet"),
            _ => {
                let silent = now.saturating_sub(seen.last_output).as_secs();
                write!(text, " | last output {silent}s ago")
            }
        };
        let _ = write!(text, "{}", self.style.render_reset());
        text
    }
}

impl Sink for StatusLine {
    fn block(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        self.make_way(stream, bytes);
        self.shown.block(stream, bytes, at)
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.make_way(piece.stream, piece.piece.bytes());
        self.shown.piece(piece)
    }

    fn flush_partial(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.shown.flush_partial(stream, at)
    }

    fn has_unfinished(&self, stream: Stream) -> bool {
        self.shown.has_unfinished(stream)
    }

    fn end(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.shown.end(stream, at)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        match event {
            // Of these it may write something.
            Event::Stop(_) => {
                self.clear();
                self.at_line_start = true;
            }
            Event::Result(_) => {
                self.clear();
                self.is_over = true;
            }
            _ => {}
        }
        self.shown.event(event)
    }

    fn due(&self) -> Option<Duration> {
        match self.drawn {
            _ if self.is_over || !self.at_line_start => None,
            None => Some(FIRST),
            Some(drawn) if IS_DRAWN.load(Ordering::Relaxed) => {
                Some(Duration::from_secs(drawn.as_secs().saturating_add(1)))
            }
            Some(drawn) => Some(drawn.saturating_add(PAUSE)),
        }
    }

    fn refresh(&mut self, now: Duration, seen: Seen<'_>) -> Result<(), Lost> {
        // What is held back belongs above it.
        self.shown.flush()?;
        let width =
            terminal::size_of(self.terminal.as_fd()).map_or(DEFAULT_WIDTH, |size| size.columns);
        // In the last column the cursor would be on its way to the next line.
        self.canvas.width.store(width.saturating_sub(1).max(1), Ordering::Relaxed);
        self.bar.set_message(self.text(now, seen));
        // Spaces up to the end of the line are of no use on one that was erased, and in the way of what is typed.
        let drawing = self.canvas.take();
        self.write(drawing.trim_end_matches(' ').as_bytes());
        IS_DRAWN.store(!self.is_over, Ordering::Relaxed);
        self.drawn = Some(now);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.shown.flush()
    }

    fn is_lost(&self) -> bool {
        self.shown.is_lost()
    }

    fn account(&self) -> Account {
        self.shown.account()
    }
}

impl Drop for StatusLine {
    /// Where the result was not shown, and on a panic.
    fn drop(&mut self) {
        self.clear();
    }
}

/// What indicatif draws on: bytes that are taken from there to the terminal.
#[derive(Debug, Default)]
struct Canvas {
    bytes: Mutex<String>,
    width: AtomicU16,
}

impl Canvas {
    fn add(&self, text: &str) -> io::Result<()> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A canvas as indicatif takes it. It draws one line, and moves only within that.
#[derive(Debug)]
struct OnCanvas(Arc<Canvas>);

impl TermLike for OnCanvas {
    fn width(&self) -> u16 {
        self.0.width.load(Ordering::Relaxed)
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.add(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.add(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.add(CLEAR)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
