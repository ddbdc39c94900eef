//! Takes lines from there: each chunk once and in order, each event once, and what the other end tells.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::player::Broken;
use crate::model::chunk_line::{chunk_seq, plain_chunk};
use crate::model::error::{Error, ErrorCode, RunFault};
use crate::model::event::{Event, Stream};
use crate::model::json::is_json;
use crate::model::recorded::{Recorded, RecordedChunk, parse};
use crate::remote::passing;
use crate::remote::result_line::ResultLine;
use crate::remote::session::{Conclusion, LAST_WORDS, Session};
use crate::remote::task::Hold;
use crate::remote::wire::{Ask, Tell};
use crate::sink::destination::Lost;
use crate::sink::message;

/// How many events since the last chunk are known again when they come over another connection, and in how many
/// bytes. A run has a handful; of more, those behind are shown again.
const MOST_EVENTS: usize = 256;
const MOST_EVENT_BYTES: usize = 1 << 20;

impl Session<'_> {
    /// Something new came. What comes again over each connection gets a run no further, and does not count.
    fn got_further(&mut self) {
        self.last_contact = Instant::now();
        self.tries = 0;
    }

    /// Takes one line from there. `false`: there is something missing before it.
    pub(super) fn take(&mut self, line: &[u8]) -> Result<bool, Broken> {
        let plain = plain_chunk(line.trim_ascii_end());
        // What makes no sense was never written whole. It may be shown as it came, so that is looked at first.
        if plain.is_none() && !is_json(line) {
            return Ok(true);
        }
        if let Some(seq) = chunk_seq(line) {
            return self.take_chunk(seq, plain, line);
        }
        if let Ok(told) = serde_json::from_slice::<Tell>(line) {
            self.be_told(told)?;
            return Ok(true);
        }
        let Ok(recorded) = parse(line.trim_ascii_end()) else { return Ok(true) };
        if self.conclusion.is_some() {
            return Ok(true);
        }
        match &recorded {
            Recorded::Event(Event::Result(result)) => {
                // What fails by then is told in it.
                self.got_further();
                let flushed = self.player.flush();
                self.note(flushed)?;
                let complete = self.complete(line);
                let told = complete.as_ref().and_then(|complete| {
                    let told = parse(complete.line.trim_ascii_end()).ok()?;
                    Some((told, &complete.line))
                });
                let shown = match told {
                    Some((told, line)) => self.show(&told, line),
                    None => self.show(&recorded, line),
                };
                let as_it_came = || ResultLine { status: result.status, line: line.to_vec() };
                self.conclude_with(Conclusion::Over(complete.unwrap_or_else(as_it_came)));
                self.note(shown)?;
                // A recording is to be whole, whoever else is lost.
                let flushed = self.player.flush();
                self.note(flushed)?;
                return Ok(true);
            }
            Recorded::Event(Event::Started(_)) => {
                if std::mem::replace(&mut self.is_started_shown, true) {
                    return Ok(true);
                }
                self.last_at = (Duration::ZERO, Instant::now());
            }
            Recorded::Event(Event::Dropped(dropped)) => {
                let up_to = dropped.after_seq.saturating_add(dropped.chunks);
                self.last_seq = self.last_seq.max(up_to);
            }
            _ => {}
        }
        if let Some(at) = self.repeated.iter().position(|seen| seen == line) {
            self.repeated.remove(at);
            return Ok(true);
        }
        self.got_further();
        let kept_bytes: usize = self.since_chunk.iter().map(Vec::len).sum();
        if self.since_chunk.len() < MOST_EVENTS && kept_bytes + line.len() <= MOST_EVENT_BYTES {
            self.since_chunk.push(line.to_vec());
        }
        let shown = self.show(&recorded, line);
        self.note(shown)?;
        Ok(true)
    }

    /// Takes a chunk, each once and in order. `false`: there is one missing, which something broke on the way.
    fn take_chunk(
        &mut self,
        seq: u64,
        plain: Option<RecordedChunk<'_>>,
        line: &[u8],
    ) -> Result<bool, Broken> {
        if seq <= self.last_seq {
            return Ok(true);
        }
        let is_missing = self.task.lines.is_none() && seq > self.last_seq.saturating_add(1);
        // Where it is missing again there is none.
        if is_missing && self.missing_at.replace(self.last_seq) != Some(self.last_seq) {
            return Ok(false);
        }
        self.got_further();
        self.last_seq = seq;
        self.since_chunk.clear();
        self.repeated.clear();
        if self.is_unseen() || self.conclusion.is_some() {
            return Ok(true);
        }
        self.last_shown = Instant::now();
        let recorded =
            plain.map_or_else(|| parse(line.trim_ascii_end()), |it| Ok(Recorded::Chunk(it)));
        let shown = match (self.player.show_as_written(line), recorded) {
            (Ok(is_shown), Ok(Recorded::Chunk(chunk))) => {
                self.bytes[Stream::index(chunk.stream)] += chunk.bytes.len() as u64;
                self.last_output = chunk.at;
                if is_shown {
                    self.last_at = (chunk.at, Instant::now());
                    self.player.note_shown(&chunk)
                } else {
                    self.show(&Recorded::Chunk(chunk), line)
                }
            }
            (shown, _) => shown.map(drop),
        };
        self.note(shown)?;
        Ok(true)
    }

    fn show(&mut self, recorded: &Recorded<'_>, line: &[u8]) -> Result<(), Lost> {
        self.note_time(recorded);
        if self.is_unseen() {
            return Ok(());
        }
        self.last_shown = Instant::now();
        self.player.show(recorded, line)
    }

    fn note_time(&mut self, recorded: &Recorded<'_>) {
        if let Some(at) = recorded.at() {
            self.last_at = (at, Instant::now());
        }
    }

    fn be_told(&mut self, told: Tell) -> Result<(), Broken> {
        match told {
            Tell::Begun { .. } => {
                if !std::mem::replace(&mut self.is_begun, true) {
                    self.got_further();
                }
                if let Some(limits) = self.task.limits
                    && let Some(timeout) = limits.timeout
                {
                    let longest = passing::longest(timeout, limits.kill_after);
                    self.interruption.end_at(Instant::now().checked_add(longest), None);
                }
            }
            // It was deleted, and only that was not heard.
            Tell::Failed { .. } if self.conclusion.is_some() => self.leave_by = None,
            Tell::Failed { code, status, message } => {
                let error = Error::reported(&code, ErrorCode::RemoteFailed, status, message);
                if error.code() != ErrorCode::RunLost {
                    return Err(error.into());
                }
                self.got_further();
                self.conclude_with(Conclusion::Failed(error));
            }
            Tell::Received => {
                self.got_further();
                self.feed.received();
            }
            Tell::Input { offset, closed } => {
                if self.feed.offset() < offset {
                    self.got_further();
                }
                if self.feed.answered(offset, closed) {
                    let error = Error::run(RunFault::StdinClosed, self.task.id, None);
                    message::say_error(&error, &Arc::default());
                }
            }
            Tell::Alive => self.got_further(),
            Tell::Done { .. } => {}
        }
        Ok(())
    }

    /// All was seen. A run that is ours leaves nothing there.
    fn conclude_with(&mut self, conclusion: Conclusion) {
        self.conclusion = Some(conclusion);
        if self.task.hold == Hold::Ours {
            self.leave_by = Instant::now().checked_add(LAST_WORDS);
            self.feed.ask(Ask::Forget);
        }
    }
}
