//! Parses, dispatches, prints what failed, exits. It ends the process. Elsewhere end only copies of it, which are a
//! keeper and the helper that goes on emptying pipes; whoever waits for a signal alone, by that; and, by a second
//! Ctrl-C, who looks at a run on another machine.
//!
//! It is the C library's `main`, not Rust's: see [`start`].

#![no_main]

use std::ffi::{OsString, c_char, c_int};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::Arc;

use runcast::cli::parse::{Parsed, parse};
use runcast::cli::runs::Said;
use runcast::cli::{backends, detach, remote, remote_end, replay, run, runs};
use runcast::model::error::{Error, STATUS_FAILED};
use runcast::model::outcome::Exit;
use runcast::sink::message;
use runcast::sys::{signals, start};

/// Called by the C library; what it returns is the exit status.
#[allow(unsafe_code)]
// SAFETY: it is the only function of this name, and has the type that the C library calls.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    std::panic::set_hook(Box::new(tell_panic));
    // SAFETY: these are what the C library calls us with.
    let words = unsafe { start::arguments(argc, argv) };
    let exit = std::panic::catch_unwind(|| dispatch(words));
    match exit.unwrap_or(Exit::Status(STATUS_FAILED)) {
        Exit::Status(status) => c_int::from(status),
        Exit::Signal(signal) => {
            signals::end_by(signal);
            c_int::from(signal.status())
        }
    }
}

/// A panic is a defect, but even then there is one line and the right status.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let what = panic.payload_as_str().unwrap_or("panic");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    message::say(format_args!("internal error: {what:?}{place}"), &Arc::default());
}

fn dispatch(words: Vec<OsString>) -> Exit {
    if let Err(source) = start::prepare() {
        return Exit::Status(fail(&Error::Spawn { step: "/dev/null", source }));
    }
    let status = match parse(words) {
        Parsed::Run(args) => return run::run(*args),
        Parsed::Detach(args, identity) => say(&detach::run(*args, &identity)),
        Parsed::Remote(args, request, host) => say(&remote::run(*args, &request, &host)),
        Parsed::Ask { host, retry, definition, request } => {
            say(&remote::ask(&host, retry, &definition, &request))
        }
        Parsed::RemoteEnd => remote_end::serve(),
        Parsed::Attach(args) => runs::attach(&args),
        Parsed::Wait(args) => say(&runs::wait(&args)),
        Parsed::Send(args) => say(&runs::send(&args)),
        Parsed::Signal(args) => say(&runs::signal(&args)),
        Parsed::Runs(args) => say(&runs::runs(&args, |error| tell(&error))),
        Parsed::Forget(args) => say(&runs::forget(&args, |error| tell(&error))),
        Parsed::Replay(args) => replay::run(&args),
        Parsed::ListBackends(format) => show(&backends::list(format)),
        Parsed::Show(text) => show(&text),
        Parsed::Error(error) => fail(&error),
    };
    Exit::Status(status)
}

/// Prints a text that was asked for on standard output, its colours only where they are seen.
///
/// A text without any passes as it is. Taking colours out takes a DEL too, and that stands in JSON unescaped.
fn show(text: &str) -> u8 {
    let is_coloured = text.contains('\x1b');
    let mut stdout: Box<dyn Write> =
        if is_coloured { Box::new(anstream::stdout()) } else { Box::new(std::io::stdout()) };
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => 0,
        // Whoever closed it has seen what they wanted to see.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(source) => fail(&Error::Output { what: "standard output".to_owned(), source }),
    }
}

/// Prints what there is to say, and returns the status that goes with it.
fn say((text, status): &Said) -> u8 {
    match show(text) {
        0 => *status,
        failed => failed,
    }
}

fn tell(error: &Error) {
    message::say_error(error, &Arc::default());
}

fn fail(error: &Error) -> u8 {
    tell(error);
    error.status()
}
