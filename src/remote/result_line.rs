//! The result of a run on another machine, as it is told here.

use crate::model::event::{ErrorFields, Event, RunResult};
use crate::model::outcome::{STATUS_DISCONNECTED, StopReason};
use crate::model::recorded::{Recorded, parse};
use crate::model::signal::Signal;
use crate::sink::destination::Lost;
use crate::sink::{Account, write_json_line};

/// The result, and what it says.
pub(super) struct ResultLine {
    pub(super) status: u8,
    pub(super) line: Vec<u8>,
}

/// What only this side knows of a run that is over.
pub(super) struct Here<'a> {
    /// How whoever reads what is shown was lost.
    pub(super) lost: Option<&'a Lost>,
    /// The signal that ended the wait for that reader.
    pub(super) ended_by: Option<Signal>,
    /// What became of the output.
    pub(super) account: Account,
    /// Whether output is shown.
    pub(super) shows: bool,
}

impl Here<'_> {
    /// The result with what is known here; `None` where that is nothing.
    pub(super) fn complete(&self, line: &[u8]) -> Option<ResultLine> {
        let Account { record_error, dropped, .. } = &self.account;
        if self.lost.is_none() && record_error.is_none() && dropped.is_none() {
            return None;
        }
        let Ok(Recorded::Event(Event::Result(mut result))) = parse(line.trim_ascii_end()) else {
            return None;
        };
        result.record_error.clone_from(record_error);
        result.dropped_bytes = dropped.map(|dropped| dropped.bytes);
        result.dropped_chunks = dropped.map(|dropped| dropped.chunks);
        self.tell_of_reader(&mut result);
        let status = result.status;
        let mut line = Vec::new();
        write_json_line(&mut line, &Event::Result(result)).ok()?;
        Some(ResultLine { status, line })
    }

    fn tell_of_reader(&self, result: &mut RunResult<'_>) {
        match self.lost {
            None => {}
            Some(Lost::Gone) => {
                if matches!(result.stopped_by, None | Some(StopReason::Signal)) {
                    result.stopped_by = Some(StopReason::Disconnect);
                    result.received = None;
                }
                if !result.timed_out {
                    result.status = STATUS_DISCONNECTED;
                }
            }
            Some(Lost::Failed(error)) => {
                result.status = error.status();
                result.error = Some(ErrorFields::from(error));
            }
            Some(Lost::Abandoned) => {
                let taken = self.account.delivered_bytes + result.dropped_bytes.unwrap_or(0);
                let all = result.stdout_bytes + result.stderr_bytes;
                result.undelivered_bytes =
                    Some(if self.shows { all.saturating_sub(taken) } else { 0 });
                if let (Some(signal), None) = (self.ended_by, result.stopped_by) {
                    result.stopped_by = Some(StopReason::Signal);
                    result.received = Some(signal.to_string());
                }
                if result.status == 0 {
                    result.status = self.ended_by.unwrap_or(Signal::TERM).status();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::DroppedTotals;

    fn over(status: u8, stopped_by: &str, more: &str) -> ResultLine {
        let timed_out = status == 124;
        let line = format!(
            r#"{{"op":"result","exit_code":0,"signal":null,"status":{status},"timed_out":{timed_out},"stopped_by":{stopped_by},"stdout":"{}\n","stderr":"","stdout_base64":"/wo=","stdout_truncated":false,"stderr_truncated":false,"stdout_bytes":2,"stderr_bytes":0,"stdout_lines":1,"stderr_lines":0{more},"leaked":true,"leftover":[9],"limit":null,"duration":0.1,"usage":{{"user":0.0,"system":0.0,"max_rss":1}}}}"#,
            char::REPLACEMENT_CHARACTER
        );
        ResultLine { status, line: (line + "\n").into_bytes() }
    }

    fn here(lost: Option<&Lost>, ended_by: Option<Signal>) -> Here<'_> {
        Here { lost, ended_by, account: Account::default(), shows: true }
    }

    fn completed(here: &Here<'_>, over: ResultLine) -> ResultLine {
        here.complete(&over.line).unwrap_or(over)
    }

    fn said(over: &ResultLine) -> (u8, &str) {
        (over.status, str::from_utf8(&over.line).expect("it is text"))
    }

    #[test]
    fn what_was_stopped_since_its_reader_had_gone_says_so_and_keeps_all_else() {
        let gone = here(Some(&Lost::Gone), None);
        let expected = over(141, r#""disconnect""#, "");
        for (status, stopped_by) in
            [(143, r#""signal","received":"SIGTERM""#), (0, "null"), (141, r#""disconnect""#)]
        {
            assert_eq!(said(&completed(&gone, over(status, stopped_by, ""))), said(&expected));
        }
        let late = || over(124, r#""timeout""#, "");
        assert_eq!(said(&completed(&gone, late())), said(&late()));
    }

    #[test]
    fn output_that_nobody_took_is_no_success() {
        let abandoned = here(Some(&Lost::Abandoned), Some(Signal::INT));
        let stopped_by = r#""signal","received":"SIGINT""#;
        let expected = over(130, stopped_by, r#","undelivered_bytes":2"#);
        assert_eq!(said(&completed(&abandoned, over(0, "null", ""))), said(&expected));
    }

    #[test]
    fn what_was_dropped_or_not_recorded_is_told_and_nothing_else_is_touched() {
        let mut known = here(None, None);
        let before = || over(3, "null", "");
        assert_eq!(said(&completed(&known, before())), said(&before()));
        known.account.dropped = Some(DroppedTotals { chunks: 4, bytes: 5 });
        known.account.record_error = Some("full".to_owned());
        let complete = completed(&known, before());
        let more = r#","record_error":"full","dropped_bytes":5,"dropped_chunks":4}"#;
        let line = said(&before()).1.trim_end_matches("}\n").to_owned() + more + "\n";
        assert_eq!(said(&complete), (3, line.as_str()));
    }
}
