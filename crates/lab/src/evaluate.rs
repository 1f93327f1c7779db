//! What a trained model is worth on held-out sequences.

use crate::{
    DigitClassifier, Experiment, LabError, TextScore,
    config::TaskImages,
    particles::{ParticleScore, Particles},
    strategy::AtWork,
    trainer::{BatchTensors, Model, noise},
    weights::host,
};
use burn::tensor::Tensor;
use mnemora_models::{FilteringModel, generate};
use mnemora_worlds::{Batch, Split, Stream, Task};
use serde::{Deserialize, Serialize};

/// Held-out numbers of a model. Nats, per sequence unless a step is named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Updates the model has had.
    pub step: u64,
    /// Seed of the held-out draws, where it is not the experiment's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seed: Option<u64>,
    /// Sequences that were scored.
    pub sequences: usize,
    /// Reconstruction less KL; the log likelihood of the answers for `copy`, `nth-farthest` and `programs`; that
    /// of a word, in the mean, for texts.
    pub bound: f64,
    /// Standard error of the bound over sequences.
    pub bound_stderr: f64,
    /// `exp` of minus the bound: for texts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub perplexity: Option<f64>,
    /// Share of the bits to be answered that are wrong, each read at a probability of 1/2.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bit_error: Option<f64>,
    /// Share of the sequences whose class was named, which was the most probable; of the characters of
    /// answers, their ends among them, that were written in their places.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accuracy: Option<f64>,
    /// Share of the answers that were written without a mistake.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_accuracy: Option<f64>,
    /// Accuracy of the sequences that ask for each n, from 1; `None` where there were none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub accuracy_by_n: Vec<Option<f64>>,
    /// `log p(x | z)`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reconstruction: Option<f64>,
    /// KL.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl: Option<f64>,
    /// KL of the last frame.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl_last: Option<f64>,
    /// KL of each step.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kl_per_step: Vec<f64>,
    /// Mean KL of the frames that nothing predicts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl_unpredictable: Option<f64>,
    /// Mean KL of the frames that the past predicts: those of the recall interval, those of a cell
    /// that was visited before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl_predictable: Option<f64>,
    /// The second over the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kl_ratio: Option<f64>,
    /// How well generated frames repeat the remembered ones.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generated_recall: Option<GeneratedRecall>,
    /// Whether generated frames show the digit they should.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generated_digits: Option<GeneratedDigits>,
    /// How coherent a map is that the model makes up from actions alone: the share of returns to a
    /// cell at which, of all frames generated for other visits, none is nearer to the frame
    /// generated now than the one generated at the last visit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub map_coherence: Option<f64>,
    /// Mean free energy in nats per step before the first round of inference, when the belief is the
    /// prior (no wider and no narrower than a belief may be), and after each; empty for direct filtering.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub energy_by_round: Vec<f64>,
    /// Bounds of tasks of frames by particles, where they were asked for.
    #[serde(flatten)]
    pub particles: Option<ParticleScore>,
    /// Of recorded sequences, which differ in length.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recordings: Option<RecordingScore>,
    /// Of texts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<TextScore>,
}

impl Evaluation {
    /// The bound or the perplexity, if it is not finite: a model that says so has diverged.
    pub fn non_finite(&self) -> Option<(&'static str, f64)> {
        let scores = [
            ("the held-out bound", Some(self.bound)),
            ("the held-out perplexity", self.perplexity),
        ];
        scores
            .into_iter()
            .find_map(|(what, score)| Some((what, score.filter(|score| !score.is_finite())?)))
    }

    /// Refuses one whose bound or perplexity is not finite.
    pub fn check_finite(&self) -> Result<(), LabError> {
        match self.non_finite() {
            None => Ok(()),
            Some((what, value)) => Err(LabError::NonFiniteScore { what, value }),
        }
    }
}

/// What filtering makes of whole recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingScore {
    /// The part of the data: `test`, or `valid` where there is no test part.
    pub part: String,
    /// Steps that were scored.
    pub steps: usize,
    /// Free energy (KL less reconstruction) in nats per step, mean over all steps.
    pub free_energy: f64,
    /// Its standard error over recordings.
    pub free_energy_stderr: f64,
    /// Mean over recordings of each one's nats per step.
    pub free_energy_of_recordings: f64,
    /// KL in nats per step.
    pub kl: f64,
    /// Bounds by particles, where they were asked for.
    #[serde(flatten)]
    pub particles: Option<ParticleScore>,
}

