//! The predictor of CDNA and SV2P: from a frame and what was remembered to the next frame.

use super::{
    super::{
        HALVE,
        map_lstm::{Cut, MapState},
    },
    layers::{MapNorm, NormedLstm},
    movement::Movement,
};
use crate::{
    ImageShape, ModelError,
    visual::{Filter, Kernel},
};
use burn::{
    module::Module,
    tensor::{Tensor, activation::relu},
};
use mnemora_kernels::conv::transposed_conv2d;
use mnemora_memory::{Count, Initializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Between the coarsest maps and their LSTM.
const POINT: Kernel = Kernel::same(1);

/// Sizes of a [`Predictor`], and how it is trained on its own predictions; the defaults are those of the releases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CdnaConfig {
    /// Channels of the finest maps; those of half their rows have twice as many, the coarsest four times.
    pub width: usize,
    /// Rows and columns of the LSTMs' kernels.
    pub kernel: usize,
    /// Rows and columns of the coarsest maps: a quarter or an eighth of those of a frame.
    pub grid: usize,
    /// Kernels that move the frame before.
    pub kernels: usize,
    /// Rows and columns of these kernels.
    pub size: usize,
    /// How late training moves from true frames to predicted ones: in update `i` of a batch of `B` stories,
    /// `round(B k / (k + exp(i / k)))` are given true frames after the context. 0 for never.
    pub sampling: f64,
}

impl Default for CdnaConfig {
    fn default() -> Self {
        Self {
            width: 32,
            kernel: 5,
            grid: 8,
            kernels: 10,
            size: 5,
            sampling: 900.0,
        }
    }
}

impl CdnaConfig {
    /// Checks that the sizes fit each other and frames of a shape. Returns the stride of the first convolution.
    pub(super) fn check(&self, frame: ImageShape) -> Result<usize, ModelError> {
        ModelError::require_positive(&[
            ("width", self.width),
            ("grid", self.grid),
            ("kernels", self.kernels),
        ])?;
        for (key, value) in [("kernel", self.kernel), ("size", self.size)] {
            if value.is_multiple_of(2) {
                return Err(ModelError::Even { key, value });
            }
        }
        if !(self.sampling.is_finite() && self.sampling >= 0.0) {
            return Err(ModelError::Negative {
                key: "sampling",
                value: self.sampling,
            });
        }
        let ImageShape { height, width, .. } = frame;
        let coarser = [4, 8].into_iter().find(|by| by * self.grid == height);
        match coarser {
            Some(by) if height == width => Ok(by / 4),
            _ => Err(ModelError::VideoFrame {
                height,
                width,
                grid: self.grid,
                sides: vec![4 * self.grid, 8 * self.grid],
            }),
        }
    }

    /// Of `stories` stories, those that are given true frames after the context in update `update`.
    pub fn given_true(&self, stories: usize, update: u64) -> usize {
        if self.sampling == 0.0 {
            return stories;
        }
        let k = self.sampling;
        let share = k / (k + (update as f64 / k).exp());
        (stories as f64 * share).round() as usize
    }
}

/// Convolutions and LSTMs at three sizes, with what is fine led past what is coarse (Finn et al. 2016, figure 1; layers as in
/// the releases of CDNA and SV2P):
///
/// ```text
/// e0 = relu(norm(conv5(frame)))                          width channels, half the rows of the frame, or all
/// h2 = norm(LSTM(norm(LSTM(e0))))                        width
/// e1 = relu(conv3(h2)), half the rows                    width
/// h4 = norm(LSTM(norm(LSTM(e1))))                        2 width
/// e2 = relu(conv3(h4)), half the rows                    2 width
/// e3 = relu(conv1([e2; z]))                              2 width
/// h5 = norm(LSTM(e3))                                    4 width
/// h6 = norm(LSTM(relu(up3(h5))))                         2 width, twice the rows
/// h7 = norm(LSTM(relu(up3([h6; e1]))))                   width, twice the rows
/// fine = [h7; e0], or relu(norm(up3([h7; e0]))) if e0 has half the rows of the frame
/// next frame = movement(h5, fine, frame)
/// ```
#[derive(Module, Debug)]
pub struct Predictor {
    /// `e0`
    pub first: Filter,
    /// Its norm.
    pub first_norm: MapNorm,
    /// From fine to coarse to fine: two, two, one, one and one.
    pub lstms: Vec<NormedLstm>,
    /// `e1` and `e2`
    pub down: Vec<Filter>,
    /// `e3`
    pub bottom: Filter,
    /// Transposed, from coarse to fine.
    pub up: Vec<Filter>,
    /// Of the last of three `up`.
    pub last_norm: Option<MapNorm>,
    /// To the frame.
    pub movement: Movement,
    side: usize,
    stride: usize,
    width: usize,
}

/// The weights of the LSTMs for one pass, and their states.
pub(super) struct Pass {
    cuts: Vec<Cut>,
    states: Vec<Option<MapState>>,
}

