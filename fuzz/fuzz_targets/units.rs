//! Whatever stands where a value is expected, it is refused in words or is what a plain reading of it gives. What a
//! value is shown as is read as that value.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use runcast::model::rlimits::{RLIM_INFINITY, Resource, parse_rlimits};
use runcast::model::run_id::RunId;
use runcast::model::signal::{Signal, parse_signal_map};
use runcast::model::text_files::{parse_env_file, secrets_of_file};
use runcast::model::units::{
    parse_assignment, parse_duration, parse_limit_duration, parse_meta, parse_size,
    parse_size_or_unlimited, parse_umask,
};

/// A number and its unit, in the unit's units, as a double has it.
fn number(text: &str, units: &[(&str, f64)]) -> f64 {
    let (number, unit) =
        text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let unit =
        units.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).expect("it is a unit");
    number.parse::<f64>().expect("it is a number") * unit.1
}

/// Seconds, where there is but one number.
fn seconds(text: &str) -> f64 {
    number(text, &[("", 1.0), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)])
}

fn bytes(text: &str) -> f64 {
    let powers = ["k", "m", "g", "t", "p"].into_iter().zip(1..);
    let mut units = vec![(String::new(), 1.0), ("b".to_owned(), 1.0)];
    for (prefix, power) in powers {
        units.extend(["", "i", "ib"].map(|end| (format!("{prefix}{end}"), 1024_f64.powi(power))));
        units.push((format!("{prefix}b"), 1000_f64.powi(power)));
    }
    let units: Vec<_> = units.iter().map(|(name, factor)| (&**name, *factor)).collect();
    number(text, &units)
}

fn is_near(exact: f64, naive: f64, least: f64) -> bool {
    (exact - naive).abs() <= least + naive.abs() * 1e-9
}

fn check_duration(text: &str) {
    let Ok(duration) = parse_duration(text) else { return };
    assert!(!text.contains([' ', '-']) || text.contains("e-") || text.contains("E-"));
    let is_one = !text.as_bytes().windows(2).any(|pair| {
        pair[0].is_ascii_alphabetic() && !b"eE".contains(&pair[0]) && !pair[1].is_ascii_alphabetic()
    });
    let most = Duration::MAX.as_secs_f64();
    assert!(!is_one || is_near(duration.as_secs_f64(), seconds(text).min(most), 2e-9), "{text}");
    let has_digit = text.split(['e', 'E']).any(|part| part.contains(|c| matches!(c, '1'..='9')));
    assert!(!duration.is_zero() || !has_digit || text.contains(['e', 'E']), "{text}");
    let shown = format!("{}.{:09}s", duration.as_secs(), duration.subsec_nanos());
    assert_eq!(parse_duration(&shown), Ok(duration));
    let limit = parse_limit_duration(text).expect("it is a duration");
    assert_eq!(limit, (!duration.is_zero() && duration != Duration::MAX).then_some(duration));
}

fn check_size(text: &str) {
    let size = parse_size(text);
    assert!(parse_size_or_unlimited(text).ok().flatten() == size.clone().ok());
    let Ok(size) = size else { return };
    assert!(is_near(size as f64, bytes(text), 1.0), "{text} {size}");
    assert_eq!(parse_size(&size.to_string()), Ok(size));
}

fn check_rlimits(text: &str) {
    let Ok(rlimits) = parse_rlimits(text) else { return };
    assert_eq!(rlimits.len(), text.split(',').count());
    for limit in rlimits {
        assert!(limit.soft <= limit.hard);
        let shown = [limit.soft, limit.hard].map(|value| match limit.resource {
            _ if value == RLIM_INFINITY => "unlimited".to_owned(),
            Resource::Rttime => format!("{}.{:03}ms", value / 1000, value % 1000),
            _ => value.to_string(),
        });
        let shown = format!("{}={}", limit.resource.name(), shown.join(":"));
        assert_eq!(parse_rlimits(&shown), Ok(vec![limit]));
    }
}

fn check_lines(typed: &[u8]) {
    let expected = typed.strip_prefix(b"\xef\xbb\xbf").unwrap_or(typed);
    let lines = expected.split(|&byte| byte == b'\n');
    let secrets = lines.clone().map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec());
    let secrets = (1..).zip(secrets).filter(|(_, secret)| !secret.is_empty());
    assert_eq!(secrets_of_file(typed), secrets.collect::<Vec<_>>());
    if let Ok(variables) = parse_env_file(typed) {
        let lines = lines.map(|line| line.trim_ascii_start());
        let lines = lines.filter(|line| !matches!(line, [] | [b'#', ..]));
        assert_eq!(variables.len(), lines.count());
    }
}

fuzz_target!(|typed: &[u8]| {
    check_lines(typed);
    if let Ok((name, value)) = parse_assignment(OsStr::from_bytes(typed)) {
        assert_eq!([name.as_bytes(), b"=", value.as_bytes()].concat(), typed);
    }
    let Ok(text) = std::str::from_utf8(typed) else { return };
    check_duration(text);
    check_size(text);
    check_rlimits(text);
    if let Ok((name, value)) = parse_meta(text) {
        assert_eq!(format!("{name}={value}"), text);
    }
    if let Ok(mask) = parse_umask(text) {
        assert_eq!(parse_umask(&format!("{mask:o}")), Ok(mask));
    }
    if let Ok(signal) = text.parse::<Signal>() {
        assert_eq!(signal.to_string().parse(), Ok(signal));
    }
    if let Ok((from, to)) = parse_signal_map(text) {
        let to_text = to.map_or("none".to_owned(), |signal| signal.to_string());
        assert_eq!(parse_signal_map(&format!("{from}={to_text}")), Ok((from, to)));
    }
    if let Ok(id) = RunId::parse(text) {
        assert_eq!((id.as_str(), RunId::parse(id.as_str()).as_ref()), (text, Ok(&id)));
    }
});
