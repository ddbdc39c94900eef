//! The words for a command line that makes no sense: one line that names the option or the word at fault.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What is wrong with a command line, naming the option or the word at fault.
pub(super) fn fault(error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = context(ContextKind::InvalidArg);
    let value = context(ContextKind::InvalidValue);
    match (error.kind(), option, value) {
        (ErrorKind::MissingRequiredArgument, ..) => missing(error),
        (ErrorKind::UnknownArgument, Some(option), _) => match context(ContextKind::SuggestedArg) {
            Some(similar) => format!("unknown option '{option}', did you mean '{similar}'?"),
            None if !option.starts_with('-') => format!("there is one word too many: '{option}'"),
            None => format!("unknown option '{option}'"),
        },
        (ErrorKind::TooManyValues, Some(option), Some(value)) => {
            format!("'{option}' takes no value, but was given '{value}'")
        }
        (ErrorKind::InvalidValue, Some(option), None | Some("")) => {
            format!("a value is required for '{option}'{}", possible_values(error))
        }
        (ErrorKind::InvalidValue, Some(option), Some(value)) => {
            format!("invalid value '{value}' for '{option}'{}", possible_values(error))
        }
        (ErrorKind::ValueValidation, Some(option), Some(value)) => {
            let why = std::error::Error::source(error).map(|why| format!(": {why}"));
            format!("invalid value '{value}' for '{option}'{}", why.unwrap_or_default())
        }
        _ => first_paragraph(&error.to_string()),
    }
}

/// What has to be there and is not: COMMAND, or what a subcommand is about.
fn missing(error: &clap::Error) -> String {
    let names = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.as_slice(),
        _ => &[],
    };
    let is = |name: &str| names.iter().any(|missing| missing.contains(&format!("<{name}>")));
    match ["RUN", "FILE"].into_iter().find(|name| is(name)) {
        Some(name) => format!("no {name} given"),
        None => "no command given".to_owned(),
    }
}

fn possible_values(error: &clap::Error) -> String {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(words)) if !words.is_empty() => {
            format!(" (possible values: {})", words.join(", "))
        }
        _ => String::new(),
    }
}

/// clap's own words for whatever has no better ones, on one line.
fn first_paragraph(rendered: &str) -> String {
    let paragraph = rendered.split("\n\n").next().unwrap_or_default();
    let paragraph = paragraph.strip_prefix("error: ").unwrap_or(paragraph);
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_better_words_is_told_in_claps_on_one_line() {
        let rendered = "error: the argument '--a' cannot be used with:\n  --b\n\nUsage: x\n";
        assert_eq!(first_paragraph(rendered), "the argument '--a' cannot be used with: --b");
    }
}
