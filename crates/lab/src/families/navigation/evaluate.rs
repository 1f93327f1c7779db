//! What a model of walks knows about places and what it foresees.

use super::{
    fit::{AffineFit, distance},
    settings::NavigationSettings,
    walks::{Lesson, upload},
    world::{Compared, World},
};
use crate::{
    Experiment, LabError,
    families::supervised::{batches, data_stream},
};
use burn::tensor::{Tensor, TensorData};
use mnemora_models::{Distribution, Elbo, ElboNoise, FilteringModel, GtmSm};
use mnemora_training::{Measures, Purpose, arrays::host, measures::mean_and_stderr};
use mnemora_worlds::{Split, Stream, Walks};

/// Steps in which errors are averaged for curves.
pub const BLOCK: usize = 32;
/// A move of less than this many cells is none.
const HALF_STEP: f64 = 0.5;
/// Steps at either end of a walk in which the error of places is averaged.
const END: usize = 64;

/// Predictions of a batch of walks, on the host.
pub struct Foreseen {
    /// The walks.
    pub walks: Walks,
    /// Where the model believes to be, if it knows places.
    pub located: Option<Located>,
    /// Frames, `[batch * predicted, pixels]`: one sample of the prediction.
    pub sampled: Vec<f32>,
    /// The most probable prediction: the mean of the prior's component of largest weight, decoded.
    pub best: Vec<f32>,
    /// What the model makes of frames that it sees, `[.., pixels]`.
    pub decoded: Vec<f32>,
    /// `[batch, time]`: the frame of each step in `decoded`.
    pub shown: Vec<usize>,
    /// Sum over the predicted steps of the bound and of its KL, in nats, for each walk.
    pub bounds: Vec<[f64; 2]>,
    /// KL of what frames tell about the place, summed over the predicted steps, for each walk; with landmarks.
    pub place_kl: Option<Vec<f32>>,
    /// KL of each step, `[time, batch]`, if all steps are scored.
    pub kl: Vec<f32>,
    /// Bound of each whole walk in nats, if all steps are scored.
    pub whole: Vec<f64>,
}

/// Where a model with places believes to be.
pub struct Located {
    /// `[batch, time, width]`
    pub places: Vec<f32>,
    /// Numbers of a place.
    pub width: usize,
    /// The memorised step whose place is nearest to that of each predicted step, `[batch * predicted]`.
    pub nearest: Vec<usize>,
}

/// A model that foresees walks: `walks` are held out, `index` is their number, and `noise` makes the samples.
pub trait Foresees {
    /// Memorises the first steps of walks, then foresees the others from their actions alone.
    fn foresee(&self, walks: Walks, memorise: usize, noise: &Stream, index: u64) -> Foreseen;
}

/// Held-out walks number `index` of a stream, foreseen.
pub fn held_out(
    settings: &NavigationSettings,
    world: &World,
    model: &dyn Foresees,
    [stream, noise]: [&Stream; 2],
    index: u64,
    batch: usize,
) -> Foreseen {
    let lesson = Lesson {
        memorise: settings.memorise,
        predict: settings.foresee,
        without_walls: false,
    };
    let walks = world.walks(Split::Test, stream, index, batch, lesson);
    model.foresee(walks, settings.memorise, noise, index)
}

