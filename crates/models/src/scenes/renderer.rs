//! From a latent scene and a query to a frame.

use super::{
    map_lstm::{MapLstm, MapSizes},
    representation::SHRUNK,
};
use crate::visual::{Filter, Kernel};
use burn::{
    module::Module,
    tensor::{Tensor, activation::sigmoid},
};
use mnemora_kernels::{
    conv::{StepConv, conv2d, transposed_conv2d},
    lstm::lstm_gates,
};
use mnemora_memory::{Count, Initializer};

/// From the canvas to the frame.
const TO_FRAME: Kernel = Kernel::patches(SHRUNK);

/// Channels of a renderer.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenderSizes {
    pub(super) frame: usize,
    pub(super) query: usize,
    pub(super) latent: usize,
    /// Of the context's representation, if it is seen.
    pub(super) context: usize,
    pub(super) hidden: usize,
    pub(super) canvas: usize,
    pub(super) decoded: usize,
    pub(super) kernel: usize,
    pub(super) sets: usize,
    pub(super) steps: usize,
    /// By how much the LSTM's maps are smaller than the canvas.
    pub(super) stride: usize,
    pub(super) all_latents: bool,
    pub(super) squashed: bool,
}

/// The weights of a step.
#[derive(Module, Debug)]
pub struct RenderStep {
    /// From the canvas to the LSTM's input.
    pub decode: Filter,
    /// On `[h; v; encoded context; z_l; decoded canvas]`, without the context unless it is seen, and with all of `z` in
    /// place of `z_l` if all latents are seen at each step.
    pub lstm: MapLstm,
    /// From the LSTM's state to what is added to the canvas; transposed.
    pub canvas: Filter,
    query: usize,
}

/// A convolutional LSTM that draws on a canvas `u`, without randomness. For each step l:
///
/// ```text
/// h, c = ConvLSTM([v; z_l; decode(u)], h, c)
/// u = u + canvas(h)
/// ```
///
/// and the frame is `frame(u)`. All queries of all scenes are drawn in one call.
///
/// All of this is linear but the LSTM, so the canvas is made once, at the end. With `M_lj` the matrix of `decode_l(canvas_j(.))`,
/// which acts on each pixel by itself since patches do not overlap, and W the kernels of the LSTM's inputs,
///
/// ```text
/// gates_l = W_v v + W_z z_l + W_d b_l + (W_h + W_d M_{l,l-1}) h_{l-1} + W_d sum_{j < l-1} M_lj h_j
/// ```
///
/// The first term is a multiple of what a plane of ones gives, the second the same for all queries of a scene, and the third, of
/// the biases `b_l`, the same for all scenes.
#[derive(Module, Debug)]
pub struct Renderer {
    /// One set of weights for all steps, or one for each.
    pub steps: Vec<RenderStep>,
    /// From the canvas to the frame; transposed.
    pub frame: Filter,
    stride: usize,
    all_latents: bool,
    squashed: bool,
}

/// The kernels of a step's LSTM, `[4 * hidden, .., k, k]`, by what they read.
struct Kernels {
    hidden: Tensor<4>,
    query: Tensor<4>,
    /// The context, if it is seen, and latents.
    scene: Tensor<4>,
    /// What is decoded of the canvas.
    decoded: Tensor<4>,
    bias: Tensor<1>,
}

impl Kernels {
    /// The gates' part of the queries, `[rows, each, 4 * hidden * height * width]`: a multiple of what a plane of ones gives.
    fn of_queries(&self, queries: &Tensor<2>, [rows, height, width]: [usize; 3]) -> Tensor<3> {
        let [all, query] = queries.dims();
        let planes = Tensor::<2>::eye(query, &queries.device()).reshape([query, query, 1, 1]);
        let planes = convolve(
            planes.expand([query, query, height, width]),
            &self.query,
            None,
        );
        let gates = queries.clone().matmul(planes.flatten(1, 3));
        let size = gates.dims()[1];
        gates.reshape([rows, all / rows, size])
    }

    /// The part that is the same for all queries of a scene, `[rows, 1, 4 * hidden * height * width]`: of what is known of
    /// scenes, `[rows, .., height, width]`, and of the biases, `[decoded]` being that of what is decoded.
    fn of_scenes(&self, known: Tensor<4>, decoded: Tensor<1>) -> Tensor<3> {
        let [_, _, height, width] = known.dims();
        let [channels] = decoded.dims();
        let planes = decoded.reshape([1, channels, 1, 1]);
        let planes = planes.expand([1, channels, height, width]);
        let of_biases = convolve(planes, &self.decoded, Some(&self.bias));
        let gates = convolve(known, &self.scene, None) + of_biases;
        gates.flatten::<2>(1, 3).unsqueeze_dim(1)
    }

