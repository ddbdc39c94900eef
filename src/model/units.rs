//! Text as people write it, to typed values: durations, sizes, assignments.
//!
//! Every parser takes any text, never panics, and its error is one phrase that fits after
//! `--option 'text': `. Nothing here looks at the surroundings: no environment, no files, no clock.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::str::FromStr;
use std::time::Duration;

use fundu::{CustomDurationParser, CustomTimeUnit, ParseError, TimeUnit};
use memchr::memchr;

const DURATION_UNITS: [CustomTimeUnit<'static>; 5] = [
    CustomTimeUnit::with_default(TimeUnit::MilliSecond, &["ms"]),
    CustomTimeUnit::with_default(TimeUnit::Second, &["s"]),
    CustomTimeUnit::with_default(TimeUnit::Minute, &["m"]),
    CustomTimeUnit::with_default(TimeUnit::Hour, &["h"]),
    CustomTimeUnit::with_default(TimeUnit::Day, &["d"]),
];

/// Reads a duration: a number, fractions and exponents allowed, with `ms`, `s`, `m`, `h` or `d` (none:
/// seconds), or several of them joined, as `1h30m`.
///
/// One too large is [`Duration::MAX`]. One that is not zero but too small to count is one nanosecond,
/// never zero.
///
/// # Errors
///
/// What is empty, negative (`-0` too), not finite, has an unknown unit, or blanks anywhere.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    // fundu joins durations itself, but then takes `1.5.5` for 2 seconds and `5 5` for 10.
    let parser =
        CustomDurationParser::builder().time_units(&DURATION_UNITS).disable_infinity().build();
    let mut total = Duration::ZERO;
    let mut rest = text;
    loop {
        let (part, after) = rest.split_at(duration_part_len(rest));
        let parsed = parse_duration_part(&parser, part).map_err(|error| match error {
            ParseError::Empty => "empty".to_owned(),
            ParseError::NegativeNumber => "negative".to_owned(),
            ParseError::TimeUnit(at, _) => {
                let unit = part.get(at..).unwrap_or(part);
                format!("unknown unit '{unit}'; one of ms, s, m, h, d")
            }
            _ => "not a duration; write it as 90, 1.5h, 500ms or 1h30m".to_owned(),
        })?;
        total = total.saturating_add(parsed);
        rest = after;
        if rest.is_empty() {
            return Ok(total);
        }
    }
}

/// How much of the text is its first number with its unit: up to where a number follows a unit's letter.
fn duration_part_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    (1..bytes.len())
        .find(|&at| {
            let unit_ends =
                bytes[at - 1].is_ascii_alphabetic() && !matches!(bytes[at - 1], b'e' | b'E');
            unit_ends && (bytes[at].is_ascii_digit() || bytes[at] == b'.')
        })
        .unwrap_or(bytes.len())
}

/// One number with its unit, where fundu takes a negative zero for zero, loses what is too small, and
/// has no exponents beyond 16 bits.
fn parse_duration_part(
    parser: &CustomDurationParser<'_>,
    part: &str,
) -> Result<Duration, ParseError> {
    if part.starts_with('-') {
        return Err(ParseError::NegativeNumber);
    }
    let parsed = match parser.parse(part) {
        Ok(parsed) => parsed.try_into()?,
        Err(
            error @ (ParseError::PositiveExponentOverflow | ParseError::NegativeExponentOverflow),
        ) => {
            // fundu gave up before the unit: a wrong one is to be an error all the same.
            let (number, exponent) = part.split_once(['e', 'E']).unwrap_or((part, ""));
            let unit = exponent
                .trim_start_matches(['+', '-'])
                .trim_start_matches(|c: char| c.is_ascii_digit());
            parser.parse(&format!("{number}e0{unit}"))?;
            if error == ParseError::PositiveExponentOverflow && !is_zero(part) {
                Duration::MAX
            } else {
                Duration::ZERO
            }
        }
        Err(error) => return Err(error),
    };
    Ok(if parsed.is_zero() && !is_zero(part) { Duration::from_nanos(1) } else { parsed })
}

