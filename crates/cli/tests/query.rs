//! `mnemora query` on tiny models of scenes: pictures and films of answers, and questions that are refused.

mod common;

use common::{assert_png, assert_says, mnemora, refuse, succeed, with_settings};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::tempdir;

/// Settings with which a training takes a moment.
const TINY: [&str; 13] = [
    "training.steps=2",
    "training.batch=2",
    "training.checkpoint_every=2",
    "training.threads=1",
    "evaluation.batches=1",
    "evaluation.batch=2",
    "evaluation.checkpoint_batches=1",
    "evaluation.pictures=1",
    "scenes.samples=2",
    "scenes.model.steps=2",
    "scenes.model.hidden=3",
    "scenes.model.canvas=3",
    "scenes.model.encoded=2",
];

/// A tiny run of an experiment in `folder`.
fn trained(folder: &Path, experiment: &str, settings: &[&str]) -> PathBuf {
    let run = folder.join(experiment);
    let mut command = mnemora(["train", experiment, "--out"]);
    command.arg(&run);
    succeed(with_settings(with_settings(command, &TINY), settings));
    run
}

fn query(run: &Path, words: &[&str]) -> Command {
    let mut command = mnemora(["query"]);
    command.arg(run).args(words);
    command
}

/// The pictures of a GIF, as colours.
fn film(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).expect("a film");
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    let mut decoder = options.read_info(bytes.as_slice()).expect("a GIF");
    let mut pictures = Vec::new();
    while let Some(frame) = decoder.read_next_frame().expect("a frame") {
        pictures.push(frame.buffer.to_vec());
    }
    pictures
}

/// What is drawn of each view, from a run, in the order of `at`.
fn drawn(run: &Path, at: &str) -> Vec<Vec<u8>> {
    let out = run.join("asked.gif");
    let mut command = query(
        run,
        &["--context", "1,40", "--at", at, "--samples", "2", "--out"],
    );
    command.arg(&out);
    let said = succeed(command);
    let png = out.with_extension("png");
    assert_eq!(
        said.stdout.lines().collect::<Vec<_>>(),
        [png.display().to_string(), out.display().to_string()]
    );
    assert_png(&png);
    film(&out)
}

/// More views than a model learns from.
const MANY_VIEWS: &str = "scenes.views=144";

/// A sample of a consistent model is one scene, whatever else is asked for; one of a GQN is a new draw for each query.
#[test]
fn a_sample_is_one_scene() {
    let folder = tempdir().expect("a temporary folder is made");
    let one = trained(folder.path(), "prism", &[MANY_VIEWS]);
    let [there, back] = ["1,50,90", "90,1"].map(|at| drawn(&one, at));
    assert_eq!((there.len(), back.len()), (3, 2));
    assert_ne!(there[0], there[1]);
    assert!(there[0] == back[1] && there[2] == back[0]);
    assert_eq!(drawn(&one, "around:5").len(), 5);

    let other = folder.path().join("gqn");
    fs::create_dir(&other).unwrap();
    let other = trained(&other, "prism", &["model.name=gqn", MANY_VIEWS]);
    let [there, back] = ["1,50,90", "90,1"].map(|at| drawn(&other, at));
    assert!(there[0] != back[1] && there[2] != back[0]);

    // Side by side, by the names of the models, or of the runs if they are the same model.
    let beside = |other: &Path, context| {
        let mut command = query(&one, &["--context", context, "--at", "1,50", "--beside"]);
        command.arg(other).arg("--out");
        command.arg(folder.path().join("both.gif"));
        command
    };
    let said = succeed(beside(&other, "1,40"));
    assert_says(&said.stderr, &["cgqn: 1 view", "gqn: 1 view"]);
    assert_eq!(film(&folder.path().join("both.gif")).len(), 2);
    let said = succeed(beside(&one, "1,40"));
    assert_says(&said.stderr, &[&format!("{}: 1 view", one.display())]);
    let fewer = folder.path().join("fewer");
    fs::create_dir(&fewer).unwrap();
    let fewer = trained(&fewer, "prism", &["scenes.views=100"]);
    assert_says(
        &refuse(beside(&fewer, "1,40")),
        &["--beside", "is not that of"],
    );

    // A report walks around.
    assert_png(&one.join("samples/query.png"));
    assert_eq!(film(&one.join("samples/query.gif")).len(), 24);
}

#[test]
fn stories_are_asked_for_any_time() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = trained(folder.path(), "colour-reaction-small", &[]);
    assert!(!run.join("samples/query.gif").exists());
    let sheet = run.join("samples/query.png");
    fs::remove_file(&sheet).expect("the report's");
    let said = succeed(query(&run, &["--context", "1-3,12", "--at", "4-7,5.5"]));
    assert_eq!(said.stdout.trim(), sheet.display().to_string());
    assert_png(&sheet);
    assert_says(
        &said.stderr,
        &[
            "4 frames not in the context",
            "mean of 3 samples",
            "nearest frame",
        ],
    );
    let before = fs::read(&sheet).unwrap();
    for (words, differs) in [
        (["--seed", "1"], false),
        (["--seed", "2"], true),
        (["--scene", "2"], true),
        (["--samples", "4"], true),
    ] {
        let mut command = query(&run, &["--context", "1-3,12", "--at", "4-7,5.5"]);
        command.args(words);
        succeed(command);
        assert_eq!(fs::read(&sheet).unwrap() != before, differs, "{words:?}");
    }
    let said = succeed(query(&run, &["--context", "1-9", "--at", "all"]));
    assert_says(
        &said.stderr,
        &["frames in the context: 9", "trained with at most"],
    );
}