    /// The kernels of what the step before drew, directly and through the canvas, of which `matrix` makes what is decoded.
    fn of_last(&self, matrix: Tensor<2>) -> Tensor<4> {
        let [gates, decoded, kernel, _] = self.decoded.dims();
        let hidden = matrix.dims()[1];
        let by_pixel = self.decoded.clone().flatten::<3>(2, 3).swap_dims(1, 2);
        let by_pixel = by_pixel
            .reshape([gates * kernel * kernel, decoded])
            .matmul(matrix);
        let by_pixel = by_pixel
            .reshape([gates, kernel * kernel, hidden])
            .swap_dims(1, 2);
        self.hidden.clone() + by_pixel.reshape([gates, hidden, kernel, kernel])
    }
}

/// Keeps the size of maps.
fn convolve(maps: Tensor<4>, weight: &Tensor<4>, bias: Option<&Tensor<1>>) -> Tensor<4> {
    let [outputs, _, kernel, _] = weight.dims();
    let none = || Tensor::zeros([outputs], &weight.device());
    let of = Kernel::same(kernel);
    let bias = bias.cloned().unwrap_or_else(none);
    conv2d(maps, weight.clone(), bias, of.stride, of.padding)
}

impl RenderStep {
    fn kernels(&self) -> Kernels {
        let weight = self.lstm.weight.val();
        let [gates, channels, _, _] = weight.dims();
        let hidden = gates / 4;
        let decoded = self.decode.weight.dims()[0];
        let query = self.query;
        let part = |start, count| weight.clone().narrow(1, start, count);
        Kernels {
            hidden: part(0, hidden),
            query: part(hidden, query),
            scene: part(hidden + query, channels - hidden - query - decoded),
            decoded: part(channels - decoded, decoded),
            bias: self.lstm.bias.val(),
        }
    }

    /// What this step decodes of what `drawn` drew.
    fn decodes(&self, drawn: &RenderStep) -> Decoded {
        let decode = self.decode.weight.val();
        let [decoded, canvas, _, _] = decode.dims();
        let patches = decode.clone().flatten::<3>(2, 3).sum_dim(2);
        let bias = drawn.canvas.bias.val().reshape([1, canvas]);
        let bias = (patches.reshape([decoded, canvas]) * bias).sum_dim(1);
        let back = drawn.canvas.weight.val().flatten::<2>(1, 3);
        Decoded {
            matrix: decode.flatten::<2>(1, 3).matmul(back.transpose()),
            bias: bias.reshape([decoded]),
        }
    }
}

/// What one step decodes of what another drew: `matrix * h + bias` at each pixel.
#[derive(Clone)]
struct Decoded {
    /// `[decoded, hidden]`
    matrix: Tensor<2>,
    /// `[decoded]`
    bias: Tensor<1>,
}

impl Renderer {
    pub(super) fn new(sizes: &RenderSizes, init: &mut Initializer) -> Self {
        let (given, inputs) = match sizes.all_latents {
            true => (sizes.steps * sizes.latent, 0),
            false => (0, sizes.latent),
        };
        let lstm = MapSizes {
            hidden: sizes.hidden,
            given: sizes.query + sizes.context + given,
            inputs: inputs + sizes.decoded,
        };
        let patches = Kernel::patches(sizes.stride);
        let steps = (0..sizes.sets).map(|_| RenderStep {
            decode: Filter::new([sizes.canvas, sizes.decoded], patches, init),
            lstm: MapLstm::new(lstm, sizes.kernel, init),
            canvas: Filter::transposed([sizes.hidden, sizes.canvas], patches, init),
            query: sizes.query,
        });
        Self {
            steps: steps.collect(),
            frame: Filter::transposed([sizes.canvas, sizes.frame], TO_FRAME, init),
            stride: sizes.stride,
            all_latents: sizes.all_latents,
            squashed: sizes.squashed,
        }
    }

