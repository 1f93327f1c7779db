//! Language models: from training to comparison, stopping and resuming bit for bit, refused settings.

mod common;

use common::{
    assert_png, assert_same_training, assert_says, checkpoint_file, mnemora, refuse, resume, run,
    succeed, with_tiny,
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::tempdir;

const MEMORIES: [&str; 3] = ["lstm", "stacked-lstm", "rmc"];

/// Settings with which a training takes a fraction of a second.
const TINY: [&str; 19] = [
    "training.steps=12",
    "training.schedule=constant",
    "training.log_every=1",
    "training.checkpoint_every=4",
    "training.batch=3",
    "task.window=6",
    "language.least_count=1",
    "language.embedding=6",
    "language.samples=8",
    "memory.lstm.hidden=6",
    "memory.stacked_lstm.hidden=4",
    "memory.rmc.heads=2",
    "memory.rmc.head_size=4",
    "evaluation.batch=2",
    "evaluation.checkpoint_batches=2",
    "evaluation.unroll_words=30",
    "evaluation.pictures=2",
    "training.threads=1",
    "training.keep=2",
];

const TEXT: &str = "It was the best of times, it was the worst of times.\n\nIt was the age of wisdom, it \
                    was the age of foolishness.\n\n";

/// A folder with one text.
fn folder(text: &[u8]) -> tempfile::TempDir {
    let folder = tempdir().expect("a temporary folder is made");
    fs::write(folder.path().join("a.txt"), text).expect("a text is written");
    folder
}

fn train(out: &Path, data: &Path, memory: &str, settings: &[&str]) -> Command {
    let mut command = mnemora(["train", "books-small", "--data"]);
    command.arg(data).arg("--out").arg(out);
    let memory = format!("model.memory={memory}");
    let settings = [&["task.name=text", memory.as_str()], settings].concat();
    with_tiny(command, "books-small", &TINY, &settings)
}

fn on(words: &[&str], run: &Path) -> Command {
    let mut command = mnemora(words);
    command.arg(run);
    command
}

#[test]
fn every_core_trains_writes_and_is_compared() {
    let data = folder(TEXT.repeat(20).as_bytes());
    let runs = tempdir().expect("a temporary folder is made");
    let mut compare = mnemora(["compare"]);
    for memory in MEMORIES {
        let run = runs.path().join(memory);
        let mut command = train(&run, data.path(), memory, &[]);
        command.arg("--json");
        let trained = succeed(command).json();
        let again = succeed(on(&["eval", "--json"], &run)).json();
        assert_eq!(trained, again, "the model is what it was when saved");
        let (bound, perplexity) = (&again["bound"], &again["perplexity"]);
        let (bound, perplexity) = (bound.as_f64().unwrap(), perplexity.as_f64().unwrap());
        assert!((perplexity.ln() + bound).abs() < 1e-9, "{again}");
        // Fifteen words including <eos> and <unk>; hardly anything is learned about them.
        assert!((8.0..25.0).contains(&perplexity), "{memory}: {perplexity}");
        let score = &again["text"];
        let buckets = score["by_frequency"].as_array().expect("a list");
        assert_eq!(buckets.len(), 1, "{score}");
        assert_eq!(buckets[0]["words"], score["words"]);
        assert_eq!(score["by_unroll"][0]["length"], 10);
        assert!(score.get("placeholders").is_none());

        let text = succeed(on(&["eval"], &run)).stdout;
        assert_says(
            &text,
            &["perplexity", "<unk>", "unroll 10", "nats per word"],
        );
        let html = fs::read_to_string(run.join("report.html")).expect("a report");
        assert_says(
            &html,
            &["Perplexity over training", "Perplexity by frequency"],
        );
        assert_eq!(run.join("samples/attention.png").exists(), memory == "rmc");
        let rows = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
        assert_eq!(rows.matches("\"perplexity\"").count(), 12);

        assert!(run.join("samples/generated.txt").exists());
        succeed(on(&["generate", "--sequences", "2", "--steps", "9"], &run));
        assert_png(&run.join("samples/generated.png"));
        let written = run.join("samples/generated.txt");
        let written = fs::read_to_string(written).expect("a text");
        assert_eq!(written.matches("what follows").count(), 2, "{written}");
        compare.arg(&run);
    }
    let picture = runs.path().join("compare.png");
    compare.arg("--out").arg(&picture);
    let table = succeed(compare).stdout;
    assert_png(&picture);
    assert_says(
        &table,
        &[
            "| model | seeds | updates | parameters | perplexity |",
            "| rmc | 1 | 12 |",
        ],
    );

    // An exported run is unchanged.
    let given = runs.path().join("given");
    let mut export = on(&["export"], &runs.path().join("rmc"));
    export.arg("--out").arg(&given);
    succeed(export);
    let card = fs::read_to_string(given.join("README.md")).expect("a card");
    assert_says(&card, &["perplexity", "a folder"]);
    let mut eval = on(&["eval", "--json", "--data"], data.path());
    eval.arg(&given);
    let given = succeed(eval).json();
    let own = succeed(on(&["eval", "--json"], &runs.path().join("rmc"))).json();
    assert_eq!(given, own);
    // The rows of its table come with their words.
    for folder in [runs.path().join("rmc"), runs.path().join("given")] {
        let words = fs::read_to_string(checkpoint_file(&folder, 12, "vocabulary.tsv"));
        let words = words.expect("a vocabulary");
        let words: Vec<&str> = words
            .lines()
            .map(|line| line.split_once('\t').expect("a word and its count").0)
            .collect();
        assert_eq!(words.len(), 15, "{words:?}");
        assert!(words.contains(&"times") && words.contains(&"<unk>"));
        let sums = fs::read_to_string(checkpoint_file(&folder, 12, "SHA256SUMS"));
        assert_says(&sums.expect("sums"), &["  vocabulary.tsv\n"]);
    }
    // Scoring a text involves no sampling, and the program says so.
    let run = runs.path().join("rmc");
    let seeded = succeed(on(&["eval", "--json", "--seed", "9"], &run));
    assert_eq!(seeded.json()["perplexity"], own["perplexity"]);
    assert_says(&seeded.stderr, &["--seed has no effect"]);
}

/// Weights, moments, the carried state and the streams of dropout and samples survive a stop in the middle of the
/// text, and a kill.
#[test]
fn a_stop_changes_nothing() {
    let data = folder(TEXT.repeat(20).as_bytes());
    let runs = tempdir().expect("a temporary folder is made");
    for memory in MEMORIES {
        let whole = runs.path().join(format!("{memory}-whole"));
        let parted = runs.path().join(format!("{memory}-parted"));
        succeed(train(&whole, data.path(), memory, &[]));
        for (steps, first) in [(2, true), (5, false), (12, false)] {
            let setting = format!("training.steps={steps}");
            succeed(match first {
                true => train(&parted, data.path(), memory, &[&setting]),
                false => resume(&parted, &[&setting]),
            });
        }
        assert_same_training(&whole, &parted);
        let carried = checkpoint_file(&whole, 12, "carried.safetensors");
        let carried = carried.metadata().expect("the state of the streams");
        assert!(carried.len() > 100);
    }

    // Killed: it continues from its last checkpoint.
    let long = ["training.steps=400", "training.checkpoint_every=40"];
    let whole = runs.path().join("long");
    succeed(train(&whole, data.path(), "rmc", &long));
    let killed = runs.path().join("killed");
    let mut command = train(&killed, data.path(), "rmc", &long);
    let mut process = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    for _ in 0..2_000 {
        if killed.join("checkpoints/step-80").exists() {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    process.kill().expect("it runs or has ended");
    process.wait().expect("it ends");
    succeed(resume(&killed, &[]));
    assert_same_training(&whole, &killed);
}

#[test]
fn bundled_books_need_no_data() {
    let runs = tempdir().expect("a temporary folder is made");
    let out = runs.path().join("run");
    let mut command = mnemora(["train", "books-small", "--out"]);
    command.arg(&out);
    let settings = [
        "training.steps=2",
        "evaluation.batches=2",
        "language.least_count=3",
    ];
    let mut command = with_tiny(command, "books-small", &TINY, &settings);
    command.arg("--json");
    let score = succeed(command).json();
    assert_eq!(score["text"]["words"], 2 * 2 * 6);
    let origin = fs::read_to_string(out.join("origin.json")).expect("an origin");
    assert_says(&origin, &["books: bundled set"]);
    let picture = runs.path().join("show.png");
    let mut show = mnemora(["show", "books-small", "--out"]);
    show.arg(&picture);
    succeed(show);
    assert_png(&picture);
}

/// If the text of WikiText-103 is not available, it is replaced by placeholders, but never silently.
#[test]
fn placeholders_are_named_everywhere() {
    let runs = tempdir().expect("a temporary folder is made");
    let out = runs.path().join("run");
    let mut command = mnemora(["train", "wikitext-103", "--out"]);
    command.arg(&out);
    let placeholders = ["language.placeholders=500"];
    let command = with_tiny(command, "wikitext-103", &TINY, &placeholders);
    let trained = succeed(command);
    assert_says(
        &trained.stderr,
        &["PLACEHOLDER words", "train, valid, test of wikitext-103"],
    );
    assert_says(
        &trained.stdout,
        &["perplexity", "PLACEHOLDER words, so that it means nothing"],
    );
    let html = fs::read_to_string(out.join("report.html")).expect("a report");
    assert_says(
        &html,
        &["PLACEHOLDER words stand for the part train, valid, test"],
    );
    let origin = fs::read_to_string(out.join("origin.json")).expect("an origin");
    assert_says(&origin, &["wikitext-103: not available; PLACEHOLDER words"]);
    let score = succeed(on(&["eval", "--json"], &out)).json();
    assert_eq!(score["text"]["placeholders"], true);
    assert_eq!(score["text"]["words"], 2_000);
    assert!(score["text"].get("by_frequency").is_none(), "{score}");

    // If only the held-out parts are available, only the training part is made of placeholders.
    let data = tempdir().expect("a temporary folder is made");
    for part in ["valid", "test"] {
        let file = data.path().join(format!("wiki.{part}.tokens"));
        fs::write(file, " the cat sat on the mat \n".repeat(10)).expect("a text is written");
    }
    let out = runs.path().join("partly");
    let mut command = mnemora(["train", "wikitext-103", "--out"]);
    command.arg(&out).arg("--data").arg(data.path());
    let placeholders = ["language.placeholders=500"];
    let command = with_tiny(command, "wikitext-103", &TINY, &placeholders);
    let trained = succeed(command);
    assert_says(
        &trained.stderr,
        &["PLACEHOLDER words", "the part train of wikitext-103"],
    );
    // The result of such a model on a real text means nothing either.
    let said = ["over 70 words", "trained or scored on PLACEHOLDER words"];
    assert_says(&trained.stdout, &said);
}

#[test]
fn what_makes_no_text_is_refused() {
    let runs = tempdir().expect("a temporary folder is made");
    let out = runs.path().join("run");
    let data = folder(TEXT.repeat(20).as_bytes());
    for (setting, wanted) in [
        ("language.embedding=0", "at least 1"),
        ("language.embedding_dropout=1", "below 1"),
        ("language.output_dropout=-0.1", "at least 0"),
        ("language.samples=-1", "at least 0"),
        ("language.vocabulary=1", "<unk> and <eos>"),
        ("language.words=letters", "one of spaced, running"),
        ("task.window=0", "at least 1"),
        ("training.segment=2", "text"),
        ("filtering.strategy=gradient", "must be direct"),
    ] {
        let message = refuse(train(&out, data.path(), "rmc", &[setting]));
        let key = setting.split_once('=').expect("key=value").0;
        assert_says(&message, &[key, wanted]);
        assert!(!out.exists(), "{setting}");
    }
    let message = refuse(train(&out, data.path(), "dnc", &[]));
    assert_says(
        &message,
        &["model.memory", "'dnc'", "lstm, stacked-lstm, rmc"],
    );

    for (text, wanted) in [
        (&b""[..], "no words"),
        (b" \n\n \n", "no words"),
        (b"caf\xe9 au lait", "byte 3 is not UTF-8"),
        (b"too short", "need 18 words"),
    ] {
        let data = folder(text);
        let message = refuse(train(&out, data.path(), "rmc", &[]));
        assert_says(&message, &[wanted]);
        assert!(!out.exists());
    }
    let message = refuse(train(&out, data.path(), "rmc", &["training.batch=200"]));
    assert_says(
        &message,
        &["200 streams with windows of 6 words", "train part"],
    );
    let missing = data.path().join("nowhere");
    assert_says(&refuse(train(&out, &missing, "rmc", &[])), &["nowhere"]);

    let mut command = mnemora(["train", "wikitext-2", "--out"]);
    command.arg(&out);
    assert_says(&refuse(command), &["wikitext-2 does not come", "--data"]);
    let mut command = mnemora(["train", "wikitext-2", "--data"]);
    command.arg(data.path()).arg("--out").arg(&out);
    assert_says(&refuse(command), &["no train part of wikitext-2"]);
    let mut command = mnemora(["train", "books-small", "--set", "task.name=text", "--out"]);
    command.arg(&out);
    assert_says(&refuse(command), &["the task text", "--data"]);
}

#[test]
fn another_text_than_the_runs_is_refused() {
    let runs = tempdir().expect("a temporary folder is made");
    let data = folder(TEXT.repeat(20).as_bytes());
    let out = runs.path().join("run");
    succeed(train(&out, data.path(), "lstm", &[]));
    let other = folder(
        "Something else altogether, and of other words.\n\n"
            .repeat(40)
            .as_bytes(),
    );
    let mut eval = on(&["eval"], &out);
    eval.arg("--data").arg(other.path());
    assert_says(&refuse(eval), &["vocabulary", "does not fit the model"]);
    let longer = folder(TEXT.repeat(21).as_bytes());
    let mut eval = on(&["eval"], &out);
    eval.arg("--data").arg(longer.path());
    // More of the same text: the same words with other counts.
    assert_says(&refuse(eval), &["name the text of the run with --data"]);
    let message = refuse(resume(&out, &["language.samples=3"]));
    assert_says(&message, &["language.samples", "cannot change"]);
    let filter = run(on(&["filter"], &out));
    assert_eq!(filter.status, Some(2));
    assert_says(&filter.stderr, &["the task text", "do not filter"]);

    // Weights for another vocabulary under this run's name.
    let small = runs.path().join("small");
    succeed(train(
        &small,
        data.path(),
        "lstm",
        &["language.vocabulary=9"],
    ));
    let [from, to] = [&small, &out].map(|run| run.join("checkpoints"));
    for entry in fs::read_dir(&to).expect("checkpoints").flatten() {
        fs::remove_dir_all(entry.path()).expect("a checkpoint is removed");
    }
    fs::rename(from.join("step-12"), to.join("step-12")).expect("a checkpoint is moved");
    let message = refuse(on(&["eval"], &out));
    assert_says(&message, &["vocabulary.tsv", "not those of the run's text"]);
    // A checkpoint from before there was such a file is recognised by its sizes.
    fs::remove_file(to.join("step-12/vocabulary.tsv")).expect("a file is removed");
    let sums = to.join("step-12/SHA256SUMS");
    let lines = fs::read_to_string(&sums).expect("sums");
    let lines: String = lines
        .lines()
        .filter(|line| !line.ends_with("vocabulary.tsv"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&sums, lines).expect("sums are written");
    let message = refuse(on(&["eval"], &out));
    assert_says(
        &message,
        &["tensor '", "[9", "the model of the configuration wants"],
    );
}
