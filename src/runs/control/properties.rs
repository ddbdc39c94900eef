//! What must be true of the standard input that many send, whatever they send of it, in what pieces, and whoever of
//! them vanishes.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use nix::poll::PollTimeout;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::Server;
use super::connection::Connection;
use crate::engine::run::Handle;
use crate::model::json::line;
use crate::runs::protocol::{Answer, Request};

/// More than a pipe and what is held behind it together.
const ALL_BYTES: usize = 1_300_000;

/// What one sender does.
#[derive(Debug, Clone)]
enum Step {
    /// It begins to send from here on, this much.
    Begin { from: usize, length: usize },
    /// Of the first sender's message so many bytes come.
    Say(usize, usize),
    /// It vanishes.
    Vanish(usize),
    /// The command reads so much.
    Take(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = || prop_oneof![0..100_usize, 0..5000_usize, 0..400_000_usize];
    prop_oneof![
        2 => (0.0..1.0_f64, size()).prop_map(|(from, length)| {
            let from = (from * ALL_BYTES as f64) as usize;
            Step::Begin { from, length }
        }),
        2 => size().prop_map(|length| Step::Begin { from: 0, length }),
        6 => (0..8_usize, size()).prop_map(|(who, length)| Step::Say(who, length)),
        1 => (0..8_usize).prop_map(Step::Vanish),
        4 => size().prop_map(Step::Take),
        1 => Just(Step::Take(ALL_BYTES)),
    ]
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// A whole message that sends this part.
fn message(from: usize, to: usize) -> Vec<u8> {
    let mut message = line(&Request::Send);
    let mut at = from;
    while at < to {
        let bytes = (to - at).min(50_000);
        message.extend(line(&Request::Part { bytes, offset: Some(at as u64) }));
        message.extend((at..at + bytes).map(byte));
        at += bytes;
    }
    message.extend(line(&Request::End { eof: false }));
    message
}

struct Sender {
    stream: UnixStream,
    unsaid: Vec<u8>,
}

/// A server, its command, and who sends.
struct Scene {
    server: Server,
    listener: UnixListener,
    _place: tempfile::TempDir,
    command: std::fs::File,
    got: Vec<u8>,
    senders: Vec<Sender>,
}

impl Scene {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        let listener = UnixListener::bind(place.path().join("x")).expect("it can be made");
        listener.set_nonblocking(true).expect("it can be set");
        let (read, write) = nix::unistd::pipe().expect("a pipe can be made");
        let flags = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
        nix::fcntl::fcntl(&read, flags).expect("it can be set");
        let write: OwnedFd = write;
        let handle = Handle::of_nothing().expect("a descriptor can be had");
        let server = Server::new(handle, Some(write), 100).expect("it can be set");
        Self {
            server,
            listener,
            _place: place,
            command: read.into(),
            got: Vec::new(),
            senders: Vec::new(),
        }
    }

    fn begin(&mut self, from: usize, to: usize) {
        let (ours, theirs) = UnixStream::pair().expect("a pair can be made");
        ours.set_nonblocking(true).expect("it can be set");
        theirs.set_nonblocking(true).expect("it can be set");
        self.server.connections.push(Connection::new(theirs));
        self.senders.push(Sender { stream: ours, unsaid: message(from, to) });
    }

    fn say(&mut self, who: usize, most: usize) {
        let Some(sender) = self.senders.get_mut(who) else { return };
        let most = most.min(sender.unsaid.len());
        // As much as there is room for.
        if let Ok(count) = sender.stream.write(&sender.unsaid[..most]) {
            sender.unsaid.drain(..count);
        }
    }

    fn take(&mut self, most: usize) {
        let mut buffer = vec![0; most];
        if let Ok(count) = self.command.read(&mut buffer) {
            self.got.extend_from_slice(&buffer[..count]);
        }
    }

    fn turn(&mut self) {
        self.server.turn(&self.listener, PollTimeout::ZERO);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_command_gets_each_byte_once_and_in_order_and_who_sent_all_is_told_so(
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut scene = Scene::new();
        for step in steps {
            match step {
                Step::Begin { from, length } => scene.begin(from, (from + length).min(ALL_BYTES)),
                Step::Say(who, most) => scene.say(who, most),
                Step::Vanish(who) if who < scene.senders.len() => drop(scene.senders.remove(who)),
                Step::Vanish(_) => {}
                Step::Take(most) => scene.take(most),
            }
            scene.turn();
            for connection in &scene.server.connections {
                prop_assert!(connection.unread.len() <= 128 << 10, "{}", connection.unread.len());
            }
        }
        // At last one who stays sends all of it.
        scene.senders.clear();
        scene.begin(0, ALL_BYTES);
        let mut answer = Vec::new();
        for _ in 0..100_000 {
            scene.say(0, ALL_BYTES);
            scene.turn();
            scene.take(ALL_BYTES);
            let mut part = [0; 4096];
            if let Ok(count) = scene.senders[0].stream.read(&mut part) {
                answer.extend_from_slice(&part[..count]);
            }
            if answer.ends_with(b"\n") {
                break;
            }
        }
        let told = serde_json::from_slice::<Answer>(&answer).ok();
        prop_assert_eq!(told, Some(Answer::Stdin { offset: ALL_BYTES as u64 }));
        scene.take(ALL_BYTES);
        prop_assert_eq!(scene.got.len(), ALL_BYTES);
        prop_assert!(scene.got.iter().enumerate().all(|(at, &got)| got == byte(at)));
        // Only who stays is remembered.
        prop_assert_eq!(scene.server.connections.len(), 1);
    }
}

#[test]
fn input_for_the_end_of_all_numbers_is_told_where_it_would_have_to_begin() {
    let mut scene = Scene::new();
    scene.begin(0, 0);
    scene.senders[0].unsaid = line(&Request::Send);
    scene.senders[0].unsaid.extend(line(&Request::Part { bytes: 5, offset: Some(u64::MAX) }));
    scene.senders[0].unsaid.extend_from_slice(b"abcde");
    scene.say(0, ALL_BYTES);
    scene.turn();
    let mut answer = [0; 4096];
    let count = scene.senders[0].stream.read(&mut answer).expect("it is there");
    let told = serde_json::from_slice(&answer[..count]).expect("it is an answer");
    assert!(matches!(told, Answer::Failed { code, offset: Some(0), .. } if code == "offset_gap"));
}
