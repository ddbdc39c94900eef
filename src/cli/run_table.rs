//! The list of runs for people: aligned columns, in colours, each run on one line of a terminal.
//!
//! Whether colours are shown is for whoever writes it out.

use std::fmt::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::model::error::OneLine;
use crate::model::shell_line::quoted;
use crate::runs::list::Listed;

const HEADING: [&str; 6] = ["ID", "STATE", "AGE", "DURATION", "BYTES", "COMMAND"];

/// Columns of numbers, which end in line; the others begin in line.
const NUMBERS: [bool; 6] = [false, false, true, true, true, false];

/// The column that the colour is in.
const STATE: usize = 1;

/// What a command gets of a line though the other columns leave less: then the line wraps, and is not without one.
const LEAST_COMMAND_WIDTH: usize = 12;

/// What stands between two columns.
const GAP: usize = 2;

/// The table; its last column is cut where a terminal of this width ends.
pub(super) fn table(runs: &[Listed], width: Option<usize>) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let now = Timestamp::now();
    let heading = HEADING.map(str::to_owned);
    let rows: Vec<[String; 6]> =
        std::iter::once(heading).chain(runs.iter().map(|run| row(run, now))).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let before: usize = widths[..5].iter().map(|width| width + GAP).sum();
    let left = width.map(|width| width.saturating_sub(before).max(LEAST_COMMAND_WIDTH));
    let mut table = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (column, cell) in row[..5].iter().enumerate() {
            // Padded by hand: colours take no room, and some characters take two columns.
            let padding = widths[column] - cell.width();
            let (ahead, behind) = if NUMBERS[column] { (padding, 0) } else { (0, padding) };
            let style = if column == STATE && number > 0 { style_of(cell) } else { Style::new() };
            let behind = behind + GAP;
            write!(table, "{:ahead$}{style}{cell}{style:#}{:behind$}", "", "")
                .expect("memory has room");
        }
        table.push_str(&cut(&row[5], left));
        table.push('\n');
    }
    table
}

/// A text that takes no more than so many columns, with a mark where something is missing.
fn cut(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|columns| text.width() > *columns) else {
        return text.to_owned();
    };
    let mut taken = 1;
    let fits = |c: &char| {
        taken += c.width().unwrap_or(0);
        taken <= columns
    };
    text.chars().take_while(fits).collect::<String>() + "…"
}

fn row(run: &Listed, now: Timestamp) -> [String; 6] {
    let age = run.at.and_then(|at| Duration::try_from(now.duration_since(at)).ok());
    let unknown = || "-".to_owned();
    // Nobody wants to know how many milliseconds ago it was.
    let age = age.map(|age| Duration::from_secs(age.as_secs()));
    let words = run.argv.as_deref().map(|argv| argv.iter().map(|word| shown(word)));
    [
        run.id.to_string(),
        OneLine(&run.state).to_string(),
        age.map_or_else(unknown, short),
        run.duration.map_or_else(unknown, short),
        size(run.bytes[0].saturating_add(run.bytes[1])),
        words.map_or_else(unknown, |words| words.collect::<Vec<_>>().join(" ")),
    ]
}

/// A word of a command line. One of several lines, or that steers the terminal, stays on one line.
fn shown(word: &str) -> String {
    OneLine(&quoted(&word.replace(|c: char| c.is_control(), " "))).to_string()
}

fn style_of(state: &str) -> Style {
    let colour = match state {
        "running" => AnsiColor::Cyan,
        "exited 0" => AnsiColor::Green,
        "elsewhere" => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    Style::new().fg_color(Some(colour.into()))
}

/// A time in the largest unit of which there is one.
fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.is_zero() => "0s".to_owned(),
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A number of bytes in the largest unit of which there is one.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}"),
        1024..0x10_0000 => format!("{}K", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{}M", bytes >> 20),
        _ => format!("{}G", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;
    use crate::model::run_id::RunId;

    fn run(id: &str, state: &str, argv: Option<&[&str]>) -> Listed {
        Listed {
            id: RunId::parse(id).expect("it is a name"),
            state: state.to_owned(),
            is_over: state != "running",
            started: String::new(),
            at: None,
            duration: Some(Duration::from_secs(65)),
            bytes: [2048, 1],
            argv: argv.map(|argv| argv.iter().map(|&word| word.to_owned()).collect()),
            host: String::new(),
        }
    }

    fn lines(runs: &[Listed], width: Option<usize>) -> Vec<String> {
        strip_str(&table(runs, width)).to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn columns_are_in_line_and_colours_take_no_room() {
        let runs = [run("a", "running", Some(&["make"])), run("long-name", "exited 0", None)];
        assert_eq!(
            lines(&runs, None),
            [
                "ID         STATE     AGE  DURATION  BYTES  COMMAND",
                "a          running     -     1m05s     2K  make",
                "long-name  exited 0    -     1m05s     2K  -",
            ]
        );
        let coloured = table(&runs, None);
        assert!(coloured.contains("\x1b[36mrunning\x1b["), "{coloured:?}");
        assert_eq!(lines(&[], None), [""; 0]);
    }

    #[test]
    fn a_command_is_cut_where_the_terminal_ends_and_nowhere_else() {
        let argv = ["echo", "日本語テキスト日本語テキスト日本語テキスト", "end"];
        let runs = [run("a", "running", Some(&argv))];
        assert!(lines(&runs, None)[1].ends_with("end"));
        for width in [50, 51, 60] {
            let line = &lines(&runs, Some(width))[1];
            assert!(line.ends_with('…'), "{line}");
            // A wide character that does not fit any more leaves a column free.
            assert!((width - 1..=width).contains(&line.width()), "{width}: {line}");
        }
        let narrow = &lines(&runs, Some(20))[1];
        assert!(narrow.ends_with('…') && narrow.contains("echo"), "{narrow}");
    }

    #[test]
    fn a_command_line_is_one_that_a_shell_takes() {
        let argv = ["sh", "-c", "echo 'a'\n\x1b[2Jb", "", "x-1"];
        let line = lines(&[run("a", "running", Some(&argv))], None).remove(1);
        assert!(line.ends_with(r#"sh -c "echo 'a'  [2Jb" '' x-1"#), "{line}");
    }

    #[test]
    fn times_and_sizes_are_short() {
        let times = [(5, "5s"), (65, "1m05s"), (3700, "1h01m"), (90_000, "1d01h")];
        for (seconds, shown) in times {
            assert_eq!(short(Duration::from_secs(seconds)), shown);
        }
        assert_eq!(short(Duration::from_millis(12)), "12ms");
        assert_eq!([size(12), size(2048), size(3 << 20), size(5 << 30)], ["12", "2K", "3M", "5G"]);
    }
}
