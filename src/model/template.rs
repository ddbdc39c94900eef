//! `--prefix` and `--timestamps`: from what was typed to the parts of what stands before a line.

use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

/// What `--prefix` without a template stands for.
pub const DEFAULT_TEMPLATE: &str = "{stream} | ";

/// How a time is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeFormat {
    /// UTC with microseconds, as RFC 3339 has it.
    Iso,
    /// The same in the time zone of the system.
    Local,
    /// Seconds since the command started.
    Elapsed,
    /// Seconds since the line before.
    Delta,
    /// A pattern of `strftime(3)`, in the time zone of the system.
    Pattern(String),
}

impl TimeFormat {
    /// What FORMAT names, or the pattern that it is.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(typed: &str) -> Result<Self, String> {
        match typed {
            "iso" => Ok(Self::Iso),
            "local" => Ok(Self::Local),
            "elapsed" => Ok(Self::Elapsed),
            "delta" => Ok(Self::Delta),
            // One without anything of a time in it is rather a word that was misspelt.
            _ if !typed.contains('%') => {
                Err("neither iso, local, elapsed, delta nor a pattern with %".to_owned())
            }
            _ => {
                // A pattern is refused for what it says, whatever the time.
                let epoch = Timestamp::UNIX_EPOCH.to_zoned_datetime(TimeZone::UTC);
                match formatted(&epoch, typed) {
                    Ok(_) => Ok(Self::Pattern(typed.to_owned())),
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }
}

/// A time by a pattern of `strftime(3)`, in the words and forms of the POSIX locale.
///
/// # Errors
///
/// What is wrong with the pattern.
pub fn formatted(time: &ZonedDateTime, pattern: &str) -> Result<String, jiff::Error> {
    let config = Config::new().custom(PosixCustom::new());
    BrokenDownTime::from(time).to_string_with_config(&config, pattern)
}

/// A part of what stands before a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Always the same.
    Text(String),
    /// The name of the line's stream.
    Stream,
    /// The process id of the command.
    Pid,
    /// The number of the line, over both streams.
    Seq,
    /// When it was read.
    Time(TimeFormat),
}

/// What stands before a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    /// From left to right.
    pub parts: Vec<Part>,
}

impl Template {
    /// The template of `--prefix`: text with placeholders in braces, `{{` and `}}` for braces.
    ///
    /// # Errors
    ///
    /// Which placeholder is unknown, or which brace is alone.
    pub fn parse(typed: &str) -> Result<Self, String> {
        if typed.is_empty() {
            return Err("the template is empty".to_owned());
        }
        let mut template = Self::default();
        let mut rest = typed;
        while let Some(at) = rest.find(['{', '}']) {
            let (text, brace) = rest.split_at(at);
            template.push_text(text);
            rest = if let Some(rest) = brace.strip_prefix("{{") {
                template.push_text("{");
                rest
            } else if let Some(rest) = brace.strip_prefix("}}") {
                template.push_text("}");
                rest
            } else if let Some(inside) = brace.strip_prefix('{') {
                let (name, rest) =
                    inside.split_once('}').ok_or("a { without its }; {{ is a brace itself")?;
                template.parts.push(placeholder(name)?);
                rest
            } else {
                return Err("a } without its {; }} is a brace itself".to_owned());
            };
        }
        template.push_text(rest);
        Ok(template)
    }

    /// A time with a space behind it.
    #[must_use]
    pub fn of_time(format: TimeFormat) -> Self {
        Self { parts: vec![Part::Time(format), Part::Text(" ".to_owned())] }
    }

    /// Whether it takes to be told what was started, and when.
    #[must_use]
    pub fn needs_started(&self) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Pid => true,
            Part::Time(format) => !matches!(format, TimeFormat::Elapsed | TimeFormat::Delta),
            Part::Text(_) | Part::Stream | Part::Seq => false,
        })
    }

    /// Whether the time zone of the system is in it.
    #[must_use]
    pub fn needs_zone(&self) -> bool {
        let is_local =
            |part: &Part| matches!(part, Part::Time(TimeFormat::Local | TimeFormat::Pattern(_)));
        self.parts.iter().any(is_local)
    }

    /// What is in it of text as it was typed.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        })
    }

    /// Text that follows on text becomes one with it.
    fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }
}

