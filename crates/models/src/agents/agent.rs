//! The model of an agent.

use super::torso::{Torso, TorsoConfig};
use crate::{
    ImageShape, ModelError,
    mlp::{Activation, Head},
};
use burn::{
    module::Module,
    tensor::{Bool, Device, Tensor},
};
use mnemora_memory::{
    AnyCore, AnyCorePrepared, AnyCoreState, Attention, ConvLstmConfig, CoreConfig, CoreOutput,
    Count, Initializer, RecurrentCore, RmcConfig,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of an [`Agent`] without its core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// From what it sees to the core.
    pub torso: TorsoConfig,
    /// Hidden units of each head; 0 for linear heads.
    pub head: usize,
    /// Whether its input has its last action and the reward of it.
    pub last_action: bool,
    /// For an RMC: whether it gets an input row for each pixel of the torso's maps. Otherwise all maps are one row.
    pub pixels: bool,
    /// Whether the heads also read the torso's maps: a skip connection around the core.
    pub shortcut: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            torso: TorsoConfig::default(),
            head: 256,
            last_action: true,
            pixels: false,
            shortcut: false,
        }
    }
}

/// What an agent observes at a number of steps.
#[derive(Clone, Debug)]
pub struct Observed {
    /// `[rows, channels, height, width]`
    pub frames: Tensor<4>,
    /// The last action, one-hot, `[rows, actions]`; zeros at the first step of an episode.
    pub actions: Tensor<2>,
    /// The reward of the last action, `[rows, 1]`; 0 at the first step of an episode.
    pub rewards: Tensor<2>,
}

/// A torso, a recurrent core, and heads for the policy and the value (Santoro et al. 2018, appendix A.3):
///
/// ```text
/// x_t = torso(frame_t)                      two convolutions with ReLUs, and where a pixel is
/// h_t = core([x_t; last action; last reward], h_{t-1})
/// logits of the policy, value = heads(h_t)   one hidden layer each; with a shortcut heads([h_t; x_t])
/// ```
///
/// A convolutional LSTM gets the last action and reward as planes, and so does an RMC that attends to each pixel. With a torso
/// that pools, maps are pooled where they become a vector: for heads, and for other cores.
#[derive(Module, Debug)]
pub struct Agent {
    /// From what it sees to the core.
    pub torso: Torso,
    /// What it remembers.
    pub core: AnyCore,
    /// To the logits of the actions.
    pub policy: Head,
    /// To the value.
    pub value: Head,
    last_action: bool,
    #[module(skip)]
    enters: InputLayout,
    shortcut: bool,
}

/// How the torso's maps enter the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputLayout {
    /// All numbers, then the last action and reward.
    Vector,
    /// `[channels, height, width]`; the last action and reward are channels.
    Maps,
    /// `[height * width, channels]`; the last action and reward are channels.
    Pixels,
}

/// The core's parameters, prepared for the steps of one sequence.
pub type AgentPrepared = AnyCorePrepared;

/// The agent's output for one step of a batch of environments.
#[derive(Clone, Debug)]
pub struct Acted {
    /// Logits of the actions, `[batch, actions]`.
    pub logits: Tensor<2>,
    /// The attention weights of the core's heads.
    pub attention: Vec<Attention>,
    /// State of the core after the step.
    pub state: AnyCoreState,
}

/// The agent's output for a sequence of observations.
#[derive(Clone, Debug)]
pub struct Unrolled {
    /// Logits of the actions, `[time * batch, actions]`.
    pub logits: Tensor<2>,
    /// Values, `[time * batch]`.
    pub values: Tensor<1>,
    /// The attention weights of each step.
    pub attention: Vec<Vec<Attention>>,
    /// State of the core after the last step.
    pub state: AnyCoreState,
}

impl AgentConfig {
    /// Channels, rows and columns of the core's input: those of the torso's maps, and a channel for each action and one
    /// for the reward.
    fn input(&self, torso: &Torso, actions: usize) -> [usize; 3] {
        let [channels, height, width] = torso.maps();
        let last = if self.last_action { actions + 1 } else { 0 };
        [channels + last, height, width]
    }

    /// Builds the agent for what it sees, its number of actions, and the settings of its core, which `core` gives for an
    /// input of a width.
    ///
    /// # Errors
    /// If a size is zero, a picture is smaller than a kernel, or the core does not fit.
    pub fn init<E: From<ModelError>>(
        &self,
        sees: ImageShape,
        actions: usize,
        core: impl FnOnce(usize) -> Result<CoreConfig, E>,
        init: &mut Initializer,
    ) -> Result<Agent, E> {
        ModelError::require_positive(&[("actions", actions)])?;
        let torso = self.torso.init(sees, init)?;
        let [channels, height, width] = self.input(&torso, actions);
        let last = channels - torso.maps()[0];
        let seen = torso.pooled_size(torso.maps()[0]);
        let core = core(seen + last)?;
        let (core, enters) = match core {
            CoreConfig::ConvLstm(config) => {
                let config = ConvLstmConfig {
                    inputs: channels,
                    height,
                    width,
                    ..config
                };
                (CoreConfig::ConvLstm(config), InputLayout::Maps)
            }
            CoreConfig::Rmc(config) if self.pixels => {
                let config = RmcConfig {
                    input: channels,
                    rows: height * width,
                    ..config
                };
                (CoreConfig::Rmc(config), InputLayout::Pixels)
            }
            core => (core, InputLayout::Vector),
        };
        let core = core.init(init).map_err(ModelError::from)?;
        let layers = usize::from(self.head > 0);
        let view = if self.shortcut { seen } else { 0 };
        let told = match enters {
            InputLayout::Maps => torso.pooled_size(core.output_size() / (height * width)),
            _ => core.output_size(),
        };
        let output = told + view;
        let mut head =
            |outputs| Head::new([output, outputs], layers, self.head, Activation::Relu, init);
        Ok(Agent {
            torso,
            policy: head(actions),
            value: head(1),
            core,
            last_action: self.last_action,
            enters,
            shortcut: self.shortcut,
        })
    }
}