/// Frames generated after a prompt, where what was seen in the prompt determines the digit, as a
/// classifier reads them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratedDigits {
    /// Frames generated.
    pub frames: usize,
    /// Share in which the classifier reads the right digit.
    pub accuracy: f64,
    /// The same share of the true frames: what the classifier itself reads right.
    pub accuracy_of_truth: f64,
}

/// Frames generated after a prompt, where they should repeat a frame of the prompt, against all
/// frames of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratedRecall {
    /// Frames generated.
    pub frames: usize,
    /// Share of frames to which the remembered frame is the nearest of all seen.
    pub nearest: f64,
    /// Mean squared error of a pixel to the remembered frame.
    pub error_remembered: f64,
    /// The same to the other frames seen.
    pub error_others: f64,
}

/// The stream of the evaluation after training, and of `eval`.
pub const EVALUATION: &str = "evaluation";
/// The stream of the short evaluations at checkpoints: other sequences, so that choosing the best
/// checkpoint by them does not flatter it.
pub const CHECKPOINT_EVALUATION: &str = "checkpoint evaluation";

/// Streams of an evaluation: other draws than training's.
struct Streams {
    data: Stream,
    noise: Stream,
    generation: Stream,
    made_up: Stream,
    particles: Stream,
}

impl Streams {
    fn new(seed: u64, purpose: &str) -> Self {
        Self {
            data: data_stream(seed, purpose),
            noise: Stream::new(seed, &format!("{purpose} noise")),
            generation: Stream::new(seed, &format!("{purpose} generation")),
            made_up: Stream::new(seed, &format!("{purpose} made-up maps")),
            particles: particle_stream(seed, purpose),
        }
    }
}

/// Where held-out sequences are drawn from: another stream than training's.
pub(crate) fn data_stream(seed: u64, purpose: &str) -> Stream {
    Stream::new(seed, &format!("{purpose} data"))
}

/// Where the samples of particles are drawn from.
pub(crate) fn particle_stream(seed: u64, purpose: &str) -> Stream {
    Stream::new(seed, &format!("{purpose} particles"))
}

/// Particles of an evaluation: none at checkpoints, of which only the bound is kept.
pub(crate) fn particles_for(experiment: &Experiment, purpose: &str) -> Particles {
    Particles::new(match purpose {
        CHECKPOINT_EVALUATION => 0,
        _ => experiment.evaluation.particles,
    })
}

