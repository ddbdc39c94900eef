//! What text may have beside the command's own bytes: prefixes, times, colours, a status line.

use std::fs::{self, File, OpenOptions};

use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use nix::sys::signal::Signal;

use crate::harness::{
    Event, Gate, Live, Ran, Terminal, ndjson, result_in, runcast, scratch, wait_until,
};

/// What two streams come to in one file. Each of the steps begins when what is said beside the one before can be
/// read there.
fn in_one_file(options: &str, steps: &[(&str, &str)]) -> (Ran, String) {
    let folder = scratch();
    let path = folder.path().join("both");
    let file = File::create(&path).expect("a file can be made");
    let again = file.try_clone().expect("a descriptor is free");
    let go = |number: usize| folder.path().join(number.to_string());
    let waiting = |(number, (step, _)): (usize, &(&str, &str))| {
        format!("wait-file:{} {step} ", go(number).display())
    };
    let all: String = steps.iter().enumerate().map(waiting).collect();
    let run = runcast(options).stdout(file).stderr(again).puppet(&all).start();
    for (number, (_, shown)) in steps.iter().enumerate() {
        File::create(go(number)).expect("a file can be made");
        wait_until(shown, || fs::read_to_string(&path).is_ok_and(|all| all.contains(shown)));
    }
    let ran = run.finish();
    (ran, fs::read_to_string(&path).expect("it is text"))
}

#[test]
fn each_line_begins_with_the_name_of_its_stream() {
    let ran = runcast("-p").puppet("say:a err:b print:stdout:c\\nd").run().exited(0);
    assert_eq!(ran.out(), "stdout | a\nstdout | c\nstdout | d");
    assert_eq!(ran.err(), "stderr | b\n");
}

#[test]
fn a_prefix_is_what_its_template_says() {
    let ran = runcast("").arg("--prefix={{{seq}}} ").puppet("say:a say:b").run().exited(0);
    assert_eq!(ran.out(), "{1} a\n{2} b\n");
    let ran = runcast("-p{pid}:").puppet("report:pid").run().exited(0);
    let out = ran.out();
    let (prefix, pid) = out.trim_end().split_once(':').expect("there is a prefix");
    assert_eq!(prefix, pid);
}

#[test]
fn lines_are_counted_over_both_streams() {
    let steps = [("say:a", "a\n"), ("err:b", "b\n"), ("say:c", "c\n")];
    let (_, both) = in_one_file("-p{stream}:{seq}:", &steps);
    assert_eq!(both, "stdout:1:a\nstderr:2:b\nstdout:3:c\n");
}

#[test]
fn an_unfinished_line_is_shown_at_once() {
    let gate = Gate::new();
    let steps = format!("print:stdout:name:\\s {gate} say:x");
    let mut run = runcast("-p").puppet(&steps).start();
    assert_eq!(run.until("name: "), "stdout | name: ");
    gate.open();
    assert_eq!(run.finish().exited(0).out(), "stdout | name: x\n");
}

#[test]
fn in_one_place_nothing_is_glued_to_an_unfinished_line() {
    let steps = [("print:stdout:ask:", "ask:"), ("err:oh", "oh\n"), ("say:yes say:end", "end\n")];
    let (_, both) = in_one_file("-p", &steps);
    assert_eq!(both, "stdout | ask:\nstderr | oh\nstdout | yes\nstdout | end\n");
    // Apart, no line is cut.
    let steps = "print:stdout:ask: err:oh say:yes say:end";
    let ran = runcast("-p").puppet(steps).run().exited(0);
    assert_eq!(ran.out(), "stdout | ask:yes\nstdout | end\n");
}

#[test]
fn what_stopped_a_run_is_told_at_the_start_of_a_line() {
    for (options, begin) in [("-t 0.3", "half"), ("-p -t 0.3", "stdout | half")] {
        let (ran, both) = in_one_file(options, &[("print:stdout:half sleep", "half")]);
        assert_eq!(ran.code(), Some(124));
        assert_eq!(
            both,
            format!("{begin}\nruncast: run stopped: it ran longer than --timeout 300ms\n")
        );
        // Where it is told elsewhere, the output stays exact.
        let ran = runcast(options).puppet("print:stdout:half sleep").run().exited(124);
        assert_eq!(ran.out(), begin);
        ran.said_one_line("--timeout");
    }
}

