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
    conv::{conv2d, transposed_conv2d},
    lstm::lstm_gates,
    split::split_channels,
    step_conv::StepConv,
};
use mnemora_memory::{Count, Initializer};
use std::ops::Range;

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
    context: usize,
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

/// What is asked for.
struct Asked {
    /// `[rows * each, query]`
    queries: Tensor<2>,
    /// What each query sees of the context, `[rows * each, encoded, ..]`, if not all of a scene see the same.
    context: Option<Tensor<4>>,
}

/// The kernels of a step's LSTM, `[4 * hidden, .., k, k]`, by what they read.
struct Kernels {
    hidden: Tensor<4>,
    query: Tensor<4>,
    /// What each query sees of the context by itself, if it does.
    context: Option<Tensor<4>>,
    /// What all queries of a scene see of the context, and latents.
    scene: Tensor<4>,
    /// What is decoded of the canvas.
    decoded: Tensor<4>,
    bias: Tensor<1>,
}

impl Kernels {
    /// The gates' part of the queries, `[rows, each, gates]`: a multiple of what a plane of ones gives, and what each sees
    /// of the context by itself.
    fn of_queries(&self, asked: &Asked, [rows, height, width]: [usize; 3]) -> Tensor<3> {
        let queries = &asked.queries;
        let [all, query] = queries.dims();
        let planes = Tensor::<2>::eye(query, &queries.device()).reshape([query, query, 1, 1]);
        let planes = planes.expand([query, query, height, width]);
        let planes = convolve(planes, &self.query, None);
        let mut gates: Tensor<2> = queries.clone().matmul(planes.flatten(1, 3));
        if let (Some(context), Some(kernels)) = (&asked.context, &self.context) {
            gates = gates + convolve(context.clone(), kernels, None).flatten(1, 3);
        }
        let size = gates.dims()[1];
        gates.reshape([rows, all / rows, size])
    }

    /// For each of some steps the part that is the same for all queries of a scene, `[rows, 1, gates]`: of what is `known` of
    /// the scene, `[rows, .., height, width]`, and of the biases, `[decoded]` being that of what is decoded.
    fn of_scenes(&self, known: Vec<Tensor<4>>, decoded: Vec<Tensor<1>>) -> Vec<Tensor<3>> {
        let steps = known.len();
        let [rows, _, height, width] = known[0].dims();
        let decoded: Tensor<2> = Tensor::stack(decoded, 0);
        let [_, channels] = decoded.dims();
        let planes = decoded.reshape([steps, channels, 1, 1]);
        let planes = planes.expand([steps, channels, height, width]);
        let of_biases = convolve(planes, &self.decoded, Some(&self.bias)).flatten::<2>(1, 3);
        let gates = convolve(Tensor::cat(known, 0), &self.scene, None).flatten::<2>(1, 3);
        let size = gates.dims()[1];
        let gates = gates.reshape([steps, rows, size]) + of_biases.unsqueeze_dim(1);
        let of_step = |step| gates.clone().narrow(0, step, 1).reshape([rows, 1, size]);
        (0..steps).map(of_step).collect()
    }

