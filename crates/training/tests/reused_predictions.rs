//! A filter that reuses what its predictions computed says the same as one that computes it again.

use burn::tensor::Device;
use mnemora_memory::Initializer;
use mnemora_models::{LikelihoodConfig, Srnn, SrnnConfig};
use mnemora_training::{
    arrays::collect,
    online::{FilterState, FilteredStep, Numbers, Observed, Online, OnlineFilter},
    strategy::Inference,
};
use mnemora_worlds::{FrameShape, Scale, Stream};
use std::path::Path;

const NUMBERS: usize = 5;

fn filter() -> Online<Srnn> {
    let config = SrnnConfig {
        observation: NUMBERS,
        latent: 3,
        hidden: 7,
        units: 6,
        likelihood: LikelihoodConfig::Bernoulli,
        ..SrnnConfig::default()
    };
    let mut init = Initializer::new(Stream::new(1, "parameters").at(0), Device::default());
    let model = config.init(&mut init).unwrap();
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
    Online::new(Inference::direct(model), observed, &weights, 3)
}

/// Step `t` of a course in which every fifth observation is missing.
fn step(filter: &mut Online<Srnn>, t: u64) -> FilteredStep {
    let numbers = Stream::new(2, "observations").uniform_values(t, NUMBERS);
    let numbers: Vec<f32> = numbers.iter().map(|x| *x as f32).collect();
    match t % 5 {
        4 => filter.skip(None).unwrap(),
        _ => filter.step(&numbers, None).unwrap(),
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
