//! GTM-SM on image navigation (Fraccaro et al. 2018, section 4.1): a training step, and reads of its dictionary.

use crate::{
    BenchError,
    benchmark::{Benchmark, Prepared},
    cost::Cost,
    draws::{initializer, numbers},
};
use burn::tensor::{Device, Tensor, TensorData};
use mnemora_lab::{LabError, families::navigation::NavigationSettings, load_experiment};
use mnemora_memory::{Dnd, dnd::log_weights};
use mnemora_models::{ElboNoise, GtmSmConfig, ImageShape, Walk, WalkedWorld};
use mnemora_training::{arrays::parameter_count, optimiser::ParameterGradients, updates::Updates};
use mnemora_worlds::{
    FrameShape, IMAGE_ACTIONS, ImageNavigation, Navigation, Pictures, Split, Stream, Walks,
};
use std::{collections::BTreeSet, hint::black_box, sync::Arc};

/// Entries of the dictionaries that are read.
const ENTRIES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
/// Entries of one write.
const WRITTEN: usize = 500;
const VALUE: usize = 16;

pub(super) fn benchmarks() -> Vec<Benchmark> {
    let mut benchmarks = vec![training_step()];
    benchmarks.extend(ENTRIES.map(dictionary_read));
    benchmarks
}

/// A training step (forward, backward, clipping, Adam) with the model, the walks and the lengths of `image-navigation`.
/// Each different frame of the batch that is read or predicted is encoded once.
fn training_step() -> Benchmark {
    Benchmark {
        name: "train-step/gtm-sm-paper".into(),
        prepare: Box::new(prepare),
    }
}

fn prepare(device: &Device) -> Result<Prepared, BenchError> {
    let experiment = load_experiment("image-navigation", &[])?;
    let settings: NavigationSettings = experiment.own_settings()?;
    let pictures = Pictures::bundled(settings.image.picture).map_err(LabError::from)?;
    let world = ImageNavigation::new(Arc::new(pictures), settings.image.clone());
    let world = world.map_err(LabError::from)?;
    let (batch, predicted) = (experiment.training.batch, settings.predict);
    let time = settings.memorise + predicted;
    let data = Stream::new(1, "benchmark");
    let walks = world.walks(Split::Train, &data, 0, batch, time);
    let FrameShape {
        channels,
        height,
        width,
    } = walks.frame;
    let world = WalkedWorld {
        frame: ImageShape {
            channels,
            height,
            width,
        },
        actions: walks.actions_count,
        place: walks.place_width,
        opposites: &[[0, 1], [2, 3]],
        memorise: settings.memorise,
    };
    let mut init = initializer(device);
    let mut model = settings.model.init(&world, &mut init)?;
    let parameters = parameter_count(&model);
    let cost = cost(&settings, &walks, parameters);
    let walk = upload(&walks, device);
    let noise = ElboNoise {
        latent: numbers([batch * predicted, settings.model.latent], device),
        place: Some(numbers([batch, time, walks.place_width], device)),
    };
    let mut updates = Updates::new(&experiment.training, device);
    let mut step = 0;
    Ok(Prepared::of_model(cost, parameters, move || {
        step += 1;
        let elbo = model.elbo(&walk, noise.clone());
        let bound = elbo.reconstruction.mean() - elbo.kl.mean();
        let terms = bound.clone().inner();
        let gradients = ParameterGradients::of(&model, bound.neg().backward());
        Ok(updates.make(&mut model, step, gradients, &["bound"], terms)?)
    }))
}

fn upload(walks: &Walks, device: &Device) -> Walk {
    let frames = TensorData::new(walks.frames.clone(), [walks.distinct(), walks.frame.size()]);
    let shape = [walks.batch, walks.time, IMAGE_ACTIONS.len()];
    Walk {
        frames: Tensor::from_data(frames, device),
        seen: walks.seen.iter().map(|frame| *frame as usize).collect(),
        actions: Tensor::from_data(TensorData::new(walks.conditions(), shape), device),
    }
}

