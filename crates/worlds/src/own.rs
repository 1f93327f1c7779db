//! A user's own sequences: arrays of NumPy, a table in CSV, or folders of pictures.

use std::collections::HashMap;
use std::path::Path;

use crate::corpus::{Corpus, Parts, Recording, Values};
use crate::folder::{self, has_extension, unusable};
use crate::npy::{self, Array, Numbers};
use crate::picture::FrameSettings;
use crate::table::Table;
use crate::{Error, FrameShape, Origin, Video};

/// Columns of a table that tell its sequences apart.
const SEQUENCE_COLUMNS: [&str; 5] = ["sequence", "sequence_id", "series", "episode", "id"];
/// Columns that give the place of a row in its sequence.
const TIME_COLUMNS: [&str; 3] = ["time", "t", "step"];
/// A column that gives the part of a sequence.
const SPLIT_COLUMNS: [&str; 1] = ["split"];

/// Where a user's own sequences are read.
#[derive(Clone, Copy, Debug)]
pub enum Own {}

impl Own {
    /// Sequences of numbers, or of pictures, from `path`:
    ///
    /// - `.npz` or `.npy` with one array `[sequence, time, ...]`: sequences of equal length; or
    ///   `.npz` with several arrays `[time, ...]`, a sequence each. What follows time is a step: a
    ///   number, a vector `[width]`, or a picture `[channels, height, width]`. Where the arrays of an
    ///   archive are named `train`, `valid` and `test`, each is `[sequence, time, ...]` and is that
    ///   part.
    /// - `.csv` with a header: a column `sequence` (or `sequence_id`, `series`, `episode`, `id`) tells
    ///   sequences apart, the rows of which are in the order of time; columns `time`, `t` and `step`
    ///   are checked for that order and left out; a column `split` gives the part; all others are
    ///   numbers.
    /// - A folder of pictures for each sequence, or a video file: see [`Video::open`], with `frame`.
    ///
    /// Numbers are seen as they are, bytes too. Where nothing says which part a sequence belongs to,
    /// a tenth is for validation and a tenth for the test.
    ///
    /// # Errors
    /// The file cannot be read or is damaged, a number is not finite, steps differ in width, a
    /// sequence is empty.
    pub fn open(path: &Path, frame: FrameSettings) -> Result<Corpus, Error> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if !path.exists() {
            return Err(unusable(
                path,
                "does not exist; sequences are read from .npz, .npy and .csv files, and from folders of pictures",
            ));
        }
        let (shape, parts) = if has_extension(path, &["npz", "npy"]) {
            array_sequences(npy::read_arrays(path)?).map_err(|problem| unusable(path, problem))?
        } else if has_extension(path, &["csv"]) {
            table_sequences(Table::read(path)?).map_err(|problem| unusable(path, problem))?
        } else {
            return Video::open(path, frame);
        };
        let origin = Origin::Folder(path.to_owned());
        Ok(Corpus::new(&*name, shape, parts, origin, Vec::new()))
    }
}

type Sequences = Parts<Vec<Recording>>;

