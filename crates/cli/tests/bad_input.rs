//! Bad input gives one line on standard error that says what is wrong, where, and what would be right; exit
//! status 2; and no half-written files.

mod common;

use common::{
    assert_same_files, assert_says, checkpoint_file, checkpoint_steps, edit_unseen, files_below,
    idx_labels, mnemora, read_json, refuse, resume, run, succeed, train, train_copy, with_settings,
    write_digits, write_gz,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::{TempDir, tempdir};

/// An empty folder that is removed after the test.
fn empty_folder() -> TempDir {
    tempdir().expect("a temporary folder is made")
}

/// Asserts that `command` is refused in a folder, which must stay unchanged. Returns the message.
#[track_caller]
fn refuse_leaving(folder: &Path, mut command: Command) -> String {
    let before = files_below(folder);
    let listed = |folder: &Path| fs::read_dir(folder).expect("it is a folder").count();
    let entries = listed(folder);
    command.current_dir(folder);
    let message = refuse(command);
    assert_same_files(&before, &files_below(folder));
    assert_eq!(listed(folder), entries, "something was left behind");
    message
}

/// Asserts that a training of `perfect-recall-small` with these settings is refused and leaves no run behind.
#[track_caller]
fn refuse_settings(settings: &[&str]) -> String {
    let folder = empty_folder();
    let command = mnemora(["train", "perfect-recall-small", "--out", "run"]);
    refuse_leaving(folder.path(), with_settings(command, settings))
}

/// Asserts that a training of the experiment file `mine.toml` with this text is refused.
#[track_caller]
fn refuse_file(text: &str) -> String {
    let folder = empty_folder();
    fs::write(folder.path().join("mine.toml"), text).expect("a file is written");
    refuse_leaving(
        folder.path(),
        mnemora(["train", "mine.toml", "--out", "run"]),
    )
}

/// A finished tiny run of four updates with checkpoints after two and four.
fn finished_run(folder: &Path) -> PathBuf {
    let run = folder.join("run");
    let settings = ["training.steps=4", "training.checkpoint_every=2"];
    succeed(train(&run, &settings));
    run
}

/// The commands that open a run.
fn commands_on(run: &Path) -> Vec<Command> {
    ["resume", "eval", "generate", "report", "compare"]
        .map(|name| {
            let mut command = mnemora([name]);
            command.arg(run);
            command
        })
        .into()
}

fn replace_in(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).expect("the file is there");
    assert!(text.contains(from), "{from} is not in {text}");
    fs::write(path, text.replacen(from, to, 1)).expect("a file is written");
}

fn flip_last_byte(path: &Path) {
    let mut bytes = fs::read(path).expect("the file is there");
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(path, bytes).expect("a file is written");
}

#[test]
fn unknown_experiment() {
    for command in ["train", "show"] {
        let folder = empty_folder();
        let message = refuse_leaving(folder.path(), mnemora([command, "perfect-recal-smal"]));
        assert_says(
            &message,
            &[
                "'perfect-recal-smal'",
                "'perfect-recall-small'",
                "mnemora list",
            ],
        );
    }
}

#[test]
fn missing_experiment_file() {
    let folder = empty_folder();
    let message = refuse_leaving(folder.path(), mnemora(["train", "none.toml"]));
    assert_says(&message, &["none.toml", "No such file"]);
}

#[test]
fn misspelt_keys_name_the_nearest() {
    for (setting, nearest) in [
        ("training.step=3", "'training.steps'"),
        ("trainin.batch=3", "'training.batch'"),
        ("learning_rate=0.1", "'training.learning_rate'"),
        ("model.memry=vrnn", "'model.memory'"),
        ("task.lenght=5", "'task.length'"),
    ] {
        let key = setting.split_once('=').expect("key=value").0;
        let message = refuse_settings(&[setting]);
        assert_says(&message, &["--set", &format!("'{key}'"), nearest]);
    }
}

#[test]
fn misspelt_keys_of_a_file_name_the_nearest() {
    let message = refuse_file("seed = 1\n[training]\nlearning_rat = 0.1\n");
    assert_says(
        &message,
        &[
            "mine.toml",
            "'training.learning_rat'",
            "'training.learning_rate'",
        ],
    );
    let message = refuse_file("[modl]\nlatent = 4\n");
    assert_says(&message, &["mine.toml", "'modl'", "model"]);
}

#[test]
fn values_of_the_wrong_type() {
    for (setting, wanted) in [
        ("training.steps=many", "whole number"),
        ("training.steps=1.5", "whole number"),
        ("training.steps=true", "whole number"),
        ("training.steps=", "whole number"),
        ("training.batch=-2", "at least 0"),
        ("training.learning_rate=fast", "a number"),
        ("model.memory=3", "a text"),
        ("task=3", "name one of its keys"),
        ("task.length", "key=value"),
        ("seed=99999999999999999999", "whole number"),
    ] {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        assert_says(&refuse_settings(&[setting]), &["--set", key, value, wanted]);
    }
    let message = refuse_file("[training]\nsteps = \"many\"\n");
    assert_says(
        &message,
        &["mine.toml", "training.steps", "many", "whole number"],
    );
    let message = refuse_file("training = 3\n");
    assert_says(&message, &["mine.toml", "training", "table"]);
}

#[test]
fn syntax_error_of_a_file() {
    let message = refuse_file("seed = 1\n[training]\nsteps = = 3\n");
    assert_says(&message, &["mine.toml", "line 3"]);
}

#[test]
fn range_error_of_a_file_names_the_file() {
    let message = refuse_file("[training]\nbatch = 0\n");
    assert_says(&message, &["mine.toml", "training.batch", "at least 1"]);
}

