//! Tests of [`Cgqn`].

use super::*;
use crate::{ImageShape, check::numbers, scenes::SceneNetName};
use mnemora_memory::Initializer;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const FRAME: ImageShape = ImageShape {
    channels: 2,
    height: 16,
    width: 8,
};

fn config() -> CgqnConfig {
    CgqnConfig {
        steps: 2,
        latent: 2,
        hidden: 4,
        encoded: 3,
        canvas: 5,
        decoded: 3,
        kernel: 3,
        ..CgqnConfig::default()
    }
}

fn build(config: &CgqnConfig, latents: Latents) -> Cgqn {
    let rng = ChaCha8Rng::seed_from_u64(1);
    let mut init = Initializer::new(rng, Device::default());
    config.init(latents, FRAME, 3, &mut init).unwrap()
}

fn views(scenes: usize, each: usize, phase: f32) -> Views {
    let ImageShape {
        channels,
        height,
        width,
    } = FRAME;
    Views {
        frames: numbers(
            [scenes * each, channels, height, width],
            phase,
            &Device::default(),
        ),
        queries: numbers([scenes * each, 3], phase + 1.0, &Device::default()),
        each,
    }
}

fn apart(a: Tensor<4>, b: Tensor<4>) -> f32 {
    (a - b).abs().max().into_scalar()
}

/// The first targets of a scene do not change when more are asked for: there is one scene.
#[test]
fn more_queries_do_not_change_the_scene() {
    for config in [
        config(),
        CgqnConfig {
            shared: false,
            renderer_sees_context: true,
            all_latents: true,
            squashed: true,
            ..config()
        },
        CgqnConfig {
            renderer_sees_context: true,
            attention: 2,
            ..config()
        },
        CgqnConfig {
            renderer_sees_context: true,
            attention: 2,
            latents_look: true,
            ..config()
        },
        CgqnConfig {
            network: SceneNetName::Pyramid,
            ..config()
        },
        CgqnConfig {
            network: SceneNetName::Pool,
            query_units: 5,
            ..config()
        },
    ] {
        let model = build(&config, Latents::Consistent);
        let (context, targets) = (views(2, 3, 0.0), views(2, 4, 0.5));
        let noise = numbers([2, model.noise_size(4)], 0.2, &Device::default());
        let known = model.represent(Some(&context), 2);
        let all = model.sample(&known, targets.queries.clone(), noise.clone());
        let few = targets.first(2);
        let some = model.sample(&known, few.queries, noise);
        let [_, channels, height, width] = all.dims();
        let all = all
            .reshape([2, 4, channels, height * width])
            .narrow(1, 0, 2);
        let all = all.reshape([4, channels, height, width]);
        assert!(apart(all, some) < 1e-6);
    }
}

/// The number of targets that the posterior sees is drawn evenly from the least to the most, which is what it sees without
/// a draw, and that of all targets if they are fewer.
#[test]
fn the_posterior_sees_as_many_targets_as_are_drawn() {
    let kl = |[least, most]: [usize; 2], each: usize, choice: Option<f64>| -> Vec<f32> {
        let config = CgqnConfig {
            posterior_least: least,
            posterior_targets: most,
            ..config()
        };
        let model = build(&config, Latents::Consistent);
        assert_eq!(model.draws_posterior_targets(), least > 0);
        let known = model.represent(Some(&views(2, 3, 0.0)), 2);
        let (targets, noise) = (
            views(2, 5, 0.5),
            numbers([2, model.noise_size(5)], 0.2, &Device::default()),
        );
        let targets = targets.first(each);
        let found = match choice {
            Some(choice) => model.bound_drawn(&known, &targets, noise, choice),
            None => model.bound(&known, &targets, noise),
        };
        found.kl.into_data().try_to_vec().unwrap()
    };
    for (choice, count) in [(0.0, 2), (0.32, 2), (0.34, 3), (0.67, 4), (0.999, 4)] {
        let expected = kl([0, count], 5, None);
        assert_eq!(kl([2, 4], 5, Some(choice)), expected, "{choice}");
    }
    assert_ne!(kl([0, 2], 5, None), kl([0, 3], 5, None));
    assert_eq!(kl([2, 4], 5, None), kl([0, 4], 5, None));
    assert_eq!(kl([2, 4], 3, Some(0.9)), kl([0, 0], 3, None));
    assert_eq!(kl([2, 4], 1, Some(0.9)), kl([0, 0], 1, None));
}

/// With a single target both kinds of latents are the same model.
#[test]
fn with_one_target_factored_is_consistent() {
    let (context, targets) = (views(2, 2, 0.0), views(2, 1, 0.5));
    let [consistent, factored] = [Latents::Consistent, Latents::Factored].map(|latents| {
        let model = build(&config(), latents);
        let noise = numbers([2, model.noise_size(1)], 0.2, &Device::default());
        model.bound(&model.represent(Some(&context), 2), &targets, noise)
    });
    assert!(apart(consistent.frames, factored.frames) < 1e-6);
    let kl: [Vec<f32>; 2] =
        [consistent.kl, factored.kl].map(|kl| kl.into_data().try_to_vec().unwrap());
    assert_eq!(kl[0], kl[1]);
    assert!(kl[0].iter().all(|kl| *kl > 0.0));
}

