//! The part to which each recording of a folder belongs: by an index, by folders, or by chance.

use std::collections::HashMap;
use std::path::Path;

use rand::RngExt;

use super::corpus::{Part, Parts};
use crate::error::unusable;
use crate::files::{Files, is_named};
use crate::formats::table::Table;
use crate::{Error, Stream};

/// Divides the items found in `folder` into parts.
///
/// If there is a table `index.csv`, it decides: with a column `file`, `clip` or `name`, and a column
/// `split`. Otherwise folders named after the parts decide, and otherwise chance (see [`by_chance`]).
pub(crate) fn parts<T>(
    folder: &Path,
    found: Vec<(String, T)>,
    files: &Files,
) -> Result<Parts<Vec<T>>, Error> {
    let index = folder.join("index.csv");
    let mut parts = Parts::default();
    if is_named(&index) {
        let mut table = read_index(&index, files)?;
        for (name, item) in found {
            if let Some(part) = table.remove(&name) {
                parts.get_mut(part).push(item);
            }
        }
        let missing = table.into_keys().min();
        return match missing {
            Some(name) => Err(unusable(
                &index,
                format!(
                    "names {name}, which is not in {}; remove the line or add the file",
                    folder.display()
                ),
            )),
            None => Ok(parts),
        };
    }
    let part_of = |name: &str| {
        name.split_once('/')
            .and_then(|(first, _)| Part::named(first))
    };
    if found.iter().any(|(name, _)| part_of(name).is_some()) {
        for (name, item) in found {
            let Some(part) = part_of(&name) else {
                return Err(unusable(
                    &folder.join(&name),
                    "is not in one of the folders train, valid and test; move it into one of them",
                ));
            };
            parts.get_mut(part).push(item);
        }
        return Ok(parts);
    }
    Ok(by_chance(found.into_iter().map(|(_, item)| item).collect()))
}

/// The part of every recording in an index.
fn read_index(index: &Path, files: &Files) -> Result<HashMap<String, Part>, Error> {
    let read = Table::read(index, files)?;
    let columns = (
        read.column(&["file", "clip", "name"]),
        read.column(&["split"]),
    );
    let (Some(name), Some(split)) = columns else {
        return Err(unusable(
            index,
            "its header needs a column file, clip or name and a column split",
        ));
    };
    let mut table = HashMap::new();
    for (line, fields) in &read.rows {
        let at = |column: usize| fields[column].as_str();
        let Some(part) = Part::named(at(split)) else {
            return Err(unusable(
                index,
                format!(
                    "line {line}: split {:?}; a split must be train, valid or test",
                    at(split)
                ),
            ));
        };
        if table.insert(at(name).to_owned(), part).is_some() {
            return Err(unusable(
                index,
                format!("line {line}: names {} again", at(name)),
            ));
        }
    }
    Ok(table)
}

/// A tenth for validation and a tenth for the test, at random but always the same for a given number of
/// recordings; at least one each if there are three or more.
pub(crate) fn by_chance<T>(items: Vec<T>) -> Parts<Vec<T>> {
    let tenth = (items.len() + 5) / 10;
    let test = tenth.max(usize::from(items.len() >= 2));
    let valid = tenth.max(usize::from(items.len() >= 3));
    let (rest, test) = hold_out(items, test);
    let (train, valid) = hold_out(rest, valid);
    Parts { train, valid, test }
}

/// Takes `count` items out at random, the same in every run; both lists keep their order.
pub(crate) fn hold_out<T>(items: Vec<T>, count: usize) -> (Vec<T>, Vec<T>) {
    let mut generator = Stream::new(0, "recordings held out").at(items.len() as u64);
    let mut order: Vec<usize> = (0..items.len()).collect();
    let mut held = vec![false; items.len()];
    for taken in 0..count.min(items.len()) {
        let other = generator.random_range(taken..order.len());
        order.swap(taken, other);
        held[order[taken]] = true;
    }
    let (mut rest, mut out) = (Vec::new(), Vec::new());
    for (item, held) in items.into_iter().zip(held) {
        if held { &mut out } else { &mut rest }.push(item);
    }
    (rest, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use std::fs;

    #[test]
    fn held_out_items_and_the_rest_make_up_all() {
        for count in 0..40 {
            let Parts { train, valid, test } = by_chance((0..count).collect());
            for part in [&train, &valid, &test] {
                assert!(part.is_sorted());
            }
            let mut all = [train.clone(), valid.clone(), test.clone()].concat();
            all.sort();
            assert!(all.into_iter().eq(0..count));
            assert_eq!(train.is_empty(), count == 0);
            assert_eq!(test.is_empty(), count < 2);
            assert_eq!(valid.is_empty(), count < 3);
        }
    }

    #[test]
    fn an_index_decides_before_folders_do() {
        let folder = tempfile::tempdir().unwrap();
        let found = |names: &[&str]| {
            let named = names.iter().map(|&name| (name.to_owned(), name.to_owned()));
            named.collect::<Vec<_>>()
        };
        let parts = |names: &[&str]| {
            let files = Files::new(Limits::default());
            super::parts(folder.path(), found(names), &files)
        };
        let divided = parts(&["train/a", "val/b", "test/c"]).unwrap();
        assert_eq!(divided.valid, ["val/b"]);
        let error = parts(&["train/a", "b"]).unwrap_err();
        assert!(error.to_string().contains("b: is not in one of"), "{error}");

        let index = folder.path().join("index.csv");
        let refused = |text: &str| {
            fs::write(&index, text).unwrap();
            parts(&["train/a"]).unwrap_err().to_string()
        };
        assert!(refused("file,part\n").contains("needs a column"));
        assert!(refused("file,split\ntrain/a,some\n").contains("line 2: split \"some\""));
        assert!(refused("file,split\nx,test\n").contains("names x, which is not in"));
        assert!(refused("file,split\nx,test\nx,test\n").contains("line 3: names x again"));
        fs::write(&index, "file,split\ntrain/a,test\n").unwrap();
        let divided = parts(&["train/a", "unnamed"]).unwrap();
        assert_eq!(divided.test, ["train/a"]);
        assert!(divided.train.is_empty());
    }
}
