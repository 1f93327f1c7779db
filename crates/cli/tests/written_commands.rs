//! The program accepts the settings of every command in the README, the guides, the results, the pretrained models
//! and the help.

use mnemora_lab::load_experiment;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files that contain commands; none if the crate is not in its repository.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    let mut folders = vec![
        root.join("results"),
        root.join("pretrained"),
        root.join("docs"),
    ];
    let readme = root.join("README.md");
    if folders[0].is_dir() && readme.is_file() {
        files.push(readme);
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("a file of the project").path();
            let kinds = ["md", "jsonl", "json"];
            match path.extension().and_then(|kind| kind.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some(kind) if kinds.contains(&kind) => files.push(path),
                _ => {}
            }
        }
    }
    files
}

/// The words of each `mnemora` command in a text, without quotes.
fn commands(text: &str) -> Vec<Vec<String>> {
    // In a shell, a backslash at the end of a line continues the command on the next line.
    let text = text.replace("\\\n", " ");
    let mut found = Vec::new();
    let mut variables: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let line = variables
            .iter()
            .fold(line.to_owned(), |line, (name, value)| {
                line.replace(&format!("${name} "), &format!("{value} "))
            });
        // Settings that several commands share: `some="--set .."`.
        if let Some((name, value)) = line.split_once("=\"--")
            && let Some((value, _)) = value.split_once('"')
            && name.chars().all(|c| c.is_ascii_lowercase())
        {
            variables.retain(|(other, _)| other != name);
            variables.push((name.to_owned(), format!("--{value}")));
            continue;
        }
        for piece in line.split("mnemora ").skip(1) {
            let end = piece
                .find(['`', '"', '#', ';', '|', '>', '&'])
                .unwrap_or(piece.len());
            let words = piece[..end].split_whitespace();
            found.push(
                words
                    .map(|word| word.trim_end_matches(',').replace('\'', ""))
                    .collect(),
            );
        }
    }
    found
}

/// The values of an option in a command.
fn values(words: &[String], option: &str) -> Vec<String> {
    let pairs = words.windows(2).filter(|pair| pair[0] == option);
    pairs.map(|pair| pair[1].clone()).collect()
}

#[test]
fn settings_of_written_commands_are_read() {
    let mut checked = 0;
    let files = files();
    if files.is_empty() {
        eprintln!("skipped: there are no results next to the crates");
        return;
    }
    for file in files {
        let text = fs::read_to_string(&file).expect("a file of the project");
        for words in commands(&text) {
            let (Some(command), Some(name)) = (words.first(), words.get(1)) else {
                continue;
            };
            if command != "train" && command != "show" || name.starts_with('-') {
                continue;
            }
            // A shell variable in a loop stands for several values.
            let plain = |value: &String| !value.contains('$') && value.contains('=');
            let mut settings: Vec<String> = values(&words, "--set");
            settings.retain(plain);
            let memories = values(&words, "--memory").into_iter();
            let placeholder = |c: char| c.is_uppercase() || c == '$';
            let memories = memories.filter(|name| !name.contains(placeholder));
            settings.extend(memories.map(|name| format!("model.memory={name}")));
            let told = format!("{}: mnemora {}", file.display(), words.join(" "));
            let experiment = match load_experiment(name, &settings) {
                Ok(experiment) => experiment,
                // A user's own experiment, or a placeholder.
                Err(_) if name.contains('.') || name.contains(placeholder) => {
                    continue;
                }
                Err(error) => panic!("{told}: {error}"),
            };
            if let Err(error) = experiment.refuse_unread(&settings) {
                panic!("{told}: {error}");
            }
            checked += usize::from(!settings.is_empty());
        }
    }
    assert!(checked > 30, "only {checked} commands were found");
}
