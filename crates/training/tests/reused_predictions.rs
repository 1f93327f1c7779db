//! A filter that reuses what its predictions computed says the same as one that computes it again.

use burn::tensor::{Device, Tensor, TensorData};
use mnemora_memory::Initializer;
use mnemora_models::{FilteringModel, LikelihoodConfig, Srnn, SrnnConfig, foresee, online_step};
use mnemora_training::{
    arrays::{collect, host},
    online::{FilterState, FilteredStep, Numbers, Observed, Online, OnlineFilter},
    strategy::{Inference, noise},
};
use mnemora_worlds::{FrameShape, Scale, Stream};
use std::path::Path;

const NUMBERS: usize = 5;

const SEED: u64 = 3;

fn model() -> Srnn {
    let config = SrnnConfig {
        observation: NUMBERS,
        latent: 3,
        hidden: 7,
        units: 6,
        likelihood: LikelihoodConfig::Bernoulli,
        ..SrnnConfig::default()
    };
    let mut init = Initializer::new(Stream::new(1, "parameters").at(0), Device::default());
    config.init(&mut init).unwrap()
}

fn filter() -> Online<Srnn> {
    let model = model();
    let observed = Observed {
        frame: FrameShape {
            channels: 1,
            height: 1,
            width: NUMBERS,
        },
        numbers: Numbers::Shares,
        scale: Scale::IDENTITY,
        conditions: 0,
    };
    let weights = collect(&model);
    Online::new(Inference::direct(model), observed, &weights, SEED)
}

fn observation(t: u64) -> Vec<f32> {
    let numbers = Stream::new(2, "observations").uniform_values(t, NUMBERS);
    numbers.iter().map(|x| *x as f32).collect()
}

/// Step `t` of a course in which every fifth observation is missing.
fn step(filter: &mut Online<Srnn>, t: u64) -> FilteredStep {
    match t % 5 {
        4 => filter.skip(None).unwrap(),
        _ => filter.step(&observation(t), None).unwrap(),
    }
}

/// The other filter is made anew before each step, so that it has predicted nothing.
#[test]
fn a_reused_prediction_changes_no_bit() {
    let mut filter = self::filter();
    for t in 0..23 {
        let mut anew = self::filter();
        anew.restore(filter.save(), Path::new("state")).unwrap();
        let said = step(&mut filter, t);
        assert_eq!(said, step(&mut anew, t));
        assert!(said.prediction.is_some());
    }
}

/// The filter decodes a step together with the prediction of the next one; here each is computed by itself.
#[test]
fn a_step_and_its_prediction_are_those_of_the_model() {
    let (mut filter, model) = (filter(), model());
    let prepared = model.prepare();
    let samples = Stream::new(SEED, "online samples");
    let device = Device::default();
    let mut state = model.initial_state(1);
    for t in 0..12 {
        let x = observation(t);
        let row = Tensor::from_data(TensorData::new(x.clone(), [1, NUMBERS]), &device);
        let sample = noise(&samples, t, [1, 1, model.noise_size()], &device).squeeze_dim(0);
        let made = online_step(
            &model,
            &prepared,
            state,
            row,
            None,
            sample,
            |f, context, _| model.posterior(f, context),
        );
        let next = foresee(&model, &prepared, made.state.clone(), None).observation(&model);
        let said = filter.step(&x, None).unwrap();
        assert_eq!(said.mean, host(made.posterior.mean.into_data()));
        let surprise = made.scored.unwrap().surprise();
        let near = |one: f32, other: f32| {
            assert!((one - other).abs() < 1e-5, "step {t}: {one} {other}");
        };
        near(said.surprise.unwrap(), host(surprise.into_data())[0]);
        let expected = host(next.mean().into_data());
        for (one, other) in said.prediction.unwrap().into_iter().zip(expected) {
            near(one, other);
        }
        state = made.state;
    }
}

/// What cannot be used leaves the prediction of the next step as it was.
#[test]
fn a_refused_observation_changes_nothing() {
    let [mut one, mut other] = [filter(), filter()];
    for t in 0..8 {
        assert!(other.step(&[f32::NAN; NUMBERS], None).is_err());
        assert!(other.step(&[0.5; 2], None).is_err());
        assert_eq!(step(&mut one, t), step(&mut other, t));
    }
}

/// Another state has another prediction.
#[test]
fn a_restored_state_forgets_the_prediction() {
    let mut filter = self::filter();
    step(&mut filter, 0);
    let early = filter.save();
    let expected = step(&mut filter, 1);
    step(&mut filter, 2);
    filter.restore(early, Path::new("state")).unwrap();
    assert_eq!(step(&mut filter, 1), expected);
}
