//! Lines and chunks: what the command writes comes out live, whole and in order.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof};
use proptest::test_runner::Config;
use proptest::{collection, proptest};

use crate::harness::{let_pass, ndjson, runcast, scratch, text, tool};

#[test]
fn each_line_is_one_chunk_with_its_end() {
    let ran = ndjson("").puppet("say:one say:two err:warn").run().exited(0);
    assert_eq!(ran.contents("stdout"), ["one\n", "two\n"]);
    assert_eq!(ran.contents("stderr"), ["warn\n"]);
    assert_eq!(ran.result()["stdout"], "one\ntwo\n");
    assert_eq!(ran.result()["stderr"], "warn\n");
    assert_eq!([ran.result().number("stdout_lines"), ran.result().number("stderr_lines")], [2, 1]);
}

#[test]
fn chunks_of_both_streams_are_counted_together_without_a_gap() {
    let ran = ndjson("").puppet("fork { lines:stderr:500 } lines:stdout:500 reap").run().exited(0);
    assert_eq!(ran.of("chunk").len(), 1000);
}

#[test]
fn a_command_without_output_has_no_chunks() {
    let ran = ndjson("").puppet("exit:0").run().exited(0);
    assert_eq!(ran.events().len(), 2);
    assert_eq!(ran.result().number("stdout_bytes"), 0);
}

#[test]
fn empty_lines_are_lines() {
    let ran = ndjson("").puppet("print:stdout:\\n\\n\\n").run();
    assert_eq!(ran.contents("stdout"), ["\n", "\n", "\n"]);
}

#[test]
fn a_last_line_without_end_is_not_partial_and_gets_none() {
    let ran = ndjson("").puppet("print:stdout:a\\nend").run();
    assert_eq!(ran.contents("stdout"), ["a\n", "end"]);
    assert_eq!(ran.result().number("stdout_lines"), 2);
    assert_eq!(runcast("").puppet("print:stdout:a\\nend").run().out(), "a\nend");
}

#[test]
fn a_line_is_shown_while_the_command_still_runs() {
    let folder = scratch();
    let seen = folder.path().join("seen");
    for format in ["text", "ndjson"] {
        let steps = format!("say:first err:second wait-file:{} say:last", seen.display());
        let mut live = runcast(&format!("-f {format}")).puppet(&steps).start();
        if format == "text" {
            assert_eq!([live.line(), live.error_line()], ["first", "second"]);
        } else {
            let mut shown = [(); 2].map(|()| live.event_of("chunk")["content"].to_string());
            shown.sort();
            assert_eq!(shown, ["\"first\\n\"", "\"second\\n\""]);
        }
        std::fs::write(&seen, "").expect("the scratch folder is ours");
        assert!(live.finish().exited(0).out().contains("last"));
        std::fs::remove_file(&seen).expect("it was just made");
    }
}

#[test]
fn text_holds_no_byte_back() {
    let folder = scratch();
    let seen = folder.path().join("seen");
    let steps = format!("print:stdout:password:\\s wait-file:{} say:ok", seen.display());
    for options in ["", "--partial-after never"] {
        let mut live = runcast(options).puppet(&steps).start();
        assert_eq!(live.until("password: "), "password: ");
        std::fs::write(&seen, "").expect("the scratch folder is ours");
        assert_eq!(live.finish().out(), "password: ok\n");
        std::fs::remove_file(&seen).expect("it was just made");
    }
}

#[test]
fn an_unfinished_line_goes_out_partial_while_the_command_waits() {
    let folder = scratch();
    let seen = folder.path().join("seen");
    let steps =
        format!("print:stdout:loading\\s wait-file:{} print:stdout:done\\n", seen.display());
    for options in ["", "--partial-after 0", "--partial-after 50ms"] {
        let mut live = ndjson(options).puppet(&steps).start();
        let chunk = live.event_of("chunk");
        assert_eq!((&chunk["content"], &chunk["partial"]), (&"loading ".into(), &true.into()));
        std::fs::write(&seen, "").expect("the scratch folder is ours");
        let ran = live.finish();
        assert_eq!(ran.pieces("stdout"), [("loading ", true), ("done\n", false)]);
        assert_eq!(ran.result().number("stdout_lines"), 1);
        std::fs::remove_file(&seen).expect("it was just made");
    }
}

