//! The kernels one by one, at the sizes of perfect recall, l = 15, k = 5, batch 10, forward and backward.
//! `mnemora bench` and `cargo bench` time these.

use crate::cost::Cost;
use burn::tensor::{Device, Tensor, TensorData};
use mnemora_kernels::{
    adam::{self, Rates},
    attention::{read, softplus_attention},
    batch_norm::batch_norm_relu,
    bernoulli,
    content::content_weights,
    conv::{conv2d, transposed_conv2d},
    gaussian::{kl_divergence, sample},
    relation::{Relation, relate},
    split::split_rows,
};
use mnemora_memory::dnc::{DncMemory, access, interface_size};

/// Frames of a batch: 20 steps of ten sequences.
const FRAMES: usize = 200;
const BATCH: usize = 10;
const HEADS: usize = 5;
const SLOTS: usize = 20;
/// Width of a latent, and of a memory row.
const WIDTH: usize = 32;
const PIXELS: usize = 784;
/// About the size of the paper's models.
const PARAMETERS: usize = 2_000_000;

/// Runs a piece of work once per call.
pub type Step = Box<dyn FnMut()>;

/// A piece of work.
pub struct KernelBenchmark {
    /// Name of the kernel and its size.
    pub name: &'static str,
    /// Lower bound on its cost.
    pub cost: Cost,
    /// Makes the inputs on an autodiff device.
    pub prepare: Box<dyn Fn(&Device) -> Step>,
}

/// All kernel benchmarks.
pub fn benchmarks() -> Vec<KernelBenchmark> {
    vec![
        convolution("conv/1-to-8-k7-32px", [1, 8], [7, 1], 32),
        convolution("conv/32-to-8-k5-16px", [32, 8], [5, 1], 16),
        convolution("conv/32-to-64-k3-stride-2-16px", [32, 64], [3, 2], 16),
        // The gates of an LSTM of the consistent GQN.
        convolution("conv/131-to-256-k5-8px", [131, 256], [5, 1], 8),
        convolution("conv/64-to-64-k3-8px", [64, 64], [3, 1], 8),
        // As of an agent's ConvLSTM, on larger maps.
        convolution("conv/64-to-256-k2-9px", [64, 256], [2, 1], 9),
        // From its canvas to the LSTM.
        convolution("conv/128-to-64-patches-2-16px", [128, 64], [2, 2], 16),
        transposed("transposed-conv/64-to-32-k3-stride-2-8px"),
        transposed_patches("transposed-conv/64-to-128-patches-2-8px", [64, 128], 2, 8),
        transposed_patches("transposed-conv/128-to-3-patches-4-16px", [128, 3], 4, 16),
        batch_norm("batch-norm-relu/32-channels-32px"),
        content("content-weights/5-heads-20-slots"),
        attention("attention-read/5-heads-20-slots"),
        dnc("dnc-step/5-heads-20-slots"),
        relation("relation/8-heads-8-slots-batch-64"),
        bernoulli_likelihood("bernoulli/200x784"),
        gaussian_kl("gaussian-kl/200x32"),
        gaussian_sample("gaussian-sample/10x32"),
        adam_step("adam/2000000"),
        split("split/20-steps"),
    ]
}

/// Numbers between -1 and 1 without a pattern.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let mut state = 1_u32;
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn leaf<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    numbers(shape, device).require_grad()
}

/// The traffic of a function and its gradient: values and gradients of inputs and result.
fn values_and_gradients(elements: usize) -> Cost {
    Cost::array(elements) * 2.0
}

/// A convolution of square images, `side` pixels wide, with a square kernel.
fn convolution(
    name: &'static str,
    [inputs, outputs]: [usize; 2],
    [kernel, stride]: [usize; 2],
    side: usize,
) -> KernelBenchmark {
    // A kernel as large as its stride reads patches that do not touch.
    let padding = if kernel == stride { 0 } else { kernel / 2 };
    // Frames themselves, with one channel, need no gradient.
    let of_data = inputs == 1;
    let coarse = (side + 2 * padding - kernel) / stride + 1;
    let pixels = FRAMES * coarse * coarse;
    let products = Cost::convolution(inputs, outputs, kernel, pixels);
    let images = Cost::array(FRAMES * inputs * side * side);
    let weights = outputs * (inputs * kernel * kernel + 1);
    let others = values_and_gradients(outputs * pixels + weights);
    KernelBenchmark {
        name,
        cost: match of_data {
            true => products.with_backward_to_weights() + images + others,
            false => products.with_backward() + images * 2.0 + others,
        },
        prepare: Box::new(move |device| {
            let images = numbers([FRAMES, inputs, side, side], device);
            let images = match of_data {
                true => images,
                false => images.require_grad(),
            };
            let weight = leaf([outputs, inputs, kernel, kernel], device);
            let bias = leaf([outputs], device);
            Box::new(move || {
                let (weight, bias) = (weight.clone(), bias.clone());
                conv2d(images.clone(), weight, bias, stride, padding).backward();
            })
        }),
    }
}