/// See [`Foresees`].
fn foreseen_by(model: &GtmSm, walks: Walks, noise: &Stream, index: u64) -> Foreseen {
    let device = model.device();
    let batch = walks.batch;
    let rows = batch * (walks.time - model.memorise);
    let (latent, place) = (model.latent_size(), model.transition.place_size());
    // Of the bound, of the sample of the prior, and of the transition.
    let numbers = rows * (2 * latent + 1) + batch * walks.time * place;
    let mut drawn = noise.standard_normal(index, numbers);
    let mut take = |count: usize| drawn.split_off(drawn.len() - count);
    let of_places = TensorData::new(take(batch * walks.time * place), [batch, walks.time, place]);
    let of_bound = TensorData::new(take(rows * latent), [rows, latent]);
    let of_sample = TensorData::new(take(rows * (latent + 1)), [rows, latent + 1]);
    let places = Tensor::from_data(of_places, &device);
    let noise = ElboNoise {
        latent: Tensor::from_data(of_bound, &device),
        place: Some(places.clone()),
    };
    let walk = upload(&walks, &device);
    let seen = model.code(walk.frames.clone());
    let Elbo {
        reconstruction,
        kl,
        place_kl,
        prediction,
    } = model.elbo(&walk, noise);
    let sums = |values: Tensor<2>| host(values.sum_dim(1).into_data());
    let place_kl = place_kl.map(sums);
    let kl_of_place = |row: usize| place_kl.as_ref().map_or(0.0, |kl| f64::from(kl[row]));
    let bounds = sums(reconstruction).into_iter().zip(sums(kl)).enumerate();
    // The bound sees the frames that are to be foreseen; with landmarks they tell the place.
    let prediction = match model.landmarks {
        None => prediction,
        Some(_) => model.predict_walk(&walk, Some(places)),
    };
    let frames = |z: Tensor<2>| host(model.frames(z).mean().into_data());
    let prior = &prediction.prior;
    let count = prediction.neighbours.positions.len() / rows;
    Foreseen {
        located: Some(Located {
            places: host(prediction.rolled.places.clone().into_data()),
            width: place,
            nearest: prediction
                .neighbours
                .positions
                .iter()
                .step_by(count)
                .copied()
                .collect(),
        }),
        sampled: frames(prior.sample(Tensor::from_data(of_sample, &device))),
        // The components are sorted by distance.
        best: frames(prior.component(0).mean),
        decoded: frames(seen.mean),
        shown: walks.seen.iter().map(|frame| *frame as usize).collect(),
        bounds: bounds
            .map(|(row, (r, kl))| {
                let [r, kl] = [r, kl].map(f64::from);
                [r - kl - kl_of_place(row), kl]
            })
            .collect(),
        place_kl,
        kl: Vec::new(),
        whole: Vec::new(),
        walks,
    }
}

impl Foresees for GtmSm {
    fn foresee(&self, walks: Walks, memorise: usize, noise: &Stream, index: u64) -> Foreseen {
        let mut model = self.clone();
        model.memorise = memorise;
        foreseen_by(&model, walks, noise, index)
    }
}

/// A cell as a point.
pub fn point_of(cell: [usize; 2]) -> [f64; 2] {
    cell.map(|x| x as f64)
}

/// The true place of a step.
fn place(walks: &Walks, row: usize, step: usize) -> &[f32] {
    let start = (row * walks.time + step) * walks.place_width;
    &walks.places[start..][..walks.place_width]
}

/// How far apart two true places are; for places with a heading, a step of one cell counts like a turn of one radian.
fn apart(one: &[f32], other: &[f32]) -> f64 {
    let plane = [0, 1].map(|axis| f64::from(one[axis] - other[axis]));
    let turn = match (one.get(2), other.get(2)) {
        (Some(one), Some(other)) => {
            let turn = f64::from(one - other);
            turn.sin().atan2(turn.cos())
        }
        _ => 0.0,
    };
    plane[0].hypot(plane[1]).hypot(turn)
}

/// Mean squared error of pixels.
fn error(one: &[f32], other: &[f32]) -> f64 {
    let squares = one
        .iter()
        .zip(other)
        .map(|(a, b)| f64::from((a - b) * (a - b)));
    squares.sum::<f64>() / one.len() as f64
}

/// A mean in the making, for each block of predicted steps.
#[derive(Clone, Default)]
struct Blocks(Vec<[f64; 2]>);

impl Blocks {
    fn add(&mut self, step: usize, value: f64) {
        let block = step / BLOCK;
        if self.0.len() <= block {
            self.0.resize(block + 1, [0.0; 2]);
        }
        self.0[block][0] += value;
        self.0[block][1] += 1.0;
    }

