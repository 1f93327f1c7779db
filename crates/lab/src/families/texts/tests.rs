use super::*;
use crate::load_experiment;

use mnemora_training::{Purpose, arrays::host};
use mnemora_worlds::Frequency;
use std::fs;
use tempfile::TempDir;

const LINE: &str = "one two three four five six seven eight\n";

/// Writes the parts of a text that repeats one line.
fn folder(line: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (part, lines) in [("train", 60), ("valid", 6), ("test", 8)] {
        let file = folder.path().join(format!("{part}.txt"));
        fs::write(file, line.repeat(lines)).unwrap();
    }
    folder
}

fn small(folder: &TempDir, memory: &str, overrides: &[&str]) -> (Experiment, LanguageLearner) {
    let memory = format!("model.memory={memory}");
    let sizes = [
        memory.as_str(),
        "task.name=text",
        "task.window=5",
        "language.words=spaced",
        "language.embedding=8",
        "language.samples=0",
        "language.embedding_dropout=0",
        "language.output_dropout=0",
        "memory.lstm.hidden=12",
        "memory.stacked_lstm.hidden=8",
        "memory.rmc.slots=1",
        "memory.rmc.heads=2",
        "memory.rmc.head_size=6",
        "training.batch=4",
        "training.learning_rate=0.02",
        "training.schedule=constant",
        "evaluation.batch=1",
        "evaluation.batches=1000",
        "evaluation.unroll_words=50",
    ];
    let overrides = sizes.iter().chain(overrides).map(|s| s.to_string());
    let overrides = overrides.collect::<Vec<_>>();
    let mut experiment = load_experiment("books-small", &overrides).unwrap();
    let text = source::find(&mut experiment, Some(folder.path())).unwrap();
    let device = Device::default().autodiff();
    let learner = LanguageLearner::new(&experiment, text, &device).unwrap();
    (experiment, learner)
}

/// The evaluation after `step` updates.
fn evaluated(learner: &LanguageLearner, step: u64) -> Measures {
    learner.evaluate(Purpose::Final, step).unwrap().measures
}

/// Before training all words are about equally probable; a repetitive text is then learned.
#[test]
fn training_learns_a_text_that_repeats_itself() {
    let folder = folder(LINE);
    for (memory, samples) in [("lstm", 0), ("stacked-lstm", 0), ("rmc", 0), ("lstm", 30)] {
        let samples = format!("language.samples={samples}");
        let (_, mut learner) = small(&folder, memory, &[&samples]);
        let before = evaluated(&learner, 0);
        // Eight words, <eos> and <unk>.
        let perplexity = before.number("perplexity").unwrap();
        assert!((perplexity - 10.0).abs() < 0.7, "{memory} {perplexity}");
        for step in 1..=150 {
            learner.update(step).unwrap();
        }
        let after = evaluated(&learner, 150);
        assert!(
            after.number("perplexity").unwrap() < 1.2,
            "{memory} {after:?}"
        );
        assert_eq!((after.get("kl"), after.get("accuracy")), (None, None));
        let row = learner.measured().unwrap().unwrap().measures;
        let [perplexity, bound] = ["perplexity", "bound"].map(|key| row.number(key).unwrap());
        assert!((perplexity.ln() + bound).abs() < 1e-5);
    }
}

/// A training stopped in the middle of a pass over the text, with a carried state, dropout and samples, continues
/// exactly.
#[test]
fn a_restored_learner_goes_on_in_the_middle_of_the_text() {
    let folder = folder(LINE);
    let settings = [
        "language.embedding_dropout=0.3",
        "language.output_dropout=0.2",
        "language.samples=7",
    ];
    for memory in ["lstm", "stacked-lstm", "rmc"] {
        let (_, mut whole) = small(&folder, memory, &settings);
        let windows = whole.text.windows(Part::Train, 4, 5) as u64;
        let stop = windows + 3;
        for step in 1..=stop {
            whole.update(step).unwrap();
        }
        let (_, mut parted) = small(&folder, memory, &settings);
        let snapshot = whole.snapshot();
        assert!(snapshot.carried.contains_key("0"), "{memory}");
        parted.restore(snapshot, Path::new("test")).unwrap();
        for step in stop + 1..=stop + windows {
            whole.update(step).unwrap();
            parted.update(step).unwrap();
            assert_eq!(whole.measured().unwrap(), parted.measured().unwrap());
        }
        assert_eq!(whole.snapshot(), parted.snapshot());

        // With another batch size, the state does not fit.
        let mut snapshot = whole.snapshot();
        let carried = snapshot.carried.get_mut("0").unwrap();
        carried.shape[0] += 1;
        let error = parted.restore(snapshot, Path::new("test"));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("carried state has no '0'")
        );
    }
}

