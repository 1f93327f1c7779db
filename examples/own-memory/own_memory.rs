//! Your own memory and task, with the whole command line of mnemora: a stack, and digits to be recalled in reverse order.
//!
//! ```sh
//! cargo run --release --example own-memory -- list
//! cargo run --release --example own-memory -- train reverse-recall --out runs/reverse
//! cargo run --release --example own-memory -- report runs/reverse
//! ```

use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor, activation},
};
use mnemora_lab::{Experiment, LabError, Shipped, families::frames::Frames};
use mnemora_memory::{
    Attention, CoreMemory, CoreOutput, Count, Initializer, Lstm, LstmState, LstmWeights, Place,
    RecurrentCore, bundle,
};
use mnemora_worlds::{
    Batch, DataSet, Error, FrameTask, ImageSet, LENGTH, Layout, RECALL, Sequence, Split, Stream,
    Task, assemble, recall_layout,
};
use serde::{Deserialize, Serialize};
use std::{process::ExitCode, sync::Arc};
use toml::Table;

fn main() -> ExitCode {
    mnemora_cli::run(&[&STACKS])
}

/// Temporal VAEs whose memory is a stack.
static STACKS: Frames<CoreMemory<Stack>> = Frames {
    name: "stack",
    tasks: &[REVERSE_RECALL],
    presets: &[Shipped::new(
        "reverse-recall",
        include_str!("reverse-recall.toml"),
    )],
    memories: &[],
    memory: stack,
    settings: || {
        Table::try_from(StackConfig::default())
            .ok()
            .map(|table| ("stack", table))
    },
};

fn stack(
    experiment: &Experiment,
    place: &Place,
    init: &mut Initializer,
) -> Result<CoreMemory<Stack>, LabError> {
    let config: StackConfig = experiment.own_settings()?;
    let input = place.latent + place.condition;
    Ok(CoreMemory::new(
        config.init(input, place.latent, init)?,
        place.latent,
    ))
}

// The memory.

/// The table `[stack]` of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StackConfig {
    /// Size of the controller's state.
    hidden: usize,
    /// Rows of the stack; deeper values are lost.
    depth: usize,
}

impl Default for StackConfig {
    fn default() -> Self {
        Self {
            hidden: 64,
            depth: 16,
        }
    }
}

impl StackConfig {
    fn init(&self, input: usize, latent: usize, init: &mut Initializer) -> Result<Stack, LabError> {
        for (key, size) in [("hidden", self.hidden), ("depth", self.depth)] {
            if size == 0 {
                return Err(LabError::Configuration(format!(
                    "stack.{key} is 0, it must be at least 1"
                )));
            }
        }
        Ok(Stack {
            lstm: Lstm::new(input, self.hidden, init),
            actions: init.linear(self.hidden, 3),
            latent,
            depth: self.depth,
        })
    }
}

/// A stack of latents with soft push and pop actions chosen by a controller (Joulin and Mikolov 2015, section 3.2).
///
/// ```text
/// h = LSTM([z; c], h)
/// a = softmax(A h)                                            push, pop, keep
/// s[0] = a_push z        + a_pop s[1]     + a_keep s[0]
/// s[i] = a_push s[i - 1] + a_pop s[i + 1] + a_keep s[i]
/// ```
///
/// The output is `[s[0]; h]`.
#[derive(Module, Debug)]
struct Stack {
    lstm: Lstm,
    actions: Linear,
    latent: usize,
    depth: usize,
}

/// Controller and rows `[batch, depth, latent]`, the top first.
#[derive(Clone, Debug)]
struct StackState {
    controller: LstmState,
    rows: Tensor<3>,
}

bundle!(StackState { controller, rows });

impl RecurrentCore for Stack {
    type State = StackState;
    type Prepared = LstmWeights;

    fn input_size(&self) -> usize {
        self.lstm.input_size()
    }

    fn output_size(&self) -> usize {
        self.latent + self.lstm.hidden_size()
    }

    /// Numbers kept by the LSTM, plus the stack before the step and after each of the three actions.
    fn kept(&self) -> Count {
        self.lstm.kept() + Count::product(&[4, self.depth, self.latent]) + 6
    }

    fn attention_words(&self) -> &'static str {
        "What the controller does on one held-out sequence, one column per step. Rows from the top: push, pop, keep."
    }

    fn initial_state(&self, batch: usize, device: &Device) -> StackState {
        StackState {
            controller: self.lstm.initial_state(batch, device),
            rows: Tensor::zeros([batch, self.depth, self.latent], device),
        }
    }

    fn prepare(&self) -> LstmWeights {
        self.lstm.prepare()
    }

    fn step(
        &self,
        prepared: &LstmWeights,
        input: Tensor<2>,
        state: StackState,
    ) -> (CoreOutput, StackState) {
        let (latent, depth) = (self.latent, self.depth);
        let [batch, _] = input.dims();
        let top = input.clone().narrow(1, 0, latent).unsqueeze_dim::<3>(1);
        let (hidden, controller) = self.lstm.step(prepared, input, state.controller);
        let hidden = hidden.output;
        let actions = activation::softmax(self.actions.forward(hidden.clone()), 1);
        let action = |place: usize| actions.clone().narrow(1, place, 1).unsqueeze_dim::<3>(2);

        let rows = state.rows;
        let nothing = Tensor::zeros([batch, 1, latent], &rows.device());
        let pushed = Tensor::cat(vec![top, rows.clone()], 1).narrow(1, 0, depth);
        let popped = Tensor::cat(vec![rows.clone(), nothing], 1).narrow(1, 1, depth);
        let rows = pushed * action(0) + popped * action(1) + rows * action(2);

        let top = rows.clone().narrow(1, 0, 1).squeeze_dim::<2>(1);
        let output = CoreOutput {
            output: Tensor::cat(vec![top, hidden], 1),
            attention: vec![Attention::new("action", &actions.unsqueeze_dim(1))],
        };
        (output, StackState { controller, rows })
    }
}

// The task.

/// Digits, then the last of them again in reverse order.
const REVERSE_RECALL: FrameTask = FrameTask {
    name: "reverse-recall",
    about: "digits, then the last of them again in reverse order",
    images: ImageSet::Digits,
    sizes: &[LENGTH, RECALL],
    laid_out: |sizes| recall_layout("reverse-recall", sizes.get(LENGTH), sizes.get(RECALL)),
    opened: |data, sizes| {
        let (length, recall) = (sizes.get(LENGTH), sizes.get(RECALL));
        if recall == 0 || recall > length {
            return Err(Error::Setting {
                key: "task.recall",
                value: recall,
                wanted: format!("the images to recall must be from 1 to task.length = {length}"),
            });
        }
        let layout = recall_layout("reverse-recall", length, recall);
        Ok(Arc::new(ReverseRecall { data, layout }))
    },
};

struct ReverseRecall {
    data: Arc<DataSet>,
    layout: Layout,
}

impl Task for ReverseRecall {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> Batch {
        let images = self.data.split(split);
        let (length, time) = (self.layout.prompt, self.layout.time);
        assemble(images, stream, index, batch, time, |generator| {
            let mut sequence = Sequence::watched(images, length, time, generator);
            for back in 1..=time - length {
                sequence.repeat(length - back);
            }
            sequence
        })
    }
}