#[test]
fn recall_longer_than_the_sequence() {
    let message = refuse_settings(&["task.length=3", "task.recall=4"]);
    assert_says(
        &message,
        &["task.recall", "4", "from 1 to", "task.length", "3"],
    );
}

#[test]
fn sizes_beyond_all_machines() {
    for key in [
        "model.latent",
        "model.prior_hidden",
        "memory.introspection.slots",
        "task.length",
        "training.batch",
        "training.threads",
        "evaluation.pictures",
    ] {
        let message = refuse_settings(&[&format!("{key}=99999999999")]);
        assert_says(&message, &[key, "99999999999", "at most"]);
    }
}

#[test]
fn linear_posterior_map_on_other_features() {
    let message = refuse_settings(&["model.posterior_hidden=0", "model.latent=16"]);
    assert_says(
        &message,
        &["model.visual_features", "32", "posterior_hidden"],
    );
}

#[test]
fn evaluation_of_another_model() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let mut eval = mnemora(["eval", "--set", "task.length=4"]);
    eval.arg(&run);
    let message = refuse_leaving(&run, eval);
    assert_says(&message, &["task.length", "evaluation"]);
}

/// A setting that has no effect is refused.
#[test]
fn settings_that_nothing_reads() {
    for (experiment, setting, says) in [
        (
            "perfect-recall-small",
            "task.bits=3",
            &["the task copy", "task.length"][..],
        ),
        (
            "perfect-recall-small",
            "memory.dnc.hidden=8",
            &["model.memory=dnc", "memory.introspection.hidden"],
        ),
        (
            "jsb-chorales",
            "network.svg.width=8",
            &["model.name=svg", "network.srnn.hidden"],
        ),
        (
            "jsb-chorales",
            "filtering.rate=0.1",
            &["filtering.strategy=gradient"],
        ),
        ("copy", "evaluation.particles=100", &["models with latents"]),
        (
            "nth-farthest-small",
            "evaluation.particles=100",
            &["models with latents"],
        ),
        (
            "books-small",
            "evaluation.particles=100",
            &["models with latents"],
        ),
    ] {
        for command in ["train", "show"] {
            let folder = empty_folder();
            let command = with_settings(mnemora([command, experiment]), &[setting]);
            let key = setting.split_once('=').expect("key=value").0;
            let message = refuse_leaving(folder.path(), command);
            assert_says(&message, &["--set", setting, "does not read", key]);
            assert_says(&message, says);
        }
    }
    // Nor is it accepted for a run that is resumed or evaluated; an unchanged run always is.
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let file = run.join("experiment.toml");
    let text = fs::read_to_string(&file).expect("an experiment");
    fs::write(&file, text + "\n[memory.dnc]\nhidden = 9\n").expect("a file is written");
    for command in ["eval", "resume"] {
        let mut words = mnemora([command, "--set", "evaluation.unroll_words=9"]);
        words.arg(&run);
        let message = refuse_leaving(&run, words);
        assert_says(
            &message,
            &["evaluation.unroll_words", "texts", "evaluation.batch"],
        );
        let mut words = mnemora([command]);
        words.arg(&run);
        succeed(words);
    }
}

#[test]
fn pictures_of_another_kind() {
    let folder = empty_folder();
    let show = mnemora(["show", "perfect-recall-small", "--out", "show.gif"]);
    let message = refuse_leaving(folder.path(), show);
    assert_says(&message, &["show.gif", ".png"]);
}

#[test]
fn zero_where_something_is_needed() {
    for key in [
        "training.batch",
        "training.steps",
        "training.log_every",
        "training.checkpoint_every",
        "training.keep",
        "task.length",
        "task.recall",
        "model.latent",
        "memory.introspection.reads",
        "evaluation.batches",
        "evaluation.batch",
    ] {
        let message = refuse_settings(&[&format!("{key}=0")]);
        assert_says(&message, &[key, "0", "at least 1"]);
    }
}

#[test]
fn rates_that_are_no_positive_number() {
    for value in ["-0.1", "0", "nan", "inf", "-inf"] {
        let message = refuse_settings(&[&format!("training.learning_rate={value}")]);
        assert_says(&message, &["training.learning_rate", "positive"]);
        assert_says(
            &message.to_lowercase(),
            &[value.trim_start_matches(['-', '+'])],
        );
    }
    assert_says(
        &refuse_settings(&["training.clip=-1"]),
        &["training.clip", "-1", "positive", "0 for no"],
    );
}

#[test]
fn unknown_names() {
    let folder = empty_folder();
    let command = mnemora(["train", "perfect-recall-small", "--memory", "vrn"]);
    let message = refuse_leaving(folder.path(), command);
    assert_says(
        &message,
        &["model.memory", "'vrn'", "vrnn", "introspection"],
    );
    for (setting, choices) in [
        ("model.memory=dcn", "vrnn, introspection"),
        ("model.visual=conv", "dense, inception"),
        ("model.likelihood=poisson", "bernoulli, gaussian"),
        ("training.schedule=step", "constant, linear, cosine"),
        ("task.name=recall", "perfect-recall"),
    ] {
        let (key, value) = setting.split_once('=').expect("key=value");
        let message = refuse_settings(&[setting]);
        assert_says(&message, &[key, &format!("'{value}'"), choices]);
    }
}

#[test]
fn memories_of_another_task() {
    for (experiment, memory, choices) in [
        ("copy", "vrnn", "lstm, ntm, lru, dnc, rmc"),
        ("copy", "introspection", "lstm, ntm, lru, dnc, rmc"),
        ("copy", "hybrid", "lstm, ntm, lru, dnc, rmc"),
        ("perfect-recall-small", "lstm", "vrnn, introspection"),
    ] {
        let folder = empty_folder();
        let command = mnemora(["train", experiment, "--memory", memory, "--out", "run"]);
        let message = refuse_leaving(folder.path(), command);
        assert_says(&message, &["model.memory", &format!("'{memory}'"), choices]);
    }
}

