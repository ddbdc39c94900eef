//! The result of a run on another machine, as it is told here.

use serde::{Deserialize, Serialize};

use crate::model::outcome::{STATUS_DISCONNECTED, StopReason};

/// The result, and what it says.
pub(super) struct ResultLine {
    pub(super) status: u8,
    pub(super) line: Vec<u8>,
}

/// What a result begins with, before what is kept of the output.
#[derive(Serialize, Deserialize)]
struct Head {
    op: String,
    exit_code: Option<u8>,
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core_dumped: Option<bool>,
    status: u8,
    timed_out: bool,
    stopped_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received: Option<String>,
}

/// The result of a run that was stopped since its reader had gone; `None` where it makes no sense.
pub(super) fn disconnected(over: &ResultLine) -> Option<ResultLine> {
    const STDOUT: &[u8] = b",\"stdout\":";
    let at = memchr::memmem::find(&over.line, STDOUT)?;
    let mut head: Head = serde_json::from_slice(&[&over.line[..at], b"}"].concat()).ok()?;
    if head.stopped_by.is_none() || head.stopped_by.as_deref() == Some(StopReason::Signal.as_str())
    {
        head.stopped_by = Some(StopReason::Disconnect.as_str().to_owned());
        head.received = None;
    }
    if !head.timed_out {
        head.status = STATUS_DISCONNECTED;
    }
    let mut line = serde_json::to_vec(&head).ok()?;
    line.pop();
    line.extend_from_slice(&over.line[at..]);
    Some(ResultLine { status: head.status, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stopped_since_its_reader_had_gone_says_so_and_keeps_all_else() {
        let result = |status: u8, stopped_by: &str, received: &str| {
            let rest = r#""stdout":"\u00e9\",\"stdout\":","stderr":"","stdout_base64":"//4=""#;
            let line = format!(
                "{{\"op\":\"result\",\"exit_code\":null,\"signal\":\"SIGTERM\",\"status\":{status},\
                 \"timed_out\":{},\"stopped_by\":{stopped_by}{received},{rest}}}\n",
                status == 124
            );
            ResultLine { status, line: line.into_bytes() }
        };
        let said = |over: &ResultLine| {
            let over = disconnected(over).expect("it makes sense");
            (over.status, String::from_utf8(over.line).expect("it is text"))
        };
        let expected =
            String::from_utf8(result(141, "\"disconnect\"", "").line).expect("it is text");
        let received = ",\"received\":\"SIGTERM\"";
        assert_eq!(said(&result(143, "\"signal\"", received)), (141, expected.clone()));
        assert_eq!(said(&result(143, "null", "")), (141, expected));
        let late = result(124, "\"timeout\"", "");
        assert_eq!(said(&late), (124, String::from_utf8(late.line.clone()).expect("it is text")));
    }
}
