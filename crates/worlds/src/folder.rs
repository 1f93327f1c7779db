//! Folders of a user's files: the order in which they are read, and their names within the folder.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::refused;

/// Natural order, by numbers in names: `frame9` before `frame10`.
pub(crate) fn natural_order(left: &str, right: &str) -> Ordering {
    let (mut left_rest, mut right_rest) = (left, right);
    loop {
        let (left_run, right_run) = (run(left_rest), run(right_rest));
        let order = match (left_run.is_empty(), right_run.is_empty()) {
            (true, true) => return left.cmp(right),
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => compare_runs(left_run, right_run),
        };
        if order != Ordering::Equal {
            return order;
        }
        left_rest = &left_rest[left_run.len()..];
        right_rest = &right_rest[right_run.len()..];
    }
}

/// The leading digits of a text, or its leading characters that are not digits.
fn run(text: &str) -> &str {
    let digits = text.starts_with(|first: char| first.is_ascii_digit());
    let end = text.find(|next: char| next.is_ascii_digit() != digits);
    &text[..end.unwrap_or(text.len())]
}

fn compare_runs(left: &str, right: &str) -> Ordering {
    let number = |run: &str| run.starts_with(|first: char| first.is_ascii_digit());
    if !number(left) || !number(right) {
        return left.cmp(right);
    }
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// The entries of a folder, without hidden files, in natural order.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    let mut found = read().map_err(|cause| refused(folder, cause))?;
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    found.retain(|path| !name(path).starts_with('.'));
    found.sort_by(|left, right| natural_order(&name(left), &name(right)));
    Ok(found)
}

pub(crate) fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    extensions.contains(&extension.to_ascii_lowercase().as_str())
}

/// The path of `path` relative to `folder`, with `/` on every system.
pub(crate) fn within(folder: &Path, path: &Path) -> String {
    let inner = path.strip_prefix(folder).unwrap_or(path);
    let names = inner.iter().map(|name| name.to_string_lossy());
    names.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::natural_order;

    #[test]
    fn numbers_in_names_are_ordered_as_numbers() {
        let mut names = [
            "b", "f10.png", "f9.png", "f09.png", "f1.png", "F2.png", "a2b10", "a2b9", "10", "9",
        ];
        names.sort_by(|left, right| natural_order(left, right));
        assert_eq!(
            names,
            [
                "9", "10", "F2.png", "a2b9", "a2b10", "b", "f1.png", "f09.png", "f9.png", "f10.png"
            ]
        );
    }
}