fn transposed(name: &'static str) -> KernelBenchmark {
    let (inputs, outputs, side) = (64, 32, 8);
    let pixels = FRAMES * side * side;
    let products = Cost::convolution(inputs, outputs, 3, pixels).with_backward();
    let elements = inputs * pixels + outputs * 4 * pixels + outputs * (9 * inputs + 1);
    KernelBenchmark {
        name,
        cost: products + values_and_gradients(elements),
        prepare: Box::new(move |device| {
            let images = leaf([FRAMES, inputs, side, side], device);
            let weight = leaf([inputs, outputs, 3, 3], device);
            let bias = leaf([outputs], device);
            Box::new(move || {
                let (weight, bias) = (weight.clone(), bias.clone());
                transposed_conv2d(images.clone(), weight, bias, 2, 1, 1).backward();
            })
        }),
    }
}

/// With a kernel as large as its stride.
fn transposed_patches(
    name: &'static str,
    [inputs, outputs]: [usize; 2],
    size: usize,
    side: usize,
) -> KernelBenchmark {
    let pixels = FRAMES * side * side;
    let taps = size * size;
    let products = Cost::convolution(inputs, outputs, size, pixels).with_backward();
    let elements = inputs * pixels + outputs * taps * pixels + outputs * (taps * inputs + 1);
    KernelBenchmark {
        name,
        cost: products + values_and_gradients(elements),
        prepare: Box::new(move |device| {
            let images = leaf([FRAMES, inputs, side, side], device);
            let weight = leaf([inputs, outputs, size, size], device);
            let bias = leaf([outputs], device);
            Box::new(move || {
                let (weight, bias) = (weight.clone(), bias.clone());
                transposed_conv2d(images.clone(), weight, bias, size, 0, 0).backward();
            })
        }),
    }
}

fn batch_norm(name: &'static str) -> KernelBenchmark {
    let shape = [FRAMES, 32, 32, 32];
    KernelBenchmark {
        name,
        cost: values_and_gradients(2 * shape.iter().product::<usize>()),
        prepare: Box::new(move |device| {
            let images = leaf(shape, device);
            let (gamma, beta) = (leaf([shape[1]], device), leaf([shape[1]], device));
            Box::new(move || {
                let found = batch_norm_relu(images.clone(), gamma.clone(), beta.clone(), 1e-5);
                found.output.backward();
            })
        }),
    }
}

fn content(name: &'static str) -> KernelBenchmark {
    let products = Cost::product(BATCH * HEADS, WIDTH, SLOTS).with_backward();
    let elements = BATCH * (HEADS * WIDTH + HEADS + SLOTS * WIDTH + HEADS * SLOTS);
    KernelBenchmark {
        name,
        cost: products + values_and_gradients(elements),
        prepare: Box::new(|device| {
            let keys = leaf([BATCH, HEADS, WIDTH], device);
            let strengths = leaf([BATCH, HEADS], device);
            let memory = leaf([BATCH, SLOTS, WIDTH], device);
            Box::new(move || {
                content_weights(keys.clone(), strengths.clone(), memory.clone()).backward();
            })
        }),
    }
}

fn attention(name: &'static str) -> KernelBenchmark {
    let products = Cost::product(BATCH * HEADS, SLOTS, WIDTH).with_backward();
    let elements = BATCH * (HEADS * SLOTS + SLOTS * WIDTH + HEADS * WIDTH);
    KernelBenchmark {
        name,
        cost: products + values_and_gradients(elements),
        prepare: Box::new(|device| {
            let preactivations = leaf([BATCH, HEADS, SLOTS], device);
            let memory = leaf([BATCH, SLOTS, WIDTH], device);
            Box::new(move || {
                read(softplus_attention(preactivations.clone()), memory.clone()).backward();
            })
        }),
    }
}

/// One step, from the interface and a memory in use to the read vectors.
fn dnc(name: &'static str) -> KernelBenchmark {
    let along_links = Cost::product(2 * BATCH * HEADS, SLOTS, SLOTS);
    let by_content = Cost::product(BATCH * (HEADS + 1), WIDTH, SLOTS);
    let reads = Cost::product(BATCH * HEADS, SLOTS, WIDTH);
    let writes = Cost::product(2 * BATCH * SLOTS, 1, WIDTH);
    let memory = SLOTS * (WIDTH + SLOTS + HEADS + 3);
    let elements = BATCH * (interface_size(HEADS, WIDTH) + 2 * memory + HEADS * WIDTH);
    KernelBenchmark {
        name,
        cost: (along_links + by_content + reads + writes).with_backward()
            + values_and_gradients(elements),
        prepare: Box::new(|device| {
            let interface = leaf([BATCH, interface_size(HEADS, WIDTH)], device);
            // Weights between 0 and 1 whose rows sum to at most 1.
            let weights =
                |scale: f64| move |x: Tensor<1>| x.add_scalar(1.0).mul_scalar(0.5 * scale);
            let share = weights(1.0 / SLOTS as f64);
            let row = |f: &dyn Fn(Tensor<1>) -> Tensor<1>| {
                let values = f(numbers([BATCH * SLOTS], device));
                values.reshape([BATCH, SLOTS]).detach().require_grad()
            };
            let matrix = |rows: usize| {
                let values = share(numbers([BATCH * rows * SLOTS], device));
                values.reshape([BATCH, rows, SLOTS]).detach().require_grad()
            };
            let memory = DncMemory {
                rows: leaf([BATCH, SLOTS, WIDTH], device),
                usage: row(&weights(1.0)),
                precedence: row(&share),
                links: matrix(SLOTS),
                read_weights: matrix(HEADS),
                write_weights: row(&share),
            };
            Box::new(move || {
                access(interface.clone(), memory.clone())
                    .read_vectors
                    .backward();
            })
        }),
    }
}

