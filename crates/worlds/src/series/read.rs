//! From the rows of a table to sequences.

use super::{
    Clock, Column, Division, Series, SeriesData, TableSettings,
    clock::{date, has_offset},
    columns::{column, is_missing, number},
};
use crate::{Part, formats::table::Table};
use std::collections::BTreeMap;

/// Columns that name the sequence of a row, in any letter case.
const SEQUENCES: [&str; 9] = [
    "sequence",
    "sequence_id",
    "series",
    "series_id",
    "unique_id",
    "item_id",
    "episode",
    "group",
    "id",
];
/// Columns of times.
const TIMES: [&str; 10] = [
    "time",
    "date",
    "ds",
    "datetime",
    "timestamp",
    "date_time",
    "t",
    "step",
    "index",
    "year",
];
/// A column that gives the part of a row.
const SPLIT: &str = "split";
/// Columns of a table with one value in a row: whose it is, and the value.
const MELTED: [[&str; 2]; 2] = [["variable", "value"], ["metric", "value"]];
/// A gap of a regular clock that is longer than this is not filled.
const LONGEST_GAP: usize = 10_000;

/// The sequences of a table. The error is one line without the name of the file.
pub(super) fn series(
    name: &str,
    table: Table,
    settings: &TableSettings,
) -> Result<SeriesData, String> {
    check_header(&table)?;
    let mut notes = Vec::new();
    let table = match melted(&table)? {
        None => table,
        Some(wide) => {
            notes.push(format!(
                "one value a row was found; made {} columns of it",
                wide.header.len()
            ));
            wide
        }
    };
    if table.rows.is_empty() {
        return Err("a header without rows".into());
    }
    if table.rows.len() == 1 && !settings.lenient {
        return Err("a single row, of which nothing can be learned".into());
    }
    let time = time_column(&table, settings)?;
    let sequence = sequence_column(&table, settings, time, &mut notes)?;
    if time.is_some_and(|time| {
        table
            .rows
            .iter()
            .any(|(_, fields)| has_offset(&fields[time]))
    }) {
        notes.push("the times have offsets; they are read, and printed, in UTC".into());
    }
    let split = named(&table, &[SPLIT]);
    let mut data = SeriesData {
        name: name.to_owned(),
        time: header_of(&table, time),
        sequence: header_of(&table, sequence),
        columns: Vec::new(),
        series: Vec::new(),
        notes,
    };
    for left_out in settings.leave_out.iter().filter(|_| !settings.lenient) {
        if !table.header.contains(left_out) {
            return Err(format!(
                "table.leave_out has '{left_out}', but the columns are {}",
                table.header.join(", ")
            ));
        }
    }
    for (key, _, list) in settings.lists() {
        let unknown = list.iter().find(|name| !table.header.contains(name));
        if let Some(unknown) = unknown.filter(|_| !settings.lenient) {
            return Err(format!(
                "{key} has '{unknown}', but the columns are {}",
                table.header.join(", ")
            ));
        }
    }
    // Values by column, for all rows.
    let mut values: Vec<Vec<f64>> = Vec::new();
    for (place, header) in table.header.iter().enumerate() {
        if [time, sequence, split].contains(&Some(place)) || settings.leave_out.contains(header) {
            continue;
        }
        let fields: Vec<(usize, &str)> = table
            .rows
            .iter()
            .map(|(line, fields)| (*line, fields[place].as_str()))
            .collect();
        let empty = table
            .rows
            .iter()
            .all(|(_, fields)| is_missing(&fields[place]));
        if empty && settings.lenient {
            data.columns.push(Column {
                name: header.clone(),
                kind: settings.empty_kind(header),
            });
            values.push(vec![f64::NAN; fields.len()]);
            continue;
        }
        let (column, found) = column(header, &fields, settings.wanted(header))?;
        if is_constant(&found) && !settings.lenient {
            return Err(format!(
                "column {header} is constant; leave it out with table.leave_out=[\"{header}\"]"
            ));
        }
        data.columns.push(column);
        values.push(found);
    }
    if data.columns.is_empty() {
        return Err(format!(
            "no column is left to model; the columns are {}",
            table.header.join(", ")
        ));
    }
    // Rows of each sequence, in the order in which sequences begin.
    let mut names: Vec<&str> = Vec::new();
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (row, (_, fields)) in table.rows.iter().enumerate() {
        let name = sequence.map_or("", |column| fields[column].as_str());
        let place = *places.entry(name).or_insert_with(|| {
            names.push(name);
            rows.push(Vec::new());
            names.len() - 1
        });
        rows[place].push(row);
    }
    for (name, rows) in names.into_iter().zip(rows) {
        let parts = split
            .map(|column| parts_of(&table, column, &rows))
            .transpose()?;
        let one = sequence_of(name, &table, time, &rows, &values, parts, &mut data.notes)?;
        data.series.push(one);
    }
    if split.is_none() {
        divide(&mut data, settings.division);
    }
    describe(&mut data, time.map(|column| table.header[column].as_str()));
    Ok(data)
}