impl Predictor {
    /// `latent` are the channels of `z`, 0 for none.
    pub(super) fn new(
        config: &CdnaConfig,
        frame: ImageShape,
        latent: usize,
        init: &mut Initializer,
    ) -> Result<Self, ModelError> {
        let stride = config.check(frame)?;
        let (width, grid) = (config.width, config.grid);
        let lstms = [
            [width, width],
            [width, width],
            [width, 2 * width],
            [2 * width, 2 * width],
            [2 * width, 4 * width],
            [4 * width, 2 * width],
            [3 * width, width],
        ];
        let mut up = vec![4 * width, 3 * width];
        if stride == 2 {
            up.push(2 * width);
        }
        let of_first = Kernel::new(5, stride, 2);
        Ok(Self {
            first: Filter::before_relu([frame.channels, width], of_first, init),
            first_norm: MapNorm::new(width, init),
            lstms: lstms
                .into_iter()
                .map(|sizes| NormedLstm::new(sizes, config.kernel, init))
                .collect(),
            down: vec![
                Filter::before_relu([width, width], HALVE, init),
                Filter::before_relu([2 * width, 2 * width], HALVE, init),
            ],
            bottom: Filter::before_relu([2 * width + latent, 2 * width], POINT, init),
            up: up
                .into_iter()
                .map(|channels| Filter::transposed_before_relu([channels; 2], HALVE, init))
                .collect(),
            last_norm: (stride == 2).then(|| MapNorm::new(2 * width, init)),
            movement: Movement::new(
                [4 * width * grid * grid, 2 * width, frame.channels],
                [config.kernels, config.size],
                init,
            ),
            side: frame.height,
            stride,
            width,
        })
    }

    /// Numbers kept for a frame of a story.
    pub(super) fn kept(&self) -> Count {
        let fine = (self.side / self.stride).pow(2);
        let pixels = [fine, fine, fine / 4, fine / 4, fine / 16, fine / 4, fine];
        let lstms = self.lstms.iter().zip(pixels);
        let lstms: Count = lstms.map(|(lstm, pixels)| lstm.kept(pixels)).sum();
        // Outputs of convolutions, before and after the ReLU, and what they are joined to.
        let maps =
            self.width * (6 * fine + 12 * fine / 4 + 12 * fine / 16 + 6 * fine / 4 + 8 * fine);
        let last = self.last_norm.as_ref().map(|norm| norm.kept(4 * fine));
        lstms
            + maps
            + self.first_norm.kept(fine)
            + last.unwrap_or(Count::NONE)
            + self.movement.kept(self.side * self.side)
    }

    /// Begins with a state of zeros.
    pub(super) fn begin(&self) -> Pass {
        Pass {
            cuts: self.lstms.iter().map(NormedLstm::cut).collect(),
            states: vec![None; self.lstms.len()],
        }
    }

    /// The predictions of the frames that follow each of `moments` frames in a row, `[moments * rows, channels, ..]`, and a
    /// state that has seen them. Layer by layer, all moments go through in one call.
    ///
    /// # Shapes
    /// - `frames`: `[moments * rows, channels, height, width]`, in [0, 1]
    /// - `latent`: `[rows, latent, grid, grid]`, for each story the same at all moments
    pub(super) fn advance(
        &self,
        pass: &mut Pass,
        frames: Tensor<4>,
        latent: Option<&Tensor<4>>,
        moments: usize,
    ) -> Tensor<4> {
        let mut lstm = |layer: usize, maps: Tensor<4>| {
            let (cut, state) = (&pass.cuts[layer], &mut pass.states[layer]);
            self.lstms[layer].forward(cut, maps, moments, state)
        };
        let up = |level: usize, maps: Tensor<4>| {
            let filter = &self.up[level];
            transposed_conv2d(maps, filter.weight.val(), filter.bias.val(), 2, 1, 1)
        };
        let first = self
            .first
            .forward(frames.clone(), Kernel::new(5, self.stride, 2));
        let e0 = relu(self.first_norm.forward(first));
        let h1 = lstm(0, e0.clone());
        let h2 = lstm(1, h1);
        let e1 = relu(self.down[0].forward(h2, HALVE));
        let h3 = lstm(2, e1.clone());
        let h4 = lstm(3, h3);
        let e2 = relu(self.down[1].forward(h4, HALVE));
        let e2 = match latent {
            None => e2,
            Some(z) => Tensor::cat(vec![e2, z.clone().repeat_dim(0, moments)], 1),
        };
        let e3 = relu(self.bottom.forward(e2, POINT));
        let h5 = lstm(4, e3);
        let h6 = lstm(5, relu(up(0, h5.clone())));
        let h7 = lstm(6, relu(up(1, Tensor::cat(vec![h6, e1], 1))));
        let joined = Tensor::cat(vec![h7, e0], 1);
        let fine = match &self.last_norm {
            None => joined,
            Some(norm) => relu(norm.forward(up(2, joined))),
        };
        self.movement.forward(h5.flatten(1, 3), fine, frames)
    }
}
