//! Snapshots of the growing output, and signs of life.

use crate::harness::{ndjson, runcast};

fn snapshots<'r>(ran: &'r crate::harness::Ran, kind: &str) -> Vec<&'r str> {
    let kind = kind.to_owned();
    ran.of("snapshot").into_iter().map(move |event| event.text(&kind)).collect()
}

#[test]
fn each_shows_all_that_came_and_the_first_comes_at_once() {
    let ran = runcast("-f snapshot --snapshot-every 1ms")
        .command([
            "sh",
            "-c",
            "echo one; sleep 0.3; echo two; echo warn >&2; sleep 0.3; printf end",
        ])
        .run()
        .exited(0);
    assert_eq!(ran.events()[0].text("op"), "started");
    let shown = snapshots(&ran, "stdout");
    assert_eq!(shown.first(), Some(&"one\n"));
    assert!(shown.contains(&"one\ntwo\n"), "{shown:?}");
    assert!(shown.windows(2).all(|pair| pair[1].starts_with(pair[0])), "{shown:?}");
    assert!(snapshots(&ran, "stderr").contains(&"warn\n"));
    assert_eq!(ran.result().text("stdout"), "one\ntwo\nend");
    assert!(ran.of("snapshot").iter().all(|event| event["exit_code"].is_null()));
}

#[test]
fn there_are_few_of_them_however_much_comes() {
    let ran =
        runcast("-f snapshot --snapshot-every 1h").puppet("lines:stdout:100000").run().exited(0);
    assert_eq!(ran.of("snapshot").len(), 1);
    assert_eq!(ran.result().number("stdout_lines"), 100_000);
}

#[test]
fn what_came_in_an_interval_is_shown_when_it_is_over_though_nothing_more_comes() {
    let mut live = runcast("-f snapshot --snapshot-every 300ms")
        .command(["sh", "-c", "echo one; sleep 0.05; echo two; sleep 30"])
        .start();
    while live.event_of("snapshot")["stdout"] != "one\ntwo\n" {}
    drop(live);
}

#[test]
fn one_is_cut_as_the_result_is_and_says_so() {
    let ran = runcast("-f snapshot --max-output 10 --keep tail --snapshot-every 1ms")
        .command(["sh", "-c", "echo 0123456789abcdef; sleep 0.2; echo x"])
        .run()
        .exited(0);
    let first = ran.of("snapshot")[0];
    assert_eq!(first.text("stdout"), "789abcdef\n");
    assert_eq!((first.number("stdout_bytes"), first.number("stderr_bytes")), (17, 0));
    assert_eq!(first["stdout_truncated"], true);
    assert_eq!(first["stderr_truncated"], false);
    let whole = runcast("-f snapshot").command(["echo", "x"]).run().exited(0);
    assert!(whole.of("snapshot")[0]["stdout_truncated"].is_null());
}

#[test]
fn a_character_that_came_by_half_is_not_shown_by_half() {
    let ran = runcast("-f snapshot --snapshot-every 1ms")
        .command(["sh", "-c", r"printf 'a\303'; sleep 0.3; printf '\244'; sleep 0.2"])
        .run()
        .exited(0);
    let shown = snapshots(&ran, "stdout");
    assert_eq!(shown.first(), Some(&"a"));
    assert_eq!(ran.result().text("stdout"), "aä");
}

#[test]
fn half_a_character_is_nothing_new() {
    let ran = runcast("-f snapshot --snapshot-every 1ms")
        .command([
            "sh",
            "-c",
            r"printf '\303'; sleep 0.3; printf '\244a'; sleep 0.3; printf '\303'",
        ])
        .run()
        .exited(0);
    assert_eq!(snapshots(&ran, "stdout"), ["äa"]);
    assert_eq!(ran.result().number("stdout_bytes"), 4);
}

#[test]
fn a_sign_of_life_comes_when_nothing_else_does() {
    let mut live = ndjson("--heartbeat 50ms").command(["sh", "-c", "echo four; sleep 30"]).start();
    live.event_of("chunk");
    let first = live.event_of("heartbeat");
    let second = live.event_of("heartbeat");
    assert_eq!((&first["stdout_bytes"], &first["stderr_bytes"]), (&5.into(), &0.into()));
    let number = |event: &serde_json::Value, name: &str| event[name].as_f64().expect("a number");
    assert!(number(&second, "t") - number(&first, "t") >= 0.05);
    assert!(number(&second, "idle") > number(&first, "idle"));
    drop(live);
    assert!(ndjson("").command(["sleep", "0.3"]).run().of("heartbeat").is_empty());
}
