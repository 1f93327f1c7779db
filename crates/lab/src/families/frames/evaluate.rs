//! Evaluation of a trained temporal VAE on held-out sequences of frames.

use super::{digit_classifier::DigitClassifier, training::Model};
use crate::{
    Experiment, LabError,
    families::{
        held_out::{batches, data_stream},
        trainer::BatchTensors,
    },
};
use burn::tensor::Tensor;
use mnemora_memory::Memory;
use mnemora_models::{FilteringModel, generate};
use mnemora_training::{
    Measures, Purpose,
    arrays::host,
    measures::{mean_and_stderr, mean_squared_error},
    particles::Particles,
    strategy::{Inference, noise},
};
use mnemora_worlds::{Batch, ImageSet, Split, Stream, Task};

/// The random streams of an evaluation, different from training's.
struct Streams {
    data: Stream,
    noise: Stream,
    generation: Stream,
    made_up: Stream,
    particles: Stream,
}

impl Streams {
    fn new(experiment: &Experiment, purpose: Purpose) -> Self {
        let seed = purpose.seed(experiment.seed);
        let of = |what: &str| Stream::new(seed, &format!("{} {what}", purpose.stream()));
        Self {
            data: data_stream(experiment, purpose),
            noise: of("noise"),
            generation: of("generation"),
            made_up: of("made-up maps"),
            particles: Particles::stream(seed, purpose),
        }
    }
}