#[test]
fn an_unfinished_line_waits_for_its_end_where_partial_after_is_never() {
    let steps = "print:stdout:loading\\s sleep:400 print:stdout:done\\n";
    let ran = ndjson("--partial-after never").puppet(steps).run();
    assert_eq!(ran.contents("stdout"), ["loading done\n"]);
}

#[test]
fn each_stream_has_an_unfinished_line_of_its_own() {
    let steps = "print:stdout:a print:stderr:1 print:stdout:b\\n print:stderr:2\\n";
    let ran = ndjson("--partial-after never").puppet(steps).run();
    assert_eq!(ran.contents("stdout"), ["ab\n"]);
    assert_eq!(ran.contents("stderr"), ["12\n"]);
}

#[test]
fn a_line_that_the_reader_holds_up_is_not_partial() {
    // The puppet's writes end within lines, and runcast stalls with one unfinished for longer than 200 ms.
    let live = ndjson("").puppet("lines:stdout:40000").start();
    let_pass(600);
    let ran = live.finish().exited(0);
    assert_eq!(ran.contents("stdout").len(), 40000);
}

#[test]
fn a_character_written_in_two_halves_stays_whole() {
    for options in ["--partial-after 0", "--partial-after 20ms", ""] {
        let ran = ndjson(options)
            .puppet("print:stdout:x\\xe2 sleep:300 print:stdout:\\x82\\xac\\n")
            .run();
        let joined: String = ran.pieces("stdout").iter().map(|(content, _)| *content).collect();
        assert_eq!(joined, "x€\n", "{ran}");
        assert!(ran.of("chunk").iter().all(|chunk| chunk["base64"].is_null()), "{ran}");
    }
}

#[test]
fn a_character_that_stays_unfinished_comes_out_exactly() {
    let ran = ndjson("").puppet("print:stdout:x\\xe2\\x82").run().exited(0);
    assert_eq!(ran.bytes("stdout"), b"x\xe2\x82");
    let ran = ndjson("").puppet("print:stdout:\\xe2\\x82 sleep:300 print:stdout:\\n").run();
    assert_eq!(ran.bytes("stdout"), b"\xe2\x82\n");
}

#[test]
fn bytes_that_are_not_utf8_come_back_exactly_and_base64_is_only_where_it_is_needed() {
    let all: Vec<u8> = (0..=255).collect();
    let data = [&all[..], b"\nplain\n\xff\xfe\n\xe2\x82\n\xed\xa0\x80\n"].concat();
    let ran = ndjson("").puppet(&format!("print:stdout:{}", text(&data))).run().exited(0);
    assert_eq!(ran.bytes("stdout"), data);
    let plain = ran
        .of("chunk")
        .into_iter()
        .find(|chunk| chunk["content"] == "plain\n")
        .expect("the plain line is there");
    assert!(plain["base64"].is_null());
    assert_eq!(ran.result().kept("stdout"), data);
}

#[test]
fn nothing_but_lf_ends_a_line_by_default() {
    let odd = "a\0b\r\nc\rd\u{85}e\u{2028}f\u{c}g\u{b}h\n";
    let ran = ndjson("").puppet(&format!("print:stdout:{}", text(odd.as_bytes()))).run();
    let [first, second] = ran.contents("stdout")[..] else { panic!("{ran}") };
    assert_eq!((first, second), odd.split_at(odd.find('c').expect("it is there")));
}

#[test]
fn split_cr_ends_lines_at_lf_cr_and_crlf_each_once() {
    let ran = ndjson("--split cr").puppet("print:stdout:1\\r2\\r\\n3\\n\\r4\\n\\n\\r\\r").run();
    assert_eq!(ran.contents("stdout"), ["1\r", "2\r\n", "3\n", "\r", "4\n", "\n", "\r", "\r"]);
    assert_eq!(ran.result().number("stdout_lines"), 8);
}

#[test]
fn split_cr_takes_a_crlf_for_one_end_though_it_came_in_two_reads() {
    for options in ["--split cr --partial-after 10s", "--split cr --partial-after never"] {
        let ran = ndjson(options)
            .puppet("print:stdout:a\\r sleep:50 print:stdout:\\nb\\r sleep:50 print:stdout:c")
            .run();
        assert_eq!(ran.contents("stdout"), ["a\r\n", "b\r", "c"]);
    }
}