/// On a device with deferred checks, later steps have already run; still, the state before the failed step is saved.
#[test]
fn a_step_that_fails_leaves_parameters_and_state_of_one_step() {
    let folder = folder(LINE);
    // The first update makes the parameters so large that the second step is not finite.
    let settings = ["training.learning_rate=1e30", "training.clip=0"];
    // Cores without attention: with attention, a range check that is only active in tests would fail first.
    for memory in ["lstm", "stacked-lstm"] {
        let (_, mut now) = small(&folder, memory, &settings);
        now.update(1).unwrap();
        let before = now.snapshot();
        let failed = |error| match error {
            StepFailure::NonFinite { step, .. } => step,
            other => panic!("{other:?}"),
        };
        assert_eq!(failed(now.update(2).unwrap_err()), 2);
        assert_eq!(now.snapshot(), before);

        let (_, mut later) = small(&folder, memory, &settings);
        later.updates.defer();
        for step in 1..=4 {
            later.update(step).unwrap();
        }
        assert_eq!(failed(later.measured().unwrap_err()), 2);
        assert_eq!(later.snapshot(), before, "{memory}");
        assert!(before.carried.contains_key("0"));
    }
}

/// Carrying makes no difference at the first window. It does at the second, and the pass after the last window starts
/// from a fresh state again.
#[test]
fn a_state_is_carried_within_a_pass() {
    let folder = folder(LINE);
    let costs = |carry: &str, rate: &str| {
        let settings = [carry, rate];
        let (_, mut learner) = small(&folder, "rmc", &settings);
        let windows = learner.text.windows(Part::Train, 4, 5) as u64;
        let costs: Vec<f64> = (1..=windows + 1)
            .map(|step| {
                learner.update(step).unwrap();
                learner
                    .measured()
                    .unwrap()
                    .unwrap()
                    .measures
                    .number("bound")
                    .unwrap()
            })
            .collect();
        costs
    };
    // With a learning rate of 0 the model is the same at every step.
    let still = "training.learning_rate=1e-30";
    let carried = costs("language.carry=true", still);
    let anew = costs("language.carry=false", still);
    assert_eq!(carried[0], anew[0]);
    assert!((carried[1] - anew[1]).abs() > 1e-6, "{carried:?} {anew:?}");
    assert_eq!(carried.first(), carried.last());
}

#[test]
fn a_number_that_is_not_finite_is_named_and_changes_nothing() {
    let folder = folder(LINE);
    let (_, mut learner) = small(&folder, "lstm", &[]);
    learner.update(1).unwrap();
    let mut snapshot = learner.snapshot();
    let bias = snapshot.model.get_mut("projection.bias").unwrap();
    bias.values[0] = f32::NAN;
    learner.restore(snapshot, Path::new("test")).unwrap();
    let before = format!("{:?}", learner.snapshot());
    let Err(StepFailure::NonFinite { what, .. }) = learner.update(2) else {
        panic!("a NaN was trained on");
    };
    assert_eq!(what, "the log likelihood");
    assert_eq!(format!("{:?}", learner.snapshot()), before);
}

/// Windows and streams only divide the work: the numbers differ only at the starts of streams.
#[test]
fn a_pass_without_a_break_is_one_whatever_its_windows() {
    let folder = folder(LINE);
    let (_, mut learner) = small(&folder, "lstm", &[]);
    for step in 1..=20 {
        learner.update(step).unwrap();
    }
    let evaluation = evaluated(&learner, 20);
    let count = |row: &Measures, key| row.count(key).unwrap();
    assert_eq!(
        (
            count(&evaluation, "text.words"),
            count(&evaluation, "text.streams")
        ),
        (72, 1)
    );
    assert_eq!(evaluation.text("text.part"), Some("test"));
    let bound = |row: &Measures| row.number("bound").unwrap();
    let mut with = |window, batch, batches| {
        learner.experiment.task.window = window;
        learner.experiment.evaluation.batch = batch;
        learner.experiment.evaluation.batches = batches;
        evaluated(&learner, 20)
    };
    let whole = with(72, 1, 1);
    assert!((bound(&whole) - bound(&evaluation)).abs() < 1e-5);
    let halves = with(72, 2, 1);
    assert!((bound(&halves) - bound(&evaluation)).abs() > 1e-6);
    assert!((bound(&halves) - bound(&evaluation)).abs() < 0.2);
    // Fewer windows score fewer words.
    let part = with(5, 2, 2);
    assert_eq!(count(&part, "text.words"), 20);
}

