//! A memory on its own: no generative model, no training loop.
//!
//! `cargo run --release --example memory_core`

use burn::tensor::{Device, Tensor, TensorData};
use mnemora_memory::{Initializer, IntrospectionConfig, Memory, MemoryError, Previous};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const LATENT: usize = 4;
const SLOTS: usize = 5;
const STEPS: usize = 9;

/// Shades from zero weight to full weight.
const SHADES: &[u8] = b".:-=+*#%@";

fn main() -> Result<(), MemoryError> {
    // On an autodiff device every operation is recorded, so that gradients can be taken later.
    // `Device::default()` alone computes the same without recording.
    let device = Device::default().autodiff();
    let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());

    // To swap the memory, build another one here: `LstmMemoryConfig { latent, features, condition, hidden }` for
    // an LSTM, or a `MemoryConfig`, which holds any memory and is chosen at run time. All of them implement
    // `Memory`, and nothing below changes.
    let memory = IntrospectionConfig {
        latent: LATENT,
        condition: 0,
        hidden: 16,
        attention: 16,
        reads: 2,
        slots: SLOTS,
    }
    .init(&mut init)?;

    // The vectors to remember: step t brings a vector whose elements all equal t.
    let vectors: Vec<Tensor<2>> = (1..=STEPS)
        .map(|t| Tensor::full([1, LATENT], t as f32, &device).require_grad())
        .collect();

    // A step takes in the results of the previous step and returns the context of this one. The first step has
    // no previous one. `prepare` packs the weights once for all steps.
    let prepared = memory.prepare();
    let mut state = memory.initial_state(1, &device);
    let mut previous = None;
    let mut last = Tensor::zeros([1, memory.context_size()], &device);
    println!("step  stored, oldest first  weights of head 1, of head 2 ('.' zero, '@' one)");
    for (t, vector) in (1..).zip(&vectors) {
        let (context, next) = memory.step(&prepared, previous, None, state);
        let stored = next.memory.as_ref().map_or(String::new(), |memory| {
            let rows = memory.dims()[1];
            let first_column = memory.clone().narrow(2, 0, 1);
            line(first_column.into_data(), |row| format!("{row:.0} "), rows).remove(0)
        });
        let heads = match context.attention.first() {
            Some(read) => {
                let weights = read.weights();
                let filled = weights.dims()[2];
                line(weights.to_data(), |w| shade(w).to_string(), filled)
            }
            None => vec!["nothing stored yet".into()],
        };
        println!("{t:>4}  {stored:<20}  {}", heads.join("  "));
        last = context.psi;
        state = next;
        previous = Some(Previous {
            latent: vector.clone(),
            // Only `LstmMemory` reads features of the frame.
            features: Tensor::zeros([1, 1], &device),
        });
    }
    println!(
        "From step {} on, each step drops the oldest vector. Weights depend on position, not on content:\n\
         training is what gives them a meaning.\n",
        SLOTS + 2
    );

    // How much does the last context depend on each vector? Vectors that left the store act through the
    // controller alone. The last vector comes after the last context and has no gradient.
    let gradients = last.sum().backward();
    for (t, vector) in (1..).zip(&vectors) {
        let norm = vector.grad(&gradients).map(|gradient| {
            let squares: f32 = gradient.powi_scalar(2).sum().into_scalar();
            squares.sqrt()
        });
        match norm {
            Some(norm) => println!("|d psi_{STEPS} / d z_{t}| = {norm:.4}"),
            None => println!("|d psi_{STEPS} / d z_{t}|: no gradient"),
        }
    }
    Ok(())
}

/// Formats the elements of `data`, one line for each `length` of them.
fn line(data: TensorData, word: impl Fn(f32) -> String, length: usize) -> Vec<String> {
    let values: Vec<f32> = data.iter::<f32>().collect();
    values
        .chunks(length)
        .map(|chunk| chunk.iter().map(|&value| word(value)).collect())
        .collect()
}

fn shade(weight: f32) -> char {
    let level = (weight * SHADES.len() as f32) as usize;
    SHADES[level.min(SHADES.len() - 1)].into()
}
