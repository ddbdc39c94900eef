//! Many runs: one after the other and all at once, each with its own status and none with a trace.

use crate::harness::{Live, Mark, ndjson, runcast};

#[test]
fn five_hundred_runs_in_a_row_each_end_as_they_should() {
    let mark = Mark::new();
    for number in 0..500 {
        let steps = format!("say:{number} exit:{}", number % 256);
        let ran = ndjson("").puppet(&steps).marked(&mark).run().exited(number % 256);
        assert_eq!(ran.contents("stdout"), [format!("{number}\n")]);
        assert_eq!(ran.result()["exit_code"], number % 256);
    }
    assert!(mark.processes().is_empty());
}

#[test]
fn two_hundred_runs_at_once_each_end_as_they_should() {
    let mark = Mark::new();
    let options = ["", "-t 60", "--merge", "--leftover wait"];
    let lives: Vec<Live> = (0..200)
        .map(|number| {
            let steps =
                format!("fork {{ say:child }} lines:stdout:100 err:{number} reap exit:{number}");
            ndjson(options[number % options.len()]).puppet(&steps).marked(&mark).start()
        })
        .collect();
    for (number, live) in lives.into_iter().enumerate() {
        let ran = live.finish().exited(i32::try_from(number).expect("small"));
        assert_eq!(ran.of("chunk").len(), 102, "{ran}");
        assert_eq!(ran.result()["leaked"], false);
    }
    assert!(mark.processes().is_empty());
}

#[test]
fn fifty_timeouts_at_once_leave_nothing() {
    let mark = Mark::new();
    let steps = "fork { setsid ignore:TERM sleep } fork { raise:STOP } trap:TERM sleep";
    let lives: Vec<Live> =
        (0..50).map(|_| runcast("-t 0.5 -k 0.5").puppet(steps).marked(&mark).start()).collect();
    for live in lives {
        live.finish().exited(124);
    }
    assert!(mark.processes().is_empty());
}
