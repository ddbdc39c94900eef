//! The bounded part of the output that the result keeps.

use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof};
use proptest::test_runner::Config;
use proptest::{collection, proptest};

use crate::harness::{Gate, ndjson, peak_rss_bytes, result_in, scratch, text, wait_until};

#[test]
fn a_stream_is_truncated_exactly_when_it_is_longer_than_the_cap() {
    for (size, truncated) in [(1023, false), (1024, false), (1025, true), (2048, true)] {
        let ran = ndjson("--max-output 1024")
            .puppet(&format!("fill:stdout:{size}:x fill:stderr:10:y"))
            .run();
        let result = ran.result();
        assert_eq!(
            (result["stdout_truncated"] == true, result.number("stdout_bytes")),
            (truncated, size)
        );
        assert_eq!(result.text("stdout"), "x".repeat(size.min(1024).try_into().expect("small")));
        assert_eq!(result["stderr_truncated"], false, "each stream has its own cap");
    }
}

#[test]
fn the_default_cap_is_256_kib() {
    let ran = ndjson("").puppet("fill:stdout:256K:x fill:stderr:300K:x").run();
    assert_eq!(ran.result()["stdout_truncated"], false);
    assert_eq!(ran.result()["stderr_truncated"], true);
    assert_eq!(ran.result().text("stderr").len(), 256 << 10);
}

#[test]
fn chunks_go_on_past_the_cap() {
    let ran = ndjson("--max-output 10").puppet("lines:stdout:1000 say:last").run();
    assert_eq!(ran.contents("stdout").last(), Some(&"last\n"));
    assert_eq!(ran.result().text("stdout"), "0000000 so");
}

#[test]
fn the_cut_falls_between_characters_within_the_cap() {
    for (keep, kept) in [("head", 333), ("tail", 333), ("both", 332)] {
        let options = format!("--max-output 1000 --keep {keep}");
        let ran = ndjson(&options).puppet("fill:stdout:3000:€").run();
        assert_eq!(ran.result().text("stdout"), "€".repeat(kept), "{keep}");
    }
}

#[test]
fn head_tail_and_both_keep_what_they_say() {
    let body: String = (0..1000).map(|i| format!("{i:07} some text on the line\n")).collect();
    let kept = |keep: &str| {
        let ran =
            ndjson(&format!("--max-output 1000 --keep {keep}")).puppet("lines:stdout:1000").run();
        (ran.result().text("stdout").to_owned(), ran.result()["stdout_omitted"].as_u64())
    };
    assert_eq!(kept("head"), (body[..1000].to_owned(), None));
    assert_eq!(kept("tail"), (body[body.len() - 1000..].to_owned(), None));
    let both = body[..500].to_owned() + &body[body.len() - 500..];
    assert_eq!(kept("both"), (both, Some(body.len() as u64 - 1000)));
}

#[test]
fn both_keeps_all_of_what_fits() {
    let ran = ndjson("--max-output 1000 --keep both").puppet("fill:stdout:1000:ab").run();
    assert_eq!(ran.result().text("stdout"), "ab".repeat(500));
    assert!(ran.result()["stdout_omitted"].is_null());
}

#[test]
fn what_is_not_kept_is_still_counted() {
    let ran = ndjson("--max-output 0").puppet("lines:stdout:10 print:stdout:x").run();
    let result = ran.result();
    assert_eq!(
        (result.text("stdout"), result.number("stdout_lines"), result.number("stdout_bytes")),
        ("", 11, 301)
    );
    assert_eq!(result["stdout_truncated"], true);
}

#[test]
fn sizes_are_what_people_write() {
    for (size, bytes) in [("1K", 1024), ("1KiB", 1024), ("1kB", 1000), ("1M", 3000), ("700", 700)] {
        let ran = ndjson(&format!("--max-output {size}")).puppet("fill:stdout:3000:x").run();
        assert_eq!(ran.result().text("stdout").len(), bytes, "{size}");
    }
}

#[test]
fn memory_stays_bounded_on_a_line_without_end() {
    let folder = scratch();
    let [done, result] = ["done", "result"].map(|name| folder.path().join(name));
    for options in ["", "--keep tail", "--max-line 40M --partial-after never"] {
        let gate = Gate::new();
        let steps = format!("fill:stdout:80M:x touch:{} {gate}", done.display());
        let run = ndjson(options).arg("--result").arg(&result).puppet(&steps);
        let mut live = run.stdout(std::process::Stdio::null()).start();
        wait_until("the end of the flood", || done.exists() || live.ended().is_some());
        let bound = if options.contains("40M") { 250 << 20 } else { 40 << 20 };
        let peak = peak_rss_bytes(live.pid());
        assert!(peak < bound, "{options}: {peak} bytes");
        gate.open();
        live.finish().exited(0);
        assert_eq!(result_in(&result).number("stdout_bytes"), 80 << 20);
        std::fs::remove_file(&done).expect("it is there");
    }
}

/// How many bytes of `text` a cut at `at` leaves when it moves to the character boundary before.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

proptest! {
    #![proptest_config(Config { cases: 30, failure_persistence: None, ..Config::default() })]

    #[test]
    fn what_is_kept_of_any_text_is_its_head_its_tail_or_both(
        output in "[aé€😀\\n]{0,60}",
        cap in 0_usize..100,
        keep in prop_oneof![Just("head"), Just("tail"), Just("both")],
    ) {
        let ran = ndjson(&format!("--max-output {cap} --keep {keep}"))
            .puppet(&format!("print:stdout:{}", text(output.as_bytes()))).run().exited(0);
        let kept = ran.result().text("stdout");
        prop_assert!(ran.result()["stdout_base64"].is_null());
        if output.len() <= cap {
            prop_assert_eq!(kept, &output);
        } else if keep == "head" {
            prop_assert_eq!(kept, &output[..boundary(&output, cap)]);
        } else if keep == "tail" {
            prop_assert!(output.ends_with(kept) && kept.len() <= cap && kept.len() + 4 > cap, "{:?}", kept);
        } else {
            prop_assert!(kept.len() <= cap && kept.len() + 8 > cap, "{:?}", kept);
            let cut = (0..=kept.len()).filter(|&at| kept.is_char_boundary(at))
                .any(|at| output.starts_with(&kept[..at]) && output.ends_with(&kept[at..]));
            prop_assert!(cut, "{:?}", kept);
        }
    }

    #[test]
    fn what_is_kept_of_any_bytes_is_exact(
        output in collection::vec(any::<u8>(), 0..60),
        cap in 0_usize..100,
        tail in any::<bool>(),
    ) {
        let keep = if tail { "tail" } else { "head" };
        let ran = ndjson(&format!("--max-output {cap} --keep {keep}"))
            .puppet(&format!("print:stdout:{}", text(&output))).run().exited(0);
        let kept = ran.result().kept("stdout");
        let is_its_end = if tail { output.ends_with(&kept) } else { output.starts_with(&kept) };
        prop_assert!(is_its_end);
        prop_assert!(kept.len() <= cap && kept.len() + 4 > cap.min(output.len()), "{:?}", kept);
    }
}
