//! From a latent scene and a query to a frame.

use super::{
    map_lstm::{MapLstm, MapSizes, MapState},
    repeated,
    representation::SHRUNK,
};
use crate::visual::{Filter, Kernel};
use burn::{
    module::Module,
    tensor::{Tensor, activation::sigmoid},
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
}

/// A convolutional LSTM that draws on a canvas `u`, without randomness. For each step l:
///
/// ```text
/// h, c = ConvLSTM([v; z_l; decode(u)], h, c)
/// u = u + canvas(h)
/// ```
///
/// and the frame is `frame(u)`. All queries of all scenes are drawn in one call.
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
        });
        Self {
            steps: steps.collect(),
            frame: Filter::transposed([sizes.canvas, sizes.frame], TO_FRAME, init),
            stride: sizes.stride,
            all_latents: sizes.all_latents,
            squashed: sizes.squashed,
        }
    }

    /// Numbers kept for a step of a row, of maps with `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let step = &self.steps[0];
        let [decoded, canvas, _, _] = step.decode.weight.dims();
        step.lstm.kept(pixels)
            + Count::product(&[decoded + 2 * self.stride * self.stride * canvas, pixels])
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
        let [all, query] = queries.dims();
        let each = all / rows;
        let patches = Kernel::patches(self.stride);
        let planes = queries
            .reshape([all, query, 1, 1])
            .expand([all, query, height, width]);
        let mut given = vec![planes];
        given.extend(context.map(|context| repeated(context, each)));
        if self.all_latents {
            given.push(repeated(Tensor::cat(latents.to_vec(), 1), each));
        }
        let given = Tensor::cat(given, 1);
        let cuts: Vec<_> = self.steps.iter().map(|step| step.lstm.cut()).collect();
        let given: Vec<_> = cuts.iter().map(|cut| cut.given(given.clone())).collect();
        let mut state: Option<MapState> = None;
        let mut canvas: Option<Tensor<4>> = None;
        for (l, z) in latents.iter().enumerate() {
            let set = l.min(self.steps.len() - 1);
            let step = &self.steps[set];
            let decoded = match &canvas {
                Some(u) => step.decode.forward(u.clone(), patches),
                // The canvas is zero.
                None if self.steps.len() == 1 => {
                    let bias = step.decode.bias.val();
                    let [channels] = bias.dims();
                    bias.reshape([1, channels, 1, 1])
                        .expand([all, channels, height, width])
                }
                // These weights are used at this step alone, and should have a gradient.
                None => {
                    let channels = step.canvas.bias.shape()[0];
                    let [height, width] = [height, width].map(|side| side * self.stride);
                    let canvas = Tensor::zeros([all, channels, height, width], &z.device());
                    step.decode.forward(canvas, patches)
                }
            };
            let mut inputs = vec![decoded];
            if !self.all_latents {
                inputs.insert(0, repeated(z.clone(), each));
            }
            let drawn = cuts[set].step(given[set].clone(), inputs, state.take());
            let added = step.canvas.back(drawn.hidden.clone(), patches);
            state = Some(drawn);
            canvas = Some(match canvas {
                Some(u) => u + added,
                None => added,
            });
        }
        let canvas = canvas.expect("there is at least one step");
        let frames = self.frame.back(canvas, TO_FRAME);
        if self.squashed {
            sigmoid(frames)
        } else {
            frames
        }
    }
}
