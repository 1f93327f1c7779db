//! Compares softplus-normalised attention with softmax, on the same pre-activations.
//!
//! `cargo run --release --example softplus_attention`
//!
//! Softmax is exponential everywhere: only differences of pre-activations count, and a slot that is well ahead
//! takes all the weight and all the gradient. Softplus is linear where pre-activations are positive, so slots
//! share the weight and each of them keeps learning. Where all pre-activations are well below zero (the last
//! case), softplus is exponential too, and the two agree. gtmm, section 3.1, prefers softplus.
//! 3.1, prefers it to softmax.

use burn::tensor::{Device, Tensor, activation::softmax};
use mnemora_kernels::attention::{read, softplus_attention};

fn main() {
    let device = Device::default().autodiff();
    for preactivations in [
        [0.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 2.0, 3.0],
        [0.0, 4.0, 8.0, 12.0],
        [-12.0, -8.0, -4.0, 0.0],
    ] {
        println!("pre-activations   {}", numbers(&preactivations));
        compare("softplus", preactivations, softplus_attention, &device);
        compare("softmax", preactivations, |a| softmax(a, 2), &device);
        println!();
    }
}

/// Reads a memory of four slots that hold the numbers 1 to 4. Prints the weights, the read, and its derivative
/// with respect to each pre-activation.
fn compare(
    name: &str,
    preactivations: [f32; 4],
    attention: impl Fn(Tensor<3>) -> Tensor<3>,
    device: &Device,
) {
    // `[batch, heads, slots]` and `[batch, slots, width]`.
    let a = Tensor::<3>::from_floats([[preactivations]], device).require_grad();
    let memory = Tensor::<3>::from_floats([[[1.0], [2.0], [3.0], [4.0]]], device);

    let weights = attention(a.clone());
    let value = read(weights.clone(), memory);
    let gradients = value.clone().sum().backward();

    println!("  {name:<8} weights {}", numbers(&host(weights)));
    println!("           read     {}", numbers(&host(value)));
    if let Some(slope) = a.grad(&gradients) {
        println!("           gradient {}", numbers(&host(slope)));
    }
}

fn host(tensor: Tensor<3>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

fn numbers(values: &[f32]) -> String {
    values.iter().map(|value| format!("{value:>9.4}")).collect()
}
