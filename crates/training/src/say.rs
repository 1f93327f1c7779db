//! Messages on standard error.

use std::{
    fmt::{Display, Write as _},
    io::Write as _,
};

/// Writes a line to standard error. A line that cannot be written, because the disk is full or nobody reads it, is
/// dropped: a message must not end a training.
pub fn note(line: impl Display) {
    let line = one_line(line) + "\n";
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// The text as one line: line ends and other characters that a terminal would obey are escaped (`
/// `, `\u001b`).
pub fn one_line(text: impl Display) -> String {
    spelled_out(text, obeyed)
}

/// A text of several lines, in which all other characters that a terminal would obey are escaped. JSON keeps its value.
pub fn printable(text: impl Display) -> String {
    spelled_out(text, |c| obeyed(c) && c != '\n')
}

fn spelled_out(text: impl Display, spelled: impl Fn(char) -> bool) -> String {
    let text = text.to_string();
    if !text.chars().any(&spelled) {
        return text;
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !spelled(c) => line.push(c),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c => {
                let _ = write!(line, "\\u{:04x}", u32::from(c));
            }
        }
    }
    line
}

/// Control characters, line and paragraph separators, and marks that turn the direction of writing.
pub fn obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_has_nothing_that_a_terminal_obeys() {
        assert_eq!(one_line("plain, über 5 µs"), "plain, über 5 µs");
        assert_eq!(one_line("a\nb\r\tc"), "a\\nb\\r\\tc");
        assert_eq!(
            one_line("\u{1b}[2J\u{9b}1m\u{202e}"),
            "\\u001b[2J\\u009b1m\\u202e"
        );
    }

    /// Serde does not escape DEL and the controls above it; escaping them keeps their meaning.
    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"name": "a\u{7f}\u{9b}\u{2028}\n", "n": [1, 2]});
        let text = serde_json::to_string(&value).unwrap();
        let printed = printable(format_args!("{text}\n"));
        assert!(
            printed.ends_with("}\n") && !printed.contains('\u{9b}'),
            "{printed}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&printed).unwrap(),
            value
        );
    }
}