#[test]
fn a_line_ends_as_split_says() {
    let ran = runcast("-p --split=cr").puppet("print:stdout:1%\\r2%\\r\\nend").run().exited(0);
    assert_eq!(ran.out(), "stdout | 1%\rstdout | 2%\r\nstdout | end");
    let ran = runcast("-p --split=nul").puppet("print:stdout:a\\nb\\0c\\0").run().exited(0);
    assert_eq!(ran.out(), "stdout | a\nb\0stdout | c\0");
}

#[test]
fn much_output_keeps_every_byte() {
    let ran = runcast("-p").puppet("lines:stdout:30000 lines:stderr:30000").run().exited(0);
    for (out, name) in [(ran.out(), "stdout | "), (ran.err(), "stderr | ")] {
        let bare: Option<Vec<_>> = out.lines().map(|line| line.strip_prefix(name)).collect();
        let bare = bare.expect("each line has its prefix");
        let is_next =
            |(number, line): (usize, &&str)| **line == format!("{number:07} some text on the line");
        assert_eq!(bare.len(), 30_000);
        assert!(bare.iter().enumerate().all(is_next));
    }
}

#[test]
fn a_time_is_when_the_line_was_read() {
    let before = Timestamp::now();
    let ran = runcast("-T").puppet("say:x").run().exited(0);
    let out = ran.out();
    let (time, line) = out.split_once(' ').expect("there is a time");
    assert_eq!(line, "x\n");
    assert_eq!((time.len(), time.ends_with('Z')), ("2026-11-30T12:00:00.000000Z".len(), true));
    let time: Timestamp = time.parse().expect("it is RFC 3339");
    assert!(before < time && time < Timestamp::now(), "{out}");
}

#[test]
fn local_times_are_those_of_the_time_zone() {
    let ran = runcast("-Tlocal").env("TZ", "XXX-3:30").puppet("say:x").run().exited(0);
    let out = ran.out();
    let time = out.strip_suffix("+03:30 x\n").unwrap_or_else(|| panic!("{out}"));
    assert_eq!(time.len(), "2026-11-30T12:00:00.000000".len());
    // As strftime(3) has it in the POSIX locale.
    let ran = runcast("").arg("-T%c|%x|%X|%r|").env("TZ", "UTC").puppet("say:x").run().exited(0);
    let line = ran.out();
    let parts: Vec<&str> = line.split('|').collect();
    let times = ["%a %b %e %H:%M:%S %Y", "%m/%d/%y", "%H:%M:%S", "%I:%M:%S %p"];
    for (part, pattern) in parts.iter().zip(times) {
        assert!(BrokenDownTime::parse(pattern, part).is_ok(), "{part} is not {pattern}");
    }
    assert_eq!(parts[4], " x\n");
    let ran = runcast("").arg("-T[%Z %H]").env("TZ", "XXX-3:30").puppet("say:x").run().exited(0);
    let out = ran.out();
    assert!(out.starts_with("[XXX ") && out.ends_with("] x\n"), "{out}");
}

#[test]
fn seconds_are_since_the_start_or_since_the_line_before() {
    let seconds = |options: &str| -> Vec<f64> {
        let ran = runcast(options).puppet("sleep:100 say:a sleep:200 say:b\\nc").run().exited(0);
        let out = ran.out();
        let lines = out.lines().map(|line| line.split_at(11));
        assert_eq!(lines.clone().map(|(_, line)| line).collect::<String>(), " a b c");
        lines.map(|(time, _)| time.trim_start().parse().expect("a number")).collect()
    };
    let [first, second, third] = seconds("--timestamps=elapsed")[..] else { panic!() };
    assert!(0.1 <= first && 0.3 <= second && third == second, "{first} {second} {third}");
    let [first, second, third] = seconds("--timestamps=delta")[..] else { panic!() };
    assert!(0.1 <= first && 0.3 <= first + second && third == 0.0, "{first} {second} {third}");
}

#[test]
fn the_time_comes_before_the_prefix() {
    let ran = runcast("-p -T%%").puppet("say:x").run().exited(0);
    assert_eq!(ran.out(), "% stdout | x\n");
}