#[test]
fn split_cr_shows_a_progress_bar_as_it_moves() {
    let folder = scratch();
    let seen = folder.path().join("seen");
    let steps = format!("print:stdout:10%\\r wait-file:{} print:stdout:20%\\r", seen.display());
    let mut live = ndjson("--split cr").puppet(&steps).start();
    assert_eq!(live.event_of("chunk")["content"], "10%\r");
    std::fs::write(&seen, "").expect("the scratch folder is ours");
    assert_eq!(live.finish().bytes("stdout"), b"10%\r20%\r");
}

#[test]
fn split_nul_ends_lines_at_nul_alone() {
    let ran = ndjson("--split nul").puppet("print:stdout:a\\nb\\0c\\r\\n\\0\\0d").run();
    assert_eq!(ran.contents("stdout"), ["a\nb\0", "c\r\n\0", "\0", "d"]);
}

#[test]
fn a_line_of_exactly_max_line_is_whole_and_one_byte_more_makes_two_pieces() {
    let ran = ndjson("--max-line 10").puppet("say:0123456789 say:0123456789a say:x").run();
    assert_eq!(
        ran.pieces("stdout"),
        [("0123456789\n", false), ("0123456789", true), ("a\n", false), ("x\n", false)]
    );
    assert_eq!(ran.result().number("stdout_lines"), 3);
}

#[test]
fn a_long_line_is_cut_between_characters() {
    let ran = ndjson("--max-line 1000 --partial-after never")
        .puppet("fill:stdout:6000:é print:stdout:€\\n")
        .run();
    let pieces = ran.pieces("stdout");
    let joined: String = pieces.iter().map(|(content, _)| *content).collect();
    assert_eq!(joined, format!("{}€\n", "é".repeat(3000)));
    assert!(pieces.iter().all(|(content, _)| content.trim_end_matches('\n').len() <= 1000));
    let (last, before) = pieces.split_last().expect("there are pieces");
    assert!(before.iter().all(|(_, partial)| *partial) && !last.1);
    assert!(
        ran.of("chunk").iter().all(|chunk| chunk["base64"].is_null()),
        "a piece was cut inside a character"
    );
    assert_eq!(ran.result().number("stdout_lines"), 1);
}

#[test]
fn max_line_changes_nothing_in_text() {
    let ran =
        runcast("--max-line 7").puppet("print:stdout:0123456789 print:stdout:abcdefghij\\nk").run();
    assert_eq!(ran.out(), "0123456789abcdefghij\nk");
}

#[test]
fn text_passes_every_byte_of_each_stream_to_its_own() {
    let ran =
        runcast("").puppet("fork { pattern:stderr:300K } pattern:stdout:300K reap").run().exited(0);
    let expected: Vec<u8> = (0..=250).cycle().take(300 << 10).collect();
    assert!(ran.stdout == expected && ran.stderr == expected, "{ran}");
}

#[test]
fn both_streams_flooding_lose_nothing_and_keep_their_order() {
    let steps = "fork { lines:stderr:50000 } lines:stdout:50000 reap";
    let ran = ndjson("--partial-after never").puppet(steps).run().exited(0);
    for kind in ["stdout", "stderr"] {
        let numbers = ran
            .contents(kind)
            .into_iter()
            .map(|line| line[..7].parse::<usize>().expect("a number begins each line"));
        assert!(numbers.eq(0..50000), "{kind}");
    }
}

#[test]
fn merge_keeps_the_order_exactly_and_is_all_stdout() {
    let steps = "repeat:1000 { print:stdout:%i\\n print:stderr:%i\\n }";
    let ran = ndjson("--merge").puppet(steps).run().exited(0);
    let expected: Vec<String> = (0..2000).map(|i| format!("{}\n", i / 2)).collect();
    assert_eq!(ran.contents("stdout"), expected);
    assert_eq!(ran.result().number("stdout_bytes"), expected.concat().len() as u64);
    assert_eq!(ran.result().number("stderr_bytes"), 0);
    let ran = runcast("--merge").puppet(steps).run().exited(0);
    assert_eq!((ran.out(), ran.err()), (expected.concat(), String::new()));
}

#[test]
fn quiet_shows_nothing_and_the_result_still_has_it() {
    let steps = "say:one err:two exit:3";
    let ran = ndjson("-q").puppet(steps).run().exited(3);
    assert_eq!(
        ran.events().iter().map(|event| event.text("op")).collect::<Vec<_>>(),
        ["started", "result"]
    );
    assert_eq!((ran.result().text("stdout"), ran.result().text("stderr")), ("one\n", "two\n"));
    let ran = runcast("-q").puppet(steps).run().exited(3);
    assert_eq!((ran.out(), ran.err()), (String::new(), String::new()));
}