/// Scores `batches` held-out batches of the stream `purpose`.
pub(crate) fn evaluate(
    experiment: &Experiment,
    at_work: &AtWork<Model>,
    task: &dyn Task,
    step: u64,
    batches: u64,
    purpose: &str,
) -> Result<Evaluation, LabError> {
    let streams = Streams::new(experiment.seed, purpose);
    let model = at_work.model();
    let device = model.device();
    let size = experiment.evaluation.batch;
    let time = task.time();
    let mut reconstruction = vec![0.0; time];
    let mut kl_per_step = vec![0.0; time];
    let mut bounds = Vec::new();
    let mut kl_by_kind = KlByKind::default();
    let mut recall = RecallScore::default();
    let mut coherence = Coherence::default();
    let mut rounds = Rounds::default();
    let mut particles = particles_for(experiment, purpose);
    let mut digits = match experiment.task.name.images() {
        Some(TaskImages::Digits) => Some(DigitScore::new(DigitClassifier::shipped(&device)?)),
        Some(TaskImages::Characters) | None => None,
    };
    for index in 0..batches {
        let batch = task.batch(Split::Test, &streams.data, index, size);
        let tensors = BatchTensors::new(batch.clone(), &device);
        particles.add(
            at_work,
            &tensors.observations,
            tensors.conditions.as_ref(),
            &vec![time; size],
            &streams.particles,
        );
        let (filtered, energies) = at_work.filter(
            tensors.observations,
            tensors.conditions,
            &streams.noise,
            index,
        );
        rounds.add(&energies, None);
        bounds.extend(
            host(filtered.bound(1.0).into_data())
                .into_iter()
                .map(f64::from),
        );
        add_rows(&mut reconstruction, filtered.reconstruction);
        kl_by_kind.add(&batch, &host(filtered.kl.clone().into_data()));
        add_rows(&mut kl_per_step, filtered.kl);
        let frames = generate_after_prompt(at_work, task, &batch, &streams.generation, index);
        recall.add(task, &batch, &frames);
        if let Some(digits) = &mut digits {
            digits.add(task, &batch, &frames)?;
        }
        if batch.cells.is_some() {
            let made_up = generation(at_work, &batch, 0, &streams.made_up, index);
            coherence.add(&batch, &host(made_up.frames.into_data()));
        }
    }
    let sequences = bounds.len();
    let count = sequences as f64;
    for sum in reconstruction.iter_mut().chain(&mut kl_per_step) {
        *sum /= count;
    }
    let (bound, bound_stderr) = mean_and_stderr(&bounds);
    let (kl_unpredictable, kl_predictable) = kl_by_kind.means();
    Ok(Evaluation {
        step,
        sequences,
        bound,
        bound_stderr,
        reconstruction: Some(reconstruction.iter().sum()),
        kl: Some(kl_per_step.iter().sum()),
        kl_last: kl_per_step.last().copied(),
        kl_unpredictable,
        kl_predictable,
        kl_ratio: kl_predictable.zip(kl_unpredictable).map(|(p, u)| p / u),
        generated_recall: recall.finish(),
        generated_digits: digits.and_then(DigitScore::finish),
        map_coherence: coherence.finish(),
        energy_by_round: rounds.finish(),
        particles: particles.finish(),
        kl_per_step,
        ..Evaluation::default()
    })
}

/// Mean of values and its standard error.
pub(crate) fn mean_and_stderr(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, (spread / count).sqrt())
}

/// Adds the sum over the batch of `[time, batch]` to one number a step.
fn add_rows(sums: &mut [f64], values: Tensor<2>) {
    let batch = values.dims()[1];
    let values = host(values.into_data());
    for (sum, row) in sums.iter_mut().zip(values.chunks(batch)) {
        *sum += row.iter().map(|v| f64::from(*v)).sum::<f64>();
    }
}

/// Shows the model the frames before `task.prompt()`, then lets it generate the rest:
/// `[batch, time - prompt, pixels]`.
pub(crate) fn generate_after_prompt(
    model: &AtWork<Model>,
    task: &dyn Task,
    batch: &Batch,
    stream: &Stream,
    index: u64,
) -> Vec<f32> {
    let generated = generation(model, batch, task.prompt(), stream, index);
    host(generated.frames.into_data())
}

/// Frames after a prompt of given length, which may be 0: `[batch, time - prompt, pixels]`.
pub(crate) fn generation(
    at_work: &AtWork<Model>,
    batch: &Batch,
    prompt: usize,
    stream: &Stream,
    index: u64,
) -> mnemora_models::Generated {
    let model = at_work.model();
    let (rows, time) = (batch.batch, batch.time);
    let tensors = BatchTensors::new(batch.clone(), &model.device());
    let shape = [time, rows, model.latent_size()];
    let noise = noise(stream, index, shape, &model.device());
    let latent = shape[2];
    let split = |conditions: &Option<Tensor<3>>, range: std::ops::Range<usize>| {
        conditions.clone().map(|c| {
            let width = c.dims()[2];
            c.slice([0..rows, range, 0..width])
        })
    };
    let pixels = batch.frame.size();
    let state = match prompt {
        0 => model.initial_state(rows),
        _ => {
            // The prompt's latents take the draws of its steps.
            let seen = tensors.observations.slice([0..rows, 0..prompt, 0..pixels]);
            let conditions = split(&tensors.conditions, 0..prompt);
            let (seen, _) = at_work.filter(seen, conditions, stream, index);
            seen.state
        }
    };
    generate(
        model,
        state,
        split(&tensors.conditions, prompt..time),
        noise.slice([prompt..time, 0..rows, 0..latent]),
        |_, likelihood| likelihood.mean(),
    )
}