/// Scores a model on held-out batches. In nats, per sequence unless a step is named.
///
/// - `bound`, `bound_stderr`: reconstruction minus KL, and its standard error over sequences
/// - `reconstruction`, `kl`, `kl_last`, `kl_per_step`: `log p(x | z)`; the KL; that of the last frame; that of each
///   step
/// - `kl_unpredictable`, `kl_predictable`, `kl_ratio`: mean KL of frames that nothing predicts, and of those that the
///   past predicts (in the recall interval, or at a cell that was visited before); predictable / unpredictable
/// - `generated_recall`: how well generated frames repeat the remembered ones
/// - `generated_digits`: whether generated frames show the right digit
/// - `map_coherence`: how coherent a map is that the model generates from actions alone. It is the fraction of returns
///   to a cell at which the generated frame is nearest to the frame generated at the cell's last visit, among the
///   frames generated for all other visits
/// - `energy_by_round`: mean free energy in nats per step before the first round of inference, when the belief is the
///   prior (with its variance limited as for every belief), and after each round; none for direct filtering
/// - bounds by particles, if they were asked for, and with them `free_energy` in nats per step
pub(super) fn evaluate<M: Memory>(
    experiment: &Experiment,
    images: ImageSet,
    inference: &Inference<Model<M>>,
    task: &dyn Task,
    purpose: Purpose,
) -> Result<Measures, LabError> {
    let streams = Streams::new(experiment, purpose);
    let model = inference.model();
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
    let mut particles = Particles::new(&experiment.evaluation, purpose);
    let mut digits = match images {
        ImageSet::Digits => Some(DigitScore::new(DigitClassifier::shipped(&device)?)),
        ImageSet::Characters => None,
    };
    for index in 0..batches(experiment, purpose) {
        let batch = task.batch(Split::Test, &streams.data, index, size);
        let tensors = BatchTensors::new(batch.clone(), &device);
        particles.add(
            inference,
            &tensors.observations,
            tensors.conditions.as_ref(),
            &vec![time; size],
            &streams.particles,
        );
        let (filtered, energies) = inference.filter(
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
        let frames = generate_after_prompt(inference, task, &batch, &streams.generation, index);
        recall.add(task, &batch, &frames);
        if let Some(digits) = &mut digits {
            digits.add(task, &batch, &frames)?;
        }
        if batch.cells.is_some() {
            let made_up = generation(inference, &batch, 0, &streams.made_up, index);
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
    let kl_last = kl_per_step.last().copied();
    let ratio = kl_predictable.zip(kl_unpredictable).map(|(p, u)| p / u);
    let mut measures = Measures::new()
        .with("sequences", sequences)
        .with("bound", bound)
        .with("bound_stderr", bound_stderr)
        .with("reconstruction", reconstruction.iter().sum::<f64>())
        .with("kl", kl_per_step.iter().sum::<f64>())
        .with_some("kl_last", kl_last)
        .with_some("kl_per_step", Some(kl_per_step))
        .with_some("kl_unpredictable", kl_unpredictable)
        .with_some("kl_predictable", kl_predictable)
        .with_some("kl_ratio", ratio);
    measures.append("generated_recall.", recall.finish());
    measures.append(
        "generated_digits.",
        digits.map(DigitScore::finish).unwrap_or_default(),
    );
    measures = measures
        .with_some("map_coherence", coherence.finish())
        .with_some("energy_by_round", Some(rounds.finish()));
    let particles = particles.finish();
    if particles.iter().next().is_some() {
        measures.add("free_energy", -bound / time as f64);
    }
    measures.append("", particles);
    Ok(measures)
}

/// Adds the sum of `[time, batch]` over the batch, one number per step.
fn add_rows(sums: &mut [f64], values: Tensor<2>) {
    let batch = values.dims()[1];
    let values = host(values.into_data());
    for (sum, row) in sums.iter_mut().zip(values.chunks(batch)) {
        *sum += row.iter().map(|v| f64::from(*v)).sum::<f64>();
    }
}

/// Shows the model the frames before `task.prompt()` and lets it generate the rest: `[batch, time - prompt, pixels]`.
pub fn generate_after_prompt<M: Memory>(
    model: &Inference<Model<M>>,
    task: &dyn Task,
    batch: &Batch,
    stream: &Stream,
    index: u64,
) -> Vec<f32> {
    let generated = generation(model, batch, task.prompt(), stream, index);
    host(generated.frames.into_data())
}

/// Generates the frames after a prompt of the given length, which may be 0: `[batch, time - prompt, pixels]`.
pub fn generation<M: Memory>(
    inference: &Inference<Model<M>>,
    batch: &Batch,
    prompt: usize,
    stream: &Stream,
    index: u64,
) -> mnemora_models::Generated {
    let model = inference.model();
    let (rows, time) = (batch.batch, batch.time);
    let tensors = BatchTensors::new(batch.clone(), &model.device());
    let numbers = model.generation_noise();
    let noise = noise(stream, index, [time, rows, numbers], &model.device());
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
            // The prompt's latents use the draws of their own steps.
            let seen = tensors.observations.slice([0..rows, 0..prompt, 0..pixels]);
            let conditions = split(&tensors.conditions, 0..prompt);
            let (seen, _) = inference.filter(seen, conditions, stream, index);
            seen.state
        }
    };
    generate(
        model,
        state,
        split(&tensors.conditions, prompt..time),
        noise.slice([prompt..time, 0..rows, 0..numbers]),
        |_, likelihood| likelihood.mean(),
    )
}

/// Sums of free energies before the first round of inference and after each.
#[derive(Default)]
pub struct Rounds {
    sums: Vec<f64>,
    steps: usize,
}

impl Rounds {
    /// Adds the energies `[time, batch]` of each round; only steps within `lengths` if these are given.
    pub fn add(&mut self, rounds: &[Tensor<2>], lengths: Option<&[usize]>) {
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
    pub fn finish(self) -> Vec<f64> {
        let steps = self.steps.max(1) as f64;
        self.sums.into_iter().map(|sum| sum / steps).collect()
    }
}

/// Sums of KL over the frames that the past predicts and over all others.
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

    /// Mean over the unpredictable and over the predictable frames, if there are any.
    fn means(&self) -> (Option<f64>, Option<f64>) {
        let mean = |(sum, count): (f64, usize)| (count > 0).then(|| sum / count as f64);
        (mean(self.unpredictable), mean(self.predictable))
    }
}

/// The prompt step whose frame is repeated at step `step` of sequence `row`, possibly through other repetitions.
fn source_in_prompt(task: &dyn Task, batch: &Batch, row: usize, step: usize) -> Option<usize> {
    let mut source = step;
    while source >= task.prompt() {
        source = (*batch.sources.get(row * batch.time + source)?)?;
    }
    Some(source)
}

/// Sequence, step and pixels of each frame of `[batch, time - prompt, pixels]`.
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

    /// - `frames`: number of generated frames that should repeat a frame of the prompt
    /// - `nearest`: fraction of them whose nearest frame of the prompt is the one to be recalled
    /// - `error_remembered`, `error_others`: mean squared error per pixel to that frame, and to the other frames
    fn finish(self) -> Measures {
        let frames = self.frames as f64;
        match self.frames {
            0 => Measures::new(),
            _ => Measures::new()
                .with("frames", self.frames)
                .with("nearest", self.nearest as f64 / frames)
                .with("error_remembered", self.remembered / frames)
                .with(
                    "error_others",
                    self.others / self.other_frames.max(1) as f64,
                ),
        }
    }
}