#[test]
fn what_does_not_fit_the_scene_or_the_model_is_refused() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = trained(folder.path(), "colour-reaction-small", &[]);
    for (words, said) in [
        (
            ["--context", "none", "--at", "all"],
            "--context none: this model has always seen a context",
        ),
        (
            ["--context", "1-13", "--at", "all"],
            "--context names frame 13, but colour-reaction has frames 1 to 12",
        ),
        (["--context", "1", "--at", "13"], "--at names frame 13"),
        (
            ["--context", "1", "--at", "12.01"],
            "--at names frame 12.01",
        ),
        (["--context", "1", "--at", "-1"], "'-1'"),
        (["--context", "1", "--at", "around"], "no way around"),
        (["--context", "1", "--at", "everywhere"], "'everywhere'"),
        (["--context", "first", "--at", "all"], "'first'"),
    ] {
        let option = format!("{}={}", words[2], words[3]);
        let command = query(&run, &[words[0], words[1], &option]);
        assert_says(&refuse(command), &[said]);
    }
    let many = ["--context", "1", "--at", "all", "--samples", "1000"];
    assert_says(
        &refuse(query(&run, &[&many[..], &["--out", "x.mp4"]].concat())),
        &["x.mp4", ".png or .gif"],
    );
    for words in [&["--scene", "0"][..], &["--samples", "0"]] {
        let mut command = query(&run, &many[..4]);
        command.args(words);
        let ended = common::run(command);
        assert_eq!(ended.status, Some(2));
        assert_says(&ended.stderr, &[words[0]]);
    }
    // Nothing was seen in training, and nothing need be seen.
    let patterns = trained(folder.path(), "patterns", &[]);
    succeed(query(&patterns, &["--context", "none", "--at", "all"]));
    let said = succeed(query(&patterns, &["--context", "1", "--at", "2"]));
    assert_says(
        &said.stderr,
        &["views in the context: 1; the model was trained with at most 0"],
    );

    let pretrained = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pretrained");
    let command = query(
        &pretrained.join("perfect-recall-small-hybrid"),
        &["--context", "1", "--at", "2"],
    );
    assert_says(
        &refuse(command),
        &["perfect-recall", "does not answer questions about scenes"],
    );
}

/// Scenes that are read have an end.
#[test]
fn there_are_as_many_scenes_as_were_read() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = trained(folder.path(), "own-views-small", &[]);
    let asked = |scene: &str| query(&run, &["--context", "1", "--at", "2", "--scene", scene]);
    succeed(asked("1"));
    assert_says(
        &refuse(asked("2")),
        &["--scene is 2, but own-views has 1 held-out scene"],
    );
}

/// Contexts of no views, and contexts that always tell what is asked for: the run ends with its report.
#[test]
fn contexts_of_none_or_of_all() {
    let folder = tempdir().expect("a temporary folder is made");
    let none = [
        "scenes.context_least=0",
        "scenes.context_most=0",
        "scenes.hiding=0",
        "scenes.revealing=false",
    ];
    let run = trained(folder.path(), "colour-reaction-small", &none);
    assert_png(&run.join("samples/query.png"));
    let always = ["scenes.context_least=1", "scenes.context_most=1"];
    let run = trained(folder.path(), "patterns", &always);
    assert_png(&run.join("samples/query.png"));
    let few = trained(folder.path(), "prism", &["scenes.context_least=4"]);
    let said = succeed(query(&few, &["--context", "1,5,9", "--at", "all"]));
    assert_says(
        &said.stderr,
        &["views in the context: 3; the model was trained with at least 4"],
    );
}

/// Predictors answer for the frames that follow their context, which is the beginning of a story.
#[test]
fn predictors_continue_stories() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("cdna");
    let mut command = mnemora(["train", "travelling-salesman-small", "--out"]);
    command.arg(&run);
    let settings = [
        "model.name=cdna",
        "scenes.size=16",
        "scenes.cdna.width=2",
        "scenes.cdna.grid=4",
    ];
    let general = TINY
        .iter()
        .filter(|setting| !setting.starts_with("scenes.model."));
    let all: Vec<&str> = general.copied().chain(settings).collect();
    succeed(with_settings(command, &all));
    assert_png(&run.join("samples/query.png"));
    succeed(query(&run, &["--context", "1-6", "--at", "all"]));
    for (words, said) in [
        (
            ["--context", "1,3", "--at", "9"],
            "it must see the first frames",
        ),
        (["--context", "1-6", "--at", "7.5"], "--at 7.5: "),
    ] {
        assert_says(&refuse(query(&run, &words)), &[said]);
    }
}

/// More frames than can be held at once, before anything is drawn.
#[test]
fn too_many_answers_are_refused() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = trained(folder.path(), "prism", &[MANY_VIEWS]);
    let words = ["--context", "1", "--at", "all", "--samples", "1000"];
    assert_says(
        &refuse(query(&run, &words)),
        &["1000 samples of 144 views are too many to draw at once"],
    );
}

/// What decides only what is measured can change after training, sizes cannot.
#[test]
fn a_run_is_evaluated_at_other_variances() {
    let folder = tempdir().expect("a temporary folder is made");
    let run = trained(folder.path(), "patterns", &[]);
    let evaluated = |setting: &str| {
        let mut command = mnemora(["eval"]);
        command.arg(&run).args(["--set", setting]);
        command
    };
    let said = succeed(evaluated("scenes.test_variance=[0.5, 0.125]"));
    let both = [
        "bound at a variance of 0.5 ",
        "bound at a variance of 0.125 ",
    ];
    assert_says(&said.stdout, &both);
    let said = refuse(evaluated("scenes.size=16"));
    assert_says(
        &said,
        &["scenes.size cannot change", "scenes.test_variance"],
    );
}