/// The name of a column; empty if there is none.
fn header_of(table: &Table, column: Option<usize>) -> String {
    column.map_or(String::new(), |column| table.header[column].clone())
}

/// Two columns of one name, and a file without names, cannot be read.
fn check_header(table: &Table) -> Result<(), String> {
    let header = &table.header;
    if header.iter().all(|name| number(name).is_some()) {
        return Err(format!(
            "the first line has numbers alone, {}; it must name the columns",
            header.join(", ")
        ));
    }
    for (place, name) in header.iter().enumerate() {
        if name.is_empty() {
            return Err(format!("column {} has no name", place + 1));
        }
        if header[..place].contains(name) {
            return Err(format!("two columns are named {name}"));
        }
    }
    Ok(())
}

/// The column with one of these names, in any letter case.
fn named(table: &Table, names: &[&str]) -> Option<usize> {
    let position = |name: &&str| {
        let mut header = table.header.iter();
        header.position(|column| column.eq_ignore_ascii_case(name))
    };
    names.iter().find_map(position)
}

fn asked(table: &Table, key: &str, name: &str) -> Result<usize, String> {
    let found = table.header.iter().position(|column| column == name);
    found.ok_or_else(|| {
        format!(
            "{key} is '{name}', but the columns are {}",
            table.header.join(", ")
        )
    })
}

/// The column of times: the one that is asked for, one of a usual name, or the first one of dates.
fn time_column(table: &Table, settings: &TableSettings) -> Result<Option<usize>, String> {
    if !settings.time.is_empty() {
        return asked(table, "table.time", &settings.time).map(Some);
    }
    let all = |column: usize, holds: &dyn Fn(&str) -> bool| {
        table.rows.iter().all(|(_, fields)| holds(&fields[column]))
    };
    let is_date = |field: &str| date(field).is_some();
    let usual = named(table, &TIMES)
        .filter(|column| all(*column, &is_date) || all(*column, &|field| number(field).is_some()));
    let dates = || {
        (0..table.header.len())
            .find(|column| all(*column, &|field| is_date(field) && number(field).is_none()))
    };
    let found = usual.or_else(dates);
    // One wrong date would make texts of all of them.
    if found.is_none()
        && let Some(column) = named(table, &TIMES)
    {
        let wrong = || {
            let rows = table.rows.iter();
            rows.filter(|(_, fields)| !is_date(&fields[column]))
        };
        if let Some((line, fields)) = wrong().next()
            && 2 * wrong().count() < table.rows.len()
        {
            return Err(format!(
                "line {line}, column {}: {:?} is no date, and most others are",
                table.header[column], fields[column]
            ));
        }
    }
    Ok(found)
}