impl Agent {
    /// The device it is on.
    pub fn device(&self) -> Device {
        self.policy.output.weight.device()
    }

    /// The number of actions.
    pub fn actions(&self) -> usize {
        self.policy.output.weight.shape()[1]
    }

    /// Rows and columns of the pixels to which its memory attends one by one; `None` if it does not.
    pub fn pixels(&self) -> Option<[usize; 2]> {
        let [_, height, width] = self.torso.maps();
        (self.enters == InputLayout::Pixels).then_some([height, width])
    }

    /// The state before the first step.
    pub fn initial_state(&self, batch: usize) -> AnyCoreState {
        self.core.initial_state(batch, &self.device())
    }

    /// Numbers kept for a step of one environment.
    pub fn kept(&self) -> Count {
        self.torso.kept()
            + self.core.kept()
            + self.policy.kept()
            + self.value.kept()
            + 2 * self.core.input_size()
            + self.policy.inputs()
            + self.value.inputs()
            + 8 * self.actions()
    }

    /// The core's input, `[rows, input]`, and what goes to the heads directly.
    fn encode(&self, observed: Observed) -> (Tensor<2>, Option<Tensor<2>>) {
        let maps = self.torso.forward(observed.frames);
        let view = self.shortcut.then(|| self.torso.pooled(maps.clone()));
        let last = Tensor::cat(vec![observed.actions, observed.rewards], 1);
        (self.core_input(maps, last), view)
    }

    /// The core's input from maps, and from `last`, the last action and the reward of it.
    fn core_input(&self, maps: Tensor<4>, last: Tensor<2>) -> Tensor<2> {
        let [rows, channels] = last.dims();
        if self.enters == InputLayout::Vector {
            let maps = self.torso.pooled(maps);
            return match self.last_action {
                true => Tensor::cat(vec![maps, last], 1),
                false => maps,
            };
        }
        let maps = match self.last_action {
            true => {
                let [_, _, height, width] = maps.dims();
                let planes = last.reshape([rows, channels, 1, 1]);
                let planes = planes.expand([rows, channels, height, width]);
                Tensor::cat(vec![maps, planes], 1)
            }
            false => maps,
        };
        match self.enters {
            InputLayout::Pixels => maps.permute([0, 2, 3, 1]).flatten(1, 3),
            _ => maps.flatten(1, 3),
        }
    }

    /// What the heads read: the core's output, `[rows, output]`, with what goes to them directly.
    fn head_input(&self, output: Tensor<2>, view: Option<Tensor<2>>) -> Tensor<2> {
        let output = match self.enters {
            InputLayout::Maps => {
                let [_, height, width] = self.torso.maps();
                let [rows, all] = output.dims();
                let channels = all / (height * width);
                self.torso
                    .pooled(output.reshape([rows, channels, height, width]))
            }
            _ => output,
        };
        match view {
            Some(view) => Tensor::cat(vec![output, view], 1),
            None => output,
        }
    }

    /// Prepares the core for the steps of one sequence.
    pub fn prepare(&self) -> AgentPrepared {
        self.core.prepare()
    }

    /// One step on `[batch, ..]` observations.
    pub fn act(&self, prepared: &AgentPrepared, observed: Observed, state: AnyCoreState) -> Acted {
        let (input, view) = self.encode(observed);
        let (CoreOutput { output, attention }, state) = self.core.step(prepared, input, state);
        Acted {
            logits: self.policy.forward(self.head_input(output, view)),
            attention,
            state,
        }
    }

