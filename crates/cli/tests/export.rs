//! An export describes itself, and reveals nothing about its author's folders.

mod common;

use common::{TINY, files_below, mnemora, read_json, succeed, with_tiny, write_digits};
use std::fs;
use tempfile::tempdir;

/// Folders with spaces, however they were named; Markdown and HTML markup in the user's texts.
#[test]
fn card_has_no_folders_and_no_marks() {
    let folder = tempdir().expect("a temporary folder is made");
    let secret = folder.path().join("my secret digits");
    write_digits(&secret, 0);
    let secret = secret.display().to_string();
    let experiment = folder.path().join("my plan.toml");
    let text = "name = '<b>mine |x|'\ndescription = 'see [this](http://a.b) `now`'\n";
    fs::write(&experiment, text).expect("a file is written");
    for (number, words, variable) in [
        (1, vec!["--data", &secret], None),
        (2, vec!["--set", &format!("data.directory={secret}")], None),
        (3, vec![], Some(&secret)),
    ] {
        let run = folder.path().join(format!("run {number}"));
        let given = folder.path().join(format!("given {number}"));
        let mut command = mnemora(["train"]);
        command.arg(&experiment).arg("--out").arg(&run);
        let plan = experiment.display().to_string();
        let mut command = with_tiny(command, &plan, &TINY, &["training.steps=2"]);
        command.args(words);
        if let Some(folder) = variable {
            command.env("MNEMORA_DATA", folder);
        }
        succeed(command);
        let mut export = mnemora(["export"]);
        export.arg(&run).arg("--out").arg(&given);
        succeed(export);
        for (path, bytes) in files_below(&given) {
            let text = String::from_utf8_lossy(&bytes);
            let told = text.contains("secret") || text.contains(&*folder.path().to_string_lossy());
            assert!(!told, "{} tells of a folder", path.display());
        }
        let card = fs::read_to_string(given.join("README.md")).expect("a card");
        let title = "# &lt;b&gt;mine \\|x\\|, introspection\n";
        assert!(card.starts_with(title), "{card}");
        assert!(
            card.contains("see \\[this\\](http://a.b) \\`now\\`."),
            "{card}"
        );
        assert!(card.contains("train 'my plan.toml' --out 'run "), "{card}");
        // It still belongs to the same run.
        let identity =
            |run: &std::path::Path| read_json(&run.join("origin.json"))["identity"].clone();
        assert_eq!(identity(&run), identity(&given));
        let mut eval = mnemora(["eval", "--data", &secret]);
        eval.arg(&given);
        succeed(eval);
    }
}