fn array_sequences(arrays: Vec<(String, Array)>) -> Result<(FrameShape, Sequences), String> {
    let divided = !arrays.is_empty()
        && arrays.iter().all(|(name, _)| {
            crate::Part::named(name).is_some_and(|part| part.to_string() == *name)
        });
    let stacked = divided || arrays.len() == 1;
    let mut shape: Option<(FrameShape, String)> = None;
    let mut parts = Parts::default();
    let mut undivided = Vec::new();
    for (name, array) in arrays {
        let mut dimensions = array.shape.iter();
        let count = if stacked { dimensions.next() } else { Some(&1) };
        let (Some(&count), Some(&time)) = (count, dimensions.next()) else {
            let wanted = if stacked {
                "[sequence, time, ...]"
            } else {
                "[time, ...]"
            };
            return Err(format!(
                "{name}: an array of {:?}; it should be {wanted}",
                array.shape
            ));
        };
        let step =
            step_shape(dimensions.as_slice()).map_err(|problem| format!("{name}: {problem}"))?;
        let (known, first) = shape.get_or_insert((step, name.clone()));
        if *known != step {
            return Err(format!(
                "{name}: steps of {}, but those of {first} are {}; all must agree",
                describe(step),
                describe(*known)
            ));
        }
        let numbers = match array.numbers {
            Numbers::Floats(numbers) => numbers,
            Numbers::Bytes(bytes) => bytes.into_iter().map(f32::from).collect(),
        };
        if numbers.is_empty() {
            return Err(format!(
                "{name}: an array of {:?}, without a number",
                array.shape
            ));
        }
        if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(format!(
                "{name}{:?}: {}, not a finite number; remove it or fill it in",
                indices(place, &array.shape),
                numbers[place]
            ));
        }
        let sequences = numbers.chunks_exact(time * step.size()).enumerate();
        let sequences = sequences.map(|(number, numbers)| Recording {
            name: if stacked {
                format!("{name} {number}")
            } else {
                name.clone()
            },
            values: Values::Numbers(numbers.to_vec()),
        });
        debug_assert_eq!(sequences.len(), count);
        match crate::Part::named(&name).filter(|_| divided) {
            Some(part) => parts.get_mut(part).extend(sequences),
            None => undivided.extend(sequences),
        }
    }
    let (shape, _) = shape.ok_or("holds no arrays")?;
    if !divided {
        parts = folder::by_chance(undivided);
    }
    Ok((shape, parts))
}

/// The dimensions after time.
fn step_shape(dimensions: &[usize]) -> Result<FrameShape, String> {
    let shape = |channels, height, width| FrameShape {
        channels,
        height,
        width,
    };
    match *dimensions {
        [] => Ok(shape(1, 1, 1)),
        [width] => Ok(shape(1, 1, width)),
        [height, width] => Ok(shape(1, height, width)),
        [channels, height, width] => Ok(shape(channels, height, width)),
        _ => Err(format!(
            "steps of {dimensions:?}; a step is a number, [width], [height, width] or [channels, height, width]"
        )),
    }
}

fn describe(step: FrameShape) -> String {
    match (step.channels, step.height) {
        (1, 1) => format!("{} values", step.width),
        _ => format!(
            "{} x {} x {} values",
            step.channels, step.height, step.width
        ),
    }
}

/// Where element `place` lies, from 0.
fn indices(place: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = place;
    let mut indices: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let index = rest % size;
            rest /= size;
            index
        })
        .collect();
    indices.reverse();
    indices
}

/// A sequence of a table while its rows are gathered.
struct Gathered {
    name: String,
    split: Option<String>,
    time: Option<f64>,
    numbers: Vec<f32>,
}