    /// The kernels of what the step before drew, directly and through the canvas, of which `matrix` makes what is decoded.
    fn of_last(&self, matrix: &Tensor<2>) -> Tensor<4> {
        let [gates, decoded, kernel, _] = self.decoded.dims();
        let [_, hidden] = matrix.dims();
        let taps = kernel * kernel;
        let kernels = self.decoded.clone().flatten::<3>(2, 3).swap_dims(1, 2);
        let kernels = kernels
            .reshape([gates * taps, decoded])
            .matmul(matrix.clone());
        let kernels = kernels.reshape([gates, taps, hidden]).swap_dims(1, 2);
        self.hidden.clone() + kernels.reshape([gates, hidden, kernel, kernel])
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

/// What one step decodes of what another drew: `matrix * h + bias` at each pixel.
struct Decoded {
    /// `[decoded, hidden]`
    matrix: Tensor<2>,
    /// `[decoded]`
    bias: Tensor<1>,
}

impl RenderStep {
    /// `apart` says whether each query sees the context by itself.
    fn kernels(&self, apart: bool) -> Kernels {
        let weight = self.lstm.weight.val();
        let [gates, channels, _, _] = weight.dims();
        let hidden = gates / 4;
        let decoded = self.decode.weight.dims()[0];
        let query = self.query;
        let own = if apart { self.context } else { 0 };
        let scene = hidden + query + own;
        // In their order, the context at the end.
        let parts = [
            0..hidden,
            hidden..hidden + query,
            scene..channels - decoded,
            channels - decoded..channels,
            hidden + query..scene,
        ];
        let count = parts.len() - usize::from(!apart);
        let parts: Vec<_> = parts[..count]
            .iter()
            .map(|range| vec![range.clone()])
            .collect();
        let mut parts = split_channels(weight, &parts).into_iter();
        let mut part = || parts.next().expect("as many as were asked for");
        Kernels {
            hidden: part(),
            query: part(),
            scene: part(),
            decoded: part(),
            context: apart.then(part),
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

/// What the gates of a set of weights are given, as far as it is known before the first step.
struct Given {
    /// Of the queries, `[rows, each, gates]`.
    queries: Tensor<3>,
    /// Of the scene, for each step that has these weights, `[rows, 1, gates]`.
    scenes: Vec<Tensor<3>>,
    /// How they read what was drawn; none for the weights of a first step alone.
    drawn: Option<DrawnReader>,
}

/// How gates read what the steps before drew.
struct DrawnReader {
    /// Of what each step before drew, what is decoded; one for all if weights are shared.
    matrices: Vec<Tensor<2>>,
    /// The kernels of what the last step drew.
    of_last: Tensor<4>,
    /// The same, and those of what is decoded of the steps before that.
    of_all: StepConv,
}

impl DrawnReader {
    /// The gates' part, `[rows, gates, ..]`.
    fn read(&self, earlier: &[Tensor<4>], last: &Tensor<4>) -> Tensor<4> {
        if earlier.is_empty() {
            return convolve(last.clone(), &self.of_last, None);
        }
        let matrix = |step: usize| self.matrices[step.min(self.matrices.len() - 1)].clone();
        let matrices: Tensor<2> = Tensor::cat((0..earlier.len()).map(matrix).collect(), 1);
        let decoded = Tensor::cat(earlier.to_vec(), 1);
        let decoded = convolve(decoded, &matrices.unsqueeze_dims(&[2, 3]), None);
        self.of_all
            .forward(Tensor::cat(vec![last.clone(), decoded], 1))
    }
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
            context: sizes.context,
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
    /// - `context`: `[rows, encoded, height, width]`, if the renderer sees it, or `[rows * each, ..]` if each query sees
    ///   something else of it
    /// - `queries`: `[rows * each, query]`, those of one scene after those of another
    pub fn render(
        &self,
        latents: &[Tensor<4>],
        context: Option<Tensor<4>>,
        queries: Tensor<2>,
    ) -> Tensor<4> {
        let [rows, _, height, width] = latents[0].dims();
        let [all, _] = queries.dims();
        let by_query = |context: &Tensor<4>| context.dims()[0] != rows;
        let (same, own) = match context.as_ref().is_some_and(by_query) {
            true => (None, context),
            false => (context, None),
        };
        let asked = Asked {
            queries,
            context: own,
        };
        let all_latents = self.all_latents.then(|| Tensor::cat(latents.to_vec(), 1));
        let known = |z: &Tensor<4>| {
            let known = same.iter().chain([all_latents.as_ref().unwrap_or(z)]);
            Tensor::cat(known.cloned().collect(), 1)
        };
        let known: Vec<_> = latents.iter().map(known).collect();
        let shared = self.steps.len() == 1;
        let given: Vec<_> = (0..self.steps.len())
            .map(|set| match shared {
                true => self.given(0..known.len(), &known, &asked),
                false => self.given(set..set + 1, &known, &asked),
            })
            .collect();
        let mut drawn: Vec<Tensor<4>> = Vec::new();
        let mut cell: Option<Tensor<2>> = None;
        for l in 0..latents.len() {
            let [set, place] = if shared { [0, l] } else { [l, 0] };
            let given = &given[set];
            let mut gates = given.queries.clone() + given.scenes[place].clone();
            if let ([earlier @ .., last], Some(reader)) = (drawn.as_slice(), &given.drawn) {
                let read = reader.read(earlier, last).reshape(gates.dims());
                gates = gates + read;
            }
            let gates: Tensor<2> = gates.flatten(0, 1);
            let hidden = gates.dims()[1] / 4;
            let nothing = || Tensor::zeros([all, hidden], &gates.device());
            let before = cell.take().unwrap_or_else(nothing);
            let (drawing, after) = lstm_gates(gates, before);
            let channels = hidden / (height * width);
            drawn.push(drawing.reshape([all, channels, height, width]));
            cell = Some(after);
        }
        let frames = self.frame.back(self.canvas(drawn), TO_FRAME);
        if self.squashed {
            sigmoid(frames)
        } else {
            frames
        }
    }

    /// What is given to the steps `of`, which have one set of weights. `known` is what is known of the scene at all steps.
    fn given(&self, of: Range<usize>, known: &[Tensor<4>], asked: &Asked) -> Given {
        let [rows, _, height, width] = known[0].dims();
        let step = &self.steps[of.start];
        let kernels = step.kernels(asked.context.is_some());
        // Weights that are shared are those of the steps before, too.
        let before = match self.steps.len() {
            1 if of.len() > 1 => 1,
            1 => 0,
            _ => of.start,
        };
        let before = self.steps[..before].iter();
        let decodes: Vec<Decoded> = before.map(|drawn| step.decodes(drawn)).collect();
        // Also where no step draws before, the weights should have a gradient.
        let none = step.decode.weight.val().sum().mul_scalar(0.0);
        let bias = |l: usize| {
            let of_drawn = (0..l).map(|j| decodes[j.min(decodes.len() - 1)].bias.clone());
            of_drawn.fold(step.decode.bias.val() + none.clone(), |sum, bias| {
                sum + bias
            })
        };
        let biases = of.clone().map(bias).collect();
        Given {
            queries: kernels.of_queries(asked, [rows, height, width]),
            scenes: kernels.of_scenes(known[of].to_vec(), biases),
            drawn: decodes.last().map(|last| {
                let of_last = kernels.of_last(&last.matrix);
                let of_all = Tensor::cat(vec![of_last.clone(), kernels.decoded.clone()], 1);
                DrawnReader {
                    of_last,
                    of_all: StepConv::new(of_all),
                    matrices: decodes
                        .iter()
                        .map(|decoded| decoded.matrix.clone())
                        .collect(),
                }
            }),
        }
    }

    /// `sum_l canvas_l(h_l)`
    fn canvas(&self, drawn: Vec<Tensor<4>>) -> Tensor<4> {
        let steps = drawn.len() as f64;
        let (maps, weight, bias) = match self.steps.as_slice() {
            [step] => {
                let sum = drawn.into_iter().reduce(|sum, hidden| sum + hidden);
                (
                    sum.expect("there is at least one step"),
                    step.canvas.weight.val(),
                    step.canvas.bias.val().mul_scalar(steps),
                )
            }
            steps => {
                let weights = steps.iter().map(|step| step.canvas.weight.val());
                let biases = steps.iter().map(|step| step.canvas.bias.val());
                let biases: Tensor<2> = Tensor::stack(biases.collect(), 0);
                (
                    Tensor::cat(drawn, 1),
                    Tensor::cat(weights.collect(), 0),
                    biases.sum_dim(0).squeeze_dim(0),
                )
            }
        };
        transposed_conv2d(maps, weight, bias, self.stride, 0, 0)
    }
}
