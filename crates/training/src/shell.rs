//! Shell commands: quoting, splitting, and removing private paths.

use std::path::Path;

/// Quotes a word for the shell, if it needs quotes.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Splits a command, whose words are (or contain) [`quoted`] words, into its words.
pub fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = command.chars();
    let mut inside = false;
    while let Some(c) = characters.next() {
        match c {
            '\'' => {
                inside = !inside;
                word.get_or_insert_default();
            }
            ' ' if !inside => words.extend(word.take()),
            '\\' if !inside => word.get_or_insert_default().extend(characters.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// A command to be shown to others: the data folder becomes `DIR`, and of every other absolute path only the last part
/// stays. The folders mean nothing on another machine and may reveal who worked there.
pub fn without_folders(command: &str) -> String {
    const DATA: [&str; 4] = [
        "--data=",
        "MNEMORA_DATA=",
        "data.directory=",
        "--set=data.directory=",
    ];
    let mut option = String::new();
    let shared = words(command).into_iter().map(|word| {
        let before = std::mem::replace(&mut option, word.clone());
        let key = DATA.iter().find(|key| word.starts_with(**key));
        quoted(&match key {
            _ if before == "--data" => "DIR".to_owned(),
            Some(key) => format!("{key}DIR"),
            None => without_folder(&word),
        })
    });
    shared.collect::<Vec<String>>().join(" ")
}

/// The word with its absolute path, if it is one or has one as its value, shortened to the last part.
fn without_folder(word: &str) -> String {
    let values = word.match_indices('=').map(|(at, _)| at + 1);
    for at in std::iter::once(0).chain(values) {
        let (key, value) = word.split_at(at);
        let path = Path::new(value);
        if let Some(name) = path.file_name().filter(|_| path.is_absolute()) {
            return format!("{key}{}", name.to_string_lossy());
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_was_quoted() {
        let all = [
            "plain",
            "",
            "two words",
            "it's",
            "''",
            "a\\b",
            "--set",
            "x=y z",
        ];
        let command = all.map(quoted).join(" ");
        assert_eq!(words(&command), all);
        assert_eq!(words("A='b c' d"), ["A=b c", "d"]);
    }

    #[test]
    fn folders_are_left_out() {
        for (command, shared) in [
            (
                "mnemora train x --data '/home/me/my digits' --seed 1",
                "mnemora train x --data DIR --seed 1",
            ),
            (
                "mnemora train x --data='/home/me/my digits'",
                "mnemora train x --data=DIR",
            ),
            (
                "MNEMORA_DATA='/home/me/my digits' mnemora train x",
                "MNEMORA_DATA=DIR mnemora train x",
            ),
            (
                "mnemora train x --set 'data.directory=my digits'",
                "mnemora train x --set data.directory=DIR",
            ),
            (
                "mnemora train x '--set=data.directory=/a b'",
                "mnemora train x --set=data.directory=DIR",
            ),
            (
                "mnemora train '/home/me/a b.toml' --out=/tmp/c",
                "mnemora train 'a b.toml' --out=c",
            ),
            (
                "mnemora train x --out runs/y --set task.length=3",
                "mnemora train x --out runs/y --set task.length=3",
            ),
        ] {
            assert_eq!(without_folders(command), shared);
        }
    }
}
