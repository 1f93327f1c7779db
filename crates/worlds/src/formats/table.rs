//! Tables in CSV (RFC 4180): a header, and rows with the same number of fields.

use std::path::Path;

use crate::Error;
use crate::error::unusable;
use crate::files::{Files, Room};

/// A header and rows with the same number of fields, without blank lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub header: Vec<String>,
    /// Every row with the number of its line, from 1.
    pub rows: Vec<(usize, Vec<String>)>,
}

impl Table {
    /// Reads a table.
    pub fn read(path: &Path, files: &Files) -> Result<Table, Error> {
        let bytes = files.read(path)?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|cause| unusable(path, format!("not a text in UTF-8: {cause}")))?;
        Table::parse(text, files.room(bytes.len())).map_err(|problem| unusable(path, problem))
    }

    /// The error is one line without the name of the file.
    pub fn parse(text: &str, room: Room) -> Result<Table, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rows = rows(text, room)?.into_iter();
        let (_, header) = rows.next().ok_or("an empty table; a header is needed")?;
        let rows: Vec<_> = rows.collect();
        // Numbers with decimal commas would only be said to be too many fields.
        if let [only] = header.as_slice()
            && let Some(mark) = [';', '\t', '|']
                .into_iter()
                .find(|mark| only.contains(*mark))
        {
            return Err(format!(
                "one column was found, {only:?}; the separator looks like {mark:?}, it must be a comma"
            ));
        }
        for (line, fields) in &rows {
            if fields.len() != header.len() {
                return Err(format!(
                    "line {line}: {} fields, but the header has {}",
                    fields.len(),
                    header.len()
                ));
            }
        }
        Ok(Table { header, rows })
    }

    /// The column with one of these names.
    pub fn column(&self, names: &[&str]) -> Option<usize> {
        let mut header = self.header.iter();
        header.position(|name| names.contains(&name.as_str()))
    }
}

/// The fields of a line.
///
/// # Errors
/// As text: a quotation mark is never closed, or text follows one.
pub fn fields(line: &str) -> Result<Vec<String>, String> {
    let found = rows(line, crate::Limits::default().room(line.len()))?;
    Ok(found
        .into_iter()
        .next()
        .map(|(_, fields)| fields)
        .unwrap_or_default())
}

/// All rows except blank lines, each with the number of the line it begins in.
fn rows(text: &str, room: Room) -> Result<Vec<(usize, Vec<String>)>, String> {
    /// Bytes of overhead per allocation.
    const ALLOCATION: usize = 16;
    let mut taken = 0;
    let mut rows: Vec<(usize, Vec<String>)> = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let begun = line;
        let width = rows.first().map_or(0, |(_, header)| header.len());
        let mut fields = Vec::with_capacity(width);
        loop {
            let (field, after) = match rest.trim_start_matches([' ', '\t']).strip_prefix('"') {
                Some(quoted) => quoted_field(quoted)
                    .ok_or_else(|| format!("line {line}: a quotation mark is never closed"))?,
                None => {
                    let end = rest.find([',', '\n']).unwrap_or(rest.len());
                    (rest[..end].trim().to_owned(), &rest[end..])
                }
            };
            line += field.matches('\n').count();
            taken += size_of::<String>() + field.len() + ALLOCATION;
            room.check(taken)?;
            fields.push(field);
            let after = after.trim_start_matches([' ', '\t', '\r']);
            if let Some(next) = after.strip_prefix(',') {
                rest = next;
                continue;
            }
            rest = match after.strip_prefix('\n') {
                Some(next) => next,
                None if after.is_empty() => after,
                None => return Err(format!("line {line}: text after a closing quotation mark")),
            };
            line += 1;
            break;
        }
        if fields.iter().any(|field| !field.is_empty()) || fields.len() > 1 {
            taken += size_of::<(usize, Vec<String>)>() + ALLOCATION;
            rows.push((begun, fields));
        }
    }
    Ok(rows)
}

/// A field up to its closing quotation mark, and the rest; a mark within the field is written twice.
fn quoted_field(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Some((field, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn fields_lines_and_marks() {
        let text = "\u{feff}a, b,c\r\n1,\"x, \"\"y\"\"\nz\" ,3\r\n\r\n ,,\n4,5,6";
        let table = Table::parse(text, Limits::default().room(text.len())).unwrap();
        assert_eq!(table.header, ["a", "b", "c"]);
        assert_eq!(table.column(&["c", "b"]), Some(1));
        let rows = [
            (2, vec!["1", "x, \"y\"\nz", "3"]),
            (5, vec!["", "", ""]),
            (6, vec!["4", "5", "6"]),
        ];
        let rows =
            rows.map(|(line, fields)| (line, fields.into_iter().map(str::to_owned).collect()));
        assert_eq!(table.rows, rows);
    }

    #[test]
    fn bad_tables_are_refused() {
        let refused =
            |text: &str| Table::parse(text, Limits::default().room(text.len())).unwrap_err();
        assert_eq!(
            refused("a,b\n1,2\n3\n"),
            "line 3: 1 fields, but the header has 2"
        );
        assert_eq!(
            refused("a,b\n1,\"2\n"),
            "line 2: a quotation mark is never closed"
        );
        assert_eq!(
            refused("a\n\"1\" 2\n"),
            "line 2: text after a closing quotation mark"
        );
        assert_eq!(refused("\n"), "an empty table; a header is needed");
    }
}
