//! Resource limits as the command line writes them: `NAME=SOFT[:HARD]`.
//!
//! Whether the operating system grants one is not known here.

use libc::{
    RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_LOCKS, RLIMIT_MEMLOCK,
    RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_RSS, RLIMIT_RTPRIO,
    RLIMIT_RTTIME, RLIMIT_SIGPENDING, RLIMIT_STACK,
};

use crate::model::units::{is_unlimited, parse_digits, parse_duration, parse_size};

/// The value that means no limit.
pub const RLIM_INFINITY: u64 = u64::MAX;

/// What a limit is a limit of; `getrlimit(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Processor time, in seconds.
    Cpu,
    /// The address space, in bytes.
    As,
    /// The data segment, in bytes.
    Data,
    /// The stack, in bytes.
    Stack,
    /// A core file, in bytes.
    Core,
    /// A file that is written, in bytes.
    Fsize,
    /// Open descriptors: one above the highest number.
    Nofile,
    /// Processes and threads of the user.
    Nproc,
    /// Memory locked, in bytes.
    Memlock,
    /// Resident memory, in bytes; Linux ignores it.
    Rss,
    /// File locks; Linux ignores it.
    Locks,
    /// Signals queued.
    Sigpending,
    /// Message queues, in bytes.
    Msgqueue,
    /// 20 minus the lowest nice value.
    Nice,
    /// The highest real-time priority.
    Rtprio,
    /// Processor time under a real-time policy between two blocking calls, in microseconds.
    Rttime,
}

/// How a limit's value is written.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Seconds,
    Microseconds,
    Count,
}

impl Resource {
    /// All of them, in the order of the manual.
    pub const ALL: [Self; 16] = [
        Self::Cpu,
        Self::As,
        Self::Data,
        Self::Stack,
        Self::Core,
        Self::Fsize,
        Self::Nofile,
        Self::Nproc,
        Self::Memlock,
        Self::Rss,
        Self::Locks,
        Self::Sigpending,
        Self::Msgqueue,
        Self::Nice,
        Self::Rtprio,
        Self::Rttime,
    ];

    /// Its name on the command line, as `nofile`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its number for `setrlimit(2)`.
    #[must_use]
    pub fn number(self) -> i32 {
        self.row().1
    }

    #[allow(clippy::unnecessary_cast)] // the numbers have a type of their own with glibc, i32 with musl
    fn row(self) -> (&'static str, i32, Unit) {
        match self {
            Self::Cpu => ("cpu", RLIMIT_CPU as i32, Unit::Seconds),
            Self::As => ("as", RLIMIT_AS as i32, Unit::Bytes),
            Self::Data => ("data", RLIMIT_DATA as i32, Unit::Bytes),
            Self::Stack => ("stack", RLIMIT_STACK as i32, Unit::Bytes),
            Self::Core => ("core", RLIMIT_CORE as i32, Unit::Bytes),
            Self::Fsize => ("fsize", RLIMIT_FSIZE as i32, Unit::Bytes),
            Self::Nofile => ("nofile", RLIMIT_NOFILE as i32, Unit::Count),
            Self::Nproc => ("nproc", RLIMIT_NPROC as i32, Unit::Count),
            Self::Memlock => ("memlock", RLIMIT_MEMLOCK as i32, Unit::Bytes),
            Self::Rss => ("rss", RLIMIT_RSS as i32, Unit::Bytes),
            Self::Locks => ("locks", RLIMIT_LOCKS as i32, Unit::Count),
            Self::Sigpending => ("sigpending", RLIMIT_SIGPENDING as i32, Unit::Count),
            Self::Msgqueue => ("msgqueue", RLIMIT_MSGQUEUE as i32, Unit::Bytes),
            Self::Nice => ("nice", RLIMIT_NICE as i32, Unit::Count),
            Self::Rtprio => ("rtprio", RLIMIT_RTPRIO as i32, Unit::Count),
            Self::Rttime => ("rttime", RLIMIT_RTTIME as i32, Unit::Microseconds),
        }
    }