/// Whether a number's text, well formed, means exactly zero: no digit but 0 before the exponent.
fn is_zero(number: &str) -> bool {
    !number
        .bytes()
        .take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'))
        .any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Reads a time limit: `None` is no limit, which 0 means and what is too large for any clock comes to.
///
/// # Errors
///
/// As [`parse_duration`].
pub fn parse_limit_duration(text: &str) -> Result<Option<Duration>, String> {
    let duration = parse_duration(text)?;
    Ok(Some(duration).filter(|duration| !duration.is_zero() && *duration != Duration::MAX))
}

/// Significant digits of [`u64::MAX`].
const U64_DIGITS: usize = 20;

/// Reads a size in bytes: a number, fractions and exponents allowed, with `K M G T P` or `KiB MiB …`
/// (1024), with `kB MB GB TB PB` (1000), or with `B` or nothing (bytes). Upper and lower case are the same.
///
/// It is rounded to whole bytes, what is not zero to at least one.
///
/// # Errors
///
/// What is empty, negative (`-0` too), not finite, above [`u64::MAX`], has an unknown unit, or blanks
/// anywhere.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[number.len()..].to_ascii_lowercase();
    // parse-size takes `1e5-3`, `_1 000` and `1iB`. The grammar of a float is the one that is wanted.
    match number.parse::<f64>() {
        _ if text.is_empty() => return Err("empty".to_owned()),
        Err(_) => return Err("not a size; write it as 4096, 64K, 1.5GiB or 10MB".to_owned()),
        Ok(value) if value.is_sign_negative() => return Err("negative".to_owned()),
        Ok(_) => {}
    }
    let (prefix, suffix) = unit.split_at(unit.find(['i', 'b']).unwrap_or(unit.len()));
    let decimal = match (prefix, suffix) {
        ("", "" | "b") | ("k" | "m" | "g" | "t" | "p", "" | "i" | "ib") => false,
        ("k" | "m" | "g" | "t" | "p", "b") => true,
        _ => {
            return Err(format!(
                "unknown unit '{unit}'; one of K, M, G, T or P, alone or with iB or B"
            ));
        }
    };
    if is_zero(number) {
        return Ok(0);
    }
    let config = parse_size::Config::new();
    let config = if decimal { config.with_decimal() } else { config.with_binary() };
    let size = config
        .parse_size(format!("{}{unit}", tame_number(number)))
        .map_err(|_| format!("too large; the most is {} bytes", u64::MAX))?;
    Ok(size.max(1))
}

/// A float's text in a form that parse-size can take: without a sign, with a digit before the point, and
/// with zeros in place of the digits past the 20th. Where exactly the digits of [`u64::MAX`] are followed
/// by one of 5 or more, parse-size rounds up past the end of its integer: a panic, or 0 in a release build.
fn tame_number(number: &str) -> String {
    let number = number.trim_start_matches('+');
    let (mantissa, exponent) = number.split_at(number.find(['e', 'E']).unwrap_or(number.len()));
    let mut significant = 0;
    let mantissa: String = mantissa
        .chars()
        .map(|c| {
            significant += usize::from(c.is_ascii_digit() && (significant > 0 || c != '0'));
            if c.is_ascii_digit() && significant > U64_DIGITS { '0' } else { c }
        })
        .collect();
    format!("0{mantissa}{exponent}")
}

/// Reads a size in bytes, or `unlimited` (in any case), which is `None`.
///
/// # Errors
///
/// As [`fn@parse_size`].
pub fn parse_size_or_unlimited(text: &str) -> Result<Option<u64>, String> {
    if is_unlimited(text) { Ok(None) } else { parse_size(text).map(Some) }
}

/// Whether the text is the word for no limit.
pub(crate) fn is_unlimited(text: &str) -> bool {
    text.eq_ignore_ascii_case("unlimited")
}

/// Reads an integer of decimal digits alone: std's parsers take a sign too.
pub(crate) fn parse_digits<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Reads `NAME=VALUE`, split at the first `=`; any bytes are allowed in both, only NAME is not empty.
///
/// # Errors
///
/// What has no `=` or no NAME.
pub fn parse_assignment(text: &OsStr) -> Result<(OsString, OsString), String> {
    let bytes = text.as_bytes();
    match memchr(b'=', bytes) {
        None => Err("not NAME=VALUE".to_owned()),
        Some(0) => Err("the name is empty".to_owned()),
        Some(at) => Ok((
            OsString::from_vec(bytes[..at].to_vec()),
            OsString::from_vec(bytes[at + 1..].to_vec()),
        )),
    }
}

/// Reads `NAME=VALUE` of text, split at the first `=`; NAME is not empty.
///
/// # Errors
///
/// What has no `=` or no NAME.
pub fn parse_meta(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        None => Err("not NAME=VALUE".to_owned()),
        Some(("", _)) => Err("the name is empty".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
    }
}