#[test]
fn chunks_have_a_time_when_it_is_asked_for() {
    let ran = ndjson("-Telapsed").puppet("say:x sleep:20 err:y").run().exited(0);
    let start: Timestamp = ran.of("started")[0].text("time").parse().expect("it is RFC 3339");
    let chunks = ran.of("chunk");
    assert_eq!(chunks.len(), 2);
    for chunk in chunks {
        let time: Timestamp = chunk.text("time").parse().expect("it is RFC 3339");
        let since = time.duration_since(start).as_secs_f64();
        let t = chunk["t"].as_f64().expect("a number");
        assert!((since - t).abs() < 0.000_002, "{since} {t}");
    }
    let plain = ndjson("").puppet("say:x").run().exited(0);
    assert!(!plain.out().contains("\"content\":\"x\\n\",\"time\""), "{plain}");
}

#[test]
fn result_and_recording_have_no_prefix() {
    let folder = scratch();
    let [result, record] = ["result", "record"].map(|name| folder.path().join(name));
    let ran = runcast("-p -T --color=always")
        .arg(format!("--result={}", result.display()))
        .arg(format!("--record={}", record.display()))
        .puppet("say:x")
        .run()
        .exited(0);
    assert!(ran.out().contains(" stdout | "), "{ran}");
    assert_eq!(result_in(&result).text("stdout"), "x\n");
    let events = Event::lines(&fs::read(&record).expect("it was written"));
    let chunk = events.iter().find(|event| event["op"] == "chunk").expect("there was output");
    assert_eq!(chunk.text("content"), "x\n");
}

#[test]
fn a_secret_is_hidden_in_a_prefix_too() {
    let run = runcast("--mask-env=TOKEN -phush:{seq}:").env("TOKEN", "hush");
    assert_eq!(run.puppet("say:hush").run().exited(0).out(), "***:1:***\n");
}

#[test]
fn other_formats_have_no_prefix() {
    let ran = ndjson("-p").puppet("say:x").run().exited(0);
    assert_eq!(ran.contents("stdout"), ["x\n"]);
    assert_eq!(runcast("-q -p -T").puppet("say:x").run().exited(0).out(), "");
}

#[test]
fn the_result_on_standard_output_has_a_line_of_its_own() {
    let ran = runcast("-p --result=-").puppet("print:stdout:half").run().exited(0);
    let out = ran.out();
    let (shown, result) = out.split_once('\n').expect("there are two lines");
    assert_eq!(shown, "stdout | half");
    assert_eq!(Event::lines(result.as_bytes())[0].text("stdout"), "half");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    for (option, why) in [
        ("-p{name}", "unknown placeholder {name}"),
        ("--prefix={stream", "a { without its }"),
        ("-T%!", "--timestamps"),
        ("-Tiso8601", "neither iso, local, elapsed, delta"),
        ("--color=sometimes", "--color"),
        ("--progress=sometimes", "--progress"),
    ] {
        runcast("").arg(option).puppet("say:x").run().refused_usage(why);
    }
}

#[test]
fn a_reader_that_goes_away_ends_a_run_with_prefixes_too() {
    let mut run = runcast("-p").puppet("flood:stdout").start();
    run.line();
    run.close_stdout();
    run.finish().exited(141);
}

#[test]
fn a_full_disk_is_told_with_prefixes_too() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let ran = runcast("-p").stdout(full).puppet("say:x").run().exited(125);
    ran.said_one_line("standard output");
}

#[test]
fn what_a_stopped_runs_reader_did_not_take_is_counted_without_prefixes() {
    let folder = scratch();
    let path = folder.path().join("result");
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    let ran = runcast("-p -t 0.5 -k 0.2")
        .arg(format!("--result={}", path.display()))
        .stdout(writer)
        .puppet("flood:stdout")
        .run()
        .exited(124);
    let taken = std::io::read_to_string(reader).expect("it is text");
    let whole = taken.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let taken_bytes: u64 = whole.map(|line| (line.len() - "stdout | ".len()) as u64).sum();
    let result = result_in(&path);
    let number = |name: &str| result[name].as_u64().unwrap_or_else(|| panic!("{name}: {ran}"));
    assert!(taken_bytes > 0);
    assert_eq!(number("undelivered_bytes"), number("stdout_bytes") - taken_bytes);
}

const CYAN: &str = "\x1b[36m";
const MAGENTA: &str = "\x1b[35m";
const PLAIN: &str = "\x1b[0m";

