use super::*;
use crate::{evaluate::EVALUATION, load_experiment};
use mnemora_memory::{LruConfig, LruState};
use mnemora_worlds::Frequency;
use std::fs;
use tempfile::TempDir;

const LINE: &str = "one two three four five six seven eight\n";

/// Parts of a text that says the same again and again.
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
    let text = find(&mut experiment, Some(folder.path())).unwrap();
    let device = Device::default().autodiff();
    let learner = LanguageLearner::new(&experiment, text, &device).unwrap();
    (experiment, learner)
}

/// Before training all words are about equally probable; a text that repeats itself is then learned.
#[test]
fn training_learns_a_text_that_repeats_itself() {
    let folder = folder(LINE);
    for (memory, samples) in [("lstm", 0), ("stacked-lstm", 0), ("rmc", 0), ("lstm", 30)] {
        let samples = format!("language.samples={samples}");
        let (experiment, mut learner) = small(&folder, memory, &[&samples]);
        let before = learner.evaluate(&experiment, 0, 1000, EVALUATION).unwrap();
        // Eight words, <eos> and <unk>.
        let perplexity = before.perplexity.unwrap();
        assert!((perplexity - 10.0).abs() < 0.7, "{memory} {perplexity}");
        for step in 1..=150 {
            learner.step(&experiment, step).unwrap();
        }
        let after = learner
            .evaluate(&experiment, 150, 1000, EVALUATION)
            .unwrap();
        assert!(after.perplexity.unwrap() < 1.2, "{memory} {after:?}");
        assert_eq!((after.kl, after.accuracy), (None, None));
        let metrics = learner.metrics().unwrap().unwrap();
        assert!((metrics.perplexity.unwrap().ln() + metrics.bound).abs() < 1e-5);
    }
}

/// What is stopped in the middle of a pass over the text, with a state carried, dropout and samples, goes on as one that was
/// not stopped.
#[test]
fn a_restored_learner_goes_on_in_the_middle_of_the_text() {
    let folder = folder(LINE);
    let settings = [
        "language.embedding_dropout=0.3",
        "language.output_dropout=0.2",
        "language.samples=7",
    ];
    for memory in ["lstm", "stacked-lstm", "rmc"] {
        let (experiment, mut whole) = small(&folder, memory, &settings);
        let windows = whole.text.windows(Part::Train, 4, 5) as u64;
        let stop = windows + 3;
        for step in 1..=stop {
            whole.step(&experiment, step).unwrap();
        }
        let (_, mut parted) = small(&folder, memory, &settings);
        let optimizer = whole.optimizer();
        assert!(optimizer.contains_key("carried.0"), "{memory}");
        parted
            .restore(whole.weights(), Some(optimizer), Path::new("test"))
            .unwrap();
        for step in stop + 1..=stop + windows {
            whole.step(&experiment, step).unwrap();
            parted.step(&experiment, step).unwrap();
            assert_eq!(whole.metrics().unwrap(), parted.metrics().unwrap());
        }
        assert_eq!(whole.weights(), parted.weights());
        assert_eq!(whole.optimizer(), parted.optimizer());

        // Of another batch size: the state does not fit.
        let mut optimizer = whole.optimizer();
        let carried = optimizer.get_mut("carried.0").unwrap();
        carried.shape[0] += 1;
        let error = parted.restore(whole.weights(), Some(optimizer), Path::new("test"));
        assert!(error.unwrap_err().to_string().contains("'carried.0'"));
    }
}

/// A device that is looked at later has gone on meanwhile; what is saved is from before the step that failed all the same.
#[test]
fn a_step_that_fails_leaves_parameters_and_state_of_one_step() {
    let folder = folder(LINE);
    // The first update makes the parameters so large that the second step is not finite.
    let settings = ["training.learning_rate=1e30", "training.clip=0"];
    // Cores without attention: range checks, which tests have on, would name that first.
    for memory in ["lstm", "stacked-lstm"] {
        let (experiment, mut now) = small(&folder, memory, &settings);
        now.step(&experiment, 1).unwrap();
        let before = now.optimizer();
        let failed = |error| match error {
            StepFailure::NonFinite { step, .. } => step,
            StepFailure::Batch(error) => panic!("{error}"),
        };
        assert_eq!(failed(now.step(&experiment, 2).unwrap_err()), 2);
        assert_eq!(now.optimizer(), before);

        let (_, mut later) = small(&folder, memory, &settings);
        later.updates.defer();
        for step in 1..=4 {
            later.step(&experiment, step).unwrap();
        }
        assert_eq!(failed(later.metrics().unwrap_err()), 2);
        assert_eq!(later.weights(), now.weights(), "{memory}");
        assert_eq!(later.optimizer(), before, "{memory}");
        assert!(before.contains_key("carried.0"));
    }
}