/// The column of sequences. One in which every row is different numbers the rows and is left to the other columns.
fn sequence_column(
    table: &Table,
    settings: &TableSettings,
    time: Option<usize>,
    notes: &mut Vec<String>,
) -> Result<Option<usize>, String> {
    if !settings.sequence.is_empty() {
        return asked(table, "table.sequence", &settings.sequence).map(Some);
    }
    let Some(found) = named(table, &SEQUENCES).filter(|found| Some(*found) != time) else {
        return Ok(None);
    };
    let mut names: Vec<&str> = table
        .rows
        .iter()
        .map(|(_, fields)| fields[found].as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.len() == table.rows.len() && names.len() > 1 {
        notes.push(format!(
            "column {} is different in every row, so it names no sequences",
            table.header[found]
        ));
        return Ok(None);
    }
    Ok(Some(found))
}

fn is_constant(values: &[f64]) -> bool {
    let mut observed = values.iter().filter(|value| !value.is_nan());
    let first = observed.next();
    observed.all(|value| Some(value) == first)
}

/// The parts of the rows of a sequence.
fn parts_of(table: &Table, column: usize, rows: &[usize]) -> Result<Vec<Part>, String> {
    rows.iter()
        .map(|row| {
            let (line, fields) = &table.rows[*row];
            Part::named(&fields[column]).ok_or_else(|| {
                format!(
                    "line {line}: split is {:?}, it must be train, valid or test",
                    fields[column]
                )
            })
        })
        .collect()
}

/// One sequence: its times in order, gaps of a regular clock filled.
fn sequence_of(
    name: &str,
    table: &Table,
    time: Option<usize>,
    rows: &[usize],
    values: &[Vec<f64>],
    parts: Option<Vec<Part>>,
    notes: &mut Vec<String>,
) -> Result<Series, String> {
    let clock = match time {
        None => Clock::Order(rows.len()),
        Some(column) => clock_of(table, column, rows)?,
    };
    let pace = clock.pace();
    let width = values.len();
    let mut series = Series {
        name: name.to_owned(),
        values: Vec::with_capacity(rows.len() * width),
        clock: Clock::Order(0),
        starts: [0; 2],
    };
    let gap = |step: usize| match (step, pace) {
        (0, _) | (_, None) => 0,
        (step, Some(pace)) => match clock.steps_since(step, pace) {
            Some(steps) if steps <= LONGEST_GAP => steps - 1,
            _ => 0,
        },
    };
    let regular = pace.is_some_and(|pace| {
        (1..rows.len()).all(|step| {
            clock
                .steps_since(step, pace)
                .is_some_and(|steps| steps <= LONGEST_GAP)
        })
    });
    let mut filled = 0;
    let mut starts = [None; 2];
    for (step, row) in rows.iter().enumerate() {
        if regular {
            let missing = gap(step);
            filled += missing;
            series
                .values
                .extend(std::iter::repeat_n(f64::NAN, missing * width));
        }
        if let Some(parts) = &parts {
            let rank = |part: Part| Part::ALL.iter().position(|other| *other == part);
            if step > 0 && rank(parts[step]) < rank(parts[step - 1]) {
                return Err(format!(
                    "sequence {name}: {} comes after {}; the parts of a sequence must be train, then valid, then test",
                    parts[step],
                    parts[step - 1]
                ));
            }
            let here = series.values.len() / width;
            if parts[step] != Part::Train {
                starts[0].get_or_insert(here);
            }
            if parts[step] == Part::Test {
                starts[1].get_or_insert(here);
            }
        }
        series
            .values
            .extend(values.iter().map(|column| column[*row]));
    }
    let steps = series.values.len() / width;
    series.starts = starts.map(|start| start.unwrap_or(steps));
    let whose = match name {
        "" => String::new(),
        name => format!("sequence {name}: "),
    };
    series.clock = match (regular, filled) {
        (true, 1..) => {
            notes.push(format!(
                "{whose}{filled} steps are missing in the file; nothing is observed there"
            ));
            clock
                .first(1)
                .paced(pace, steps)
                .unwrap_or(Clock::Order(steps))
        }
        _ => clock,
    };
    if !regular && time.is_some() && rows.len() > 2 {
        notes.push(format!(
            "{whose}the times are not regular; rows are taken as steps one after the other"
        ));
    }
    Ok(series)
}

/// The times of a sequence, which must increase.
fn clock_of(table: &Table, column: usize, rows: &[usize]) -> Result<Clock, String> {
    let header = &table.header[column];
    let field = |row: usize| (table.rows[row].0, table.rows[row].1[column].as_str());
    let check = |later: bool, row: usize, before: usize| match later {
        true => Ok(()),
        false => Err(format!(
            "line {}: {header} {} does not come after {} in line {}; sort the rows of each sequence by time, name the column \
             of sequences with table.sequence, or another one of times with table.time",
            field(row).0,
            field(row).1,
            field(before).1,
            field(before).0
        )),
    };
    let numbers: Option<Vec<f64>> = rows.iter().map(|row| field(*row).1.parse().ok()).collect();
    let dates: Option<Vec<_>> = rows.iter().map(|row| date(field(*row).1)).collect();
    match (dates, numbers) {
        (Some(times), _) => {
            for (pair, rows) in times.windows(2).zip(rows.windows(2)) {
                check(pair[1] > pair[0], rows[1], rows[0])?;
            }
            Ok(Clock::Dates(times))
        }
        (None, Some(times)) => {
            for (pair, rows) in times.windows(2).zip(rows.windows(2)) {
                check(pair[1] > pair[0], rows[1], rows[0])?;
            }
            Ok(Clock::Numbers(times))
        }
        (None, None) => {
            let wrong = rows.iter().find(|row| {
                date(field(**row).1).is_none() && field(**row).1.parse::<f64>().is_err()
            });
            let (line, text) = field(*wrong.unwrap_or(&rows[0]));
            let problem = if is_missing(text) {
                "is missing".to_owned()
            } else {
                format!("{text:?} is neither a date nor a number")
            };
            Err(format!("line {line}, column {header}: {problem}"))
        }
    }
}

/// Parts by time in each sequence, or whole sequences.
fn divide(data: &mut SeriesData, division: Division) {
    let width = data.width();
    let count = data.series.len();
    for (place, series) in data.series.iter_mut().enumerate() {
        let steps = series.values.len() / width;
        series.starts = match division {
            Division::Time => [steps * 8 / 10, steps * 9 / 10],
            // Every tenth, from the end, so that two sequences are one to learn from and one to test.
            Division::Sequence => match (count - 1 - place) % 10 {
                0 => [0, 0],
                1 if count > 2 => [0, steps],
                _ => [steps, steps],
            },
        };
    }
}

/// What was found, in a line for each thing.
fn describe(data: &mut SeriesData, time: Option<&str>) {
    let columns: Vec<String> = data
        .columns
        .iter()
        .map(|column| format!("{} ({})", column.name, column.kind.name()))
        .collect();
    let times = match time {
        Some(name) => format!("times in {name}"),
        None => "no column of times".into(),
    };
    let parts = Part::ALL.map(|part| format!("{} {part}", data.steps(part)));
    data.notes.insert(
        0,
        format!(
            "{} sequence{}, {times}; columns: {}; steps: {}",
            data.series.len(),
            if data.series.len() == 1 { "" } else { "s" },
            columns.join(", "),
            parts.join(", ")
        ),
    );
}

/// A table with one value in a row, made wide; `None` if it is no such table.
fn melted(table: &Table) -> Result<Option<Table>, String> {
    let pair = MELTED
        .iter()
        .find_map(|[variable, value]| Some([named(table, &[variable])?, named(table, &[value])?]));
    let Some([variable, value]) = pair else {
        return Ok(None);
    };
    let keys: Vec<usize> = (0..table.header.len())
        .filter(|column| *column != variable && *column != value)
        .collect();
    let mut names: Vec<String> = Vec::new();
    let mut rows: Vec<(usize, Vec<String>)> = Vec::new();
    let mut places: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for (line, fields) in &table.rows {
        let key: Vec<&str> = keys.iter().map(|column| fields[*column].as_str()).collect();
        let row = *places.entry(key.clone()).or_insert_with(|| {
            rows.push((*line, key.iter().map(|field| (*field).to_owned()).collect()));
            rows.len() - 1
        });
        let known = names.iter().position(|name| *name == fields[variable]);
        let place = keys.len()
            + known.unwrap_or_else(|| {
                names.push(fields[variable].clone());
                names.len() - 1
            });
        let cells = &mut rows[row].1;
        if cells.len() <= place {
            cells.resize(place + 1, String::new());
        }
        if !cells[place].is_empty() {
            return Err(format!(
                "line {line}: a second value of {} at the same time",
                fields[variable]
            ));
        }
        cells[place].clone_from(&fields[value]);
    }
    let header: Vec<String> = keys
        .iter()
        .map(|column| table.header[*column].clone())
        .chain(names)
        .collect();
    for (_, cells) in &mut rows {
        cells.resize(header.len(), String::new());
    }
    Ok(Some(Table { header, rows }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, series::ColumnKind};

    fn read_with(text: &str, settings: &TableSettings) -> Result<SeriesData, String> {
        let table = Table::parse(text, Limits::default().room(text.len()))?;
        series("x", table, settings)
    }

    fn read(text: &str) -> Result<SeriesData, String> {
        read_with(text, &TableSettings::default())
    }

    /// A table of two columns, a date a day apart and a number.
    fn daily(days: impl Iterator<Item = u32>) -> String {
        let rows = days.map(|day| format!("2024-01-{day:02},{}.5\n", day * day));
        format!("DS,y\n{}", rows.collect::<String>())
    }

    #[test]
    fn a_file_without_a_column_of_sequences_is_one_sequence() {
        let data = read(&daily(1..=20)).unwrap();
        assert_eq!(data.series.len(), 1);
        assert_eq!(data.columns.len(), 1);
        assert_eq!(data.columns[0].name, "y");
        assert_eq!(data.series[0].starts, [16, 18]);
        assert_eq!(data.series[0].part(Part::Test, 1), 18..20);
        assert_eq!(data.series[0].values[..2], [1.5, 4.5]);
        assert!(data.notes[0].contains("times in DS"), "{:?}", data.notes);
    }

    #[test]
    fn gaps_of_a_regular_clock_are_steps_without_a_value() {
        let data = read(&daily((1..=8).chain(12..=20))).unwrap();
        let values = &data.series[0].values;
        assert_eq!(values.len(), 20);
        assert!(values[8..11].iter().all(|value| value.is_nan()));
        assert_eq!(values[11], 144.5);
        assert_eq!(data.series[0].clock.text(10), "2024-01-11");
        assert!(data.notes[1].starts_with("3 steps are missing"));
    }

    #[test]
    fn an_irregular_clock_is_said() {
        let data = read("t,y\n0,1.5\n1,2.5\n2.5,0.5\n2.75,3.5\n9,1\n").unwrap();
        assert_eq!(data.series[0].values.len(), 5);
        assert!(data.notes.iter().any(|note| note.contains("not regular")));
    }

    #[test]
    fn sequences_parts_and_kinds() {
        let text = "unique_id,t,y,n,wet,sky,split\n\
                    a,0,1.5,3,0,blue,train\nb,0,2.5,0,1,grey,train\na,1,NA,2,1,blue,valid\na,2,0.5,1,0,,test\n";
        let data = read(text).unwrap();
        let names: Vec<&str> = data
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(data.series[0].starts, [1, 2]);
        assert_eq!(data.series[1].starts, [1, 1]);
        let kinds: Vec<&ColumnKind> = data.columns.iter().map(|column| &column.kind).collect();
        let sky = ColumnKind::Category(vec!["blue".into(), "grey".into()]);
        assert_eq!(
            kinds,
            [
                &ColumnKind::Number,
                &ColumnKind::Count,
                &ColumnKind::Binary,
                &sky
            ]
        );
        assert!(data.series[0].values[4].is_nan() && data.series[0].values[11].is_nan());
    }

    #[test]
    fn one_value_a_row_is_made_wide() {
        let text = "date,variable,value\n2024-01-01,a,1.5\n2024-01-01,b,2.5\n2024-01-02,a,3.5\n2024-01-03,b,4.5\n\
                    2024-01-03,a,0.5\n";
        let data = read(text).unwrap();
        let names: Vec<&str> = data
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(data.series[0].values[..2], [1.5, 2.5]);
        assert!(data.series[0].values[3].is_nan());
        let twice = format!("{text}2024-01-03,a,1\n");
        assert!(read(&twice).unwrap_err().contains("a second value of a"));
    }

    #[test]
    fn whole_sequences_are_parts_if_that_is_asked_for() {
        let rows = (0..12).flat_map(|s| (0..3).map(move |t| format!("s{s},{t},{}.5\n", s * t)));
        let text = format!("id,t,y\n{}", rows.collect::<String>());
        let settings = TableSettings {
            division: Division::Sequence,
            ..TableSettings::default()
        };
        let data = read_with(&text, &settings).unwrap();
        let steps = Part::ALL.map(|part| data.steps(part));
        assert_eq!(steps, [24, 6, 6]);
    }

    #[test]
    fn numbers_of_rows_are_no_sequences() {
        let data = read("id,y\n1,1.5\n2,2.5\n3,0.5\n").unwrap();
        assert_eq!((data.series.len(), data.columns.len()), (1, 2));
        assert!(
            data.notes[1].contains("names no sequences"),
            "{:?}",
            data.notes
        );
    }

    #[test]
    fn offsets_of_times_are_told() {
        let notes = |zone: &str| {
            let text = format!("t,y\n2024-01-01T00:00:00{zone},1\n2024-01-02T00:00:00{zone},2\n");
            read(&text).unwrap().notes
        };
        assert!(notes("+01:00").iter().any(|note| note.contains("UTC")));
        assert!(!notes("Z").iter().any(|note| note.contains("UTC")));
    }

    #[test]
    fn what_cannot_be_used_is_one_line_with_the_way_out() {
        let refused = |text: &str| read(text).unwrap_err();
        for (text, parts) in [
            ("a;b\n1;2\n", vec!["a;b", "';'"]),
            ("y,y\n1,2\n", vec!["two columns are named y"]),
            ("y,\n1,2\n", vec!["column 2 has no name"]),
            ("1.5,2\n1,2\n", vec!["1.5, 2", "must name the columns"]),
            ("a;b\n1,5;2\n", vec!["separator looks like ';'"]),
            (
                "y\n1.5\n2.5\ninf\n",
                vec!["line 4", "\"inf\" is not a number", "table.categories"],
            ),
            ("y\n", vec!["a header without rows"]),
            ("y\n1.5\n", vec!["a single row"]),
            ("y,z\n1,3\n2,3\n", vec!["z is constant", "table.leave_out"]),
            ("y,z\n1,\n2,\n", vec!["z is empty", "table.leave_out"]),
            (
                "date,y\n2024-01-02,1\n2024-01-01,2\n",
                vec!["line 3", "2024-01-01 does not come after", "line 2"],
            ),
            ("date\n2024-01-02\n2024-01-03\n", vec!["no column is left"]),
            ("y,split\n1,train\n2,dev2\n", vec!["line 3", "dev2"]),
            ("y,split\n1,test\n2,train\n", vec!["train comes after test"]),
        ] {
            let problem = refused(text);
            assert!(!problem.contains('\n'), "{problem}");
            for part in parts {
                assert!(problem.contains(part), "{problem}");
            }
        }
        let settings = |time: &str, leave_out: &[&str]| TableSettings {
            time: time.into(),
            leave_out: leave_out.iter().map(|name| (*name).to_owned()).collect(),
            ..TableSettings::default()
        };
        let refused = |settings| read_with("a,b\n1,2\n3,4\n", &settings).unwrap_err();
        assert!(
            refused(settings("c", &[])).contains("table.time is 'c', but the columns are a, b")
        );
        assert!(refused(settings("", &["c"])).contains("table.leave_out has 'c'"));
    }
}
