//! Whatever somebody says over a run's socket, in whatever pieces it comes: the command gets the input of it, each
//! byte once, and there is one answer or none. Both are those of a reader that has all of it at once.

#![no_main]

use std::fs::File;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use libfuzzer_sys::fuzz_target;
use nix::fcntl::OFlag;
use nix::poll::PollTimeout;
use nix::unistd::pipe2;
use runcast::engine::run::Handle;
use runcast::model::signal::Signal;
use runcast::runs::control::Server;
use runcast::runs::protocol::{Answer, MOST_LINE_BYTES, MOST_PART_BYTES, Request};
use runcast_fuzz::Reads;

/// A word that stands for an answer, and the offset in it.
type Answered = (String, Option<u64>);

/// The input, and the answer, of all that somebody said.
fn model(mut said: &[u8]) -> (Vec<u8>, Option<Answered>) {
    let (mut input, mut is_sending) = (Vec::new(), false);
    let answer = loop {
        let Some(end) = said.iter().position(|&byte| byte == b'\n') else { break None };
        let (line, rest) = said.split_at(end + 1);
        said = rest;
        let has = input.len() as u64;
        match (serde_json::from_slice(line), is_sending) {
            (Ok(Request::Send), false) => is_sending = true,
            (Ok(Request::Signal { signal, .. } | Request::Receive { signal, .. }), false) => {
                break Some((
                    if signal.parse::<Signal>().is_ok() { "done" } else { "usage" },
                    None,
                ));
            }
            (Ok(Request::Stop), false) => break Some(("done", None)),
            (Ok(Request::Part { bytes, offset }), true) if bytes <= MOST_PART_BYTES => {
                let (part, rest) = said.split_at(bytes.min(said.len()));
                said = rest;
                match offset.unwrap_or(has) {
                    offset if offset > has && !part.is_empty() => {
                        break Some(("offset_gap", Some(has)));
                    }
                    offset => {
                        let known = usize::try_from(has.saturating_sub(offset));
                        input.extend(part.iter().skip(known.expect("there is not so much")));
                    }
                }
            }
            (Ok(Request::End { .. }), true) => break Some(("stdin", Some(has))),
            // Nothing is to be said, or nothing was understood.
            _ => break None,
        }
    };
    (input, answer.map(|(word, offset)| (word.to_owned(), offset)))
}

fn answered(said: &[u8]) -> Option<Answered> {
    let line = said.strip_suffix(b"\n")?;
    Some(match serde_json::from_slice(line).expect("there is one answer, and it is one") {
        Answer::Done => ("done".to_owned(), None),
        Answer::Stdin { offset } => ("stdin".to_owned(), Some(offset)),
        Answer::Failed { code, offset, .. } => (code, offset),
    })
}

/// Puts what is there now behind what was there before: neither end ever blocks.
fn drain(mut from: impl Read, bytes: &mut Vec<u8>) {
    // What comes later, and how it ends, is no matter here.
    let _ = from.read_to_end(bytes);
}

fuzz_target!(|input: (Reads, &[u8])| {
    let (reads, said) = input;
    if said.len() > MOST_LINE_BYTES {
        return;
    }
    let name = format!("runcast-fuzz-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("it is short");
    let listener = UnixListener::bind_addr(&address).expect("it is ours alone");
    listener.set_nonblocking(true).expect("a socket can be");
    let (command, pipe) = pipe2(OFlag::O_NONBLOCK).expect("a pipe can be made");
    let handle = Handle::of_nothing().expect("a descriptor can be had");
    let mut server =
        Server::new(handle, Some(pipe), 4).expect("a pipe can be one that never blocks");
    let mut somebody = UnixStream::connect_addr(&address).expect("somebody listens");
    somebody.set_nonblocking(true).expect("a socket can be");
    let mut turn = || server.turn(&listener, PollTimeout::ZERO);
    turn();
    let command = File::from(command);
    let (mut got, mut heard) = (Vec::new(), Vec::new());
    for read in reads.of(said).chain([&b""[..]]) {
        // Who is not listened to any more is told so.
        if somebody.write_all(read).is_err() {
            break;
        }
        turn();
        drain(&command, &mut got);
    }
    turn();
    drain(&command, &mut got);
    drain(&somebody, &mut heard);
    let (input, answer) = model(said);
    assert_eq!((got, answered(&heard)), (input, answer));
});
