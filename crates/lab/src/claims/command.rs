//! The commands of runs as evidence gives them.

use mnemora_training::{run::Origin, shell};

/// The command of replicas, without folders and seeds. Where they differ beside the seed, as in the weights that they begin
/// with, it has the words of all, separated by bars.
pub(super) fn of_replicas<'a>(origins: impl Iterator<Item = &'a Origin>) -> String {
    let mut commands: Vec<Vec<String>> = origins.map(of_run).collect();
    commands.dedup();
    let alike = commands.iter().all(|one| one.len() == commands[0].len());
    if !alike {
        let whole: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
        return whole.join(" | ");
    }
    let mut commands = commands.into_iter();
    let mut words = commands.next().unwrap_or_default();
    for (place, word) in words.iter_mut().enumerate() {
        let others = commands.clone().map(|other| other[place].clone());
        let mut all: Vec<String> = std::iter::once(word.clone()).chain(others).collect();
        all.dedup();
        *word = all.join("|");
    }
    words.join(" ")
}

/// The words of a run's command, and the settings of the commands that went on with others.
fn of_run(origin: &Origin) -> Vec<String> {
    let mut words = kept(shell::words(&origin.command));
    for change in &origin.changes {
        let command = shell::words(&change.command);
        let settings = command.windows(2).filter(|pair| pair[0] == "--set");
        let settings: Vec<String> = settings.flatten().cloned().collect();
        if let (Some(last), false) = (words.last_mut(), settings.is_empty()) {
            last.push(',');
            let after = format!("resumed after {} updates with", change.after_step);
            words.extend(after.split(' ').map(str::to_owned));
            words.extend(settings);
        }
    }
    words
}

/// The words that do not name a run's folder or its seed. Of data paths only the last name is kept, which is the same on every
/// machine.
fn kept(words: Vec<String>) -> Vec<String> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut kept = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" | "--seed" => drop(words.next()),
            "--data" => {
                kept.push(word);
                kept.extend(words.next().map(|path| last(&path)));
            }
            "--set" if words.peek().is_some_and(|next| next.starts_with("seed=")) => {
                drop(words.next())
            }
            _ => kept.push(match word.strip_prefix("MNEMORA_DATA=") {
                Some(path) => format!("MNEMORA_DATA={}", last(path)),
                None => word,
            }),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_training::run::Change;

    fn origin(command: &str, changes: &[(u64, &str)]) -> Origin {
        let change = |(after_step, command): &(u64, &str)| Change {
            after_step: *after_step,
            command: (*command).to_owned(),
            ..Change::default()
        };
        Origin {
            command: command.to_owned(),
            changes: changes.iter().map(change).collect(),
            ..Origin::default()
        }
    }

    #[test]
    fn replicas_have_one_command() {
        let run = |seed: u64| {
            let command =
                format!("mnemora train a --seed {seed} --weights w-{seed} --out runs/{seed}");
            origin(&command, &[])
        };
        let all = [run(1), run(2)];
        assert_eq!(of_replicas(all.iter()), "mnemora train a --weights w-1|w-2");
        assert_eq!(
            of_replicas(all[..1].iter()),
            "mnemora train a --weights w-1"
        );
    }

    #[test]
    fn later_settings_are_told() {
        let plain = origin("mnemora train a --set x=1", &[(9, "mnemora resume runs/a")]);
        let longer = origin(
            "mnemora train a --set x=1",
            &[(9, "mnemora resume --set training.steps=5 runs/a --json")],
        );
        let told = "mnemora train a --set x=1, resumed after 9 updates with --set training.steps=5";
        assert_eq!(
            of_replicas([&plain].into_iter()),
            "mnemora train a --set x=1"
        );
        assert_eq!(of_replicas([&longer].into_iter()), told);
        let both = of_replicas([&plain, &longer].into_iter());
        assert_eq!(both, format!("mnemora train a --set x=1 | {told}"));
    }
}