#[test]
fn prefixes_have_a_colour_for_each_stream_where_that_is_wanted() {
    let shown = |options: &str, variable: &str| {
        let name_and_value = variable.split_once('=').expect("it is an assignment");
        let run = runcast(options).env(name_and_value.0, name_and_value.1);
        let ran = run.puppet("say:\\x1b[31mred err:b").run().exited(0);
        (ran.out(), ran.err())
    };
    let plain = ("stdout | \x1b[31mred\n".to_owned(), "stderr | b\n".to_owned());
    let coloured =
        (format!("{CYAN}stdout | {PLAIN}\x1b[31mred\n"), format!("{MAGENTA}stderr | {PLAIN}b\n"));
    for (options, variable, expected) in [
        ("-p", "TERM=xterm", &plain),
        ("-p --color=always", "NO_COLOR=1", &coloured),
        ("-p", "CLICOLOR_FORCE=1", &coloured),
        ("-p", "CLICOLOR_FORCE=0", &plain),
        ("-p --color=never", "CLICOLOR_FORCE=1", &plain),
    ] {
        assert_eq!(&shown(options, variable), expected, "{options} {variable}");
    }
}

#[test]
fn on_a_terminal_prefixes_are_coloured_unless_the_environment_says_no() {
    for (variable, expected) in [
        ("TERM=xterm", format!("{CYAN}stdout | {PLAIN}x\r\n")),
        ("NO_COLOR=1", "stdout | x\r\n".to_owned()),
        ("CLICOLOR=0", "stdout | x\r\n".to_owned()),
    ] {
        let mut terminal = Terminal::new();
        let (name, value) = variable.split_once('=').expect("it is an assignment");
        let run = runcast("-p").env("TERM", "xterm").env(name, value).stdout(terminal.stream());
        let run = run.puppet("say:x").start();
        assert_eq!(terminal.all(), expected, "{variable}");
        // What is not on the terminal is not in colour.
        assert_eq!(run.finish().exited(0).err(), "");
    }
}

/// A run on a terminal, both streams of it.
fn on(terminal: &Terminal, options: &str, steps: &str) -> Live {
    let run = runcast(options).stdout(terminal.stream()).stderr(terminal.stream());
    run.puppet(steps).start()
}

#[test]
fn the_status_line_tells_how_far_a_run_is() {
    let gate = Gate::new();
    let mut terminal = Terminal::new();
    let steps = format!("say:a say:b {gate} say:c");
    let run = on(&terminal, "--progress=auto -t 100", &steps);
    terminal.until("00:00:00 / 00:01:40 | 2 lines | 4 B | last output 0s ago");
    // It is drawn once a second, and may pass over a number.
    let mut ago = String::from("0");
    while ago == "0" {
        terminal.until(" / 00:01:40 | 2 lines | 4 B | last output ");
        ago = terminal.until("s ago").replace("s ago", "");
    }
    assert!(ago.parse::<u32>().is_ok(), "{ago}");
    gate.open();
    run.finish().exited(0);
    // At the end it is gone.
    assert_eq!(terminal.lines(), ["a", "b", "c", ""]);
}

#[test]
fn the_status_line_waits_for_the_first_output_and_is_there_when_nothing_is_shown() {
    let mut terminal = Terminal::new();
    let run = on(&terminal, "-q --progress=always", "say:x sleep:400");
    terminal.until("00:00:00 | 1 line | 2 B | ");
    run.finish().exited(0);
    assert_eq!(terminal.lines(), [""]);
    let mut terminal = Terminal::new();
    let run = on(&terminal, "--progress=auto", "sleep:400");
    terminal.until("00:00:00 | 0 lines | 0 B | no output yet");
    run.finish().exited(0);
}

#[test]
fn the_status_line_never_mixes_with_the_output() {
    for options in ["--progress=auto", "--progress=auto -p"] {
        let mut terminal = Terminal::new();
        let steps = "repeat:30 { say:whole%i sleep:10 print:stdout:half sleep:10 say:%i }";
        let run = on(&terminal, options, steps);
        terminal.until(" lines | ");
        run.finish().exited(0);
        let prefix = if options.ends_with("-p") { "stdout | " } else { "" };
        let line = |i| ["whole", "half"].map(|kind| format!("{prefix}{kind}{i}"));
        let expected: Vec<String> = (0..30).flat_map(line).chain([String::new()]).collect();
        assert_eq!(terminal.lines(), expected, "{options}");
    }
}