/// Of a memory that reads few of its slots the state holds their indices.
#[test]
fn indices_of_a_state_are_saved() {
    let device = Device::default();
    let config = LruConfig {
        input: 3,
        hidden: 4,
        slots: 6,
        width: 5,
        reads: 2,
        nearest: 2,
    };
    let stream = Stream::new(1, "parameters").at(0);
    let core = config
        .init(&mut Initializer::new(stream, device.clone()))
        .unwrap();
    let inputs = |seed| {
        let values = Stream::new(seed, "inputs").standard_normal(0, 5 * 2 * 3);
        Tensor::<3>::from_data(TensorData::new(values, [5, 2, 3]), &device)
    };
    let (_, state) = core.sequence(inputs(1), core.initial_state(2, &device));
    let saved = |state: LruState| {
        let mut save = Save::default();
        state.map_tensors(&mut save);
        save.arrays
    };
    let arrays = saved(state.clone());
    assert!(
        arrays.contains_key("carried.index.0"),
        "{:?}",
        arrays.keys()
    );
    let mut left = arrays.clone();
    let mut load = Load::new(&mut left);
    let restored = core.initial_state(2, &device).map_tensors(&mut load);
    assert_eq!(load.problem, None);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(saved(restored.clone()), arrays);
    let after = |state| {
        let (steps, _) = core.sequence(inputs(2), state);
        let outputs = steps.into_iter().map(|step| step.output).collect();
        host(Tensor::cat(outputs, 0).into_data())
    };
    assert_eq!(after(restored), after(state));

    let mut less = arrays;
    less.remove("carried.index.0");
    let mut load = Load::new(&mut less);
    core.initial_state(2, &device).map_tensors(&mut load);
    assert!(load.problem.unwrap().contains("'carried.index.0'"));
}

/// The first window begins anew either way; at the second it matters what was carried, and the pass after the last
/// begins anew again.
#[test]
fn a_state_is_carried_within_a_pass() {
    let folder = folder(LINE);
    let costs = |carry: &str, rate: &str| {
        let settings = [carry, rate];
        let (experiment, mut learner) = small(&folder, "rmc", &settings);
        let windows = learner.text.windows(Part::Train, 4, 5) as u64;
        let costs: Vec<f32> = (1..=windows + 1)
            .map(|step| {
                learner.step(&experiment, step).unwrap();
                learner.metrics().unwrap().unwrap().bound
            })
            .collect();
        costs
    };
    // At a rate that changes nothing the model is the same at every step.
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
    let (experiment, mut learner) = small(&folder, "lstm", &[]);
    learner.step(&experiment, 1).unwrap();
    let mut weights = learner.weights();
    weights.get_mut("projection.bias").unwrap().values[0] = f32::NAN;
    let optimizer = learner.optimizer();
    learner
        .restore(weights, Some(optimizer), Path::new("test"))
        .unwrap();
    let before = format!("{:?} {:?}", learner.weights(), learner.optimizer());
    let Err(StepFailure::NonFinite { what, .. }) = learner.step(&experiment, 2) else {
        panic!("a NaN was trained on");
    };
    assert_eq!(what, "the log likelihood");
    let after = format!("{:?} {:?}", learner.weights(), learner.optimizer());
    assert_eq!(after, before);
}

/// Windows and streams divide the work; but for the streams' starts they change no number.
#[test]
fn a_pass_without_a_break_is_one_whatever_its_windows() {
    let folder = folder(LINE);
    let (mut experiment, mut learner) = small(&folder, "lstm", &[]);
    for step in 1..=20 {
        learner.step(&experiment, step).unwrap();
    }
    let evaluation = learner.evaluate(&experiment, 20, 1000, EVALUATION).unwrap();
    let score = evaluation.text.clone().unwrap();
    assert_eq!(
        (score.words, score.streams, score.part.as_str()),
        (72, 1, "test")
    );
    experiment.task.window = 72;
    let whole = learner.evaluate(&experiment, 20, 1, EVALUATION).unwrap();
    assert!((whole.bound - evaluation.bound).abs() < 1e-5);
    experiment.evaluation.batch = 2;
    let halves = learner.evaluate(&experiment, 20, 1, EVALUATION).unwrap();
    assert!((halves.bound - evaluation.bound).abs() > 1e-6);
    assert!((halves.bound - evaluation.bound).abs() < 0.2);
    // Fewer windows score fewer words.
    experiment.task.window = 5;
    let part = learner.evaluate(&experiment, 20, 2, EVALUATION).unwrap();
    assert_eq!(part.text.unwrap().words, 20);
}