#[test]
fn strings_that_cannot_be_copied() {
    for (setting, wanted) in [
        ("task.bits=0", "at least 1"),
        ("task.longest=0", "at least 1"),
        ("task.bits=2000", "1024"),
        ("task.longest=99999999999", "at most"),
        ("memory.lru.slots=2", "memory.lru.reads"),
        ("memory.lstm.hidden=0", "at least 1"),
    ] {
        let folder = empty_folder();
        let command = mnemora(["train", "copy", "--memory", "lru", "--out", "run"]);
        let message = refuse_leaving(folder.path(), with_settings(command, &[setting]));
        let key = setting.split_once('=').expect("key=value").0;
        assert_says(&message, &[key, wanted]);
    }
}

#[test]
fn run_of_the_copy_task_with_other_strings() {
    let folder = empty_folder();
    let run = folder.path().join("run");
    succeed(train_copy(&run, &["training.steps=2"]));
    let message = refuse_leaving(&run, resume(&run, &["task.longest=5"]));
    assert_says(&message, &["task.longest", "training", "evaluation"]);

    let other = folder.path().join("other");
    succeed(train_copy(&other, &["training.steps=2", "task.longest=5"]));
    let mut compare = mnemora(["compare"]);
    compare.args([&run, &other]);
    let message = refuse_leaving(folder.path(), compare);
    assert_says(&message, &["different tasks", "longest 4", "longest 5"]);
}

#[test]
fn missing_data_folder() {
    let folder = empty_folder();
    let command = |name| {
        let mut command = train(Path::new("run"), &[]);
        command.args(["--data", name]);
        command
    };
    let message = refuse_leaving(folder.path(), command("no-digits"));
    assert_says(
        &message,
        &["no-digits", "does not exist", "train-images-idx3-ubyte"],
    );

    fs::write(folder.path().join("file"), "").expect("a file is written");
    let message = refuse_leaving(folder.path(), command("file"));
    assert_says(&message, &["data folder file", "not a folder"]);

    fs::create_dir(folder.path().join("bare")).expect("a folder is made");
    let message = refuse_leaving(folder.path(), command("bare"));
    assert_says(&message, &["bare", "train-images-idx3-ubyte", "idx.gz"]);
}

// The tests are built for the CPU only.
#[test]
fn devices_that_are_not_built_in() {
    let folder = empty_folder();
    for name in ["gpu", "cuda", "vulkan", "wgpu"] {
        let mut command = train(Path::new("run"), &[]);
        command.args(["--device", name]);
        let message = refuse_leaving(folder.path(), command);
        assert_says(&message, &[name, "feature", "--device cpu"]);
    }
    // A dry run refuses what cannot be trained.
    let mut command = train(Path::new("run"), &[]);
    command.args(["--device", "cuda", "--dry-run"]);
    let message = refuse_leaving(folder.path(), command);
    assert_says(&message, &["cuda", "feature", "--device cpu"]);
    let mut command = train(Path::new("run"), &[]);
    command.env("BURN_DEVICE", "cuda");
    let message = refuse_leaving(folder.path(), command);
    assert_says(&message, &["cuda", "feature", "--device cpu"]);
    let mut command = train(Path::new("run"), &[]);
    command.env("BURN_DEVICE", "abacus");
    let message = refuse_leaving(folder.path(), command);
    assert_says(&message, &["BURN_DEVICE", "abacus", "cpu, gpu, cuda"]);
}

#[test]
fn missing_data_folder_of_the_environment() {
    let folder = empty_folder();
    let mut command = train(Path::new("run"), &[]);
    command.env("MNEMORA_DATA", "no-digits");
    let message = refuse_leaving(folder.path(), command);
    assert_says(&message, &["no-digits", "does not exist", "MNEMORA_DATA"]);
}

/// Asserts that digits are refused after `damage` to the file of training images.
#[track_caller]
fn refuse_digits(damage: impl Fn(&Path)) -> String {
    let folder = empty_folder();
    let digits = folder.path().join("digits");
    write_digits(&digits, 0);
    damage(&digits.join("train-images-idx3-ubyte.gz"));
    let mut command = train(Path::new("run"), &[]);
    command.args(["--data", "digits"]);
    refuse_leaving(folder.path(), command)
}

#[test]
fn truncated_gzip() {
    let message = refuse_digits(|images| {
        let bytes = fs::read(images).expect("the file is there");
        fs::write(images, &bytes[..bytes.len() / 2]).expect("a file is written");
    });
    assert_says(
        &message,
        &["train-images-idx3-ubyte.gz", "gzip", "truncated", "again"],
    );
}

#[test]
fn wrong_idx_magic() {
    let message = refuse_digits(|images| write_gz(images, &idx_labels(30)));
    assert_says(
        &message,
        &["train-images-idx3-ubyte.gz", "0x00000801", "0x00000803"],
    );
    let message = refuse_digits(|images| fs::write(images, "a text").expect("a file is written"));
    assert_says(
        &message,
        &["train-images-idx3-ubyte.gz", "magic", "0x00000803"],
    );
}

#[test]
fn labels_that_do_not_fit_the_images() {
    let message = refuse_digits(|images| {
        write_gz(
            &images.with_file_name("train-labels-idx1-ubyte.gz"),
            &idx_labels(29),
        );
    });
    assert_says(
        &message,
        &[
            "train-labels-idx1-ubyte.gz",
            "29 labels",
            "30 images",
            "train-images-idx3-ubyte.gz",
        ],
    );
}