#[test]
fn the_status_line_does_not_touch_a_prompt() {
    let mut terminal = Terminal::new();
    let run =
        on(&terminal, "--progress=auto", "say:a sleep:300 print:stdout:password:\\s sleep:300");
    terminal.until("password: ");
    run.finish().exited(0);
    assert!(terminal.all().ends_with("\x1b[2Kpassword: "), "{}", terminal.all());
}

#[test]
fn output_elsewhere_leaves_the_status_line_where_it_is() {
    let mut terminal = Terminal::new();
    let run = runcast("--progress=auto").stderr(terminal.stream());
    let run = run.puppet("repeat:40 { say:x sleep:10 }").start();
    terminal.until(" lines | ");
    let ran = run.finish().exited(0);
    assert_eq!(ran.out(), "x\n".repeat(40));
    assert_eq!(terminal.lines(), [""]);
}

#[test]
fn the_status_line_is_gone_however_the_run_ends() {
    // A signal.
    let mut terminal = Terminal::new();
    let run = on(&terminal, "--progress=auto", "say:a sleep");
    terminal.until("1 line");
    run.signal(Signal::SIGTERM);
    run.finish().exited(143);
    assert_eq!(terminal.lines(), ["a", ""]);
    // A timeout.
    let mut terminal = Terminal::new();
    on(&terminal, "--progress=auto -t 0.5", "say:a sleep").finish().exited(124);
    let stopped = "runcast: run stopped: it ran longer than --timeout 500ms";
    assert!(terminal.all().contains("1 line"));
    assert_eq!(terminal.lines(), ["a", stopped, ""]);
    // A recording that ends on the way, and output that cannot be written.
    let mut terminal = Terminal::new();
    let run = on(&terminal, "--progress=auto --record=/dev/full", "sleep:400 say:a");
    terminal.until("0 lines");
    run.finish().exited(0);
    let lines = terminal.lines();
    assert!(lines[0].starts_with("runcast: --record /dev/full: "), "{lines:?}");
    assert_eq!(lines[1..], ["a", ""]);
    let mut terminal = Terminal::new();
    let full = OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let run = runcast("--progress=auto").stdout(full).stderr(terminal.stream());
    let run = run.puppet("sleep:400 say:a").start();
    terminal.until("0 lines");
    run.finish().exited(125);
    let lines = terminal.lines();
    assert!(lines[0].starts_with("runcast: standard output: ") && lines[1..] == [""], "{lines:?}");
}

#[test]
fn the_status_line_is_no_longer_than_the_terminal_is_wide() {
    let mut terminal = Terminal::of_size(20, 24);
    let run = on(&terminal, "--progress=auto", "say:a sleep:400");
    terminal.until(" | 1 line |");
    run.finish().exited(0);
    let drawn = terminal.all();
    let widest =
        drawn.split(['\r', '\n']).map(|part| part.trim_start_matches("\x1b[2K").len()).max();
    assert_eq!(widest, Some(19), "{drawn:?}");
    assert_eq!(terminal.lines(), ["a", ""]);
}

#[test]
fn there_is_no_status_line_but_under_text_on_a_terminal() {
    let steps = "say:x sleep:400";
    for options in ["--progress=auto", "--progress=always"] {
        let ran = runcast(options).puppet(steps).run().exited(0);
        assert_eq!((ran.out(), ran.err()), ("x\n".to_owned(), String::new()));
    }
    for options in ["", "--progress=never", "-f ndjson --progress=always"] {
        let mut terminal = Terminal::new();
        let run = runcast(options).stderr(terminal.stream()).puppet(steps).start();
        run.finish().exited(0);
        assert_eq!(terminal.all(), "", "{options}");
    }
    let mut terminal = Terminal::new();
    let run = runcast("--progress=auto").env("TERM", "dumb").stderr(terminal.stream());
    run.puppet(steps).run().exited(0);
    assert_eq!(terminal.all(), "");
}

#[test]
fn a_terminal_that_takes_nothing_holds_up_no_timeout() {
    let terminal = Terminal::new();
    let run = runcast("--progress=auto -t 0.5 -k 0.3").stderr(terminal.stream());
    // Nobody reads what is on it: the terminal fills up.
    let run = run.puppet("forever { fill:stderr:4K:x\\n }").start();
    run.finish().exited(124);
    drop(terminal);
}
