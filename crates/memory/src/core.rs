//! Recurrent cores: input and state in, output and state out.

use crate::{Attention, Bundle, Lstm, LstmState, Memory, MemoryContext, Previous, TensorMapper};
use burn::{
    module::{Module, ModuleDisplay},
    tensor::{Device, Tensor},
};
use mnemora_kernels::split::split_rows;

/// What a core returns at a step.
#[derive(Clone, Debug)]
pub struct CoreOutput {
    /// `[batch, output_size]`
    pub output: Tensor<2>,
    /// Where its heads looked and wrote; empty for a core without heads.
    pub attention: Vec<Attention>,
}

/// A recurrent network, stepped once for each input.
pub trait RecurrentCore: Module + ModuleDisplay {
    /// What goes from step to step.
    type State: Bundle;

    /// Width of the input.
    fn input_size(&self) -> usize;

    /// Width of [`CoreOutput::output`].
    fn output_size(&self) -> usize;

    /// State before the first input.
    fn initial_state(&self, batch: usize, device: &Device) -> Self::State;

    /// One step on `input`, `[batch, input_size]`.
    ///
    /// # Panics
    /// If shapes do not fit.
    fn forward(&self, input: Tensor<2>, state: Self::State) -> (CoreOutput, Self::State);

    /// Steps through `inputs`, `[time, batch, input_size]`: the output of every step, and the state
    /// after the last. What a step computes from its input alone, a core may compute for all steps
    /// at once.
    ///
    /// Sequences of unequal lengths: step by step, and keep the state of those that have ended with
    /// [`Bundle::replace`]. What has ended is then what it was, whatever pads it.
    ///
    /// # Panics
    /// If there is no step, or shapes do not fit.
    fn sequence(&self, inputs: Tensor<3>, state: Self::State) -> (Vec<CoreOutput>, Self::State) {
        let [time, batch, width] = inputs.dims();
        let steps = split_rows(inputs.reshape([time * batch, width]), time);
        step_through(steps, state, |input, state| self.forward(input, state))
    }
}

/// Outputs of a step on each of `inputs`, and the state after the last.
pub(crate) fn step_through<I, S>(
    inputs: Vec<I>,
    mut state: S,
    step: impl Fn(I, S) -> (CoreOutput, S),
) -> (Vec<CoreOutput>, S) {
    let mut outputs = Vec::with_capacity(inputs.len());
    for input in inputs {
        let (output, next) = step(input, state);
        state = next;
        outputs.push(output);
    }
    (outputs, state)
}

impl RecurrentCore for Lstm {
    type State = LstmState;

    fn input_size(&self) -> usize {
        Lstm::input_size(self)
    }

    fn output_size(&self) -> usize {
        self.hidden_size()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> LstmState {
        Lstm::initial_state(self, batch, device)
    }

    fn forward(&self, input: Tensor<2>, state: LstmState) -> (CoreOutput, LstmState) {
        let state = self.step(input, state);
        (output_of(state.hidden.clone()), state)
    }

    fn sequence(&self, inputs: Tensor<3>, state: LstmState) -> (Vec<CoreOutput>, LstmState) {
        let [time, batch, width] = inputs.dims();
        let (hidden, state) = self.steps(inputs.reshape([time * batch, width]), state);
        let steps = split_rows(hidden, time).into_iter();
        (steps.map(output_of).collect(), state)
    }
}

/// The output of a core without heads.
pub(crate) fn output_of(output: Tensor<2>) -> CoreOutput {
    CoreOutput {
        output,
        attention: Vec::new(),
    }
}

/// A recurrent core as the memory of a temporal VAE: its input is `[z_{t-1}; c_t]`, with zeros for
/// `z_0`, and its output is the context `Psi = [r_1; ...; r_R; h_t]` (gtmm, section 3.2).
#[derive(Module, Debug)]
pub struct CoreMemory<C: Module> {
    /// The core.
    pub core: C,
    latent: usize,
}

impl<C: RecurrentCore> CoreMemory<C> {
    /// A memory for latents of a given size; what is left of the core's input takes the condition.
    ///
    /// # Panics
    /// If the core's input is narrower than a latent.
    pub fn new(core: C, latent: usize) -> Self {
        let inputs = core.input_size();
        assert!(
            inputs >= latent,
            "{inputs} inputs cannot take a latent of {latent}"
        );
        Self { core, latent }
    }
}

/// State of a [`CoreMemory`].
#[derive(Clone, Debug)]
pub struct CoreMemoryState<S> {
    /// Of the core.
    pub core: S,
    /// `z_0`, zeros `[batch, latent]`.
    pub first_latent: Tensor<2>,
}

impl<S: Bundle> Bundle for CoreMemoryState<S> {
    fn map_tensors(self, mapper: &mut impl TensorMapper) -> Self {
        Self {
            core: self.core.map_tensors(mapper),
            first_latent: self.first_latent.map_tensors(mapper),
        }
    }
}

impl<C: RecurrentCore> Memory for CoreMemory<C> {
    type State = CoreMemoryState<C::State>;

    fn initial_state(&self, batch: usize, device: &Device) -> Self::State {
        CoreMemoryState {
            core: self.core.initial_state(batch, device),
            first_latent: Tensor::zeros([batch, self.latent], device),
        }
    }

    fn step(
        &self,
        previous: Option<Previous>,
        condition: Option<Tensor<2>>,
        state: Self::State,
    ) -> (MemoryContext, Self::State) {
        let latent = match previous {
            Some(previous) => previous.latent,
            None => state.first_latent.clone(),
        };
        let mut input = vec![latent];
        input.extend(condition);
        let (CoreOutput { output, attention }, core) =
            self.core.forward(Tensor::cat(input, 1), state.core);
        let context = MemoryContext {
            psi: output,
            attention,
        };
        (context, CoreMemoryState { core, ..state })
    }

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn context_size(&self) -> usize {
        self.core.output_size()
    }
}