/// Counts of coherent returns on generated maps.
#[derive(Default)]
struct Coherence {
    returns: usize,
    coherent: usize,
}

impl Coherence {
    /// Adds the frames `[batch, time, pixels]`, all of them generated.
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

    /// Classifies generated frames `[batch, time - prompt, pixels]` whose digit the prompt determines.
    ///
    /// # Errors
    /// If the frames do not have the size that the classifier takes.
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

    /// - `frames`: number of generated frames whose digit is determined by the frames seen
    /// - `accuracy`: fraction of them in which the classifier reads the right digit
    /// - `accuracy_of_truth`: the same fraction for the true frames, which is the accuracy of the classifier itself
    fn finish(self) -> Measures {
        let share = |count: usize| count as f64 / self.frames as f64;
        match self.frames {
            0 => Measures::new(),
            _ => Measures::new()
                .with("frames", self.frames)
                .with("accuracy", share(self.right))
                .with("accuracy_of_truth", share(self.truth_right)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::{FrameShape, Layout};

    /// A task of which only the prompt is used.
    struct Prompted(Layout);

    fn prompted(prompt: usize) -> Prompted {
        Prompted(Layout {
            name: "prompted",
            frame: batch().frame,
            condition_width: 0,
            prompt,
            time: 5,
            recall_interval: None,
        })
    }

    impl Task for Prompted {
        fn layout(&self) -> &Layout {
            &self.0
        }

        fn batch(&self, _: Split, _: &Stream, _: u64, _: usize) -> Batch {
            unreachable!("made by hand")
        }
    }

    /// Two sequences of five frames of one pixel, whose value is the frame's number. In the first sequence frame 3
    /// repeats 1, and frame 4 repeats it through 3; in the second, 3 and 4 repeat 0 and 2.
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

    fn recall(generated: [f32; 4]) -> impl Fn(&str) -> f64 {
        let mut score = RecallScore::default();
        score.add(&prompted(3), &batch(), &generated);
        let found = score.finish();
        move |key| found.number(key).expect("there are frames to recall")
    }

    #[test]
    fn generated_frames_are_measured_against_what_they_should_repeat() {
        let perfect = recall([1.0, 1.0, 0.0, 2.0]);
        assert_eq!((perfect("frames"), perfect("nearest")), (4.0, 1.0));
        assert_eq!(perfect("error_remembered"), 0.0);
        // Each generated frame lies midway between two: 0 and 2, 0 and 2, 1 and 2, 0 and 1.
        assert_eq!(perfect("error_others"), (4.0 + 5.0 + 5.0) / 8.0);
        let swapped = recall([1.0, 1.0, 2.0, 0.0]);
        assert_eq!(swapped("nearest"), 0.5);
        assert_eq!(swapped("error_remembered"), 2.0);
        // A frame in the middle of all is nearest only to the middle one.
        assert_eq!(recall([1.0; 4])("nearest"), 0.5);
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
        // The first return shows the frame of another cell.
        assert_eq!(
            coherence([5.0, 6.0, 7.0, 5.0, 5.0, 8.0, 9.0, 3.0, 8.0, 3.0]),
            0.5
        );
        // The same frame for all cells distinguishes none.
        assert_eq!(coherence([1.0; 10]), 0.0);
    }
}