    fn series(&self) -> Vec<Option<f64>> {
        let means = self.0.iter();
        means
            .map(|[sum, count]| (*count > 0.0).then(|| sum / count))
            .collect()
    }

    fn mean(&self) -> Option<f64> {
        let [sum, count] = self
            .0
            .iter()
            .fold([0.0; 2], |all, one| [all[0] + one[0], all[1] + one[1]]);
        (count > 0.0).then(|| sum / count)
    }
}

/// What is measured at each predicted step.
#[derive(Default)]
struct Errors {
    /// Two places nearer than this are the same.
    seen_within: f64,
    sampled: Blocks,
    best: Blocks,
    own: Blocks,
    oracle: Blocks,
    average: Blocks,
    copied: Blocks,
    sampled_seen: Blocks,
    best_seen: Blocks,
    own_seen: Blocks,
    right: Blocks,
    seen: Blocks,
}

impl Errors {
    fn add(&mut self, foreseen: &Foreseen, memorised: usize) {
        let walks = &foreseen.walks;
        let (pixels, predicted) = (walks.frame.size(), walks.time - memorised);
        for row in 0..walks.batch {
            let frame_of = |step: usize| walks.seen[row * walks.time + step] as usize;
            let image = |all: &'_ [f32], index: usize| all[index * pixels..][..pixels].to_vec();
            let mut average = vec![0.0; pixels];
            for step in 0..memorised {
                let frame = &walks.frames[frame_of(step) * pixels..][..pixels];
                for (sum, pixel) in average.iter_mut().zip(frame) {
                    *sum += pixel / memorised as f32;
                }
            }
            for step in 0..predicted {
                let at = memorised + step;
                let truth = image(&walks.frames, frame_of(at));
                let here = place(walks, row, at);
                let apart = |step: usize| apart(place(walks, row, step), here);
                let (oracle, away) = (0..memorised).map(|step| (step, apart(step))).fold(
                    (0, f64::INFINITY),
                    |best, next| {
                        if next.1 < best.1 { next } else { best }
                    },
                );
                let index = row * predicted + step;
                let sampled = error(&foreseen.sampled[index * pixels..][..pixels], &truth);
                let best = error(&foreseen.best[index * pixels..][..pixels], &truth);
                let shown =
                    |step: usize| image(&foreseen.decoded, foreseen.shown[row * walks.time + step]);
                let own = error(&shown(at), &truth);
                let oracle = error(&shown(oracle), &truth);
                let copied = error(&image(&walks.frames, frame_of(memorised - 1)), &truth);
                self.sampled.add(step, sampled);
                self.best.add(step, best);
                self.own.add(step, own);
                self.oracle.add(step, oracle);
                self.average.add(step, error(&average, &truth));
                self.copied.add(step, copied);
                let seen = away < self.seen_within;
                self.seen.add(step, f64::from(u8::from(seen)));
                if seen {
                    self.sampled_seen.add(step, sampled);
                    self.best_seen.add(step, best);
                    self.own_seen.add(step, own);
                    if let Some(located) = &foreseen.located {
                        let right = apart(located.nearest[index]) < self.seen_within;
                        self.right.add(step, f64::from(u8::from(right)));
                    }
                }
            }
        }
    }
}