/// Buckets and lengths are those that stepping through the text by hand gives.
#[test]
fn analyses_are_those_made_by_hand() {
    let rare = "a b a c a b a d\n";
    let folder = folder(rare);
    // 600 times "a" and 300 of each other need more than 1,000 for a second bucket.
    let file = folder.path().join("train.txt");
    fs::write(&file, rare.repeat(300)).unwrap();
    for streams in [1, 4] {
        let streams = format!("evaluation.batch={streams}");
        let (experiment, mut learner) = small(&folder, "rmc", &[&streams]);
        for step in 1..=30 {
            learner.step(&experiment, step).unwrap();
        }
        check_analyses(&experiment, &learner);
    }
}

/// Whatever the number of streams, the numbers by length of the past are of one text in its order.
fn check_analyses(experiment: &Experiment, learner: &LanguageLearner) {
    let evaluation = learner.evaluate(experiment, 30, 1000, EVALUATION).unwrap();
    let score = evaluation.text.unwrap();
    let names: Vec<(&str, usize)> = score
        .by_frequency
        .iter()
        .map(|bucket| (bucket.count.as_str(), bucket.words))
        .collect();
    // "a" is there 1,200 times, "b" 600 times.
    assert_eq!(names, [("1k-10k", 32), ("< 1k", 40)]);
    assert_eq!(names[0].0, Frequency::From1000.to_string());
    let nats: f64 = score
        .by_frequency
        .iter()
        .map(|bucket| bucket.words as f64 * bucket.perplexity.ln())
        .sum();
    assert!((nats / 72.0 + evaluation.bound).abs() < 1e-9);

    assert_eq!(score.unroll_words, Some(50));
    let lengths: Vec<usize> = score.by_unroll.iter().map(|unroll| unroll.length).collect();
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
            let shown = Words::new(&inputs, targets, 1, &Device::default());
            let state = model.core.initial_state(1, &Device::default());
            let read = model.read(&shown, state);
            let nats = host(model.nats(read.outputs, &shown).into_data());
            sum += nats.into_iter().map(f64::from).sum::<f64>();
        }
        let perplexity = (sum / 50.0).exp();
        let found = match score
            .by_unroll
            .iter()
            .find(|unroll| unroll.length == length)
        {
            Some(unroll) => unroll.perplexity,
            None => score.unroll_full.unwrap(),
        };
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
    let refused = find(&mut experiment, Some(other.path()))
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("the vocabulary of the text found"),
        "{refused}"
    );
    assert!(refused.contains("6 words"), "{refused}");
    // The same words in another order.
    let turned = folder("two one three four five six seven eight\n");
    let refused = find(&mut experiment, Some(turned.path()))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("is not that the run was made with"),
        "{refused}"
    );
    assert!(find(&mut experiment, Some(one.path())).is_ok());
}

#[test]
fn a_text_is_continued_and_written_down() {
    let folder = folder(LINE);
    let (experiment, mut learner) = small(&folder, "lstm", &[]);
    for step in 1..=150 {
        learner.step(&experiment, step).unwrap();
    }
    let drawn = learner.draw(&experiment, 3, 1, Some(18)).unwrap();
    let (ending, bytes) = &drawn.files[0];
    assert_eq!(ending, ".txt");
    let written = String::from_utf8(bytes.clone()).unwrap();
    assert_eq!(written.matches("what follows").count(), 3, "{written}");
    // What the model learned is what it goes on with, two lines of it.
    assert!(
        written.contains("one two three four five six seven eight"),
        "{written}"
    );
    assert!(drawn.picture.height() > 100);
    let same = learner.draw(&experiment, 3, 1, Some(18)).unwrap();
    assert_eq!(same.files, drawn.files);
}
