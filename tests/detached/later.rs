//! Runs that a later version has written: more fields, and kinds of event that are not known here.

use std::fs;

use super::Home;

#[test]
fn what_is_not_known_is_shown_as_it_stands_to_programs_and_passed_over_for_people() {
    let home = Home::new();
    home.start("l", "say:one say:two exit:4");
    home.wait("l").exited(4);
    home.is_quiet();
    let path = home.path("l");
    let journal = path.join("journal-00000000000000000001");
    let text = fs::read_to_string(&journal).expect("it is there");
    let text =
        text.replace("\"content\":\"one\\n\"}", "\"content\":\"one\\n\",\"novel\":{\"a\":[1]}}");
    let text = text.replacen('\n', "\n{\"op\":\"novel\",\"chunks\":7,\"seq\":99}\n", 2);
    fs::write(&journal, format!("{text}{{\"op\":\"last\"}}\n")).expect("it can be written");
    for name in ["run", "result"] {
        let text = fs::read_to_string(path.join(name)).expect("it is there");
        fs::write(path.join(name), text.replace("}\n", ",\"novel\":true}\n"))
            .expect("it can be written");
    }
    fs::write(path.join("novel"), "x").expect("it can be written");
    let people = home.attach("", "l").exited(4);
    assert_eq!((people.out(), people.err()), ("one\ntwo\n".to_owned(), String::new()));
    let ran = home.runcast("attach -f ndjson l").writes_no_events().run().exited(4);
    let out = ran.out();
    for part in [
        "\"novel\":{\"a\":[1]}",
        "{\"op\":\"novel\",\"chunks\":7,\"seq\":99}\n",
        "{\"op\":\"last\"}\n",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(out.matches("\"novel\":true}\n").count(), 2, "{out}");
    let after = home.runcast("attach -f ndjson --after 1 l").writes_no_events().run().exited(4);
    assert_eq!(after.out().matches("\"op\":\"chunk\"").count(), 1, "{after}");
    for format in ["cri", "log", "logfmt", "snapshot"] {
        let ran = home.runcast(&format!("attach -f {format} l")).writes_no_events().run().exited(4);
        assert!(ran.out().contains("two"), "{ran}");
    }
    let ran = home.runcast("wait l").writes_no_events().run().exited(4);
    assert!(ran.out().contains("\"novel\":true"), "{ran}");
    assert_eq!(home.state("l"), "exited 4");
    home.runcast("forget l").run().exited(0);
    assert!(!path.exists());
}
