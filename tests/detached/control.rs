//! The control socket: whatever is sent to it, the keeper lives, hears the others, and stays small.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Home;
use crate::harness::{LIMIT, let_pass, peak_rss_bytes, wait_until};

/// What the keeper may take with anything that is done to it: what is held for the command, what each connection
/// may hold, and itself.
const MOST_BYTES: u64 = 48 << 20;

/// Checks that the keeper hears us and has not grown.
#[track_caller]
fn is_well(home: &Home, id: &str) {
    home.runcast(&format!("signal {id} USR1")).run().exited(0);
    assert!(peak_rss_bytes(home.keeper(id)) < MOST_BYTES, "{}", peak_rss_bytes(home.keeper(id)));
}

fn well_home() -> Home {
    let home = Home::new();
    home.start_with("c", "--stdin open", "ignore:USR1 say:up sleep");
    home.reader("", "c").line();
    home
}

fn answer(mut stream: UnixStream) -> String {
    stream.set_read_timeout(Some(LIMIT)).expect("it can be set");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered or ended");
    answer
}

#[test]
fn what_makes_no_sense_ends_its_connection_and_nothing_else() {
    let home = well_home();
    for nonsense in [
        &b"\n"[..],
        b"nonsense\n",
        b"{}\n",
        b"[]\n",
        b"{\"op\":\"unknown\"}\n",
        b"{\"op\":\"signal\"}\n",
        b"{\"op\":\"signal\",\"signal\":7}\n",
        b"{\"op\":\"part\",\"bytes\":1}\nx",
        b"{\"op\":\"end\",\"eof\":true}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":18446744073709551615}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":1048577}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":-1}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"send\"}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"stop\"}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":1e999}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":0.5}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":99999999999999999999999999999999}\n",
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":1,\"offset\":-1}\nx",
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":1,\"offset\":18446744073709551616}\nx",
        b"{\"op\":\"signal\",\"signal\":\"\xff\"}\n",
        b"{\"op\":\"signal\",\"signal\":\"\\ud800\"}\n",
        b"{\"op\":\"stop\",\"op\":\"stop\",\"x\":[[[}\n",
        b"\0\0\0\0\n",
        b"\xff\xfe\n",
    ] {
        let mut stream = home.connect("c");
        stream.write_all(nonsense).expect("it listens");
        assert_eq!(answer(stream), "", "{}", nonsense.escape_ascii());
    }
    let mut stream = home.connect("c");
    stream.write_all(b"{\"op\":\"signal\",\"signal\":\"NONE\"}\n").expect("it listens");
    assert!(answer(stream).contains("\"code\":\"usage\""));
    // A place that is as far off as can be is told, and moves nothing.
    let mut stream = home.connect("c");
    let far =
        b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":1,\"offset\":18446744073709551615}\nx";
    stream.write_all(far).expect("it listens");
    assert!(answer(stream).contains("\"code\":\"offset_gap\""));
    let ran = home.send("--offset 18446744073709551615 -f ndjson", "c", b"x");
    ran.failed(125, "offset_gap", "0 bytes");
    let mut stream = home.connect("c");
    let deep = format!("{}\n", "[".repeat(4000));
    stream.write_all(deep.as_bytes()).expect("it listens");
    assert_eq!(answer(stream), "");
    is_well(&home, "c");
    assert_eq!(home.state("c"), "running");
}

#[test]
fn a_message_without_end_is_not_kept() {
    let home = well_home();
    let mut streams: Vec<UnixStream> = (0..20).map(|_| home.connect("c")).collect();
    for stream in &mut streams {
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..8 {
            // It is cut on the way.
            if stream.write_all(&chunk).is_err() {
                break;
            }
        }
    }
    is_well(&home, "c");
}

#[test]
fn whoever_sends_without_end_does_not_keep_others_from_being_heard() {
    let home = well_home();
    // They go on for as long as the others are not heard.
    let is_heard = Arc::new(AtomicBool::new(false));
    let mut floods = Vec::new();
    for _ in 0..4 {
        let mut stream = home.connect("c");
        stream.write_all(b"{\"op\":\"watch\"}\n").expect("it listens");
        let is_heard = Arc::clone(&is_heard);
        floods.push(std::thread::spawn(move || {
            let chunk = vec![b'x'; 64 << 10];
            while !is_heard.load(Ordering::Relaxed) {
                stream.write_all(&chunk).expect("it takes all that is said");
            }
        }));
    }
    is_well(&home, "c");
    is_heard.store(true, Ordering::Relaxed);
    for flood in floods {
        flood.join().expect("it only writes");
    }
    is_well(&home, "c");
}