fn table_sequences(table: Table) -> Result<(FrameShape, Sequences), String> {
    let sequence = table.column(&SEQUENCE_COLUMNS).ok_or_else(|| {
        format!(
            "no column {}, by which sequences are told apart",
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
                Err(_) if text.is_empty() => return Err(format!("{}: no number", place())),
                Err(_) => return Err(format!("{}: {text:?} is no number", place())),
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
                "line {line}: sequence {name} is in split {:?} and before in {:?}",
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
        let part = crate::Part::named(&split).ok_or_else(|| {
            format!("sequence {name} is in split {split:?}; a split is train, valid or test")
        })?;
        parts.get_mut(part).push(recording(name, numbers));
    }
    if !undivided.is_empty() {
        parts = folder::by_chance(undivided);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;
    use crate::Part;
    use crate::npy::tests::{floats, npy, npz};
    use crate::picture::tests::{encode_png, uniform};

    fn written(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn open(name: &str, bytes: &[u8]) -> Result<Corpus, String> {
        let (_folder, path) = written(name, bytes);
        let opened = Own::open(&path, FrameSettings::default());
        opened.map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains('\n'), "{text}");
            let (_, problem) = text
                .split_once(&format!("{name}: "))
                .expect("the file is named");
            problem.to_owned()
        })
    }

    fn counts(corpus: &Corpus) -> [usize; 3] {
        Part::ALL.map(|part| corpus.recordings(part).len())
    }

    #[test]
    fn stacked_and_unequal_arrays_are_sequences() {
        let numbers: Vec<f32> = (0..40 * 3 * 2).map(|value| value as f32).collect();
        let stacked = npz(&[("x", floats(&[40, 3, 2], &numbers))]);
        let corpus = open("x.npz", &stacked).unwrap();
        assert_eq!((counts(&corpus), corpus.frame().size()), ([32, 4, 4], 2));
        let first = &corpus.recordings(Part::Train)[0];
        assert_eq!((first.name.as_str(), corpus.steps(first)), ("x 0", 3));
        let batch = corpus.whole(Part::Train, &[0]).unwrap();
        assert_eq!(batch.values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let single = open("x.npy", &floats(&[40, 3, 2], &numbers)).unwrap();
        assert_eq!(single.fingerprint(), corpus.fingerprint());

        let unequal = npz(&[
            ("a", floats(&[3, 2], &numbers[..6])),
            ("b", floats(&[5, 2], &numbers[..10])),
            ("c", npy("|u1", false, &[1, 2], &[7, 255])),
        ]);
        let corpus = open("x.npz", &unequal).unwrap();
        assert_eq!(counts(&corpus), [1, 1, 1]);
        let steps: usize = Part::ALL.iter().map(|&part| corpus.total_steps(part)).sum();
        assert_eq!(steps, 9);

        let divided = npz(&[
            ("train", floats(&[2, 3], &numbers[..6])),
            ("test", floats(&[1, 5], &numbers[..5])),
        ]);
        let corpus = open("x.npz", &divided).unwrap();
        assert_eq!((counts(&corpus), corpus.frame().size()), ([2, 0, 1], 1));
        let pictures = floats(&[1, 2, 3, 4, 5], &numbers[..120]);
        let frame = open("x.npy", &pictures).unwrap().frame();
        assert_eq!((frame.channels, frame.height, frame.width), (3, 4, 5));
    }

    #[test]
    fn bad_arrays_are_refused_with_their_place() {
        let refused = |arrays: &[(&str, Vec<u8>)]| open("x.npz", &npz(arrays)).unwrap_err();
        let mut numbers = vec![0.0; 12];
        numbers[9] = f32::NAN;
        assert_eq!(
            refused(&[("x", floats(&[2, 3, 2], &numbers))]),
            "x[1, 1, 1]: NaN, not a finite number; remove it or fill it in"
        );
        numbers[9] = f32::NEG_INFINITY;
        assert!(refused(&[("x", floats(&[2, 6], &numbers))]).starts_with("x[1, 3]: -inf"));
        assert_eq!(
            refused(&[
                ("a", floats(&[3, 2], &[0.0; 6])),
                ("b", floats(&[2, 3], &[0.0; 6]))
            ]),
            "b: steps of 3 values, but those of a are 2 values; all must agree"
        );
        assert!(refused(&[("x", floats(&[6], &[0.0; 6]))]).contains("[sequence, time, ...]"));
        assert!(refused(&[("x", floats(&[0, 6], &[]))]).contains("without a number"));
        assert!(refused(&[("x", floats(&[1; 6], &[0.0]))]).contains("a step is a number"));
        assert_eq!(refused(&[]), "holds no arrays");
        let beyond = npy("<f8", false, &[1, 1], &1e300f64.to_le_bytes());
        assert!(refused(&[("x", beyond)]).starts_with("x[0, 0]: inf"));
    }

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
            "line 2, column x: \"one\" is no number"
        );
        assert_eq!(refused("sequence,x\na,\n"), "line 2, column x: no number");
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
            "line 3: sequence a is in split \"test\" and before in \"train\""
        );
        assert!(refused("sequence,split,x\na,some,0\n").contains("in split \"some\""));
        let (_folder, path) = written("x.csv", &[0xff, 0xfe, 0]);
        assert!(Own::open(&path, FrameSettings::default()).is_err());
    }

    #[test]
    fn folders_of_pictures_are_sequences() {
        let folder = tempfile::tempdir().unwrap();
        for sequence in ["1", "2"] {
            let inner = folder.path().join(sequence);
            fs::create_dir(&inner).unwrap();
            fs::write(inner.join("1.png"), encode_png(&uniform(8, 8, 9))).unwrap();
        }
        let corpus = Own::open(folder.path(), FrameSettings::default()).unwrap();
        assert_eq!(counts(&corpus), [1, 0, 1]);
        let error = Own::open(&folder.path().join("none"), FrameSettings::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("does not exist; sequences are read from"),
            "{error}"
        );
    }
}
