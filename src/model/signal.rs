//! Signals: names and numbers, and those that runcast passes on.

use std::fmt;
use std::str::FromStr;

use nix::sys::signal::Signal as NamedSignal;

use crate::model::units::parse_digits;

/// A signal: a number from 1 to 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

/// The first real-time signal that the C library leaves to programs, and the last; `signal(7)`.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

impl Signal {
    /// The terminal was hung up.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// Ctrl-C.
    pub const INT: Self = Self(libc::SIGINT);
    /// Ctrl-\.
    pub const QUIT: Self = Self(libc::SIGQUIT);
    /// The end, without appeal.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// Whatever the program makes of it.
    pub const USR1: Self = Self(libc::SIGUSR1);
    /// Whatever the program makes of it.
    pub const USR2: Self = Self(libc::SIGUSR2);
    /// A write to a pipe that nobody reads.
    pub const PIPE: Self = Self(libc::SIGPIPE);
    /// A timer ran out.
    pub const ALRM: Self = Self(libc::SIGALRM);
    /// The request to end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// A child ended or stopped.
    pub const CHLD: Self = Self(libc::SIGCHLD);
    /// Go on.
    pub const CONT: Self = Self(libc::SIGCONT);
    /// Stop, without appeal.
    pub const STOP: Self = Self(libc::SIGSTOP);
    /// Ctrl-Z.
    pub const TSTP: Self = Self(libc::SIGTSTP);
    /// A read from the terminal in the background.
    pub const TTIN: Self = Self(libc::SIGTTIN);
    /// A write to the terminal in the background.
    pub const TTOU: Self = Self(libc::SIGTTOU);
    /// The processor time limit was passed.
    pub const XCPU: Self = Self(libc::SIGXCPU);
    /// The file size limit was passed.
    pub const XFSZ: Self = Self(libc::SIGXFSZ);
    /// The terminal's size changed.
    pub const WINCH: Self = Self(libc::SIGWINCH);

    /// The signal with this number; `None` unless it is from 1 to 64.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        (1..=RTMAX).contains(&number).then_some(Self(number))
    }

    /// Its number, from 1 to 64.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }

    /// The exit status that stands for an end by this signal: 128 and its number.
    #[must_use]
    pub fn status(self) -> u8 {
        128 + self.0 as u8
    }

    /// The signal with this upper-case name, `SIG` taken off, or these digits.
    fn from_name(name: &str) -> Option<Self> {
        let distance = |text: &str, sign: char| match text {
            "" => Some(0),
            _ => parse_digits(text.strip_prefix(sign)?).filter(|n| *n <= RTMAX - RTMIN),
        };
        let number = if let Some(number) = parse_digits(name) {
            number
        } else if let Some(above) = name.strip_prefix("RTMIN") {
            RTMIN + distance(above, '+')?
        } else if let Some(below) = name.strip_prefix("RTMAX") {
            RTMAX - distance(below, '-')?
        } else {
            match name {
                "IOT" => libc::SIGABRT,
                "CLD" => libc::SIGCHLD,
                "POLL" => libc::SIGIO,
                _ => NamedSignal::from_str(&format!("SIG{name}")).ok()? as i32,
            }
        };
        Self::from_number(number)
    }
}

impl fmt::Display for Signal {
    /// Its name, as `SIGTERM` or `SIGRTMIN+3`; the two that the C library keeps for itself are `SIG32`
    /// and `SIG33`. [`Signal::from_str`] reads all of these.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RTMIN => f.write_str("SIGRTMIN"),
            number if number > RTMIN => write!(f, "SIGRTMIN+{}", number - RTMIN),
            number => match NamedSignal::try_from(number) {
                Ok(named) => f.write_str(named.as_str()),
                Err(_) => write!(f, "SIG{number}"),
            },
        }
    }
}

impl FromStr for Signal {
    type Err = String;

    /// Reads a name with or without `SIG`, in any case, `RTMIN`, `RTMIN+n`, `RTMAX`, `RTMAX-n`, or a
    /// number from 1 to 64.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.to_ascii_uppercase();
        Self::from_name(name.strip_prefix("SIG").unwrap_or(&name))
            .ok_or_else(|| if text.is_empty() { "empty" } else { "no such signal" }.to_owned())
    }
}

