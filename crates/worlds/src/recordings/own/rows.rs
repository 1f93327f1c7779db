//! Sequences in the rows of a table.

use std::collections::HashMap;

use super::Sequences;
use crate::FrameShape;
use crate::formats::table::Table;
use crate::recordings::corpus::{Part, Parts, Recording, Values};
use crate::recordings::parts::by_chance;

/// Columns that name the sequence of a row.
const SEQUENCE_COLUMNS: [&str; 5] = ["sequence", "sequence_id", "series", "episode", "id"];
/// Columns that give the place of a row in its sequence.
const TIME_COLUMNS: [&str; 3] = ["time", "t", "step"];
/// A column that gives the part of a sequence.
const SPLIT_COLUMNS: [&str; 1] = ["split"];

/// A sequence of a table while its rows are gathered.
struct Gathered {
    name: String,
    split: Option<String>,
    time: Option<f64>,
    numbers: Vec<f32>,
}

/// The error is one line without the name of the file.
pub(super) fn sequences(table: Table) -> Result<(FrameShape, Sequences), String> {
    let sequence = table.column(&SEQUENCE_COLUMNS).ok_or_else(|| {
        format!(
            "no column {}, which names the sequence of each row",
            SEQUENCE_COLUMNS.join(" or ")
        )
    })?;
    let (time, split) = (table.column(&TIME_COLUMNS), table.column(&SPLIT_COLUMNS));
    let columns: Vec<usize> = (0..table.header.len())
        .filter(|&column| column != sequence && Some(column) != time && Some(column) != split)
        .collect();
    if columns.is_empty() {
        return Err("no column of numbers".to_owned());
    }
    let mut gathered: Vec<Gathered> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (line, fields) in &table.rows {
        let number = |column: usize| -> Result<f64, String> {
            let text = &fields[column];
            let place = || format!("line {line}, column {}", table.header[column]);
            let number: f64 = match text.parse() {
                Ok(number) => number,
                Err(_) if text.is_empty() => {
                    return Err(format!("{}: a number is missing", place()));
                }
                Err(_) => return Err(format!("{}: {text:?} is not a number", place())),
            };
            if !(number as f32).is_finite() {
                return Err(format!(
                    "{}: {text}, not a finite number; remove it or fill it in",
                    place()
                ));
            }
            Ok(number)
        };
        let name = fields[sequence].as_str();
        let next = gathered.len();
        let place = *places.entry(name).or_insert(next);
        if place == next {
            gathered.push(Gathered {
                name: name.to_owned(),
                split: split.map(|column| fields[column].clone()),
                time: None,
                numbers: Vec::new(),
            });
        }
        let row = &mut gathered[place];
        if let Some(column) = split
            && row.split.as_deref() != Some(&fields[column])
        {
            return Err(format!(
                "line {line}: sequence {name} is in split {:?}, but was in {:?} before",
                fields[column],
                row.split.as_deref().unwrap_or_default()
            ));
        }
        if let Some(column) = time {
            let now = number(column)?;
            if row.time.is_some_and(|before| before >= now) {
                return Err(format!(
                    "line {line}: time {now} of sequence {name} comes after {}; sort its rows by time",
                    row.time.unwrap_or_default()
                ));
            }
            row.time = Some(now);
        }
        for &column in &columns {
            row.numbers.push(number(column)? as f32);
        }
    }
    if gathered.is_empty() {
        return Err("a header without rows".to_owned());
    }
    let shape = FrameShape {
        channels: 1,
        height: 1,
        width: columns.len(),
    };
    Ok((shape, table_parts(gathered)?))
}

fn table_parts(gathered: Vec<Gathered>) -> Result<Sequences, String> {
    let recording = |name: String, numbers| Recording {
        name: format!("sequence {name}"),
        values: Values::Numbers(numbers),
    };
    let mut parts = Parts::default();
    let mut undivided = Vec::new();
    for Gathered {
        name,
        split,
        numbers,
        ..
    } in gathered
    {
        let Some(split) = split else {
            undivided.push(recording(name, numbers));
            continue;
        };
        let part = Part::named(&split).ok_or_else(|| {
            format!("sequence {name} is in split {split:?}; a split must be train, valid or test")
        })?;
        parts.get_mut(part).push(recording(name, numbers));
    }
    if !undivided.is_empty() {
        parts = by_chance(undivided);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use crate::Part;
    use crate::recordings::own::tests::{counts, open};

    #[test]
    fn tables_are_sequences() {
        let table = "sequence,t,x,y,split\na,0,1,2,train\nb,0,5,6,test\na,1,3,4,train\n";
        let corpus = open("x.csv", table.as_bytes()).unwrap();
        assert_eq!((counts(&corpus), corpus.frame().size()), ([1, 0, 1], 2));
        let batch = corpus.whole(Part::Train, &[0]).unwrap();
        assert_eq!(batch.values, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(corpus.recordings(Part::Test)[0].name, "sequence b");
        let mut table = "x,id\n".to_owned();
        for row in 0..60 {
            table += &format!("{row},{}\n", row % 20);
        }
        assert_eq!(
            counts(&open("x.csv", table.as_bytes()).unwrap()),
            [16, 2, 2]
        );
    }

    #[test]
    fn bad_tables_are_refused_with_their_line() {
        let refused = |table: &str| open("x.csv", table.as_bytes()).unwrap_err();
        assert!(refused("a,b\n1,2\n").starts_with("no column sequence or "));
        assert_eq!(refused("sequence,t\na,0\n"), "no column of numbers");
        assert_eq!(refused("sequence,x\n"), "a header without rows");
        assert_eq!(
            refused("sequence,x\na,1\na,nan\n"),
            "line 3, column x: nan, not a finite number; remove it or fill it in"
        );
        assert!(
            refused("sequence,x\na,1e39\n").starts_with("line 2, column x: 1e39, not a finite")
        );
        assert_eq!(
            refused("sequence,x\na,one\n"),
            "line 2, column x: \"one\" is not a number"
        );
        assert_eq!(
            refused("sequence,x\na,\n"),
            "line 2, column x: a number is missing"
        );
        assert_eq!(
            refused("sequence,x\na,1,2\n"),
            "line 2: 3 fields, but the header has 2"
        );
        assert_eq!(
            refused("sequence,t,x\na,1,0\na,1,0\n"),
            "line 3: time 1 of sequence a comes after 1; sort its rows by time"
        );
        assert_eq!(
            refused("sequence,split,x\na,train,0\na,test,0\n"),
            "line 3: sequence a is in split \"test\", but was in \"train\" before"
        );
        assert!(refused("sequence,split,x\na,some,0\n").contains("in split \"some\""));
        assert_eq!(
            refused("sequence,t,x\n\"a\nb\",1,0\n\"a\nb\",1,0\n"),
            "line 4: time 1 of sequence a\\nb comes after 1; sort its rows by time"
        );
        let error = open("x.csv", &[0xff, 0xfe, 0]).unwrap_err();
        assert!(error.starts_with("not a text in UTF-8"), "{error}");
    }
}