#[test]
fn one_of_four_files_missing() {
    let message = refuse_digits(|images| fs::remove_file(images).expect("the file goes"));
    assert_says(&message, &["train-images-idx3-ubyte", "digits"]);
}

#[test]
fn run_directory_that_exists() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let again = |more: &[&str]| {
        let same = ["training.steps=4", "training.checkpoint_every=2"];
        refuse_leaving(folder.path(), train(&run, &[&same[..], more].concat()))
    };
    let path = run.display().to_string();
    let advice = format!("mnemora resume {path}`");
    assert_says(&again(&[]), &[&path, "exists", &advice, "--out"]);
    let prolonged = format!("mnemora resume {path} --set training.steps=9`");
    assert_says(
        &again(&["training.steps=9"]),
        &[&path, "exists", &prolonged, "--out"],
    );
    // Resuming it would not do what was requested.
    let message = again(&["training.learning_rate=0.5"]);
    let key = "training.learning_rate is 0.001, not 0.5";
    assert_says(&message, &[&path, "another experiment", key, "--out"]);
    assert!(!message.contains("mnemora resume"), "{message}");
}

/// Each setting has its own default folder, so that an experiment can be trained with each of them.
#[test]
fn default_directories_follow_the_settings() {
    let folder = empty_folder();
    let tiny = format!("task.name=\"copy\"\n{}\n", common::TINY_COPY.join("\n"));
    let tiny = tiny.replace(
        "training.steps=12",
        "training.steps=1\nmodel.memory=\"ntm\"",
    );
    fs::write(folder.path().join("tiny.toml"), tiny).expect("a file is written");
    let train = |settings: &[&str]| {
        let mut command = with_settings(mnemora(["train", "tiny.toml"]), settings);
        command.current_dir(folder.path());
        command
    };
    succeed(train(&[]));
    succeed(train(&["training.learning_rate=0.01"]));
    let advice = "mnemora resume runs/tiny-ntm-seed0`";
    assert_says(&refuse(train(&[])), &["exists", advice]);
    let other = folder.path().join("runs/tiny-ntm-learning_rate=0.01-seed0");
    assert_eq!(checkpoint_steps(&other), [1]);
}

/// `resume` does not work on a folder that is not a run, so the message must not suggest it.
#[test]
fn run_directory_that_is_something_else() {
    let folder = empty_folder();
    fs::create_dir(folder.path().join("photos")).expect("a folder is made");
    fs::write(folder.path().join("photos/one.jpg"), "a cat").expect("a file is written");
    fs::write(folder.path().join("file"), "a text").expect("a file is written");
    for name in ["photos", "file"] {
        let message = refuse_leaving(folder.path(), train(Path::new(name), &[]));
        assert_says(&message, &[name, "--out"]);
        assert!(!message.contains("mnemora resume"), "{message}");
    }
}

#[test]
fn run_directory_below_a_file() {
    let folder = empty_folder();
    fs::write(folder.path().join("file"), "a text").expect("a file is written");
    let message = refuse_leaving(folder.path(), train(Path::new("file/run"), &[]));
    assert_says(&message, &["file/run", "ot a directory"]);
}

/// Asserts that three commands refuse to write a picture to an impossible path.
fn refuse_picture_at(out: &str) {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    fs::write(folder.path().join("file"), "a text").expect("a file is written");
    fs::create_dir(folder.path().join("photos")).expect("a folder is made");
    let mut generate = mnemora(["generate", "--out", out]);
    let mut compare = mnemora(["compare", "--out", out]);
    generate.arg(&run);
    compare.arg(&run);
    let show = mnemora(["show", "perfect-recall-small", "--out", out]);
    for command in [show, generate, compare] {
        let message = refuse_leaving(folder.path(), command);
        assert_says(&message, &[out]);
    }
}

#[test]
fn picture_below_a_file() {
    refuse_picture_at("file/picture.png");
}

#[test]
fn picture_in_place_of_a_folder() {
    refuse_picture_at("photos");
}

/// Links, pipes and devices at the path of an output file stay unchanged, and so do the targets of links.
#[cfg(unix)]
#[test]
fn targets_that_are_no_regular_files() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let at = |name: &str| folder.path().join(name);
    fs::write(at("kept"), "mine").expect("a file is written");
    symlink(at("kept"), at("link.png")).expect("a link is made");
    symlink(at("nowhere"), at("dangling.png")).expect("a link is made");
    let made = |words: [&str; 3]| {
        let mut command = Command::new(words[0]);
        command.arg(at(words[1])).args(words[2].split_whitespace());
        command.status().is_ok_and(|status| status.success())
    };
    let mut targets = vec![
        ("link.png", "symbolic link"),
        ("dangling.png", "symbolic link"),
    ];
    if made(["mkfifo", "pipe.png", ""]) {
        targets.push(("pipe.png", "a pipe"));
    }
    // Works only for an administrator; device number 1, 3 is /dev/null.
    if made(["mknod", "device.png", "c 1 3"]) {
        targets.push(("device.png", "a device"));
    }
    let kinds = || {
        let entries = fs::read_dir(folder.path()).expect("a folder");
        let kind = |entry: fs::DirEntry| {
            let kind = entry.file_type().expect("a kind");
            (
                entry.file_name(),
                kind.is_symlink(),
                kind.is_fifo(),
                kind.is_char_device(),
            )
        };
        let mut kinds: Vec<_> = entries
            .map(|entry| kind(entry.expect("an entry")))
            .collect();
        kinds.sort();
        kinds
    };
    let before = (kinds(), files_below(&run));
    for (name, kind) in targets {
        let out = ["--out", name];
        for words in [
            &["show", "perfect-recall-small"][..],
            &["generate", "run"],
            &["compare", "run"],
        ] {
            let mut command = mnemora([words, &out].concat());
            command.current_dir(folder.path());
            assert_says(&refuse(command), &[name, kind, "another file"]);
        }
        for option in ["--draw", "--state"] {
            let mut command = mnemora(["filter", "run", option, name]);
            command.current_dir(folder.path());
            assert_says(&refuse(command), &[name, kind]);
        }
        assert_eq!(kinds(), before.0);
    }
    assert_eq!(fs::read_to_string(at("kept")).expect("it stays"), "mine");
    assert_same_files(&before.1, &files_below(&run));
}