    /// Numbers kept for `steps` steps of a row, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize, steps: usize) -> Count {
        let step = &self.steps[0];
        let [decoded, canvas, _, _] = step.decode.weight.dims();
        let gates = step.lstm.hidden() * 4;
        let patch = self.stride * self.stride;
        (step.lstm.kept(pixels) + Count::product(&[gates + decoded, pixels])) * steps
            + Count::product(&[step.lstm.hidden() * steps + patch * canvas, pixels])
    }

    /// The frames of `each` queries of every scene, `[rows * each, channels, ..]`.
    ///
    /// # Shapes
    /// - `latents`: of each step, `[rows, latent, height, width]`
    /// - `context`: `[rows, encoded, height, width]`, if the renderer sees it
    /// - `queries`: `[rows * each, query]`, those of one scene after those of another
    pub fn render(
        &self,
        latents: &[Tensor<4>],
        context: Option<Tensor<4>>,
        queries: Tensor<2>,
    ) -> Tensor<4> {
        let [rows, _, height, width] = latents[0].dims();
        let [all, _] = queries.dims();
        let kernels: Vec<_> = self.steps.iter().map(RenderStep::kernels).collect();
        let of_queries: Vec<_> = kernels
            .iter()
            .map(|kernels| kernels.of_queries(&queries, [rows, height, width]))
            .collect();
        let all_latents = self.all_latents.then(|| Tensor::cat(latents.to_vec(), 1));
        let mut drawn: Vec<Tensor<4>> = Vec::new();
        let mut cell: Option<Tensor<2>> = None;
        // With weights that all steps share, these are made once.
        let shared = self.steps.len() == 1;
        let mut decodes: Vec<Decoded> = Vec::new();
        let mut of_last: Option<Tensor<4>> = None;
        let mut of_both: Option<StepConv> = None;
        for (l, z) in latents.iter().enumerate() {
            let set = if shared { 0 } else { l };
            let (step, kernels) = (&self.steps[set], &kernels[set]);
            let known = context.iter().chain([all_latents.as_ref().unwrap_or(z)]);
            let known = Tensor::cat(known.cloned().collect(), 1);
            match (shared, decodes.first().cloned()) {
                (true, Some(decoded)) => decodes.push(decoded),
                (true, None) if l > 0 => decodes.push(step.decodes(step)),
                _ => {
                    decodes = self.steps[..l]
                        .iter()
                        .map(|drawn| step.decodes(drawn))
                        .collect()
                }
            }
            let biases = decodes.iter().map(|decoded| decoded.bias.clone());
            let mut bias = biases.fold(step.decode.bias.val(), |sum, bias| sum + bias);
            if l == 0 {
                // The canvas is empty. Weights of this step alone should have a gradient all the same.
                bias = bias + step.decode.weight.val().sum().mul_scalar(0.0);
            }
            let same = kernels.of_scenes(known, bias);
            let mut gates = (of_queries[set].clone() + same).flatten::<2>(0, 1);
            if let [earlier @ .., last] = drawn.as_slice() {
                let weight = match of_last.take() {
                    Some(weight) if shared => weight,
                    _ => kernels.of_last(decodes[l - 1].matrix.clone()),
                };
                of_last = Some(weight.clone());
                let of_drawn = if earlier.is_empty() {
                    convolve(last.clone(), &weight, None)
                } else {
                    let matrices = decodes[..l - 1]
                        .iter()
                        .map(|decoded| decoded.matrix.clone());
                    let matrices: Tensor<4> =
                        Tensor::cat(matrices.collect(), 1).unsqueeze_dims(&[2, 3]);
                    let decoded = convolve(Tensor::cat(earlier.to_vec(), 1), &matrices, None);
                    let maps = Tensor::cat(vec![last.clone(), decoded], 1);
                    let both = || {
                        let weight = Tensor::cat(vec![weight, kernels.decoded.clone()], 1);
                        let padding = weight.dims()[2] / 2;
                        StepConv::new(weight, padding)
                    };
                    let of_these = match of_both.take() {
                        Some(both) if shared => both,
                        _ => both(),
                    };
                    let convolved = of_these.forward(maps);
                    of_both = Some(of_these);
                    convolved
                };
                gates = gates + of_drawn.flatten(1, 3);
            }
            let hidden = gates.dims()[1] / 4;
            let nothing = || Tensor::zeros([all, hidden], &z.device());
            let (drawing, after) = lstm_gates(gates, cell.take().unwrap_or_else(nothing));
            drawn.push(drawing.reshape([all as i32, -1, height as i32, width as i32]));
            cell = Some(after);
        }
        let frames = self.frame.back(self.canvas(drawn), TO_FRAME);
        if self.squashed {
            sigmoid(frames)
        } else {
            frames
        }
    }

    /// `sum_l canvas_l(h_l)`
    fn canvas(&self, drawn: Vec<Tensor<4>>) -> Tensor<4> {
        let steps = drawn.len();
        let mut weights = self.steps.iter().map(|step| step.canvas.weight.val());
        let biases = self.steps.iter().map(|step| step.canvas.bias.val());
        let (maps, weight, bias) = match self.steps.len() {
            1 => {
                let sum = drawn.into_iter().reduce(|sum, hidden| sum + hidden);
                let bias = biases.map(|bias| bias.mul_scalar(steps as f64)).next();
                (sum, weights.next(), bias)
            }
            _ => (
                Some(Tensor::cat(drawn, 1)),
                Some(Tensor::cat(weights.collect(), 0)),
                biases.reduce(|sum, bias| sum + bias),
            ),
        };
        let [maps, weight] = [maps, weight].map(|of| of.expect("there is at least one step"));
        let bias = bias.expect("there is at least one step");
        transposed_conv2d(maps, weight, bias, self.stride, 0, 0)
    }
}