/// Scores a model on held-out walks.
pub fn evaluate(
    experiment: &Experiment,
    settings: &NavigationSettings,
    world: &World,
    model: &dyn Foresees,
    purpose: Purpose,
) -> Result<Measures, LabError> {
    let data = data_stream(experiment, purpose);
    let noise = Stream::new(
        purpose.seed(experiment.seed),
        &format!("{} noise", purpose.stream()),
    );
    let mut errors = Errors {
        seen_within: match world {
            // The same cell.
            World::Images { .. } => 0.5,
            World::Labyrinth(_) => 0.25,
        },
        ..Errors::default()
    };
    let (mut bounds, mut kls) = (Vec::new(), Vec::new());
    let (mut places, mut truth) = (Vec::new(), Vec::new());
    let (mut kl_per_step, mut whole) = (Vec::new(), Vec::new());
    let (mut blocked, mut place_kls) = (Vec::new(), Vec::new());
    let time = settings.memorise + settings.foresee;
    for index in 0..batches(experiment, purpose) {
        let batch = experiment.evaluation.batch;
        let foreseen = held_out(settings, world, model, [&data, &noise], index, batch);
        errors.add(&foreseen, settings.memorise);
        for [bound, kl] in &foreseen.bounds {
            bounds.push(bound / settings.foresee as f64);
            kls.push(kl / settings.foresee as f64);
        }
        whole.extend(&foreseen.whole);
        kl_per_step.resize(foreseen.kl.len() / batch, 0.0);
        for (sum, row) in kl_per_step.iter_mut().zip(foreseen.kl.chunks(batch)) {
            *sum += row.iter().map(|kl| f64::from(*kl)).sum::<f64>();
        }
        let place_kl = foreseen.place_kl.iter().flatten();
        place_kls.extend(place_kl.map(|kl| f64::from(*kl) / settings.foresee as f64));
        let Some(located) = &foreseen.located else {
            continue;
        };
        blocked.extend(&foreseen.walks.blocked);
        for row in 0..batch {
            truth.extend((0..time).map(|step| {
                let place = place(&foreseen.walks, row, step);
                match world.compared() {
                    Compared::Point => [place[0], place[1]],
                    Compared::Heading => [place[2], 0.0],
                }
            }));
        }
        for place in located.places.chunks(located.width) {
            match world.compared() {
                Compared::Point => places.extend(&place[..2]),
                Compared::Heading => places.push(place[2]),
            }
        }
    }
    let (bound, bound_stderr) = mean_and_stderr(&bounds);
    let (kl, _) = mean_and_stderr(&kls);
    let measures = Measures::new()
        .with("sequences", bounds.len())
        .with("bound", bound)
        .with("bound_stderr", bound_stderr)
        .with("kl", kl);
    let measures = match truth.is_empty() {
        false => {
            let walked = Walked {
                places: &places,
                truth: &truth,
                blocked: &blocked,
                time,
                memorised: settings.memorise,
            };
            of_places(measures, world, &walked)
        }
        true => measures,
    };
    for sum in &mut kl_per_step {
        *sum /= bounds.len() as f64;
    }
    let measures = measures
        .with_some(
            "place_kl",
            (!place_kls.is_empty()).then(|| mean_and_stderr(&place_kls).0),
        )
        .with_some(
            "whole_bound",
            (!whole.is_empty()).then(|| mean_and_stderr(&whole).0),
        )
        .with_some("kl_last", kl_per_step.last().copied())
        .with_some(
            "kl_per_step",
            (!kl_per_step.is_empty()).then_some(kl_per_step),
        );
    Ok(of_frames(measures, &errors))
}

/// Where the model believed to be on walks of `time` steps, and where it was.
struct Walked<'a> {
    /// `[walks * time, numbers]`
    places: &'a [f32],
    truth: &'a [[f32; 2]],
    /// Whether a wall or an obstacle stopped the move that led to a step.
    blocked: &'a [bool],
    time: usize,
    memorised: usize,
}