    /// Reads a value in the unit of this limit; a time is rounded up, and is no limit when too large.
    fn parse_value(self, text: &str) -> Result<u64, String> {
        if is_unlimited(text) {
            return Ok(RLIM_INFINITY);
        }
        match self.row().2 {
            Unit::Bytes => parse_size(text),
            Unit::Seconds => parse_duration(text)
                .map(|time| time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))),
            Unit::Microseconds => parse_duration(text)
                .map(|time| time.as_nanos().div_ceil(1000).try_into().unwrap_or(RLIM_INFINITY)),
            Unit::Count => parse_digits(text).ok_or_else(|| {
                let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                if is_number { "too large" } else { "not a number" }.to_owned()
            }),
        }
    }
}

/// A limit of one resource, in its unit; [`RLIM_INFINITY`] is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimit {
    /// What is limited.
    pub resource: Resource,
    /// Where it takes effect; a process may raise its own up to the hard limit.
    pub soft: u64,
    /// The most that the soft limit can be raised to.
    pub hard: u64,
}

/// Reads limits joined by commas, each `NAME=SOFT[:HARD]`, in the order given.
///
/// Sizes for limits in bytes, a duration for `cpu` (whole seconds, rounded up) and `rttime`, a number for
/// the others, or `unlimited`. SOFT alone sets both, but the hard limit of `cpu` is then one second above:
/// the command gets XCPU, which tells what happened, before KILL, which does not.
///
/// # Errors
///
/// An unknown name, a value that is none, a soft limit above the hard one; the text names the limit.
pub fn parse_rlimits(text: &str) -> Result<Vec<Rlimit>, String> {
    text.split(',').map(parse_rlimit).collect()
}

