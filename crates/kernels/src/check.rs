//! Code shared by the tests of kernels: values without a pattern, a kernel's gradients computed by Burn, and
//! gradients of a definition in `f64` by finite differences.

use burn::tensor::{Device, Tensor, TensorData};

/// Numbers between -1 and 1 without a pattern.
pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// [`numbers`] as a tensor.
pub(crate) fn tensor<const D: usize>(shape: [usize; D], seed: u32, device: &Device) -> Tensor<D> {
    let values = numbers(shape.iter().product(), seed);
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The elements of a tensor in order.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// The memory layout of arguments, and how the gradient arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// Contiguous.
    Straight,
    /// Arguments are transposed pieces of a larger tensor, and the gradient is transposed.
    Turned,
    /// The gradient is also used by another tensor.
    Shared,
}

const WAYS: [Way; 3] = [Way::Straight, Way::Turned, Way::Shared];

/// An argument of a kernel in the layout `way`.
pub(crate) fn arranged<const D: usize>(flat: Tensor<1>, shape: [usize; D], way: Way) -> Tensor<D> {
    let whole = flat.reshape(shape);
    if way != Way::Turned {
        return whole;
    }
    let last = D - 1;
    let turned = whole.swap_dims(0, last);
    let count = turned.dims()[last];
    let mut margin = turned.dims();
    margin[last] = 2;
    let margin = Tensor::ones(margin, &turned.device());
    Tensor::cat(vec![margin.clone(), turned, margin], last)
        .narrow(last, 2, count)
        .swap_dims(0, last)
}

/// Seed of the weights that reduce an output to the differentiated sum.
const PROBE: u32 = 99;

/// The output of `f`, then the gradient of its weighted sum for each input that is not `fixed`.
pub(crate) fn gradients<const D: usize>(
    inputs: &[Vec<f32>],
    fixed: &[usize],
    way: Way,
    f: impl Fn(Vec<Tensor<1>>, Way) -> Tensor<D>,
) -> Vec<Vec<f32>> {
    let device = Device::default().autodiff();
    let leaves: Vec<Tensor<1>> = inputs
        .iter()
        .enumerate()
        .map(|(index, values)| {
            let leaf = Tensor::from_floats(values.as_slice(), &device);
            match fixed.contains(&index) {
                true => leaf,
                false => leaf.require_grad(),
            }
        })
        .collect();
    let output = f(leaves.clone(), way);
    let mut all = vec![values(output.clone())];
    let probe = tensor(output.dims(), PROBE, &device);
    let other = Tensor::zeros(output.dims(), &device).require_grad();
    let sum = match way {
        Way::Straight => (output * probe.clone()).sum(),
        Way::Turned => (output.swap_dims(0, D - 1) * probe.clone().swap_dims(0, D - 1)).sum(),
        Way::Shared => ((other.clone() + output) * probe.clone()).sum(),
    };
    let gradients = sum.backward();
    let of = |index: usize| leaves[index].grad(&gradients).expect("a tracked input");
    let tracked = (0..inputs.len()).filter(|index| !fixed.contains(index));
    all.extend(tracked.map(|index| values(of(index))));
    if way == Way::Shared {
        let shared = values(
            other
                .grad(&gradients)
                .expect("the other tensor must have a gradient"),
        );
        assert_eq!(shared, values(probe), "a shared gradient was modified");
    }
    all
}

/// Output and gradients of a definition in `f64`, by central differences.
pub(crate) fn differences(
    inputs: &[Vec<f32>],
    f: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    // The step is small because the norm of an empty memory row curves within 1e-3.
    const STEP: f64 = 1e-6;
    let mut inputs = wide(inputs);
    let output = f(&inputs);
    let probe = numbers(output.len(), PROBE);
    let mut all = vec![output];
    for index in 0..inputs.len() {
        let slopes = (0..inputs[index].len()).map(|place| {
            let kept = inputs[index][place];
            let mut at = |value: f64| {
                inputs[index][place] = value;
                let output = f(&inputs);
                let terms = output.iter().zip(&probe).map(|(y, p)| y * f64::from(*p));
                terms.sum::<f64>()
            };
            let slope = (at(kept + STEP) - at(kept - STEP)) / (2.0 * STEP);
            inputs[index][place] = kept;
            slope
        });
        let slopes = slopes.collect();
        all.push(slopes);
    }
    all
}

pub(crate) fn wide(all: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let wide = |values: &Vec<f32>| values.iter().map(|x| f64::from(*x)).collect();
    all.iter().map(wide).collect()
}

/// Asserts that results agree up to `tolerance` times the largest one, or times 1 if all are smaller. NaN agrees
/// only with NaN.
pub(crate) fn assert_close(
    found: &[Vec<f32>],
    expected: &[Vec<f64>],
    tolerance: f64,
    context: &str,
) {
    assert_eq!(found.len(), expected.len(), "{context}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{context}, result {index}");
        let scale = expected.iter().fold(1.0_f64, |m, e| m.max(e.abs()));
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(*found) - expected).abs();
            assert!(
                error <= tolerance * scale || found.is_nan() && expected.is_nan(),
                "{context}, result {index} at {place}: {found} {expected}"
            );
        }
    }
}

/// Asserts that a kernel agrees with its plain composition in every [`Way`], with each input in turn fixed, and
/// with each in turn the only one tracked.
pub(crate) fn assert_same<const D: usize>(
    inputs: &[Vec<f32>],
    tolerance: f64,
    context: &str,
    kernel: impl Fn(Vec<Tensor<1>>, Way) -> Tensor<D>,
    plain: impl Fn(Vec<Tensor<1>>, Way) -> Tensor<D>,
) {
    let check = |fixed: &[usize], way: Way| {
        assert_close(
            &gradients(inputs, fixed, way, &kernel),
            &wide(&gradients(inputs, fixed, way, &plain)),
            tolerance,
            &format!("{context}, {way:?}, {fixed:?} fixed"),
        );
    };
    for way in WAYS {
        check(&[], way);
    }
    for index in 0..inputs.len() {
        let others: Vec<usize> = (0..inputs.len()).filter(|i| *i != index).collect();
        if !others.is_empty() {
            check(&[index], Way::Straight);
            check(&others, Way::Turned);
        }
    }
}

pub(crate) const NOT_FINITE: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

/// Asserts that if an input holds one of `bad`, every result that is not finite in the plain composition is not
/// finite in the kernel, and every result that a NaN turns into NaN there is NaN here.
pub(crate) fn assert_spreads<const D: usize>(
    inputs: &[Vec<f32>],
    bad: &[f32],
    context: &str,
    kernel: impl Fn(Vec<Tensor<1>>, Way) -> Tensor<D>,
    plain: impl Fn(Vec<Tensor<1>>, Way) -> Tensor<D>,
) {
    for index in 0..inputs.len() {
        for place in [0, inputs[index].len() / 2, inputs[index].len() - 1] {
            for bad in bad.iter().copied() {
                let mut inputs = inputs.to_vec();
                inputs[index][place] = bad;
                let found = gradients(&inputs, &[], Way::Straight, &kernel);
                let expected = gradients(&inputs, &[], Way::Straight, &plain);
                for (result, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                        assert!(
                            (found.is_nan() || !expected.is_nan() || !bad.is_nan())
                                && (expected.is_finite() || !found.is_finite()),
                            "{context}: {bad} at {place} of input {index}, result {result} at {at}: \
                             {found} {expected}"
                        );
                    }
                }
            }
        }
    }
}