/// Sums of free energies before the first round of inference and after each.
#[derive(Default)]
pub(crate) struct Rounds {
    sums: Vec<f64>,
    steps: usize,
}

impl Rounds {
    /// Adds energies `[time, batch]` of each round; those within `lengths` if these are given.
    pub(crate) fn add(&mut self, rounds: &[Tensor<2>], lengths: Option<&[usize]>) {
        self.sums.resize(rounds.len(), 0.0);
        for (index, energies) in rounds.iter().enumerate() {
            let [_, batch] = energies.dims();
            let energies = host(energies.clone().into_data());
            for (place, energy) in energies.into_iter().enumerate() {
                let within = |lengths: &[usize]| place / batch < lengths[place % batch];
                if lengths.is_none_or(within) {
                    self.sums[index] += f64::from(energy);
                    self.steps += usize::from(index == 0);
                }
            }
        }
    }

    /// Means per step.
    pub(crate) fn finish(self) -> Vec<f64> {
        let steps = self.steps.max(1) as f64;
        self.sums.into_iter().map(|sum| sum / steps).collect()
    }
}

/// Sums of KL over frames that the past predicts and over all others.
#[derive(Default)]
struct KlByKind {
    unpredictable: (f64, usize),
    predictable: (f64, usize),
}

impl KlByKind {
    /// `kl` is `[time, batch]`.
    fn add(&mut self, batch: &Batch, kl: &[f32]) {
        for (step, row) in kl.chunks(batch.batch).enumerate() {
            for (sequence, kl) in row.iter().enumerate() {
                let predictable = batch.predictable.get(sequence * batch.time + step);
                let (sum, count) = match predictable == Some(&true) {
                    true => &mut self.predictable,
                    false => &mut self.unpredictable,
                };
                *sum += f64::from(*kl);
                *count += 1;
            }
        }
    }

    /// Mean of the unpredictable, mean of the predictable, where there are any.
    fn means(&self) -> (Option<f64>, Option<f64>) {
        let mean = |(sum, count): (f64, usize)| (count > 0).then(|| sum / count as f64);
        (mean(self.unpredictable), mean(self.predictable))
    }
}

/// The step of the prompt whose frame step `step` of sequence `row` repeats, by way of other
/// repetitions if need be.
fn source_in_prompt(task: &dyn Task, batch: &Batch, row: usize, step: usize) -> Option<usize> {
    let mut source = step;
    while source >= task.prompt() {
        source = (*batch.sources.get(row * batch.time + source)?)?;
    }
    Some(source)
}

/// Sequence, step and pixels of each of the frames `[batch, time - prompt, pixels]`.
fn generated_frames<'a>(
    task: &dyn Task,
    batch: &Batch,
    frames: &'a [f32],
) -> impl Iterator<Item = (usize, usize, &'a [f32])> {
    let (prompt, steps) = (task.prompt(), batch.time - task.prompt());
    let frames = frames.chunks(batch.frame.size()).enumerate();
    frames.map(move |(place, frame)| (place / steps, prompt + place % steps, frame))
}

#[derive(Default)]
struct RecallScore {
    frames: usize,
    nearest: usize,
    remembered: f64,
    others: f64,
    other_frames: usize,
}

impl RecallScore {
    /// Compares generated frames `[batch, time - prompt, pixels]` with the frames of the prompt.
    fn add(&mut self, task: &dyn Task, batch: &Batch, generated: &[f32]) {
        for (row, step, frame) in generated_frames(task, batch, generated) {
            let truth = source_in_prompt(task, batch, row, step)
                .and_then(|source| batch.frame_at(row, source));
            let Some(truth) = truth else {
                continue;
            };
            let remembered = mean_squared_error(frame, truth);
            let others: Vec<f64> = (0..task.prompt())
                .filter_map(|seen| batch.frame_at(row, seen))
                .filter(|seen| *seen != truth)
                .map(|seen| mean_squared_error(frame, seen))
                .collect();
            self.frames += 1;
            self.remembered += remembered;
            self.nearest += usize::from(others.iter().all(|error| remembered <= *error));
            self.others += others.iter().sum::<f64>();
            self.other_frames += others.len();
        }
    }