/// A link at the path of a run's lock, or of a file to be written, is not followed.
#[cfg(unix)]
#[test]
fn links_in_a_run() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let kept = folder.path().join("kept");
    fs::write(&kept, "mine").expect("a file is written");
    for name in [
        ".lock",
        "metrics.jsonl.tmp",
        "origin.json.tmp",
        "metrics.jsonl",
    ] {
        let path = run.join(name);
        let aside = folder.path().join("aside");
        let there = fs::rename(&path, &aside).is_ok();
        std::os::unix::fs::symlink(&kept, &path).expect("a link is made");
        let message = refuse(resume(&run, &["training.steps=6"]));
        assert_says(&message, &[name]);
        assert_eq!(
            fs::read_to_string(&kept).expect("it stays"),
            "mine",
            "{name}"
        );
        fs::remove_file(&path).expect("the link goes");
        if there {
            fs::rename(&aside, &path).expect("a file is moved");
        }
    }
    succeed(resume(&run, &["training.steps=6"]));
}

/// A folder that is named like an unfinished run, but is not one.
#[test]
fn folder_in_the_way_of_a_new_run() {
    let folder = empty_folder();
    let photos = folder.path().join(".run.unfinished");
    fs::create_dir(&photos).expect("a folder is made");
    fs::write(photos.join("one.jpg"), "a cat").expect("a file is written");
    let message = refuse_leaving(folder.path(), train(Path::new("run"), &[]));
    assert_says(&message, &[".run.unfinished", "in the way", "--out"]);
}

/// The experiment's name becomes part of a folder's name.
#[test]
fn names_that_leave_their_folder() {
    for (name, problem) in [
        ("../..", "contain /"),
        ("a/b", "contain /"),
        ("a\\\\b", "or \\"),
        ("..", "dot"),
        (".hidden", "dot"),
        ("-rf", "dash"),
        ("two\\nlines", "control"),
        ("\\u001b[31mred", "control"),
        ("\\u202egnp", "control"),
        (&"x".repeat(101), "100"),
    ] {
        let message = refuse_file(&format!("name = \"{name}\"\n"));
        assert_says(&message, &["name is '", problem]);
        assert!(!message.contains(['\u{1b}', '\u{202e}']), "{message:?}");
    }
}

/// Whatever a message quotes, it is one line without terminal control codes.
#[test]
fn messages_are_one_line() {
    let odd = "a\nmnemora: b\u{1b}[2J\u{9b}31m\r";
    let folder = empty_folder();
    let file = folder.path().join(format!("{odd}.toml"));
    fs::write(&file, format!("[training]\n'{}' = 1\n", "odd \u{7f}key"))
        .expect("a file is written");
    for words in [
        &["train", odd][..],
        &["train", &file.display().to_string()],
        &[
            "train",
            "perfect-recall-small",
            "--set",
            &format!("{odd}=3"),
        ],
        &[
            "train",
            "perfect-recall-small",
            "--set",
            &format!("model.memory={odd}"),
        ],
        &["train", "perfect-recall-small", "--data", odd],
        &[
            "train",
            "perfect-recall-small",
            "--out",
            &format!("{}/x", file.display()),
        ],
        &["eval", odd],
        &["resume", &file.display().to_string()],
        &[
            "show",
            "perfect-recall-small",
            "--out",
            &format!("{odd}.gif"),
        ],
    ] {
        let message = refuse_leaving(folder.path(), mnemora(words));
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

/// Replicas are refused before the first one is trained.
#[test]
fn seeds_beyond_the_last_one() {
    let folder = empty_folder();
    let mut command = train(Path::new("runs"), &[]);
    command.args(["--seed", "9223372036854775807", "--replicas", "2"]);
    let message = refuse_leaving(folder.path(), command);
    assert_says(&message, &["seed", "2 replicas", "9223372036854775806"]);
}

#[test]
fn folder_that_is_no_run() {
    let folder = empty_folder();
    let photos = folder.path().join("photos");
    fs::create_dir(&photos).expect("a folder is made");
    fs::write(photos.join("one.jpg"), "a cat").expect("a file is written");
    for command in commands_on(&photos) {
        let message = refuse_leaving(&photos, command);
        assert_says(
            &message,
            &[
                &photos.display().to_string(),
                "is not a run",
                "experiment.toml",
            ],
        );
    }
}

#[test]
fn path_that_is_not_there() {
    let folder = empty_folder();
    let missing = folder.path().join("missing");
    for command in commands_on(&missing) {
        let message = refuse_leaving(folder.path(), command);
        assert_says(&message, &[&missing.display().to_string(), "not a run"]);
    }
}

#[test]
fn damaged_experiment_of_a_run() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let file = run.join("experiment.toml");
    replace_in(&file, "[training]", "[training");
    for command in commands_on(&run) {
        let message = refuse_leaving(&run, command);
        assert_says(&message, &[&file.display().to_string(), "line"]);
    }
}

/// The experiment must also stay unchanged, although `--set` would change it.
#[test]
fn metrics_damaged_in_the_middle() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let file = run.join("metrics.jsonl");
    replace_in(&file, "{\"step\":2,", "{\"stop");
    for command in [
        resume(&run, &["training.steps=6"]),
        mnemora(["compare".as_ref(), run.as_os_str()]),
    ] {
        let message = refuse_leaving(&run, command);
        assert_says(&message, &[&file.display().to_string(), "line 2"]);
    }
}