/// Buckets and lengths agree with stepping through the text by hand.
#[test]
fn analyses_are_those_made_by_hand() {
    let rare = "a b a c a b a d\n";
    let folder = folder(rare);
    // A second bucket needs more than 1,000 occurrences: 600 times "a" and 300 times each other word.
    let file = folder.path().join("train.txt");
    fs::write(&file, rare.repeat(300)).unwrap();
    for streams in [1, 4] {
        let streams = format!("evaluation.batch={streams}");
        let (_, mut learner) = small(&folder, "rmc", &[&streams]);
        for step in 1..=30 {
            learner.update(step).unwrap();
        }
        check_analyses(&learner);
    }
}

/// For any number of streams, the numbers by length of the past are of one text in its order.
fn check_analyses(learner: &LanguageLearner) {
    let evaluation = evaluated(learner, 30);
    let buckets = evaluation.records("text.by_frequency");
    let names: Vec<(&str, u64)> = buckets
        .iter()
        .map(|bucket| {
            (
                bucket.text("count").unwrap(),
                bucket.count("words").unwrap(),
            )
        })
        .collect();
    // "a" occurs 1,200 times, "b" 600 times.
    assert_eq!(names, [("1k-10k", 32), ("< 1k", 40)]);
    assert_eq!(names[0].0, Frequency::From1000.to_string());
    let nats: f64 = buckets
        .iter()
        .map(|bucket| {
            let [words, perplexity] =
                ["words", "perplexity"].map(|key| bucket.number(key).unwrap());
            words * perplexity.ln()
        })
        .sum();
    assert!((nats / 72.0 + evaluation.number("bound").unwrap()).abs() < 1e-9);

    assert_eq!(evaluation.count("text.unroll_words"), Some(50));
    let unrolls = evaluation.records("text.by_unroll");
    let lengths: Vec<u64> = unrolls
        .iter()
        .map(|unroll| unroll.count("length").unwrap())
        .collect();
    assert_eq!(lengths, [10, 25]);
    let model = learner.model.valid();
    let words = learner.text.words(Part::Test);
    for length in [10, 25, 50] {
        let mut sum = 0.0;
        for first in (0..50).step_by(length) {
            let before = match first {
                0 => learner.text.vocabulary().end(),
                first => words[first - 1],
            };
            let targets = &words[first..first + length];
            let inputs = [&[before], &targets[..length - 1]].concat();
            let shown = WordBatch::new(&inputs, targets, 1, &Device::default());
            let state = model.core.initial_state(1, &Device::default());
            let read = model.read(&shown, state);
            let nats = host(model.nats(read.outputs, &shown).into_data());
            sum += nats.into_iter().map(f64::from).sum::<f64>();
        }
        let perplexity = (sum / 50.0).exp();
        let of_length = |unroll: &&Measures| unroll.count("length") == Some(length as u64);
        let found = match unrolls.iter().find(of_length) {
            Some(unroll) => unroll.number("perplexity"),
            None => evaluation.number("text.unroll_full"),
        };
        let found = found.unwrap();
        assert!(
            (found - perplexity).abs() < 1e-4,
            "{length}: {found} {perplexity}"
        );
    }
}

#[test]
fn another_vocabulary_or_text_is_refused() {
    let (one, other) = (folder(LINE), folder("one two three nine\n"));
    let (mut experiment, _) = small(&one, "lstm", &[]);
    let refused = source::find(&mut experiment, Some(other.path()))
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("the vocabulary of the text found"),
        "{refused}"
    );
    assert!(refused.contains("6 words"), "{refused}");
    // The same words in another order.
    let turned = folder("two one three four five six seven eight\n");
    let refused = source::find(&mut experiment, Some(turned.path()))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("are not the ones the run was made with"),
        "{refused}"
    );
    assert!(source::find(&mut experiment, Some(one.path())).is_ok());
}

#[test]
fn a_text_is_continued_and_written_down() {
    let folder = folder(LINE);
    let (_, mut learner) = small(&folder, "lstm", &[]);
    for step in 1..=150 {
        learner.update(step).unwrap();
    }
    let drawn = learner.draw(3, 1, Some(18)).unwrap();
    let (ending, bytes) = &drawn.files[0];
    assert_eq!(ending, ".txt");
    let written = String::from_utf8(bytes.clone()).unwrap();
    assert_eq!(written.matches("what follows").count(), 3, "{written}");
    // The model continues with what it learned, two lines of it.
    assert!(
        written.contains("one two three four five six seven eight"),
        "{written}"
    );
    assert!(drawn.picture.height() > 100);
    let same = learner.draw(3, 1, Some(18)).unwrap();
    assert_eq!(same.files, drawn.files);
}