    /// Answers to a sequence of `[time * batch, ..]` observations, from a state before the first. Where `resets`,
    /// `[time, batch]`, is true, an episode begins.
    pub fn unroll(
        &self,
        observed: Observed,
        resets: &Tensor<2, Bool>,
        state: AnyCoreState,
    ) -> Unrolled {
        let [time, batch] = resets.dims();
        let (inputs, view) = self.encode(observed);
        let width = inputs.dims()[1];
        let inputs = inputs.reshape([time, batch, width]);
        let (steps, state) = self.core.sequence(inputs, Some(resets), state);
        let (outputs, attention): (Vec<_>, Vec<_>) = steps
            .into_iter()
            .map(|CoreOutput { output, attention }| (output, attention))
            .unzip();
        let outputs = self.head_input(Tensor::cat(outputs, 0), view);
        Unrolled {
            logits: self.policy.forward(outputs.clone()),
            values: self.value.forward(outputs).squeeze_dim(1),
            attention,
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{numbers, values};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const SEES: ImageShape = ImageShape {
        channels: 3,
        height: 4,
        width: 5,
    };
    const ACTIONS: usize = 2;

    fn agent(config: &AgentConfig) -> Agent {
        let device = Device::default();
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device);
        let core = |width| Ok::<_, ModelError>(CoreConfig::Rmc(RmcConfig::new(width, 2, 1, 3)));
        config.init(SEES, ACTIONS, core, &mut init).unwrap()
    }

    /// Each row of the core's input holds the channels of one pixel, then the last action and reward.
    #[test]
    fn pixels_enter_one_by_one() {
        let agent = agent(&AgentConfig {
            pixels: true,
            ..AgentConfig::default()
        });
        let [channels, height, width] = agent.torso.maps();
        assert_eq!(agent.pixels(), Some([height, width]));
        let all = channels + ACTIONS + 1;
        let AnyCore::Rmc(core) = &agent.core else {
            panic!("it is an RMC")
        };
        assert_eq!(core.input.weight.shape()[0], all);
        assert_eq!(core.input_size(), all * height * width);
        let batch = 2;
        let maps = numbers([batch, channels, height, width], 0.0, &Device::default());
        let last = numbers([batch, ACTIONS + 1], 0.0, &Device::default());
        let entered = values(agent.core_input(maps.clone(), last.clone()));
        let (maps, last) = (values(maps), values(last));
        let mut place = 0;
        for row in 0..batch {
            for pixel in 0..height * width {
                for channel in 0..all {
                    let expected = match channel.checked_sub(channels) {
                        None => maps[(row * channels + channel) * height * width + pixel],
                        Some(told) => last[row * (ACTIONS + 1) + told],
                    };
                    assert_eq!(entered[place], expected);
                    place += 1;
                }
            }
        }
        assert_eq!(place, entered.len());
    }

    /// A convolutional LSTM remembers maps, which are pooled for the heads.
    #[test]
    fn a_convolutional_core_is_pooled_after_it() {
        let config = AgentConfig {
            torso: TorsoConfig {
                pool: true,
                ..TorsoConfig::default()
            },
            shortcut: true,
            ..AgentConfig::default()
        };
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let core = ConvLstmConfig {
            channels: 6,
            ..ConvLstmConfig::default()
        };
        let core = |_| Ok::<_, ModelError>(CoreConfig::ConvLstm(core));
        let agent = config.init(SEES, ACTIONS, core, &mut init).unwrap();
        let [channels, height, width] = agent.torso.maps();
        assert_eq!(agent.core.output_size(), 6 * height * width);
        assert_eq!(agent.policy.inputs(), 6 + channels);
        let observed = Observed {
            frames: numbers(
                [2, SEES.channels, SEES.height, SEES.width],
                0.0,
                &Device::default(),
            ),
            actions: numbers([2, ACTIONS], 0.0, &Device::default()),
            rewards: numbers([2, 1], 0.0, &Device::default()),
        };
        let acted = agent.act(&agent.prepare(), observed, agent.initial_state(2));
        assert_eq!(acted.logits.dims(), [2, ACTIONS]);
    }

    /// With a shortcut the heads read the torso's maps after the core's output; steps and whole sequences agree.
    #[test]
    fn heads_see_the_maps_by_a_shortcut() {
        let agent = agent(&AgentConfig {
            pixels: true,
            shortcut: true,
            ..AgentConfig::default()
        });
        let maps: usize = agent.torso.maps().iter().product();
        assert_eq!(agent.policy.inputs(), agent.core.output_size() + maps);
        let (time, batch) = (3, 2);
        let observed = |rows| Observed {
            frames: numbers(
                [rows, SEES.channels, SEES.height, SEES.width],
                0.0,
                &Device::default(),
            ),
            actions: numbers([rows, ACTIONS], 0.0, &Device::default()),
            rewards: numbers([rows, 1], 0.0, &Device::default()),
        };
        let whole = observed(time * batch);
        let resets = Tensor::<2>::zeros([time, batch], &Device::default()).bool();
        let unrolled = agent.unroll(whole.clone(), &resets, agent.initial_state(batch));
        let logits = values(unrolled.logits);
        let prepared = agent.prepare();
        let mut state = agent.initial_state(batch);
        for t in 0..time {
            let step = Observed {
                frames: whole.frames.clone().narrow(0, t * batch, batch),
                actions: whole.actions.clone().narrow(0, t * batch, batch),
                rewards: whole.rewards.clone().narrow(0, t * batch, batch),
            };
            let acted = agent.act(&prepared, step, state);
            let expected = &logits[t * batch * ACTIONS..][..batch * ACTIONS];
            for (found, expected) in values(acted.logits).iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
            state = acted.state;
        }
    }
}