fn placeholder(name: &str) -> Result<Part, String> {
    Ok(match name {
        "stream" => Part::Stream,
        "pid" => Part::Pid,
        "seq" => Part::Seq,
        "time" => Part::Time(TimeFormat::Iso),
        "elapsed" => Part::Time(TimeFormat::Elapsed),
        "delta" => Part::Time(TimeFormat::Delta),
        _ => {
            return Err(format!(
                "unknown placeholder {{{name}}} (there are stream, time, elapsed, delta, seq, pid)"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn parts(typed: &str) -> Vec<Part> {
        Template::parse(typed).unwrap_or_else(|why| panic!("{typed}: {why}")).parts
    }

    #[test]
    fn placeholders_stand_between_text() {
        assert_eq!(parts(DEFAULT_TEMPLATE), [Part::Stream, text(" | ")]);
        assert_eq!(parts("[{seq}]{pid}"), [text("["), Part::Seq, text("]"), Part::Pid]);
        assert_eq!(
            parts("{time}{elapsed}{delta}"),
            [TimeFormat::Iso, TimeFormat::Elapsed, TimeFormat::Delta].map(Part::Time)
        );
        assert_eq!(parts("plain"), [text("plain")]);
    }

    #[test]
    fn a_brace_is_written_twice() {
        assert_eq!(parts("{{{stream}}}"), [text("{"), Part::Stream, text("}")]);
        assert_eq!(parts("a{{b}}c"), [text("a{b}c")]);
        assert_eq!(parts("{{stream}}"), [text("{stream}")]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let why = |typed| Template::parse(typed).expect_err(typed);
        assert!(why("{name}").starts_with("unknown placeholder {name} (there are stream, time"));
        assert!(why("{}").starts_with("unknown placeholder {}"));
        assert!(why("{Stream}").starts_with("unknown placeholder {Stream}"));
        assert_eq!(why("a {stream"), "a { without its }; {{ is a brace itself");
        assert_eq!(why("stream} | "), "a } without its {; }} is a brace itself");
        assert_eq!(why(""), "the template is empty");
    }

    #[test]
    fn a_time_is_named_or_a_pattern() {
        assert_eq!(TimeFormat::parse("iso"), Ok(TimeFormat::Iso));
        assert_eq!(TimeFormat::parse("local"), Ok(TimeFormat::Local));
        assert_eq!(TimeFormat::parse("elapsed"), Ok(TimeFormat::Elapsed));
        assert_eq!(TimeFormat::parse("delta"), Ok(TimeFormat::Delta));
        assert_eq!(TimeFormat::parse("at %H"), Ok(TimeFormat::Pattern("at %H".to_owned())));
        for typed in ["", "ISO", "relative", "%", "%!", "%H %"] {
            assert!(TimeFormat::parse(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn only_what_is_on_the_walls_clock_or_the_process_needs_the_start() {
        let needs = |typed| Template::parse(typed).is_ok_and(|template| template.needs_started());
        assert!(needs("{time}") && needs("{pid} ") && !needs("{stream}{seq}{elapsed}{delta}"));
        let zoned = |format| Template::of_time(format).needs_zone();
        assert!(zoned(TimeFormat::Local) && zoned(TimeFormat::Pattern("%H".to_owned())));
        assert!(!zoned(TimeFormat::Iso) && !zoned(TimeFormat::Delta));
    }

    proptest! {
        #[test]
        fn any_text_with_its_braces_doubled_is_itself(plain in "\\PC{1,20}") {
            let typed = plain.replace('{', "{{").replace('}', "}}");
            prop_assert_eq!(parts(&typed), [text(&plain)]);
        }

        #[test]
        fn nothing_typed_panics(typed in "[{}a-z%:.0-9-]{0,20}") {
            let _ = Template::parse(&typed);
            let _ = TimeFormat::parse(&typed);
        }
    }
}