#[test]
fn only_checkpoint_damaged() {
    let folder = empty_folder();
    let run = folder.path().join("run");
    succeed(train(&run, &["training.steps=2"]));
    assert_eq!(checkpoint_steps(&run), [2]);
    let weights = checkpoint_file(&run, 2, "weights.safetensors");
    flip_last_byte(&weights);
    for command in commands_on(&run)
        .into_iter()
        .filter(|c| !format!("{c:?}").contains("compare"))
    {
        let message = refuse_leaving(&run, command);
        assert_says(
            &message,
            &[
                "no usable checkpoint",
                &weights.display().to_string(),
                "SHA256SUMS",
            ],
        );
    }
}

#[test]
fn checkpoint_that_was_never_written() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    for name in ["eval", "generate", "report"] {
        let mut command = mnemora([name, "--checkpoint", "3"]);
        command.arg(&run);
        let message = refuse_leaving(&run, command);
        assert_says(&message, &["step 3", "2, 4"]);
    }
}

#[test]
fn configuration_that_was_edited_or_damaged() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let experiment = run.join("experiment.toml");
    let text = fs::read_to_string(&experiment).expect("the file is there");
    let refused = |parts: &[&str]| {
        for name in ["resume", "eval", "generate", "report", "compare"] {
            let mut command = mnemora([name]);
            command.arg(&run);
            assert_says(&refuse_leaving(&run, command), parts);
        }
    };
    // Half of it is valid, too; so is nothing.
    let half = text[..text.len() / 2].rfind('\n').expect("it has lines");
    for wrong in [
        text.replacen("latent = 4", "latent = 6", 1),
        text[..half].to_owned(),
        String::new(),
    ] {
        assert_ne!(wrong, text);
        fs::write(&experiment, wrong).expect("a file is written");
        refused(&["experiment.toml", "was damaged, or edited"]);
    }
    // A remark changes nothing.
    fs::write(&experiment, format!("# a remark\n{text}")).expect("a file is written");
    let mut eval = mnemora(["eval"]);
    eval.arg(&run);
    succeed(eval);
}

#[test]
fn weights_that_do_not_fit_the_configuration() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    edit_unseen(&run, "latent = 4", "latent = 6");
    for name in ["resume", "eval", "generate", "report"] {
        let mut command = mnemora([name]);
        command.arg(&run);
        let message = refuse_leaving(&run, command);
        assert_says(&message, &["weights.safetensors", "tensor '", "wants ["]);
    }
}

#[test]
fn what_a_training_would_refuse_a_dry_run_refuses() {
    let folder = empty_folder();
    for (words, parts) in [
        (
            ["--weights", "nothere"],
            ["nothere", "there is no such folder"],
        ),
        (["--set", "name=../y"], ["name is '../y'", "folder name"]),
    ] {
        for more in [&["--dry-run"][..], &[]] {
            let mut command = mnemora(["train", "perfect-recall-small"]);
            command.args(words).args(more);
            assert_says(&refuse_leaving(folder.path(), command), &parts);
        }
    }
}

#[test]
fn runs_of_different_tasks() {
    let folder = empty_folder();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    succeed(train(&one, &["training.steps=2"]));
    succeed(train(&other, &["training.steps=2", "task.recall=3"]));
    let mut command = mnemora(["compare"]);
    command.args([&one, &other]);
    let message = refuse_leaving(folder.path(), command);
    assert_says(
        &message,
        &["different tasks", "length 3", "recall 2", "recall 3"],
    );
}

#[test]
fn resume_with_another_model() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    for setting in [
        "model.latent=6",
        "model.memory=vrnn",
        "memory.introspection.reads=3",
        "task.length=4",
        "training.batch=3",
        "seed=2",
    ] {
        let message = refuse_leaving(&run, resume(&run, &[setting]));
        let key = setting.split_once('=').expect("key=value").0;
        assert_says(&message, &[key, "training", "evaluation"]);
    }
}

/// A configuration edited by hand does not turn a run into another one.
#[test]
fn another_seed_written_into_a_run() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let file = run.join("experiment.toml");
    let text = fs::read_to_string(&file).expect("a configuration");
    let seed = text
        .lines()
        .find(|line| line.starts_with("seed = "))
        .expect("a seed");
    replace_in(&file, seed, "seed = 77");
    let message = refuse_leaving(&run, resume(&run, &["training.steps=6"]));
    assert_says(&message, &["experiment.toml", "edited"]);
}

/// Updates cannot be undone.
#[test]
fn resume_with_fewer_steps_than_were_made() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    let message = refuse_leaving(&run, resume(&run, &["training.steps=3"]));
    assert_says(&message, &["training.steps", "3", "4"]);
}

#[test]
fn run_without_its_digits() {
    let folder = empty_folder();
    let (digits, others) = (folder.path().join("digits"), folder.path().join("others"));
    write_digits(&digits, 0);
    write_digits(&others, 1);
    let run = folder.path().join("run");
    let mut command = train(&run, &["training.steps=2"]);
    command.arg("--data").arg(&digits);
    succeed(command);

    for name in ["resume", "eval", "generate", "report"] {
        let mut command = mnemora([name, "--data"]);
        command.arg(&others).arg(&run);
        let message = refuse_leaving(&run, command);
        assert_says(&message, &[&others.display().to_string(), "--data"]);
    }
}