/// The products of a step: the encoder of the predicted frames, the walls at all steps, the decoder of the predicted
/// frames. Frames that are read are encoded, too, but how many depends on the places. Frames are data.
fn cost(settings: &NavigationSettings, walks: &Walks, parameters: usize) -> Cost {
    let GtmSmConfig { latent, hidden, .. } = settings.model;
    let wide = settings.model.transition.wall_hidden;
    let (pixels, place) = (walks.frame.size(), walks.place_width);
    let steps = walks.batch * walks.time;
    let predicted = walks.batch * settings.predict;
    let foreseen = walks
        .seen
        .chunks(walks.time)
        .flat_map(|seen| &seen[settings.memorise..]);
    let frames = foreseen.collect::<BTreeSet<_>>().len();
    let products = Cost::product(frames, hidden, hidden + 2 * latent)
        + Cost::product(predicted, hidden, latent + hidden + pixels)
        + Cost::product(steps, wide, place + wide + 1);
    let first = Cost::product(frames, pixels, hidden).with_backward_to_weights();
    let arrays = 6 * parameters + frames * pixels;
    first + products.with_backward() + Cost::array(arrays)
}

/// Weights and values of the five nearest of `entries` places, for one query, without gradients. The dictionary was
/// filled in many writes.
fn dictionary_read(entries: usize) -> Benchmark {
    Benchmark {
        name: format!("dictionary-read/{entries}"),
        prepare: Box::new(move |device| {
            let device = device.clone().inner();
            let NavigationSettings { model, .. } = NavigationSettings::default();
            let mut dnd = Dnd::new(entries);
            let places = Stream::new(1, "places").uniform_values(0, 2 * entries);
            let places: Vec<f32> = places.into_iter().map(|u| u as f32).collect();
            for keys in places.chunks(2 * WRITTEN) {
                let count = keys.len() / 2;
                let keys = TensorData::new(keys.to_vec(), [1, count, 2]);
                let keys = Tensor::from_data(keys, &device);
                dnd = dnd.write_all(keys, numbers([1, count, VALUE], &device));
            }
            let query = Tensor::<3>::from_floats([[[0.4, 0.7]]], &device);
            let width = 2 + VALUE;
            let cost = Cost::array((model.neighbours + 1) * width);
            Ok(Prepared::new(cost, move || {
                let near = dnd.nearest(query.clone(), model.neighbours);
                let near = near.expect("the dictionary is not empty");
                let weights = log_weights(near.squares, model.delta).exp();
                black_box((weights.into_data(), near.values.into_data()));
            }))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The walks are those of the paper, and the counted work is that of their products.
    #[test]
    fn a_step_is_counted_by_hand() {
        let settings = NavigationSettings::default();
        let pictures = Pictures::bundled(settings.image.picture).unwrap();
        let world = ImageNavigation::new(Arc::new(pictures), settings.image.clone()).unwrap();
        let walks = world.walks(Split::Train, &Stream::new(1, "benchmark"), 0, 16, 288);
        let mut predicted = Vec::new();
        for walk in 0..16 {
            for step in 256..288 {
                predicted.push(walks.seen[288 * walk + step]);
            }
        }
        predicted.sort_unstable();
        predicted.dedup();
        let frames = predicted.len() as f64;
        assert!(frames < 16.0 * 32.0, "{frames} different frames");
        let encoder = 2.0 * frames * (2.0 * 192.0 * 256.0 + 3.0 * 256.0 * (256.0 + 32.0));
        let decoder = 6.0 * 512.0 * 256.0 * (16.0 + 256.0 + 192.0);
        let walls = 6.0 * 4608.0 * 32.0 * 35.0;
        let cost = cost(&settings, &walks, 1000);
        assert_eq!(cost.flops, encoder + decoder + walls);
        assert_eq!(cost.bytes, 4.0 * (6000.0 + frames * 192.0));
    }
}