fn parse_rlimit(text: &str) -> Result<Rlimit, String> {
    if text.is_empty() {
        return Err("empty; write NAME=SOFT[:HARD]".to_owned());
    }
    let (name, limits) =
        text.split_once('=').ok_or_else(|| format!("{text}: not NAME=SOFT[:HARD]"))?;
    let resource = Resource::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| {
        format!("{name}: no such limit; one of {}", Resource::ALL.map(Resource::name).join(", "))
    })?;
    let value = |text: &str| {
        resource.parse_value(text).map_err(|error| format!("{name}: '{text}': {error}"))
    };
    let Some((soft_text, hard_text)) = limits.split_once(':') else {
        let soft = value(limits)?;
        let margin = u64::from(resource == Resource::Cpu);
        return Ok(Rlimit { resource, soft, hard: soft.saturating_add(margin) });
    };
    let (soft, hard) = (value(soft_text)?, value(hard_text)?);
    if soft > hard {
        return Err(format!("{name}: soft limit {soft_text} is above the hard limit {hard_text}"));
    }
    Ok(Rlimit { resource, soft, hard })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;

    fn one(text: &str) -> (Resource, u64, u64) {
        let limits = parse_rlimits(text).expect(text);
        assert_eq!(limits.len(), 1, "{text}");
        (limits[0].resource, limits[0].soft, limits[0].hard)
    }

    #[test]
    fn soft_alone_sets_both_but_for_cpu_whose_hard_limit_is_a_second_above() {
        assert_eq!(one("nofile=32"), (Resource::Nofile, 32, 32));
        assert_eq!(one("core=unlimited"), (Resource::Core, RLIM_INFINITY, RLIM_INFINITY));
        assert_eq!(one("cpu=1"), (Resource::Cpu, 1, 2));
        assert_eq!(one("cpu=0"), (Resource::Cpu, 0, 1));
        assert_eq!(one("cpu=1:1"), (Resource::Cpu, 1, 1));
        assert_eq!(one("cpu=unlimited"), (Resource::Cpu, RLIM_INFINITY, RLIM_INFINITY));
        assert_eq!(one("cpu=1e300"), (Resource::Cpu, RLIM_INFINITY, RLIM_INFINITY));
    }

    #[test]
    fn each_limit_is_written_in_its_own_unit() {
        assert_eq!(one("as=512M:1G"), (Resource::As, 512 << 20, 1 << 30));
        assert_eq!(one("fsize=64K"), (Resource::Fsize, 64 << 10, 64 << 10));
        assert_eq!(one("cpu=1.2m:73"), (Resource::Cpu, 72, 73));
        assert_eq!(one("cpu=1ms"), (Resource::Cpu, 1, 2));
        assert_eq!(one("rttime=1.5ms"), (Resource::Rttime, 1500, 1500));
        assert_eq!(one("rttime=1e-9"), (Resource::Rttime, 1, 1));
        assert_eq!(one("rttime=1e30"), (Resource::Rttime, RLIM_INFINITY, RLIM_INFINITY));
        assert_eq!(one("nproc=10:Unlimited"), (Resource::Nproc, 10, RLIM_INFINITY));
        for name in ["as", "data", "stack", "core", "fsize", "memlock", "rss", "msgqueue"] {
            assert_eq!(one(&format!("{name}=1kB")).1, 1000);
        }
        for name in ["nofile", "nproc", "locks", "sigpending", "nice", "rtprio"] {
            assert_eq!(one(&format!("{name}=7")).1, 7);
            assert!(parse_rlimits(&format!("{name}=7K")).is_err());
        }
    }

    #[test]
    fn several_limits_keep_their_order() {
        let limits = parse_rlimits("nofile=32:64,as=512M,nofile=5").expect("valid");
        let soft: Vec<_> = limits.iter().map(|limit| (limit.resource.name(), limit.soft)).collect();
        assert_eq!(soft, [("nofile", 32), ("as", 512 << 20), ("nofile", 5)]);
    }

    #[test]
    fn an_error_names_the_limit() {
        for (text, expected) in [
            ("nofile", "nofile: not NAME=SOFT[:HARD]"),
            ("nofile=64:32", "nofile: soft limit 64 is above the hard limit 32"),
            ("core=unlimited:1M", "core: soft limit unlimited is above the hard limit 1M"),
            ("nofile=x", "nofile: 'x': not a number"),
            ("nofile=", "nofile: '': not a number"),
            ("nofile=1:", "nofile: '': not a number"),
            ("nofile=:1", "nofile: '': not a number"),
            ("nofile=1:2:3", "nofile: '2:3': not a number"),
            ("nofile=-1", "nofile: '-1': not a number"),
            ("nofile=99999999999999999999999", "nofile: '99999999999999999999999': too large"),
            ("cpu=-1", "cpu: '-1': negative"),
            ("as=1,", "empty; write NAME=SOFT[:HARD]"),
            ("", "empty; write NAME=SOFT[:HARD]"),
            (
                "as=1,bogus=1",
                "bogus: no such limit; one of cpu, as, data, stack, core, fsize, nofile, nproc, memlock, \
                 rss, locks, sigpending, msgqueue, nice, rtprio, rttime",
            ),
        ] {
            assert_eq!(parse_rlimits(text), Err(expected.to_owned()), "{text}");
        }
        assert!(
            parse_rlimits("as=10x").expect_err("no unit").starts_with("as: '10x': unknown unit")
        );
    }

    #[test]
    fn every_resource_has_a_name_and_a_number_of_its_own() {
        for (at, one) in Resource::ALL.iter().enumerate() {
            for other in &Resource::ALL[..at] {
                assert!(one.name() != other.name() && one.number() != other.number());
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(cpu|rttime|as|nofile)?[=:,.0-9eunlimtdKB-]{0,20}|.{0,12}") {
            let _ = parse_rlimits(&text);
        }
    }
}