/// Latents of targets ask with their queries, the latent of a scene with its bias alone.
#[test]
fn latents_of_targets_ask_with_their_queries() {
    let config = CgqnConfig {
        renderer_sees_context: true,
        attention: 2,
        latents_look: true,
        ..config()
    };
    let (context, targets) = (views(2, 3, 0.0), views(2, 1, 0.5));
    for deaf in [true, false] {
        let [consistent, factored] = [Latents::Consistent, Latents::Factored].map(|latents| {
            let mut model = build(&config, latents);
            let ask = &mut model.latents_look.as_mut().unwrap().ask;
            if deaf {
                ask.weight = ask.weight.clone().map(|weight| weight.zeros_like());
            }
            let noise = numbers([2, model.noise_size(1)], 0.2, &Device::default());
            let found = model.bound(&model.represent(Some(&context), 2), &targets, noise);
            found.frames
        });
        assert_eq!(apart(consistent, factored) < 1e-6, deaf);
    }
}

/// Targets that are alike cost the factored model as often as they are asked for.
#[test]
fn factored_latents_are_paid_for_each_target() {
    let model = build(&config(), Latents::Factored);
    let one = views(1, 1, 0.5);
    let three = Views {
        frames: one.frames.clone().repeat_dim(0, 3),
        queries: one.queries.clone().repeat_dim(0, 3),
        each: 3,
    };
    let noise = numbers([1, model.noise_size(1)], 0.2, &Device::default());
    let all = noise.clone().repeat_dim(1, 3);
    let nothing = model.represent(None, 1);
    let one = model.bound(&nothing, &one, noise);
    let three = model.bound(&nothing, &three, all);
    let [one, three]: [f32; 2] = [one.kl, three.kl].map(|kl| kl.into_scalar());
    assert!((three - 3.0 * one).abs() < 1e-4 * three, "{one} {three}");
}

#[test]
fn without_latents_the_context_decides() {
    let model = build(&config(), Latents::None);
    assert_eq!(model.noise_size(3), 0);
    let (context, targets) = (views(2, 2, 0.0), views(2, 3, 0.5));
    let nothing = Tensor::zeros([2, 0], &Device::default());
    let known = model.represent(Some(&context), 2);
    let found = model.bound(&known, &targets, nothing.clone());
    assert_eq!(
        found.kl.into_data().try_to_vec::<f32>().unwrap(),
        [0.0, 0.0]
    );
    let drawn = model.sample(&known, targets.queries, nothing);
    assert!(apart(drawn, found.frames) < 1e-6);
}

#[test]
fn who_looks_needs_something_to_look_with() {
    let refused = |config: CgqnConfig| {
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let refused = config.init(Latents::Consistent, FRAME, 3, &mut init);
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        refused(CgqnConfig {
            attention: 2,
            ..config()
        }),
        "model.attention is 2, it must be 0 unless the renderer sees the context (renderer_sees_context)"
    );
    assert_eq!(
        refused(CgqnConfig {
            renderer_sees_context: true,
            latents_look: true,
            ..config()
        }),
        "model.latents_look needs heads: model.attention must be at least 1"
    );
}

/// `[x, sin(pi x), cos(pi x), sin(2 pi x), cos(2 pi x)]` of two numbers.
#[test]
fn waves_are_sines_and_cosines_of_the_query() {
    let queries = Tensor::from_floats([[0.5_f32, -0.25]], &Device::default());
    let found = with_waves(queries, 2).into_data();
    let half = 0.5_f32.sqrt();
    let expected = [0.5, -0.25, 1.0, -half, 0.0, half, 0.0, -1.0, -1.0, 0.0];
    for (found, expected) in found.try_to_vec::<f32>().unwrap().iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
    }
}

