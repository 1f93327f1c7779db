//! What a model of walks knows about places and what it foresees.

use super::{
    errors::{Errors, of_frames},
    places::{Walked, of_places},
    settings::NavigationSettings,
    walks::{Lesson, upload},
    world::{Compared, World},
};
use crate::{
    Experiment, LabError,
    families::held_out::{batches, data_stream},
};
use burn::tensor::{Tensor, TensorData};
use mnemora_models::{Distribution, Elbo, ElboNoise, FilteringModel, GtmSm};
use mnemora_training::{Measures, Purpose, arrays::host, measures::mean_and_stderr};
use mnemora_worlds::{Split, Stream, Walks};

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
pub fn place(walks: &Walks, row: usize, step: usize) -> &[f32] {
    let start = (row * walks.time + step) * walks.place_width;
    &walks.places[start..][..walks.place_width]
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
    let mut errors = Errors::new(match world {
        // The same cell.
        World::Images { .. } => 0.5,
        World::Labyrinth(_) => 0.25,
    });
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