/// Eight slots of the Relational Memory Core and one row of input, at the size that Santoro et al. 2018 use for
/// the N-th farthest task.
fn relation(name: &'static str) -> KernelBenchmark {
    const SEQUENCES: usize = 64;
    let sizes = Relation {
        rows: 9,
        queries: 8,
        heads: 8,
        key: 32,
        value: 32,
    };
    let width = sizes.heads * (2 * sizes.key + sizes.value);
    let rows = SEQUENCES * sizes.rows;
    let reads = SEQUENCES * sizes.queries * sizes.heads;
    let products = Cost::product(reads, sizes.rows, sizes.key + sizes.value).with_backward();
    KernelBenchmark {
        name,
        cost: products + values_and_gradients(rows * width + 2 * width + reads * sizes.value),
        prepare: Box::new(move |device| {
            let projected = leaf([rows, width], device);
            let affine = [leaf([width], device), leaf([width], device)];
            Box::new(move || {
                let (read, _) = relate(projected.clone(), affine.clone(), 1e-5, sizes);
                read.backward();
            })
        }),
    }
}

fn bernoulli_likelihood(name: &'static str) -> KernelBenchmark {
    KernelBenchmark {
        name,
        cost: Cost::array(3 * FRAMES * PIXELS),
        prepare: Box::new(|device| {
            let frames = numbers([FRAMES, PIXELS], device).abs();
            let logits = leaf([FRAMES, PIXELS], device);
            Box::new(move || {
                bernoulli::log_likelihood(frames.clone(), logits.clone()).backward();
            })
        }),
    }
}

fn gaussian_kl(name: &'static str) -> KernelBenchmark {
    KernelBenchmark {
        name,
        cost: values_and_gradients(4 * FRAMES * WIDTH + FRAMES),
        prepare: Box::new(|device| {
            let [mean_q, log_std_q, mean_p, log_std_p] =
                [(); 4].map(|()| leaf([FRAMES, WIDTH], device));
            Box::new(move || {
                let (mean_q, log_std_q) = (mean_q.clone(), log_std_q.clone());
                kl_divergence(mean_q, log_std_q, mean_p.clone(), log_std_p.clone()).backward();
            })
        }),
    }
}

/// The samples of one step.
fn gaussian_sample(name: &'static str) -> KernelBenchmark {
    KernelBenchmark {
        name,
        cost: values_and_gradients(3 * BATCH * WIDTH) + Cost::array(BATCH * WIDTH),
        prepare: Box::new(|device| {
            let [mean, log_std] = [(); 2].map(|()| leaf([BATCH, WIDTH], device));
            let noise = numbers([BATCH, WIDTH], device);
            Box::new(move || {
                sample(mean.clone(), log_std.clone(), noise.clone()).backward();
            })
        }),
    }
}

fn adam_step(name: &'static str) -> KernelBenchmark {
    KernelBenchmark {
        name,
        // Values and moments are read and written; the gradient is read.
        cost: Cost::array(7 * PARAMETERS),
        prepare: Box::new(|device| {
            let device = device.clone().inner();
            let gradient = numbers([PARAMETERS], &device);
            let zeros = || Tensor::<1>::zeros([PARAMETERS], &device);
            let mut state = Some([numbers([PARAMETERS], &device), zeros(), zeros()]);
            let rates = Rates {
                scale: 1.0,
                rate: 1e-3,
                correction: 1.0,
            };
            Box::new(move || {
                if let Some([value, first, second]) = state.take() {
                    state = Some(adam::step(value, gradient.clone(), first, second, rates));
                }
            })
        }),
    }
}

fn split(name: &'static str) -> KernelBenchmark {
    let width = 2 * WIDTH;
    KernelBenchmark {
        name,
        cost: values_and_gradients(2 * FRAMES * width),
        prepare: Box::new(move |device| {
            let rows = leaf([FRAMES, width], device);
            Box::new(move || {
                Tensor::cat(split_rows(rows.clone(), SLOTS), 0).backward();
            })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_runs() {
        let device = Device::default().autodiff();
        for benchmark in benchmarks() {
            (benchmark.prepare)(&device)();
            assert!(benchmark.cost.bytes > 0.0, "{}", benchmark.name);
        }
    }
}
