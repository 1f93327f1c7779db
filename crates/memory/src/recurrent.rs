//! Recurrent cores: input and state in, output and state out.

use crate::{Attention, Bundle, Count, Memory, MemoryContext, Previous};
use burn::{
    module::{Module, ModuleDisplay},
    tensor::{Bool, Device, Tensor},
};
use mnemora_kernels::split::split_rows;
use std::fmt::Debug;

/// The result of one step of a core.
#[derive(Clone, Debug)]
pub struct CoreOutput {
    /// `[batch, output_size]`
    pub output: Tensor<2>,
    /// Where the heads read and wrote; empty for a core without heads.
    pub attention: Vec<Attention>,
}

impl CoreOutput {
    /// The output of a core without heads.
    pub fn plain(output: Tensor<2>) -> Self {
        Self {
            output,
            attention: Vec::new(),
        }
    }
}

/// A recurrent network, stepped once for each input.
///
/// State goes in and comes out, and holds no parameters. After an update of the parameters a state can be
/// carried on: call [`prepare`](Self::prepare) again and continue.
pub trait RecurrentCore: Module + ModuleDisplay {
    /// The state carried from step to step.
    type State: Bundle;

    /// Parameters packed as the kernels need them, once for all steps of a sequence; `()` for a core that uses
    /// its parameters directly.
    type Prepared: Clone + Debug + Send;

    /// Width of the input.
    fn input_size(&self) -> usize;

    /// Width of [`CoreOutput::output`].
    fn output_size(&self) -> usize;

    /// Numbers that the graph of a step keeps for each sequence. Used to estimate the memory that training
    /// takes.
    fn kept(&self) -> Count;

    /// A caption of one or two sentences for a picture of the [`Attention`] weights.
    fn attention_words(&self) -> &'static str {
        "Weights of each head over the slots on one held-out sequence, one column per step. At step t the memory takes \
         in the latent of step t - 1, then reads."
    }

    /// State before the first input.
    fn initial_state(&self, batch: usize, device: &Device) -> Self::State;

    /// Prepares the parameters for the steps of one sequence.
    ///
    /// Call it once per sequence, not once per step: then the gradient of a weight is one product over all
    /// steps. A backward pass uses it up, so call it again after each.
    fn prepare(&self) -> Self::Prepared;

    /// One step on `input`, `[batch, input_size]`.
    ///
    /// # Panics
    /// If shapes do not fit.
    fn step(
        &self,
        prepared: &Self::Prepared,
        input: Tensor<2>,
        state: Self::State,
    ) -> (CoreOutput, Self::State);

    /// Steps through `inputs`, `[time, batch, input_size]`. Returns the output of every step and the state after
    /// the last. A core may compute everything that depends on the inputs alone for all steps at once.
    ///
    /// Where `resets`, `[time, batch]`, is true, a new episode begins: that sequence starts again from the
    /// [initial state](Self::initial_state) before that step. No gradient passes through a reset to earlier
    /// steps.
    ///
    /// For sequences of unequal lengths, go step by step and use [`Bundle::replace`] to keep the state of those
    /// that have ended. Padding then changes nothing.
    ///
    /// # Panics
    /// If there is no step, or shapes do not fit.
    fn sequence(
        &self,
        inputs: Tensor<3>,
        resets: Option<&Tensor<2, Bool>>,
        state: Self::State,
    ) -> (Vec<CoreOutput>, Self::State) {
        step_by_step(self, inputs, resets, state)
    }
}

/// [`RecurrentCore::sequence`] by repeated [`RecurrentCore::step`].
pub(crate) fn step_by_step<C: RecurrentCore>(
    core: &C,
    inputs: Tensor<3>,
    resets: Option<&Tensor<2, Bool>>,
    state: C::State,
) -> (Vec<CoreOutput>, C::State) {
    let [time, batch, width] = inputs.dims();
    let prepared = core.prepare();
    let steps = split_rows(inputs.reshape([time * batch, width]), time);
    let resets = Resets::new(core, resets, [time, batch]);
    step_through(steps, &resets, state, |input, state| {
        core.step(&prepared, input, state)
    })
}