#[test]
fn thousands_of_connections_that_say_nothing_or_half_a_thing_keep_nobody_out() {
    let home = well_home();
    let mut held = Vec::new();
    for at in 0..3000 {
        let mut stream = home.connect("c");
        // The keeper may have ended it already to make room.
        let _ = match at % 4 {
            0 => Ok(()),
            1 => stream.write_all(b"{\"op\":\"sig"),
            2 => stream.write_all(b"{\"op\":\"watch\"}\n"),
            _ => stream.write_all(b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":60000}\nhalf"),
        };
        held.push(stream);
        // Of one process there can be no more; the older ones go while the younger come.
        if held.len() > 900 {
            held.drain(..300);
        }
    }
    is_well(&home, "c");
    let mut reader = home.reader("", "c");
    assert_eq!(reader.line(), "up");
    drop(held);
    is_well(&home, "c");
    home.runcast("signal --stop c").run().exited(0);
    assert_eq!(reader.finish().code(), Some(143));
}

#[test]
fn a_keeper_with_few_descriptors_hears_on_and_writes_its_result() {
    let home = Home::new();
    let run = home.runcast("-d --id few --stdin open").launched("limit:nofile:64:64");
    run.puppet("ignore:USR1 say:up read-line exit:5").run().exited(0);
    home.reader("", "few").line();
    let held: Vec<UnixStream> = (0..200).map(|_| home.connect("few")).collect();
    is_well(&home, "few");
    assert_eq!(home.send("", "few", b"go\n").exited(0).out(), "{\"op\":\"stdin\",\"offset\":3}\n");
    assert_eq!(home.result("few")["exit_code"], 5);
    drop(held);
}

#[test]
fn input_whose_sender_vanishes_is_taken_as_far_as_it_came_and_not_waited_for() {
    let home = Home::new();
    home.start_with("v", "--stdin open", "say:up sleep:300 cat");
    home.reader("", "v").line();
    let mut stream = home.connect("v");
    stream
        .write_all(b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":6,\"offset\":0}\nwhole\n{\"op\":\"part\",\"bytes\":60,\"offset\":6}\nhalf")
        .expect("it listens");
    drop(stream);
    // The next goes on where that one came to, whatever that is.
    let ran = home.send("--offset 0 --eof", "v", b"whole\nhalf and the rest\n").exited(0);
    assert_eq!(ran.out(), "{\"op\":\"stdin\",\"offset\":24}\n");
    assert_eq!(home.attach("", "v").exited(0).out(), "up\nwhole\nhalf and the rest\n");
}

#[test]
fn a_sender_that_vanishes_while_there_is_no_room_costs_no_processor_time() {
    let home = well_home();
    let mut stream = home.connect("c");
    stream.write_all(b"{\"op\":\"send\"}\n").expect("it listens");
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("it can be set");
    let part = [&b"{\"op\":\"part\",\"bytes\":65536}\n"[..], &[b'x'; 65536]].concat();
    while stream.write_all(&part).is_ok() {}
    drop(stream);
    let keeper = home.keeper("c");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{keeper}/stat")).expect("it lives");
        let fields = stat.rsplit_once(')').expect("a name in brackets").1;
        let times = fields.split_ascii_whitespace().skip(11).take(2);
        times.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>()
    };
    // What it does about that at once does not count, and then it has nothing to do for so long.
    let_pass(100);
    let before = ticks();
    let_pass(500);
    assert!(ticks() - before < 10, "{} hundredths of a second", ticks() - before);
    is_well(&home, "c");
}

#[test]
fn many_who_send_at_once_while_the_command_does_not_read_take_little_memory() {
    let home = well_home();
    let mut senders = Vec::new();
    for _ in 0..300 {
        let mut stream = home.connect("c");
        stream.set_nonblocking(true).expect("it can be set");
        let part = [&b"{\"op\":\"send\"}\n{\"op\":\"part\",\"bytes\":65536}\n"[..], &[b'x'; 65536]]
            .concat();
        // As much as it takes.
        let _ = stream.write(&part);
        senders.push(stream);
    }
    is_well(&home, "c");
    drop(senders);
    home.runcast("signal c KILL").run().exited(0);
    wait_until("its end", || home.state("c") == "SIGKILL");
}