#[test]
fn a_command_that_sets_its_pipe_non_blocking_loses_nothing() {
    // More than is held on the way, so that the command finds its pipe full.
    let live = ndjson("--partial-after never")
        .puppet("nonblock:stdout nonblock:stderr lines:stdout:100000 err:end")
        .start();
    live.until_held_up(1);
    let ran = live.finish().exited(0);
    assert_eq!(ran.contents("stdout").len(), 100_000);
    assert_eq!(ran.contents("stderr"), ["end\n"]);
}

#[test]
fn jq_reads_every_line() {
    let Some(jq) = tool("jq") else { return };
    let ran = ndjson("")
        .puppet("say:\\x01\\x7f\"\\\\\\\\ pattern:stdout:10K err:\\xff lines:stderr:100")
        .run()
        .exited(0);
    let mut jq = Command::new(jq);
    let mut jq = jq
        .args(["-s", "length"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("jq can be started");
    jq.stdin.take().expect("it is piped").write_all(&ran.stdout).expect("jq reads all of it");
    let counted = jq.wait_with_output().expect("jq ends");
    assert_eq!(String::from_utf8_lossy(&counted.stdout).trim(), ran.events().len().to_string());
}

/// Writes to either stream, some of them a moment after the one before.
fn writes() -> impl Strategy<Value = Vec<(bool, Vec<u8>, bool)>> {
    let byte = prop_oneof![
        4 => any::<u8>(),
        2 => prop_oneof![Just(b'\n'), Just(b'\r'), Just(0), Just(b'"')],
        2 => prop_oneof![Just(0xe2), Just(0x82), Just(0xac), Just(0xf0), Just(0x9f)],
    ];
    collection::vec(
        (any::<bool>(), collection::vec(byte, 1..40), proptest::bool::weighted(0.2)),
        0..12,
    )
}

proptest! {
    #![proptest_config(Config { cases: 40, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_bytes_in_any_writes_come_out_exactly(
        writes in writes(),
        split in prop_oneof![Just("lf"), Just("cr"), Just("nul")],
        max_line in prop_oneof![Just("4"), Just("16"), Just("1M")],
        partial_after in prop_oneof![Just("0"), Just("1ms"), Just("never")],
    ) {
        let steps: Vec<String> = writes.iter().map(|(error, bytes, wait)| {
            let stream = if *error { "stderr" } else { "stdout" };
            format!("{}print:{stream}:{}", if *wait { "sleep:3 " } else { "" }, text(bytes))
        }).collect();
        let joined = |error: bool| -> Vec<u8> {
            writes.iter().filter(|write| write.0 == error).flat_map(|write| write.1.clone()).collect()
        };
        let options = format!("--split {split} --max-line {max_line} --partial-after {partial_after}");
        let ran = ndjson(&options).puppet(&steps.join(" ")).run().exited(0);
        for (kind, sent) in [("stdout", joined(false)), ("stderr", joined(true))] {
            prop_assert_eq!(ran.bytes(kind), &sent[..]);
            prop_assert_eq!(ran.result().kept(kind), &sent[..]);
            if (split, max_line, partial_after) == ("lf", "1M", "never") {
                let lines: Vec<Vec<u8>> = sent.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
                let chunks = ran.of("chunk").into_iter().filter(|chunk| chunk["kind"] == kind);
                prop_assert_eq!(chunks.map(crate::harness::Event::bytes).collect::<Vec<_>>(), lines);
            }
        }
        let ran = runcast(&options).puppet(&steps.join(" ")).run().exited(0);
        prop_assert_eq!(&ran.stdout, &joined(false));
        prop_assert_eq!(&ran.stderr, &joined(true));
    }
}

#[test]
fn a_command_line_that_is_not_utf8_is_shown_with_its_bytes() {
    let ran = ndjson("")
        .command([OsStr::new("printf"), OsStr::new("%s"), OsStr::from_bytes(b"\xff\xfe")])
        .run()
        .exited(0);
    assert_eq!(ran.bytes("stdout"), b"\xff\xfe");
    let started = &ran.events()[0];
    assert_eq!(started["argv"], serde_json::json!(["printf", "%s", "\u{fffd}\u{fffd}"]));
    assert_eq!(started["argv_base64"], serde_json::json!(["cHJpbnRm", "JXM=", "//4="]));
}
