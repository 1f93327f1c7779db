//! The tables of `docs/weights.md`: what they say, and the check of a model's arrays against them.

use burn::module::Module;
use mnemora_training::arrays::{Array, Arrays, collect};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// A line of a table: a name, a shape, and whether the arrays exist only under a condition.
struct Row {
    name: String,
    shape: String,
    conditional: bool,
}

/// The tables, by the heading above each.
fn tables() -> BTreeMap<String, Vec<Row>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/weights.md");
    let text = fs::read_to_string(path).expect("the repository has the tables");
    let mut tables = BTreeMap::new();
    for section in text.split("\n### ").skip(1) {
        // A heading of a higher level ends the section.
        let section = section.split("\n## ").next().unwrap_or(section);
        let (heading, body) = section.split_once('\n').expect("a heading has a section");
        let rows = body.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            Some(Row {
                name: cells.next()?.trim_end_matches('`').to_owned(),
                shape: cells.next()?.trim_matches('`').to_owned(),
                conditional: cells.next()?.starts_with("If "),
            })
        });
        tables.insert(heading.to_owned(), rows.collect());
    }
    tables
}

/// Evaluates a sum of products of numbers and named sizes.
fn value(expression: &str, sizes: &BTreeMap<&str, usize>) -> usize {
    let factor = |word: &str| match word.parse() {
        Ok(number) => number,
        Err(_) => *sizes
            .get(word)
            .unwrap_or_else(|| panic!("the size {word} of {expression} is not known")),
    };
    let terms = expression.split(" + ");
    terms
        .map(|term| term.split(" * ").map(factor).product::<usize>())
        .sum()
}

/// Name and shape of each array of a row.
fn arrays_of(name: &str, shape: &str, sizes: &BTreeMap<&str, usize>) -> Vec<(String, Vec<usize>)> {
    let (kind, list) = shape
        .trim_end_matches([')', ']'])
        .split_once(['(', '['])
        .unwrap_or_else(|| panic!("{shape} is not a shape"));
    let list: Vec<usize> = list.split(", ").map(|size| value(size, sizes)).collect();
    let part = |part: &str, shape: &[usize]| (format!("{name}.{part}"), shape.to_vec());
    match (kind, list.as_slice()) {
        ("", shape) => vec![(name.to_owned(), shape.to_vec())],
        ("linear", &[a, b]) => vec![part("weight", &[a, b]), part("bias", &[b])],
        ("map", &[a, b]) => vec![part("weight", &[a, b])],
        ("lstm", &[a, h]) => vec![
            part("weight_input", &[a, 4 * h]),
            part("weight_hidden", &[h, 4 * h]),
            part("bias", &[4 * h]),
        ],
        ("layer_norm", &[n]) => vec![part("gamma", &[n]), part("beta", &[n])],
        ("batch_norm", &[n]) => ["gamma", "beta", "running_mean", "running_var"]
            .map(|statistic| part(statistic, &[n]))
            .into(),
        ("conv", &[a, b, k]) => vec![part("weight", &[b, a, k, k]), part("bias", &[b])],
        ("transposed", &[a, b, k]) => vec![part("weight", &[a, b, k, k]), part("bias", &[b])],
        _ => panic!("{shape} is not a shape"),
    }
}

/// The names that a name with `{first..last}` stands for, each with its number. Without `last`, they continue as long
/// as `there` knows the name.
fn counted(name: &str, there: impl Fn(&str) -> bool) -> Vec<(String, usize)> {
    let Some((before, rest)) = name.split_once('{') else {
        return vec![(name.to_owned(), 0)];
    };
    let (range, after) = rest.split_once('}').expect("a brace is closed");
    let (first, last) = range.split_once("..").expect("a range in braces");
    let first = first.parse().expect("a range starts with a number");
    let names = (first..).map(|number: usize| (format!("{before}{number}{after}"), number));
    match last.parse::<usize>() {
        Ok(last) => names.take(last + 1 - first).collect(),
        Err(_) => names.take_while(|(name, _)| there(name)).collect(),
    }
}

/// Compares models with the tables, and records which rows were used.
pub struct Checker {
    tables: BTreeMap<String, Vec<Row>>,
    seen: BTreeSet<String>,
}

impl Checker {
    pub fn new() -> Self {
        Self {
            tables: tables(),
            seen: BTreeSet::new(),
        }
    }

    /// `arrays` must be exactly those of the sections, each under its prefix.
    pub fn check(&mut self, sections: &[(&str, &str)], arrays: &Arrays, sizes: &[(&str, usize)]) {
        let model = sections.last().expect("a section").0;
        let mut left: BTreeMap<&str, &Array> = arrays
            .iter()
            .map(|(name, array)| (name.as_str(), array))
            .collect();
        for (section, prefix) in sections {
            let rows = self.tables.get(*section);
            for row in rows.unwrap_or_else(|| panic!("no table {section}")) {
                let there = |name: &str| {
                    let mut names = arrays.keys();
                    names.any(|found| found == name || found.starts_with(&format!("{name}.")))
                };
                let open = row.conditional || row.name.contains("..}");
                for (name, number) in counted(&format!("{prefix}{}", row.name), there) {
                    if open && !there(&name) {
                        continue;
                    }
                    self.seen.insert(format!("{section}: {}", row.name));
                    let mut sizes: BTreeMap<&str, usize> = sizes.iter().copied().collect();
                    sizes.insert("i", number);
                    for (name, shape) in arrays_of(&name, &row.shape, &sizes) {
                        let found = left.remove(name.as_str());
                        let found = found.map(|array| &array.shape);
                        assert_eq!(found, Some(&shape), "{model}: {name}");
                    }
                }
            }
        }
        assert!(left.is_empty(), "{model}: no row for {:?}", left.keys());
    }

    pub fn check_module<M: Module>(
        &mut self,
        sections: &[(&str, &str)],
        module: &M,
        sizes: &[(&str, usize)],
    ) {
        self.check(sections, &collect(module), sizes);
    }

    /// Every row of every table must have been used.
    pub fn check_all_seen(&self) {
        for (section, rows) in &self.tables {
            for row in rows {
                let row = format!("{section}: {}", row.name);
                assert!(self.seen.contains(&row), "no model has the row {row}");
            }
        }
    }
}