#[test]
fn usage_errors() {
    for words in [
        &["train"][..],
        &["train", "perfect-recall-small", "--fast"],
        &["train", "perfect-recall-small", "--seed", "one"],
        &["remember"],
        &["compare"],
        &["eval", "run", "--checkpoint", "first"],
        &[],
    ] {
        let folder = empty_folder();
        let mut command = mnemora(words);
        command.current_dir(folder.path());
        let ended = run(command);
        assert_eq!(ended.status, Some(2), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{words:?}");
        assert_says(&ended.stderr, &["--help"]);
        assert!(files_below(folder.path()).is_empty(), "{words:?}");
    }
}

/// The lists above describe an unchanged run: its checkpoints must be those that the tests mention.
#[test]
fn finished_run_is_as_the_tests_suppose() {
    let folder = empty_folder();
    let run = finished_run(folder.path());
    assert_eq!(checkpoint_steps(&run), [2, 4]);
    let state = read_json(&checkpoint_file(&run, 4, "state.json"));
    assert_eq!(state["step"], 4);
}

/// A training on a user's own data.
fn train_own(data: &Path, task: &str, folder: &Path) -> Command {
    let mut command = mnemora(["train", "jsb-chorales", "--out"]);
    command.arg(folder.join("run")).arg("--data").arg(data);
    with_settings(
        command,
        &[&format!("task.name={task}"), "model.likelihood=normal"],
    )
}

/// Regression tests: each of these once waited for ever, or filled the memory.
#[cfg(unix)]
#[test]
fn pipes_devices_and_endless_links_as_data() {
    use std::os::unix::fs::symlink;
    let folder = empty_folder();
    let at = |name: &str| folder.path().join(name);
    let pipe = at("pipe.npz");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    symlink("/dev/zero", at("zeros.csv")).expect("a link is made");
    symlink("/dev/zero", at("zeros.toml")).expect("a link is made");
    symlink("endless.wav", at("endless.wav")).expect("a link is made");
    fs::create_dir(at("recordings")).expect("a folder is made");
    symlink("/dev/zero", at("recordings/zeros.wav")).expect("a link is made");
    for (data, task, wanted) in [
        ("pipe.npz", "own", "it is a named pipe, not a regular file"),
        ("zeros.csv", "own", "it is a device, not a regular file"),
        ("recordings", "recordings", "zeros.wav: it is a device"),
        ("endless.wav", "recordings", "endless.wav does not exist"),
    ] {
        let message = refuse(train_own(&at(data), task, folder.path()));
        assert_says(&message, &[data, wanted]);
    }
    let mut command = mnemora(["train"]);
    command.arg(at("zeros.toml"));
    assert_says(&refuse(command), &["zeros.toml: it is a device"]);
}

#[test]
fn data_beyond_the_bounds_name_the_key() {
    let folder = empty_folder();
    let songs = folder.path().join("songs.json.gz");
    let list = "[60],".repeat(200_000);
    let json = format!("{{\"train\": [[{list}[60]]], \"valid\": [], \"test\": []}}");
    write_gz(&songs, json.as_bytes());
    assert!(fs::metadata(&songs).expect("it was written").len() < 20_000);
    let train = |setting: &str| {
        let command = train_own(&songs, "midi", folder.path());
        refuse(with_settings(command, &[setting]))
    };
    // The packed data take 1,000,000 bytes as text, and three times as many as notes.
    assert_says(
        &train("data.max_unpacked_bytes=3000000"),
        &[
            "songs.json.gz: unpacks to more than 3000000 bytes",
            "raise data.max_unpacked_bytes",
        ],
    );
    assert_says(
        &train("data.max_bytes=1000"),
        &[
            "songs.json.gz: with its ",
            "more than 1000 are read",
            "raise data.max_bytes",
        ],
    );
}

/// Writes `views` pictures of 8 x 8 pixels and `transforms.json` for them.
fn write_views(folder: &Path, views: usize) {
    fs::create_dir_all(folder).expect("a folder is made");
    let mut frames = Vec::new();
    for view in 0..views {
        write_picture(&folder.join(format!("{view}.png")), 8, view as u8);
        frames.push(format!(
            "{{\"file_path\": \"{view}\", \"transform_matrix\": \
             [[1, 0, 0, {view}], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]}}"
        ));
    }
    let text = format!("{{\"frames\": [{}]}}", frames.join(", "));
    fs::write(folder.join("transforms.json"), text).expect("a file is written");
}

/// A grey picture.
fn write_picture(path: &Path, side: u32, grey: u8) {
    let file = fs::File::create(path).expect("a file is made");
    let mut encoder = png::Encoder::new(file, side, side);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().expect("a header is written");
    let pixels = vec![grey; (side * side) as usize];
    writer
        .write_image_data(&pixels)
        .expect("pixels are written");
}

/// A training of views in `folder/data`, made small.
fn train_views(experiment: &str, folder: &Path) -> Command {
    let mut command = mnemora(["train", experiment, "--out"]);
    command.arg(folder.join("run"));
    command.arg("--data").arg(folder.join("data"));
    command
}

/// Settings that make a training of views small.
const SMALL_VIEWS: [&str; 15] = [
    "scenes.size=16",
    "scenes.context_most=2",
    "scenes.targets=1",
    "scenes.samples=2",
    "scenes.model.steps=1",
    "scenes.model.hidden=2",
    "scenes.model.encoded=2",
    "scenes.model.canvas=2",
    "scenes.model.decoded=2",
    "training.steps=1",
    "training.batch=2",
    "training.checkpoint_every=1",
    "evaluation.batches=1",
    "evaluation.batch=2",
    "evaluation.pictures=1",
];

#[test]
fn posed_pictures_that_cannot_be_used() {
    let folder = empty_folder();
    let data = folder.path().join("data");
    let refused = || refuse(train_views("own-views-small", folder.path()));
    let says = |parts: &[&str]| assert_says(&refused(), parts);
    says(&["data", "does not exist", "transforms.json or poses.csv"]);
    fs::create_dir(&data).expect("a folder is made");
    says(&["data: no poses", "transforms.json", "poses.csv"]);

    write_views(&data, 6);
    says(&[
        "transforms.json: 5 views, too few for",
        "context_most 5",
        "targets 3",
    ]);
    let small = || with_settings(train_views("own-views-small", folder.path()), &SMALL_VIEWS);
    let asked = with_settings(small(), &["scenes.targets=2"]);
    assert_says(
        &refuse(asked),
        &["5 views for contexts and 1 held out", "targets 2"],
    );

    let json = data.join("transforms.json");
    let right = fs::read_to_string(&json).expect("it was written");
    for (from, to, parts) in [
        (
            "\"4\"",
            "\"9\"",
            &["transforms.json: frame 5", "no picture \"9\"", ".png, .jpg"][..],
        ),
        (
            ", [0, 0, 0, 1]",
            "",
            &["frame 1: transform_matrix has 3 rows", "4 x 4"],
        ),
        (
            "[0, 0, 1, 0]",
            "[0, 0, 2, 0]",
            &["frame 1: transform_matrix is not a pose", "rotation"],
        ),
        (
            "frames",
            "views",
            &[
                "transforms.json: not poses in the layout of NeRF",
                "`frames`",
            ],
        ),
    ] {
        replace_in(&json, from, to);
        says(parts);
        fs::write(&json, &right).expect("a file is written");
    }
    write_picture(&data.join("3.png"), 10, 9);
    says(&[
        "3.png: a picture of 10 x 10 pixels",
        "0.png has 8 x 8",
        "one size",
    ]);
    write_picture(&data.join("3.png"), 8, 9);
    let few = with_settings(small(), &["data.max_bytes=500"]);
    assert_says(
        &refuse(few),
        &["more than 500 are read", "raise data.max_bytes"],
    );
    assert!(!folder.path().join("run").exists(), "a run is left behind");

    // A run has its pictures, and no others.
    let run = folder.path().join("run");
    succeed(small());
    let eval = || {
        let mut command = mnemora(["eval"]);
        command.arg(&run);
        command
    };
    succeed(eval());
    write_picture(&data.join("3.png"), 8, 200);
    assert_says(
        &refuse(eval()),
        &[
            "6 views of one scene",
            "are not the ones the run was made with",
            "--data",
        ],
    );
}

#[test]
fn data_sets_of_the_gqn_that_cannot_be_used() {
    let folder = empty_folder();
    let message = refuse_leaving(
        folder.path(),
        mnemora(["train", "gqn-rooms", "--out", "run"]),
    );
    assert_says(
        &message,
        &[
            "does not come with the program",
            "train/*.tfrecord",
            "--data",
        ],
    );
    let data = folder.path().join("data");
    fs::create_dir_all(data.join("train")).expect("a folder is made");
    let refused = || refuse(train_views("gqn-rooms", folder.path()));
    assert_says(
        &refused(),
        &["test: this folder is missing", "train and test"],
    );
    fs::create_dir_all(data.join("test")).expect("a folder is made");
    assert_says(&refused(), &["train: no scene", ".tfrecord"]);
    let file = data.join("train/1-of-1.tfrecord");
    let record = mnemora_worlds::tfrecord::record(&[]);
    fs::write(&file, &record[..10]).expect("a file is written");
    assert_says(
        &refused(),
        &["1-of-1.tfrecord: record 1 of TFRecord: cut short"],
    );
    fs::write(&file, &record).expect("a file is written");
    assert_says(&refused(), &["1-of-1.tfrecord: record 1: no `frames`"]);
    flip_last_byte(&file);
    assert_says(
        &refused(),
        &[
            "1-of-1.tfrecord: record 1",
            "checksum (CRC-32C) of its bytes",
        ],
    );
}

#[test]
fn data_for_scenes_that_are_made() {
    let folder = empty_folder();
    let message = refuse(train_views("mnist-dice-small", folder.path()));
    assert_says(
        &message,
        &["--data is", "the task mnist-dice reads no data"],
    );
    let command = mnemora(["train", "prism", "--out", "run"]);
    let message = refuse_leaving(folder.path(), with_settings(command, &["data.max_bytes=7"]));
    assert_says(&message, &["data.max_bytes", "tasks that have data"]);
}

/// Each wrong setting of walks and scenes gives one line with the key as a user writes it.
#[test]
fn bad_settings_of_walks_and_scenes_are_refused() {
    for (experiment, setting, said) in [
        (
            "walking",
            "navigation.labyrinth.agent.speed=9",
            "navigation.labyrinth.agent.speed = 9",
        ),
        (
            "image-navigation",
            "navigation.model.neighbours=0",
            "navigation.model.neighbours is 0",
        ),
        (
            "image-navigation",
            "navigation.model.transition.kind=momentum",
            "navigation.model: the transition 'momentum'",
        ),
        (
            "image-navigation",
            "navigation.stages.gate_angle=1.2",
            "navigation.stages.gate_angle is 1.2, it must be from 0 to 1",
        ),
        (
            "image-navigation",
            "navigation.labyrinth.agent.speed=0.3",
            "navigation.labyrinth.agent.speed",
        ),
        (
            "walking",
            "navigation.image.crop=4",
            "navigation.image.crop",
        ),
    ] {
        let training = mnemora(["train", experiment, "--dry-run"]);
        let message = refuse(with_settings(training, &[setting]));
        assert_says(&message, &[said]);
    }
    let training = mnemora(["train", "travelling-salesman-small", "--dry-run"]);
    let settings = [
        "model.name=deterministic",
        "scenes.model.posterior_relative=true",
    ];
    let message = refuse(with_settings(training, &settings));
    assert_says(&message, &["scenes.model.posterior_relative"]);
}