/// Which sequences are reset before which step, and the state they are reset to.
pub(crate) struct Resets<S> {
    /// One mask `[batch]` for each step, and the initial state; `None` if no sequence is reset.
    at: Option<(Vec<Tensor<1, Bool>>, S)>,
}

impl<S: Bundle> Resets<S> {
    /// `resets` is `[time, batch]`.
    pub(crate) fn new<C: RecurrentCore<State = S>>(
        core: &C,
        resets: Option<&Tensor<2, Bool>>,
        [time, batch]: [usize; 2],
    ) -> Self {
        let at = resets.map(|resets| {
            assert_eq!(resets.dims(), [time, batch], "shape of the resets");
            let steps = resets.clone().chunk(time, 0).into_iter();
            let steps = steps.map(|step| step.squeeze_dim(0)).collect();
            (steps, core.initial_state(batch, &resets.device()))
        });
        Self { at }
    }

    /// The state before step `t`, after any resets.
    fn apply(&self, t: usize, state: S) -> S {
        match &self.at {
            None => state,
            Some((steps, initial)) => state.replace(&steps[t], initial.clone()),
        }
    }
}

/// Runs one step on each of `inputs`. Returns the outputs and the state after the last step.
pub(crate) fn step_through<I, S: Bundle>(
    inputs: Vec<I>,
    resets: &Resets<S>,
    mut state: S,
    step: impl Fn(I, S) -> (CoreOutput, S),
) -> (Vec<CoreOutput>, S) {
    let mut outputs = Vec::with_capacity(inputs.len());
    for (t, input) in inputs.into_iter().enumerate() {
        let (output, next) = step(input, resets.apply(t, state));
        state = next;
        outputs.push(output);
    }
    (outputs, state)
}

/// A recurrent core as the memory of a temporal VAE. Its input is `[z_{t-1}; c_t]`, with zeros for `z_0`. The core's
/// output is the context: `Psi_t = [r_1; ..; r_R; h_t]` for NTM, LRU and DNC (gtmm, section 3.2), all slots for the RMC.
#[derive(Module, Debug)]
pub struct CoreMemory<C: Module> {
    /// The core.
    pub core: C,
    latent: usize,
}

impl<C: RecurrentCore> CoreMemory<C> {
    /// A memory for latents of a given size. The rest of the core's input takes the condition.
    ///
    /// # Panics
    /// If the core's input is narrower than a latent.
    pub fn new(core: C, latent: usize) -> Self {
        let inputs = core.input_size();
        assert!(
            inputs >= latent,
            "a core with {inputs} inputs cannot take a latent of size {latent}"
        );
        Self { core, latent }
    }
}

/// State of a [`CoreMemory`].
#[derive(Clone, Debug)]
pub struct CoreMemoryState<S> {
    /// State of the core.
    pub core: S,
    /// `z_0`, zeros `[batch, latent]`.
    pub first_latent: Tensor<2>,
}

crate::bundle!(CoreMemoryState<S> { core, first_latent });

impl<C: RecurrentCore> Memory for CoreMemory<C> {
    type State = CoreMemoryState<C::State>;
    type Prepared = C::Prepared;

    fn prepare(&self) -> C::Prepared {
        self.core.prepare()
    }

    fn initial_state(&self, batch: usize, device: &Device) -> Self::State {
        CoreMemoryState {
            core: self.core.initial_state(batch, device),
            first_latent: Tensor::zeros([batch, self.latent], device),
        }
    }

    fn step(
        &self,
        prepared: &C::Prepared,
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
            self.core.step(prepared, Tensor::cat(input, 1), state.core);
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

    fn kept(&self, _time: usize) -> Count {
        self.core.kept() + self.core.input_size()
    }

    fn attention_words(&self) -> &'static str {
        self.core.attention_words()
    }
}
