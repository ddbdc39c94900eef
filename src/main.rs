//! Parses, dispatches, prints what failed, exits. The only place that ends the process.

use std::io::Write;
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use runcast::cli::args::{Parsed, parse};
use runcast::cli::run;
use runcast::model::error::{Error, STATUS_FAILED};
use runcast::sink::destination::Patience;
use runcast::sink::message;
use runcast::sys::memory;

fn main() -> ExitCode {
    memory::share_one_arena();
    std::panic::set_hook(Box::new(tell_panic));
    let status = std::panic::catch_unwind(dispatch).unwrap_or(STATUS_FAILED);
    ExitCode::from(status)
}

/// A panic is a defect, but even then there is one line and the right status.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let what = panic.payload_as_str().unwrap_or("panic");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    message::say(format_args!("internal error: {what:?}{place}"), &Patience::default());
}

fn dispatch() -> u8 {
    match parse(std::env::args_os()) {
        Parsed::Run(args) => run::run(*args),
        Parsed::Show(text) => show(&text),
        Parsed::Error(error) => {
            message::say_error(&error, &Patience::default());
            error.status()
        }
    }
}

/// Prints a text that was asked for on standard output.
fn show(text: &str) -> u8 {
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => 0,
        // Whoever closed it has seen what they wanted to see.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(source) => {
            let error = Error::Output { what: "standard output".to_owned(), source };
            message::say_error(&error, &Patience::default());
            error.status()
        }
    }
}
