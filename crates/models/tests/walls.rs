//! The fused walk with walls is compared with its equation, step by step: values and gradients, at odd sizes. What both
//! should be is in the golden vectors.

use burn::{
    module::Param,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_memory::{Draws, Initializer};
use mnemora_models::{Rolled, Transition, TransitionConfig, TransitionKind, Whereabouts};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// Steps, sequences, numbers of a place, hidden units.
type Sizes = [usize; 4];

const SIZES: [Sizes; 5] = [
    [1, 1, 1, 1],
    [2, 3, 2, 5],
    [7, 1, 3, 16],
    [9, 4, 2, 33],
    [40, 2, 2, 32],
];

fn numbers<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    let values = Draws::new(ChaCha8Rng::seed_from_u64(seed)).uniform(shape.iter().product(), 1.0);
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

fn transition([_, _, place, hidden]: Sizes, device: &Device) -> Transition {
    let config = TransitionConfig {
        kind: TransitionKind::Walls,
        wall_hidden: hidden,
        noise: 0.3,
        ..TransitionConfig::default()
    };
    let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
    let mut transition = config.init([4, place], &[], &mut init).unwrap();
    let walls = transition.walls.as_mut().unwrap();
    // Biases that are not zero, and walls that matter.
    let parameter = |tensor: Tensor<1>| Some(Param::from_tensor(tensor.mul_scalar(0.5)));
    walls.hidden.layers[0].bias = parameter(numbers([hidden], 2, device));
    walls.hidden.layers[1].bias = parameter(numbers([hidden], 3, device));
    walls.output.weight = Param::from_tensor(numbers([hidden, 1], 4, device).mul_scalar(3.0));
    transition
}

/// The places and displacements of all steps, and the last ones, by [`Transition::step`].
fn by_steps(
    transition: &Transition,
    actions: Tensor<3>,
    noise: Option<Tensor<3>>,
    from: Whereabouts,
) -> Rolled {
    let mut now = from;
    let (mut places, mut displacements) = (Vec::new(), Vec::new());
    for step in 0..actions.dims()[1] {
        let of = |all: &Tensor<3>| all.clone().narrow(1, step, 1).squeeze_dim::<2>(1);
        let push = transition.pushes(of(&actions));
        now = transition.step(push, noise.as_ref().map(of), now);
        places.push(now.place.clone());
        displacements.push(now.displacement.clone());
    }
    Rolled {
        places: Tensor::stack(places, 1),
        displacements: Tensor::stack(displacements, 1),
        last: now,
    }
}

/// All results of a walk, and the gradients of a function of them: those of the parameters and of the first place.
fn outcome(sizes: Sizes, noisy: bool, spoilt: bool, fused: bool) -> Vec<Vec<f32>> {
    let [time, batch, place, _] = sizes;
    let device = Device::default().autodiff();
    let transition = transition(sizes, &device);
    let mut actions = numbers([batch, time, 4], 5, &device);
    if spoilt {
        let last = actions.clone().narrow(1, time / 2, 1).mul_scalar(f32::NAN);
        actions = actions.slice_assign([0..batch, time / 2..time / 2 + 1], last);
    }
    let noise = noisy.then(|| numbers([batch, time, place], 6, &device));
    let start = numbers([batch, place], 7, &device).require_grad();
    let from = Whereabouts {
        place: start.clone(),
        displacement: start.zeros_like(),
    };
    let rolled = match fused {
        true => transition.roll(actions, noise, from),
        false => by_steps(&transition, actions, noise, from),
    };
    let Whereabouts {
        place: last,
        displacement: moved,
    } = rolled.last;
    let shape = [batch, time, place];
    let sum = (rolled.places.clone() * numbers(shape, 8, &device)).sum()
        + (rolled.displacements.clone() * numbers(shape, 9, &device)).sum()
        + (last.clone() * moved.clone()).sum();
    let gradients = sum.backward();
    let of = |tensor: &Tensor<2>| values(tensor.grad(&gradients).unwrap());
    let walls = transition.walls.as_ref().unwrap();
    let mut all = vec![
        values(rolled.places),
        values(rolled.displacements),
        values(last),
        values(moved),
        of(&start),
        of(&transition.moves.val()),
    ];
    for layer in walls.hidden.layers.iter().chain([&walls.output]) {
        all.push(of(&layer.weight.val()));
        let bias = layer.bias.as_ref().unwrap().val();
        all.push(values(bias.grad(&gradients).unwrap()));
    }
    all
}

#[test]
fn the_fused_walk_is_that_of_its_steps() {
    for sizes in SIZES {
        for noisy in [false, true] {
            let [fused, steps] = [true, false].map(|fused| outcome(sizes, noisy, false, fused));
            for (number, (fused, steps)) in fused.iter().zip(&steps).enumerate() {
                let largest = steps.iter().fold(1e-3_f32, |most, x| most.max(x.abs()));
                assert_eq!(fused.len(), steps.len());
                for (a, b) in fused.iter().zip(steps) {
                    let error = (a - b).abs();
                    assert!(error <= 2e-5 * largest, "{sizes:?}, {number}: {a} and {b}");
                }
            }
        }
    }
}

/// What is not a number stays so, in the same places.
#[test]
fn nan_propagates() {
    for sizes in SIZES {
        let [fused, steps] = [true, false].map(|fused| outcome(sizes, true, true, fused));
        for (number, (fused, steps)) in fused.iter().zip(&steps).enumerate() {
            let nan = |all: &[f32]| all.iter().map(|x| x.is_nan()).collect::<Vec<_>>();
            assert_eq!(nan(fused), nan(steps), "{sizes:?}, {number}");
        }
        assert!(fused[0].iter().any(|x| x.is_nan()));
    }
}