/// The signals that runcast passes on to the command when it receives them.
pub const FORWARDED: [Signal; 12] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALRM,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

/// Reads `FROM=TO`: which signal is forwarded when FROM is received; `None`, written `none`, is nothing.
///
/// # Errors
///
/// What is not of this form, a TO that is no signal, a FROM that is not one of [`FORWARDED`].
pub fn parse_signal_map(text: &str) -> Result<(Signal, Option<Signal>), String> {
    let (from, to) = text.split_once('=').ok_or("not FROM=TO")?;
    let from = from.parse().ok().filter(|from| FORWARDED.contains(from)).ok_or_else(|| {
        let names = FORWARDED.map(|signal| signal.to_string()["SIG".len()..].to_owned());
        format!("'{from}' is not a signal that is forwarded; one of {}", names.join(", "))
    })?;
    if to.eq_ignore_ascii_case("none") {
        return Ok((from, None));
    }
    match to.parse() {
        Ok(to) => Ok((from, Some(to))),
        Err(error) => Err(format!("'{to}': {error}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::proptest;

    use super::*;

    #[test]
    fn every_signals_name_and_number_are_read_back() {
        for number in 1..=64 {
            let signal = Signal::from_number(number).expect("in range");
            let name = signal.to_string();
            assert_eq!(signal.number(), number);
            assert_eq!(i32::from(signal.status()), 128 + number);
            assert_eq!(name.parse(), Ok(signal), "{name}");
            assert_eq!(name["SIG".len()..].parse(), Ok(signal), "{name}");
            assert_eq!(name.to_lowercase().parse(), Ok(signal), "{name}");
            assert_eq!(number.to_string().parse(), Ok(signal));
        }
        for number in [i32::MIN, -1, 0, 65, i32::MAX] {
            assert_eq!(Signal::from_number(number), None);
        }
    }

    #[test]
    fn signals_have_the_names_that_people_know() {
        for (text, name) in [
            ("term", "SIGTERM"),
            ("SigKill", "SIGKILL"),
            ("IOT", "SIGABRT"),
            ("CLD", "SIGCHLD"),
            ("POLL", "SIGIO"),
            ("09", "SIGKILL"),
            ("32", "SIG32"),
            ("RTMIN", "SIGRTMIN"),
            ("rtmin+0", "SIGRTMIN"),
            ("RTMIN+3", "SIGRTMIN+3"),
            ("SIGRTMAX-30", "SIGRTMIN"),
            ("RTMAX", "SIGRTMIN+30"),
        ] {
            assert_eq!(text.parse::<Signal>().expect(text).to_string(), name);
        }
    }

    #[test]
    fn what_is_no_signal_is_an_error() {
        for text in
            "|0|-1|65|+9| 9|9 |SIG|SIGSIGTERM|TERMX|RTMIN-1|RTMIN+31|RTMIN++1|RTMIN+|RTMIN3|\
            RTMAX+1|RTMAX-31|99999999999999999999|TERM\0|é"
                .split('|')
        {
            assert!(text.parse::<Signal>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_signal_map_takes_forwarded_signals_alone() {
        assert_eq!(parse_signal_map("INT=TERM"), Ok((Signal::INT, Some(Signal::TERM))));
        assert_eq!(parse_signal_map("sighup=None"), Ok((Signal::HUP, None)));
        assert_eq!(parse_signal_map("15=9"), Ok((Signal::TERM, Some(Signal::KILL))));
        for text in ["", "INT", "=TERM", "INT=", "INT=none2", "none=INT"] {
            assert!(parse_signal_map(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_signal_map("KILL=TERM"),
            Err("'KILL' is not a signal that is forwarded; one of INT, TERM, HUP, QUIT, USR1, USR2, \
                 ALRM, WINCH, CONT, TSTP, TTIN, TTOU"
                .to_owned())
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "(?s)[-+=0-9SIGRTMAXintermok]{0,24}|.{0,16}") {
            let _ = text.parse::<Signal>();
            let _ = parse_signal_map(&text);
        }
    }
}