/// All networks are given the waves: the model is that of the longer queries.
#[test]
fn waves_are_part_of_the_query() {
    let noise = |model: &Cgqn| numbers([2, model.noise_size(2)], 0.2, &Device::default());
    let (context, targets) = (views(2, 3, 0.0), views(2, 2, 0.5));
    for query_units in [0, 5] {
        let plain = CgqnConfig {
            query_units,
            ..config()
        };
        let waved = CgqnConfig {
            query_waves: 2,
            ..plain.clone()
        };
        let model = build(&waved, Latents::Consistent);
        let longer = |views: &Views| Views {
            queries: with_waves(views.queries.clone(), 2),
            ..views.clone()
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let same = plain
            .init(Latents::Consistent, FRAME, 15, &mut init)
            .unwrap();
        let of = |model: &Cgqn, context: &Views, targets: &Views| {
            let known = model.represent(Some(context), 2);
            let drawn = model.sample(&known, targets.queries.clone(), noise(model));
            (model.bound(&known, targets, noise(model)), drawn)
        };
        let (found, drawn) = of(&model, &context, &targets);
        let (expected, expected_drawn) = of(&same, &longer(&context), &longer(&targets));
        assert_eq!(apart(found.frames, expected.frames), 0.0);
        assert_eq!(apart(drawn, expected_drawn), 0.0);
        let kl = [found.kl, expected.kl].map(|kl| kl.into_data().try_to_vec::<f32>().unwrap());
        assert_eq!(kl[0], kl[1]);
    }
}

#[test]
fn waves_too_fine_are_refused() {
    let config = CgqnConfig {
        query_waves: 17,
        ..config()
    };
    let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
    let refused = config.init(Latents::Consistent, FRAME, 3, &mut init);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "model.query_waves is 17, it must be at most 16"
    );
}

/// The tower keeps pixels apart, pool and pyramid do not.
#[test]
fn a_representation_of_one_pixel_is_the_same_everywhere() {
    for (network, same) in [
        (SceneNetName::Plain, false),
        (SceneNetName::Tower, false),
        (SceneNetName::Pool, true),
        (SceneNetName::Pyramid, true),
    ] {
        let config = CgqnConfig {
            network,
            ..config()
        };
        let model = build(&config, Latents::Consistent);
        let known = model.represent(Some(&views(2, 3, 0.0)), 2).sum;
        assert_eq!(known.dims(), model.represent(None, 2).sum.dims());
        let first = known.clone().narrow(2, 0, 1).narrow(3, 0, 1);
        let spread = apart(known.clone(), first.expand(known.dims()));
        assert_eq!(spread == 0.0, same, "{network:?}: {spread}");
    }
}

/// The sum over views is spread over the maps with other weights for each pixel.
#[test]
fn a_representation_of_one_pixel_is_spread_over_the_maps() {
    let config = CgqnConfig {
        network: SceneNetName::Pool,
        spread: true,
        ..config()
    };
    let model = build(&config, Latents::Consistent);
    let views = views(1, 3, 0.0);
    let pixel = |maps: Tensor<4>| -> Vec<f32> {
        let mean = maps.flatten::<3>(2, 3).mean_dim(2);
        mean.sum_dim(0).into_data().try_to_vec().unwrap()
    };
    let summed = pixel(model.representation.maps(&model.read_views(&views)));
    let weight = model.spread.as_ref().unwrap().weight.val();
    let [inputs, outputs] = weight.dims();
    let weight: Vec<f32> = weight.into_data().try_to_vec().unwrap();
    let found = model.represent(Some(&views), 1).sum.into_data();
    let found: Vec<f32> = found.try_to_vec().unwrap();
    assert_eq!((summed.len(), found.len()), (inputs, outputs));
    for (output, found) in found.into_iter().enumerate() {
        let products = summed.iter().zip(weight.chunks(outputs));
        let expected: f32 = products.map(|(value, row)| value * row[output]).sum();
        assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
    }
    let nothing = model.represent(None, 1).sum.abs().max();
    assert_eq!(nothing.into_scalar::<f32>(), 0.0);
}

#[test]
fn maps_are_not_spread() {
    let config = CgqnConfig {
        network: SceneNetName::Tower,
        spread: true,
        ..config()
    };
    let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
    let refused = config.init(Latents::Consistent, FRAME, 3, &mut init);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "model.spread is true, but only representations of a single pixel are spread, those of the networks 'pyramid' \
         and 'pool'"
    );
}

#[test]
fn networks_of_the_gqn_that_do_not_fit_are_refused() {
    for (network, modulated, says) in [
        (
            SceneNetName::Tower,
            true,
            "model.modulated is true, but queries scale the maps of the network `plain` only",
        ),
        (
            SceneNetName::Pyramid,
            false,
            "model.representation has 12 channels, it must be a multiple of 8 for the pyramid",
        ),
    ] {
        let config = CgqnConfig {
            network,
            modulated,
            representation: [8, 8, 8, 12],
            ..config()
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let found = config.init(Latents::Consistent, FRAME, 3, &mut init);
        assert_eq!(found.unwrap_err().to_string(), says);
    }
}

#[test]
fn frames_that_cannot_be_divided_are_refused() {
    let rng = ChaCha8Rng::seed_from_u64(1);
    let mut init = Initializer::new(rng, Device::default());
    let frame = ImageShape { width: 12, ..FRAME };
    let found = config().init(Latents::Consistent, frame, 3, &mut init);
    let error = found.unwrap_err().to_string();
    assert_eq!(
        error,
        "frames are 16x12 pixels, but both sides must be multiples of 8"
    );
}