/// Reads a file mode creation mask: octal digits, at most 777, with or without a leading `0` or `0o`.
///
/// # Errors
///
/// What is empty, not octal, or above 777.
pub fn parse_umask(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    // from_str_radix alone would take a sign.
    let octal = digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    match u32::from_str_radix(digits, 8) {
        Ok(mask) if octal && mask <= 0o777 => Ok(mask),
        _ => Err("not an octal number from 0 to 777".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, prop_assume, proptest};

    use super::*;

    fn seconds(text: &str) -> f64 {
        parse_duration(text).expect(text).as_secs_f64()
    }

    #[test]
    fn durations_are_read_as_people_and_timeout_write_them() {
        for (text, expected) in [
            ("10", 10.0),
            ("10.5", 10.5),
            ("1e1", 10.0),
            ("1E+1", 10.0),
            ("15e-1m", 90.0),
            ("10s", 10.0),
            ("500ms", 0.5),
            ("1m", 60.0),
            ("1h30m", 5400.0),
            ("1h30", 3630.0),
            ("1.5h.5m", 5430.0),
            ("1d2h3m4s5ms", 93_784.005),
            ("2.34e5d", 2.34e5 * 86_400.0),
            ("+5", 5.0),
            ("5.", 5.0),
            (".5", 0.5),
            ("007", 7.0),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn zero_is_zero_however_it_is_written() {
        for text in ["0", "0s", "0.0", "0e5", "0e-400", "0e40000", "0e-40000", ".0", "0h0m", "0d"] {
            assert_eq!(parse_duration(text), Ok(Duration::ZERO), "{text}");
            assert_eq!(parse_limit_duration(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn a_duration_too_large_is_for_ever() {
        for text in [
            "1e300",
            "1e40000",
            "1e99999999999999999999s",
            "99999999999999999999",
            "1e300d",
            "18446744073709551615d",
            "1h1e300s",
            "18446744073709551615s18446744073709551615s",
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::MAX), "{text}");
            assert_eq!(parse_limit_duration(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn a_duration_too_small_to_count_is_a_nanosecond_and_never_none() {
        let nano = Duration::from_nanos(1);
        for text in [
            "1e-300",
            "1e-400",
            "1e-40000",
            "1e-99999999999999999999ms",
            "0.0000000001s",
            "0.0000000000000000000000001d",
            "0s1e-300s",
            "0.000000001",
        ] {
            assert_eq!(parse_duration(text), Ok(nano), "{text}");
            assert_eq!(parse_limit_duration(text), Ok(Some(nano)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_an_error_that_says_why() {
        for text in
            "|-1|-0|-1e-20|-1e-99999|abc|nan|inf|infinity|-inf|10x|5M|1h-30m|1h+30m|1+5|s|ms|\
            5 m x|5 m|1h 30m|5 5| 5|5 |5\n|1,5|.|5e|5e+|5es|1.5.5|1e5e5|1e99999x|1e99999e5|\
            --5|+-5|5é|é|1\0|0x10|1_000|1ss|1h30mm"
                .split('|')
        {
            let error = parse_duration(text).expect_err(text);
            assert!(!error.is_empty() && !error.ends_with('.'), "{error}");
        }
        assert_eq!(parse_duration("-0"), Err("negative".to_owned()));
        assert_eq!(
            parse_duration("1h5x"),
            Err("unknown unit 'x'; one of ms, s, m, h, d".to_owned())
        );
    }

    #[test]
    fn sizes_are_binary_but_for_units_that_end_in_b_without_i() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("10B", 10),
            ("10b", 10),
            ("1K", 1 << 10),
            ("1k", 1 << 10),
            ("1kib", 1 << 10),
            ("1KiB", 1 << 10),
            ("1Ki", 1 << 10),
            ("1kB", 1000),
            ("1KB", 1000),
            ("1kb", 1000),
            ("3M", 3 << 20),
            ("3MB", 3_000_000),
            ("3mib", 3 << 20),
            ("1.5G", 3 << 29),
            (".5GiB", 1 << 29),
            ("2T", 2 << 40),
            ("2TB", 2_000_000_000_000),
            ("1P", 1 << 50),
            ("1PB", 1_000_000_000_000_000),
            ("1e3", 1000),
            ("1e-1k", 102),
            ("1e+2kb", 100_000),
            ("+5", 5),
            ("5.k", 5 << 10),
            ("1.4", 1),
            ("18446744073709551615", u64::MAX),
            ("18446744073709551615.4", u64::MAX),
            ("1844674407370955161555555e-5", 18_446_744_073_709_551_615),
            ("0e99999999999999999999", 0),
            ("0.0K", 0),
        ] {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_size_that_is_not_zero_is_never_rounded_to_zero() {
        for text in
            ["0.4", "1e-400", "0.0001K", "1e-99999999999999999999P", "0.00000000000000000000001"]
        {
            assert_eq!(parse_size(text), Ok(1), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_an_error_that_says_why() {
        for text in
            "|-1|-0|nan|inf|-inf|infinity|K|B|KiB|10x|1i|1iB|1E|1e|1EiB|1Z|1KK|1bb|1KBi| 1|1 |\
            1 K|1_000|1,5|1.5.5|1e5-3|1e++5|1e-|.|+|--1|0x10|1é|é|1\0|18446744073709551616|\
            16384P|1e30|18446744073709551616e0|184467440737095516155|1e99999999999999999999"
                .split('|')
        {
            let error = parse_size(text).expect_err(text);
            assert!(!error.is_empty() && !error.ends_with('.'), "{error}");
        }
        assert_eq!(
            parse_size("1e30"),
            Err("too large; the most is 18446744073709551615 bytes".to_owned())
        );
    }

    #[test]
    fn digits_past_the_end_of_64_bits_neither_panic_nor_become_zero() {
        assert_eq!(parse_size("18446744073709551615.5"), Ok(u64::MAX));
        assert_eq!(parse_size("184467440737095516159e-1"), Ok(u64::MAX));
        assert_eq!(parse_size("1.8446744073709551615999K"), Ok(1889));
    }

    #[test]
    fn unlimited_is_no_size() {
        assert_eq!(parse_size_or_unlimited("unlimited"), Ok(None));
        assert_eq!(parse_size_or_unlimited("Unlimited"), Ok(None));
        assert_eq!(parse_size_or_unlimited("1K"), Ok(Some(1024)));
        assert!(parse_size_or_unlimited("unlimitedB").is_err());
        assert!(parse_size("unlimited").is_err());
    }

    #[test]
    fn an_assignment_is_split_at_the_first_equals_sign() {
        let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        assert_eq!(parse_assignment(&os(b"A=b=c")), Ok((os(b"A"), os(b"b=c"))));
        assert_eq!(parse_assignment(&os(b"A=")), Ok((os(b"A"), os(b""))));
        assert_eq!(parse_assignment(&os(b"\xff=\xfe\n")), Ok((os(b"\xff"), os(b"\xfe\n"))));
        assert_eq!(parse_assignment(&os(b"")), Err("not NAME=VALUE".to_owned()));
        assert_eq!(parse_assignment(&os(b"=b")), Err("the name is empty".to_owned()));
        assert_eq!(parse_meta("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(parse_meta("=b").is_err() && parse_meta("a").is_err() && parse_meta("").is_err());
    }

    #[test]
    fn a_umask_is_octal() {
        for (text, mask) in [
            ("0", 0),
            ("22", 0o22),
            ("022", 0o22),
            ("0o27", 0o27),
            ("777", 0o777),
            ("0000777", 0o777),
        ] {
            assert_eq!(parse_umask(text), Ok(mask), "{text}");
        }
        for text in
            ["", "0o", "8", "1000", "-1", "+22", " 22", "0x1", "0o0o1", "77777777777777777777"]
        {
            assert!(parse_umask(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(
            text in "(?s)[-+.0-9eEinfaKkMmGgTPibBshd:=, ]{0,24}|.{0,16}",
        ) {
            let _ = parse_duration(&text);
            let _ = parse_size_or_unlimited(&text);
            let _ = parse_umask(&text);
        }

        #[test]
        fn a_joined_duration_is_the_sum_of_its_parts(parts in prop::collection::vec((0..10_000_u32, 0..5_usize), 1..5)) {
            let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
            let text: String = parts.iter().map(|(number, unit)| format!("{number}{}", units[*unit].0)).collect();
            let sum: f64 = parts.iter().map(|(number, unit)| f64::from(*number) * units[*unit].1).sum();
            prop_assert!((seconds(&text) - sum).abs() < 1e-6);
        }

        #[test]
        fn a_duration_is_what_the_float_means(whole in "[0-9]{0,22}", fraction in "[0-9]{0,22}", exponent in -30..30_i32) {
            prop_assume!(!whole.is_empty() || !fraction.is_empty());
            let text = format!("{whole}.{fraction}e{exponent}");
            let float: f64 = text.parse().expect("a float");
            let error = (seconds(&text) - float.min(Duration::MAX.as_secs_f64())).abs();
            prop_assert!(error <= float * 1e-12 + 1.1e-9, "{}", text);
        }

        #[test]
        fn a_size_is_what_the_float_means(
            digits in "1844674407370955161[0-9]{0,6}|[0-9]{1,22}", point in any::<prop::sample::Index>(),
            exponent in -30..5_i32, unit in 0..4_usize,
        ) {
            let (unit, factor) = [("", 1.0), ("K", 1024.0), ("kb", 1000.0), ("GiB", 1_073_741_824.0)][unit];
            let at = point.index(digits.len());
            let text = format!("{}.{}e{exponent}", &digits[..at], &digits[at..]);
            let bytes: f64 = text.parse::<f64>().expect("a float") * factor;
            match parse_size(&format!("{text}{unit}")) {
                Ok(size) => {
                    prop_assert!((size as f64 - bytes).abs() <= bytes * 1e-12 + 1.0, "{}", text);
                    prop_assert_eq!(size == 0, is_zero(&text));
                }
                Err(_) => prop_assert!(bytes > u64::MAX as f64 * (1.0 - 1e-12), "{}", text),
            }
        }
    }
}
