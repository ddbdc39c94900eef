//! runcast runs one command, streams its output live, line by line, and says exactly how it ended.
//!
//! # Layers
//!
//! A file imports only from its own folder and from layers below.
//!
//! | layer | what it is |
//! |---|---|
//! | [`model`] | plain data and pure functions: lines, the kept part, the course of a run, events, units |
//! | [`sys`] | the operating system, and the only unsafe code: making, signalling and reaping processes |
//! | [`sink`] | where events go: formats, the result file, recordings |
//! | [`backend`] | how COMMAND becomes a program; structured input and result |
//! | [`engine`] | one run: processes, readers, channel, supervisor, pump; and a run that was written down, shown again |
//! | [`runs`] | detached runs: their folders, their keepers, and those who look at them |
//! | [`remote`] | the same on another machine, through ssh |
//! | [`cli`] | what was typed, what it means, and what is done about it |
//!
//! `main.rs` parses, calls the one function of [`cli`] that does what was asked for, and exits.
//!
//! # Threads
//!
//! | thread | waits on | may block on | never |
//! |---|---|---|---|
//! | main: the pump | the channel, its own timers | writing to stdout, stderr and files | signals, reaps |
//! | a reader for each stream | read(2) | a free buffer: that is the backpressure | cuts lines |
//! | supervisor | signals, the command's end, the next deadline | a Ctrl-Z: what was written is shown before | writes output |
//!
//! Others are there only where an option asks for them. With `--pty` a typist waits on our standard input and on the
//! command's terminal, and writes to that; nobody waits for it. With `--on-lag drop` a thread shows what the pump has
//! queued for it, and blocks in the pump's place. ctrlc has a thread of its own for INT, which only passes it on to
//! the supervisor.
//!
//! Detached and remote runs have theirs. In a keeper `control` hears who speaks to it. Whoever looks at a run on another
//! machine shows in main what comes, while `feed` writes to the connection, `input` reads our standard input, `signals`
//! takes what is received, and `patience` ends what took too long. At the other end `requests` hears what is asked,
//! `feed` hands on the input, `words` reads what is said on standard error, and `alive` gives signs of life.
//!
//! # The way of one line
//!
//! The command writes it into a pipe. A reader takes what one read gives, stamps it and sends it as one
//! message. The pump counts it, keeps what the result keeps, and hands it to the sink as it was read. A format that
//! is made of lines cuts it ([`sink::lined`]) and puts what comes of it into the buffer of its destination, which is
//! written when nothing more is waiting. The pump's buffer goes back to the reader: once a run is under way nothing
//! is allocated for a line or a read.
//!
//! # The way of one signal
//!
//! Its handler writes into a pipe. The supervisor reads it and asks the escalation what to do; what is decided
//! goes to the processes of the run and, as an event, through the channel to the pump, which shows it in its
//! place.
//!
//! At a prompt the command shares our terminal and our process group. What the terminal sends reaches both, and is
//! only noted here; nothing is ever sent to the group, which is not only the run's.
//!
//! # How a run ends
//!
//! That the command ended and that its output ended are two facts, and a run is over when both have come, or
//! when streams that something else still holds were drained for long enough. Which limits hold until then, what
//! becomes of what the command left behind, and how long a reader is waited for, is decided in one place without
//! a process or a clock: [`model::course`]. The supervisor tells the pump how it ended, the pump writes the
//! result, and `main.rs` exits with its status.
//!
//! # One format, written down and read again
//!
//! The events ([`model::event`]) are what `ndjson` shows, what a recording holds, what the journal of a detached run
//! holds, and what goes over ssh. There is one writer of chunks ([`sink::ndjson`]) and one reader of all
//! ([`model::recorded`]).
//!
//! - A detached run is the same engine in a process of its own, its keeper, with the journal ([`runs::journal`]) as
//!   its sink. A thread of the keeper hears who speaks to it over a socket.
//! - `attach` follows the journal ([`runs::follow`]), while it grows or afterwards, and `replay` reads a recording in
//!   its own time. Both show what they read in the same sinks as a run in the foreground has.
//! - `--host` has a detached run started over there and follows its journal through ssh ([`remote::session`]), over as
//!   many connections as that takes, each from the last chunk on that was seen.

pub mod backend;
pub mod cli;
pub mod engine;
pub mod model;
pub mod remote;
pub mod runs;
pub mod sink;
pub mod sys;