/// How well places are known, after the affine map that fits best.
fn of_places(measures: Measures, world: &World, walked: &Walked) -> Measures {
    let Walked {
        places,
        truth,
        blocked,
        time,
        memorised,
    } = *walked;
    let width = places.len() / truth.len();
    // Walks that start at one place have one origin.
    let group = if world.one_origin() {
        truth.len()
    } else {
        time
    };
    let (mut first, mut last) = ([0.0; 2], [0.0; 2]);
    let (mut left, mut total) = (0.0, 0.0);
    let (mut memorised_last, mut foreseen_last) = ([0.0; 2], [0.0; 2]);
    let mut recognised = [0.0; 2];
    let mut turns = Vec::new();
    let groups = places.chunks(group * width).zip(truth.chunks(group));
    for ((places, truth), blocked) in groups.zip(blocked.chunks(group)) {
        let count = truth.len() as f64;
        let mean = [0, 1].map(|axis| truth.iter().map(|p| f64::from(p[axis])).sum::<f64>() / count);
        let fit = AffineFit::of(places, width, truth);
        if let (Compared::Heading, Some(fit)) = (world.compared(), &fit) {
            turns.push(fit.slope().recip().abs());
        }
        for (index, (place, truth)) in places.chunks(width).zip(truth).enumerate() {
            let truth = truth.map(f64::from);
            // Places on a line tell nothing: the mean is as good a guess.
            let found = fit.as_ref().map_or(mean, |fit| fit.point(place));
            let apart = distance(found, truth);
            left += apart * apart;
            total += distance(mean, truth).powi(2);
            let step = index % time;
            if blocked[index] && step > 0 && step < memorised {
                let before = &places[(index - 1) * width..][..width];
                let before = fit.as_ref().map_or(mean, |fit| fit.point(before));
                let stayed = distance(found, before) < HALF_STEP;
                recognised = [
                    recognised[0] + f64::from(u8::from(stayed)),
                    recognised[1] + 1.0,
                ];
            }
            if step + 1 == memorised {
                memorised_last = [memorised_last[0] + apart, memorised_last[1] + 1.0];
            }
            if step + 1 == time {
                foreseen_last = [foreseen_last[0] + apart, foreseen_last[1] + 1.0];
            }
            if step < END {
                first = [first[0] + apart, first[1] + 1.0];
            }
            if step + END >= time {
                last = [last[0] + apart, last[1] + 1.0];
            }
        }
    }
    measures
        .with("place_r2", 1.0 - left / total)
        .with("place_error_first", first[0] / first[1])
        .with("place_error", last[0] / last[1])
        .with("memorised_error", memorised_last[0] / memorised_last[1])
        .with("foreseen_error", foreseen_last[0] / foreseen_last[1])
        .with_some(
            "stop_recognised",
            (recognised[1] > 0.0).then(|| recognised[0] / recognised[1]),
        )
        .with_some(
            "turn",
            (!turns.is_empty()).then(|| mean_and_stderr(&turns).0),
        )
}

/// How well frames are foreseen.
fn of_frames(measures: Measures, errors: &Errors) -> Measures {
    let last = |blocks: &Blocks| blocks.series().last().copied().flatten();
    let first = |blocks: &Blocks| blocks.series().first().copied().flatten();
    let ratio = |one: &Blocks, other: &Blocks| Some(one.mean()? / other.mean()?);
    let flatness = last(&errors.best_seen).zip(first(&errors.best_seen));
    measures
        .with_some("nearest_right", errors.right.mean())
        .with_some("seen", errors.seen.mean())
        .with_some("best_ratio", ratio(&errors.best_seen, &errors.own_seen))
        .with_some("oracle_ratio", ratio(&errors.best, &errors.oracle))
        .with_some("sampled_ratio", ratio(&errors.sampled, &errors.average))
        .with_some("best_seen", errors.best_seen.mean())
        .with_some("own_seen", errors.own_seen.mean())
        .with_some("sampled_seen", errors.sampled_seen.mean())
        .with_some("flatness", flatness.map(|(last, first)| last / first))
        .with_some("best", errors.best.mean())
        .with_some("sampled", errors.sampled.mean())
        .with_some("own", errors.own.mean())
        .with_some("oracle", errors.oracle.mean())
        .with_some("average", errors.average.mean())
        .with_some("copied", errors.copied.mean())
        .with("best_by_block", errors.best.series())
        .with("sampled_by_block", errors.sampled.series())
        .with("own_by_block", errors.own.series())
        .with("oracle_by_block", errors.oracle.series())
        .with("average_by_block", errors.average.series())
        .with("copied_by_block", errors.copied.series())
}
