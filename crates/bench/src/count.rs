//! Cost of the larger benchmarks.

use crate::cost::Cost;
use crate::training::FrameSizes;

/// Sum of the squared kernel sizes of the parallel streams.
const STREAM_WEIGHTS: usize = 1 + 9 + 25 + 49;
/// Pixels of the canvas, of the canvas at half size, and at a quarter.
const PIXELS: [usize; 3] = [32 * 32, 16 * 16, 8 * 8];
/// Pixels of a frame.
const FRAME: usize = 28 * 28;
/// Elements of the last feature maps.
const TOP: usize = 64 * 64;

/// Four parallel convolutions with eight kernels each.
fn streams(inputs: usize, pixels: usize) -> Cost {
    Cost::product(pixels, STREAM_WEIGHTS * inputs, 8)
}

/// The convolution blocks of gtmm, B.1, forward and backward for a number of frames, which are data.
pub fn convolution_blocks(frames: usize) -> Cost {
    let [canvas, half, quarter] = PIXELS;
    let first = streams(1, canvas).with_backward_to_weights();
    let others = Cost::convolution(32, 32, 3, half)
        + streams(32, half)
        + Cost::convolution(32, 64, 3, quarter);
    let weights = 8 * STREAM_WEIGHTS * 33 + 9 * 32 * (32 + 64);
    let traffic = Cost::array(frames * (FRAME + 2 * TOP)) + Cost::array(weights) * 2.0;
    (first + others.with_backward()) * frames as f64 + traffic
}

/// The decoder of gtmm, B.1, after its first linear map, forward and backward.
fn decoder_blocks(frames: usize) -> Cost {
    let [canvas, half, quarter] = PIXELS;
    let layers = Cost::convolution(64, 32, 3, quarter)
        + streams(32, half)
        + Cost::convolution(32, 32, 3, half)
        + streams(32, canvas)
        + Cost::convolution(32, 1, 1, canvas);
    layers.with_backward() * frames as f64
}

/// An LSTM over `time` steps, forward and backward, with the gradients of weights and inputs.
pub fn lstm([time, batch, inputs, hidden]: [usize; 4]) -> Cost {
    let products = Cost::product(time * batch, inputs + hidden, 4 * hidden).with_backward();
    let weights = 4 * hidden * (inputs + hidden + 1);
    products + Cost::array(weights + time * batch * (inputs + hidden)) * 2.0
}

/// One training step of a GTMM with the networks of gtmm, B.1. Maps of memory, prior and posterior count one
/// multiplication and one addition per parameter and row; operations between the rows of a memory are not
/// counted. Adam reads and writes each parameter and its two moments.
pub fn training_step(parameters: &FrameSizes, rows: usize) -> Cost {
    let maps = Cost::product(rows, parameters.recurrent, 1)
        + Cost::product(rows, TOP, parameters.features)
        + Cost::product(rows, parameters.decoder_inputs, TOP);
    let blocks = convolution_blocks(rows).flops + decoder_blocks(rows).flops;
    let blocks = Cost {
        flops: blocks,
        bytes: 0.0,
    };
    maps.with_backward() + blocks + Cost::array(6 * parameters.model + rows * FRAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_are_counted_by_hand() {
        // Multiplications of one frame: 84 * 8 * 1024, 9 * 32 * 32 * 256, 84 * 32 * 8 * 256 and
        // 9 * 32 * 64 * 64.
        let [first, halve, streams, quarter] = [688_128.0, 2_359_296.0, 5_505_024.0, 1_179_648.0];
        let expected = 2.0 * (2.0 * first + 3.0 * (halve + streams + quarter));
        assert_eq!(convolution_blocks(1).flops, expected);
        assert_eq!(convolution_blocks(250).flops, 250.0 * expected);
    }

    #[test]
    fn an_lstm_is_three_products_a_step() {
        let cost = lstm([25, 10, 32, 512]);
        assert_eq!(cost.flops, 3.0 * 2.0 * 250.0 * 544.0 * 2048.0);
        // Weights, inputs and states, and the gradients of all of them.
        assert_eq!(cost.bytes, 8.0 * (2048.0 * 545.0 + 250.0 * 544.0));
    }

    #[test]
    fn a_training_step_grows_with_its_rows() {
        let parameters = FrameSizes {
            model: 1_856_357,
            recurrent: 682_372,
            decoder_inputs: 192,
            features: 64,
        };
        let cost = training_step(&parameters, 200);
        let convolutions = convolution_blocks(200).flops + decoder_blocks(200).flops;
        let maps = 6.0 * 200.0 * (682_372.0 + 4096.0 * (64.0 + 192.0));
        assert_eq!(cost.flops, convolutions + maps);
        assert_eq!(cost.bytes, 4.0 * (6.0 * 1_856_357.0 + 200.0 * 784.0));
    }
}
