//! Whatever is typed as a prefix or a pattern of times, it is refused or stands before each line, whatever the time,
//! with all that is not a time in its place, and each line behind it as it was. A template written out is what was
//! typed.

#![no_main]

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use libfuzzer_sys::fuzz_target;
use runcast::model::event::Stream;
use runcast::model::line_prefix::Prefix;
use runcast::model::template::{Part, Template, TimeFormat};
use runcast::model::wall_clock::WallClock;

fn written(template: &Template) -> String {
    let parts = template.parts.iter().map(|part| match part {
        Part::Text(text) => text.replace('{', "{{").replace('}', "}}"),
        Part::Stream => "{stream}".to_owned(),
        Part::Pid => "{pid}".to_owned(),
        Part::Seq => "{seq}".to_owned(),
        Part::Time(TimeFormat::Elapsed) => "{elapsed}".to_owned(),
        Part::Time(TimeFormat::Delta) => "{delta}".to_owned(),
        Part::Time(_) => "{time}".to_owned(),
    });
    parts.collect()
}

/// Looks for each part of the template but the times, one behind another.
fn check_parts(template: &Template, mut made: &[u8], seq: u64) {
    for part in &template.parts {
        let text = match part {
            Part::Text(text) => text.clone(),
            Part::Stream => "stderr".to_owned(),
            Part::Pid => "1".to_owned(),
            Part::Seq => seq.to_string(),
            Part::Time(_) => continue,
        };
        let at = memchr::memmem::find(made, text.as_bytes()).expect("it is in its place");
        made = &made[at + text.len()..];
    }
}

fn check_clock(clock: WallClock, at: Duration) {
    let shown = clock.utc(at);
    let read: Timestamp = shown.parse().expect("it is a time");
    let off = clock.at(at).duration_since(read).abs();
    assert!(off < SignedDuration::from_micros(1), "{shown}");
    assert!(clock.at(at) >= clock.0 && clock.at(at.saturating_mul(2)) >= clock.at(at));
    let mut added = Vec::new();
    clock.add_utc(at, &mut added);
    assert_eq!(added, shown.as_bytes());
}

fuzz_target!(|input: (i64, u64, u32, i16, &str)| {
    let (start, seconds, nanos, zone, typed) = input;
    let at = Duration::new(seconds, nanos % 1_000_000_000);
    let clock = WallClock(Timestamp::from_second(start % (1 << 38)).unwrap_or(Timestamp::MIN));
    check_clock(clock, at);

    let template = Template::parse(typed);
    let by_time = TimeFormat::parse(typed).map(Template::of_time);
    if let Ok(template) = &template {
        assert_eq!(written(template), typed);
    }
    let zone = jiff::tz::Offset::from_seconds(i32::from(zone)).expect("it is less than a day");
    for template in [template, by_time].into_iter().flatten() {
        let mut prefix = Prefix::new(&template, Stream::Stderr, TimeZone::fixed(zone));
        prefix.make(at, at, seconds);
        prefix.set_run(1, clock);
        prefix.make(at, at, seconds);
        check_parts(&template, prefix.bytes(), seconds);
        let lines = b"one\n\nthree\n";
        let mut room = vec![0; 3 * prefix.bytes().len() + 400];
        let progress = prefix.put_lines(lines, b'\n', &mut room);
        assert_eq!(progress.read, lines.len());
        let shown = lines.split_inclusive(|&byte| byte == b'\n');
        let shown: Vec<u8> = shown.flat_map(|line| [prefix.bytes(), line].concat()).collect();
        assert_eq!(&room[..progress.written], shown);
    }
});