    fn finish(self) -> Option<GeneratedRecall> {
        (self.frames > 0).then(|| GeneratedRecall {
            frames: self.frames,
            nearest: self.nearest as f64 / self.frames as f64,
            error_remembered: self.remembered / self.frames as f64,
            error_others: self.others / self.other_frames.max(1) as f64,
        })
    }
}

/// Counts of coherent returns on maps that the model made up.
#[derive(Default)]
struct Coherence {
    returns: usize,
    coherent: usize,
}

impl Coherence {
    /// Looks at frames `[batch, time, pixels]`, all of them generated.
    fn add(&mut self, batch: &Batch, frames: &[f32]) {
        let pixels = batch.frame.size();
        let frame = |row: usize, step: usize| {
            let place = (row * batch.time + step) * pixels;
            &frames[place..place + pixels]
        };
        let cells = batch.cells.as_deref().unwrap_or_default();
        for (place, source) in batch.sources.iter().enumerate() {
            let (row, step) = (place / batch.time, place % batch.time);
            let &Some(source) = source else { continue };
            let now = frame(row, step);
            let same = mean_squared_error(now, frame(row, source));
            let cell = |step: usize| cells[row * batch.time + step];
            let nearer = (0..step)
                .filter(|other| cell(*other) != cell(step))
                .any(|other| mean_squared_error(now, frame(row, other)) <= same);
            self.returns += 1;
            self.coherent += usize::from(!nearer);
        }
    }

    fn finish(self) -> Option<f64> {
        (self.returns > 0).then(|| self.coherent as f64 / self.returns as f64)
    }
}

struct DigitScore {
    classifier: DigitClassifier,
    frames: usize,
    right: usize,
    truth_right: usize,
}

impl DigitScore {
    fn new(classifier: DigitClassifier) -> Self {
        Self {
            classifier,
            frames: 0,
            right: 0,
            truth_right: 0,
        }
    }

    /// Reads generated frames `[batch, time - prompt, pixels]` whose digit the prompt determines.
    ///
    /// # Errors
    /// The frames are not of the size that the classifier reads.
    fn add(&mut self, task: &dyn Task, batch: &Batch, generated: &[f32]) -> Result<(), LabError> {
        let (mut made, mut truth, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for (row, step, frame) in generated_frames(task, batch, generated) {
            let place = row * batch.time + step;
            let repeats = matches!(batch.sources.get(place), Some(Some(_)));
            let determined = batch.predictable.get(place) == Some(&true)
                && (!repeats || source_in_prompt(task, batch, row, step).is_some());
            let (Some(true_frame), Some(label), true) = (
                batch.frame_at(row, step),
                batch.labels.get(place),
                determined,
            ) else {
                continue;
            };
            made.extend_from_slice(frame);
            truth.extend_from_slice(true_frame);
            labels.push(*label);
        }
        let right = |frames: &[f32]| -> Result<usize, LabError> {
            let read = self.classifier.classify(frames, batch.frame)?;
            let pairs = read.into_iter().zip(&labels);
            let right = pairs.filter(|(read, label)| u16::from(*read) == **label);
            Ok(right.count())
        };
        let (made, truth) = (right(&made)?, right(&truth)?);
        self.frames += labels.len();
        self.right += made;
        self.truth_right += truth;
        Ok(())
    }

    fn finish(self) -> Option<GeneratedDigits> {
        let share = |count: usize| count as f64 / self.frames as f64;
        (self.frames > 0).then(|| GeneratedDigits {
            frames: self.frames,
            accuracy: share(self.right),
            accuracy_of_truth: share(self.truth_right),
        })
    }
}

fn mean_squared_error(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    sum / a.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::FrameShape;
    use std::ops::Range;

    #[test]
    fn scores_that_are_not_finite_are_named() {
        let score = |bound: f64, perplexity: Option<f64>| {
            let evaluation = Evaluation {
                bound,
                perplexity,
                ..Evaluation::default()
            };
            evaluation
                .check_finite()
                .map_err(|error| (error.to_string(), error.exit_code()))
        };
        assert_eq!(score(-5.0, None), Ok(()));
        assert_eq!(score(-5.0, Some(148.4)), Ok(()));
        let (message, code) = score(f64::NAN, None).unwrap_err();
        assert!(
            message.contains("held-out bound is NaN") && code == 1,
            "{message}"
        );
        let (message, code) = score(-800.0, Some(f64::INFINITY)).unwrap_err();
        assert!(
            message.contains("held-out perplexity is inf") && code == 1,
            "{message}"
        );
    }

    /// A task of which only the prompt is asked for.
    struct Prompted(usize);

    impl Task for Prompted {
        fn name(&self) -> &'static str {
            "prompted"
        }

        fn time(&self) -> usize {
            unreachable!("the batch has it")
        }

        fn frame(&self) -> FrameShape {
            unreachable!("the batch has it")
        }

        fn condition_width(&self) -> usize {
            0
        }

        fn prompt(&self) -> usize {
            self.0
        }

        fn recall_interval(&self) -> Option<Range<usize>> {
            None
        }

        fn batch(&self, _: Split, _: &Stream, _: u64, _: usize) -> Batch {
            unreachable!("made by hand")
        }
    }

    /// Two sequences of five frames of one pixel, the frame's number; frames 3 and 4 repeat 1 and,
    /// by way of 3, 1 again in the first sequence, 0 and 2 in the second.
    fn batch() -> Batch {
        let frame = FrameShape {
            channels: 1,
            height: 1,
            width: 1,
        };
        Batch {
            frames: vec![0.0, 1.0, 2.0, 1.0, 1.0, 0.0, 1.0, 2.0, 0.0, 2.0],
            batch: 2,
            time: 5,
            frame,
            conditions: None,
            labels: vec![0; 10],
            predictable: vec![
                false, false, false, true, true, false, false, false, true, true,
            ],
            sources: vec![
                None,
                None,
                None,
                Some(1),
                Some(3),
                None,
                None,
                None,
                Some(0),
                Some(2),
            ],
            cells: Some(vec![0, 1, 2, 1, 1, 0, 1, 2, 0, 2]),
        }
    }

    fn recall(generated: [f32; 4]) -> GeneratedRecall {
        let mut score = RecallScore::default();
        score.add(&Prompted(3), &batch(), &generated);
        score.finish().expect("there are frames to recall")
    }

    #[test]
    fn generated_frames_are_measured_against_what_they_should_repeat() {
        let perfect = recall([1.0, 1.0, 0.0, 2.0]);
        assert_eq!((perfect.frames, perfect.nearest), (4, 1.0));
        assert_eq!(perfect.error_remembered, 0.0);
        // To 0 and 2, to 0 and 2, to 1 and 2, to 0 and 1.
        assert_eq!(perfect.error_others, (4.0 + 5.0 + 5.0) / 8.0);
        let swapped = recall([1.0, 1.0, 2.0, 0.0]);
        assert_eq!(swapped.nearest, 0.5);
        assert_eq!(swapped.error_remembered, 2.0);
        // A frame between all is nearest to the middle one alone.
        assert_eq!(recall([1.0; 4]).nearest, 0.5);
    }

    #[test]
    fn kl_is_split_by_what_the_past_predicts() {
        let mut kinds = KlByKind::default();
        // `[time, batch]`
        kinds.add(
            &batch(),
            &[10.0, 12.0, 10.0, 12.0, 10.0, 12.0, 1.0, 3.0, 5.0, 7.0],
        );
        assert_eq!(kinds.means(), (Some(11.0), Some(4.0)));
    }

    #[test]
    fn made_up_maps_are_coherent_where_cells_repeat_themselves() {
        let coherence = |frames: [f32; 10]| {
            let mut coherence = Coherence::default();
            coherence.add(&batch(), &frames);
            coherence.finish().expect("cells are visited again")
        };
        assert_eq!(
            coherence([5.0, 6.0, 7.0, 6.0, 6.0, 8.0, 9.0, 3.0, 8.0, 3.0]),
            1.0
        );
        // The first return shows another cell.
        assert_eq!(
            coherence([5.0, 6.0, 7.0, 5.0, 5.0, 8.0, 9.0, 3.0, 8.0, 3.0]),
            0.5
        );
        // One frame for all cells tells none from another.
        assert_eq!(coherence([1.0; 10]), 0.0);
    }
}
