//! A language model around any recurrent core: it reads words and predicts the next word.

use crate::{
    Footprint, ModelError,
    word_loss::{Predicted, WordSamples, add_rows},
};
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Device, Gradients, Int, Tensor, TensorData},
};
use mnemora_memory::{
    AnyCore, Attention, Bundle, CoreConfig, CoreOutput, Count, Initializer, RecurrentCore,
};

/// Sizes of a [`LanguageModel`].
#[derive(Clone, Debug, PartialEq)]
pub struct LanguageConfig {
    /// The core; its input width is that of the embedding.
    pub core: CoreConfig,
    /// Number of words in the vocabulary.
    pub vocabulary: usize,
    /// Width of a word's row in the embedding table.
    pub embedding: usize,
}

/// `p(w_t | w_<t)`: a word's row in the embedding table goes into a recurrent core. The core's output is projected
/// to the width of a row; its products with all rows, plus a bias, are the logits of the next word.
///
/// ```text
/// x_t = E[w_{t-1}];  h_t, s_t = core(x_t, s_{t-1});  l_t = E (W h_t + c) + b
/// ```
///
/// Santoro et al. 2018, section 4.3 and appendix A.4. Both uses of the table `E` share one parameter (Press and
/// Wolf 2017), so their gradients add up.
#[derive(Module, Debug)]
pub struct LanguageModel<C: Module> {
    /// `E`, `[vocabulary, embedding]`.
    pub embedding: Param<Tensor<2>>,
    /// The core.
    pub core: C,
    /// `W`, `c`: from the core's output to the width of a row.
    pub projection: Linear,
    /// `b`, `[vocabulary]`.
    pub bias: Param<Tensor<1>>,
}

/// Input words and the words that follow them, on a plain device; step after step.
#[derive(Clone, Debug)]
pub struct Words {
    /// `[time * batch]`
    pub inputs: Tensor<1, Int>,
    /// `[time * batch]`
    pub targets: Tensor<1, Int>,
    /// Number of parallel streams.
    pub batch: usize,
}

impl Words {
    /// Uploads words that are stored stream after stream, both `[batch, time]`.
    ///
    /// # Panics
    /// If there is no word, or `inputs` and `targets` differ in length.
    pub fn new(inputs: &[u32], targets: &[u32], batch: usize, device: &Device) -> Self {
        assert_eq!(inputs.len(), targets.len(), "a target for each word");
        let time = inputs.len() / batch;
        let upload = |words: &[u32]| {
            let by_step = (0..time).flat_map(|step| {
                let row = move |row: usize| i64::from(words[row * time + step]);
                (0..batch).map(row)
            });
            let by_step: Vec<i64> = by_step.collect();
            Tensor::from_data(TensorData::new(by_step, [time * batch]), device)
        };
        Self {
            inputs: upload(inputs),
            targets: upload(targets),
            batch,
        }
    }
}

/// Dropout masks: `1 / (1 - rate)` for the numbers that are kept and 0 for the others, both
/// `[time * batch, embedding]`, on a plain device; `None` without dropout.
#[derive(Clone, Debug, Default)]
pub struct WordDropout {
    /// For the rows that words look up.
    pub embedding: Option<Tensor<2>>,
    /// For the projected outputs.
    pub output: Option<Tensor<2>>,
}

/// The result of learning from a window of words.
pub struct LearnedWords<S> {
    /// `-log p(word)`, mean over the words, in nats, `[1]`.
    pub nats: Tensor<1>,
    /// Gradients of that mean for the core and the projection.
    pub gradients: Gradients,
    /// Gradient for the table, the sum over both of its uses, `[vocabulary, embedding]`.
    pub embedding: Tensor<2>,
    /// Gradient for the biases, `[vocabulary]`.
    pub bias: Tensor<1>,
    /// State after the window's last word, detached from the graph.
    pub state: S,
}

/// The result of reading a window of words.
pub struct ReadWords<S> {
    /// `W h_t + c`, `[time * batch, embedding]`.
    pub outputs: Tensor<2>,
    /// Attention of each step.
    pub attention: Vec<Vec<Attention>>,
    /// State after the last word.
    pub state: S,
}

/// Bound of the uniform distribution of the table's initial values.
const EMBEDDING_BOUND: f64 = 0.1;

impl LanguageConfig {
    /// Builds the model with a core chosen at run time; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<LanguageModel<AnyCore>, ModelError> {
        ModelError::require_positive(&[
            ("vocabulary", self.vocabulary),
            ("embedding", self.embedding),
        ])?;
        let core = self.core.init(init)?;
        // Small enough, even with a memory of thousands of units, that the first predictions over a large vocabulary
        // are about uniform.
        let projection = init.linear(core.output_size(), self.embedding);
        Ok(LanguageModel {
            embedding: init.uniform([self.vocabulary, self.embedding], EMBEDDING_BOUND),
            projection,
            bias: init.constant([self.vocabulary], 0.0),
            core,
        })
    }
}

impl LanguageModel<AnyCore> {
    /// Memory that learning needs, per word.
    pub fn footprint(&self) -> Footprint {
        let [_, width] = self.embedding.dims();
        let core = self.core.output_size();
        Footprint::of(
            // Looked-up rows and outputs, with dropout masks, gradients, and the targets' rows.
            Count::from(12 * width) + 2 * core + 8,
            self.core.kept() + core,
        )
    }

    /// Numbers needed for the softmax of `words` words and its gradient, one chunk of the logits at a time; `samples`
    /// is the number of sampled words, 0 for the full vocabulary.
    pub fn softmax_kept(&self, words: usize, samples: usize) -> Count {
        let [vocabulary, width] = self.embedding.dims();
        let columns = match samples {
            0 => vocabulary,
            samples => samples,
        };
        let logits = Predicted::largest_chunk(words, columns);
        logits * 3 + Count::product(&[3, columns, width])
    }

    /// The same without the gradient.
    pub fn softmax_looked_at(&self, words: usize) -> Count {
        Predicted::largest_chunk(words, self.vocabulary()) * 2
    }
}

impl<C: RecurrentCore> LanguageModel<C> {
    /// The device it is on.
    pub fn device(&self) -> Device {
        self.bias.device()
    }

    /// Number of words in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.bias.shape()[0]
    }

    /// From the rows of words, `[time * batch, embedding]`, to the outputs from which the next words are
    /// predicted. Only the core goes step by step.
    fn read_rows(&self, rows: Tensor<2>, batch: usize, state: C::State) -> ReadWords<C::State> {
        let [count, width] = rows.dims();
        let (steps, state) =
            self.core
                .sequence(rows.reshape([count / batch, batch, width]), None, state);
        let (outputs, attention): (Vec<_>, Vec<_>) = steps
            .into_iter()
            .map(|CoreOutput { output, attention }| (output, attention))
            .unzip();
        ReadWords {
            outputs: self.projection.forward(Tensor::cat(outputs, 0)),
            attention,
            state,
        }
    }

    /// Reads words without learning; the model is on a plain device.
    ///
    /// # Panics
    /// If there is no word, or a word is not in the vocabulary.
    pub fn read(&self, words: &Words, state: C::State) -> ReadWords<C::State> {
        let rows = self.embedding.val().select(0, words.inputs.clone());
        self.read_rows(rows, words.batch, state)
    }

    /// `-log p(target)` in nats under the full softmax, for the outputs of [`read`](Self::read), `[time * batch]`.
    pub fn nats(&self, outputs: Tensor<2>, words: &Words) -> Tensor<1> {
        let predicted = Predicted {
            outputs,
            targets: words.targets.clone(),
            table: self.embedding.val(),
            bias: self.bias.val(),
        };
        predicted.nats()
    }

    /// Logits of the next word, `[rows, vocabulary]`, from outputs of [`read`](Self::read).
    pub fn logits(&self, outputs: Tensor<2>) -> Tensor<2> {
        outputs.matmul(self.embedding.val().transpose()) + self.bias.val().unsqueeze()
    }

    /// Reads words from a detached `state` and returns the gradient of their mean loss: back-propagation
    /// goes through this window and no further.
    ///
    /// Neither the look-up nor the softmax is on the graph. The gradient of the softmax is computed
    /// directly ([`Predicted::loss`]). The graph begins at the looked-up rows and ends at the outputs; the gradient
    /// of a row is added to the table's gradient at its word. The table's gradient is therefore the only array of
    /// the table's size that an update makes.
    ///
    /// # Panics
    /// If the model is on a plain device, there is no word, or a word is not in the vocabulary.
    pub fn learn(
        &self,
        words: &Words,
        state: C::State,
        dropout: WordDropout,
        samples: Option<&WordSamples>,
    ) -> LearnedWords<C::State> {
        let masked = |values: Tensor<2>, mask: &Option<Tensor<2>>| match mask {
            None => values,
            Some(mask) => values * mask.clone(),
        };
        let table = self.embedding.val().inner();
        let rows = table.clone().select(0, words.inputs.clone());
        let rows = Tensor::from_inner(masked(rows, &dropout.embedding)).require_grad();
        let read = self.read_rows(rows.clone(), words.batch, state);
        let loss = Predicted {
            outputs: masked(read.outputs.clone().inner(), &dropout.output),
            targets: words.targets.clone(),
            table,
            bias: self.bias.val().inner(),
        }
        .loss(samples);
        // A number whose gradient with respect to the outputs is that of the loss.
        let outer = Tensor::from_inner(masked(loss.outputs, &dropout.output));
        let mut gradients = (read.outputs * outer).sum().backward();
        let looked_up = rows
            .grad_remove(&mut gradients)
            .expect("outputs depend on the words");
        let looked_up = masked(looked_up, &dropout.embedding);
        LearnedWords {
            nats: loss.nats.mean(),
            gradients,
            embedding: add_rows(loss.table, &words.inputs, looked_up),
            bias: loss.bias,
            state: read.state.detach(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;
    use mnemora_memory::{AnyCoreState, LstmConfig, RmcConfig};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    const BATCH: usize = 2;
    const TIME: usize = 4;
    const VOCABULARY: usize = 6;
    const WIDTH: usize = 3;

    fn config(rmc: bool) -> LanguageConfig {
        LanguageConfig {
            core: match rmc {
                true => CoreConfig::Rmc(RmcConfig::new(WIDTH, 1, 2, 4)),
                false => CoreConfig::Lstm(LstmConfig {
                    input: WIDTH,
                    hidden: 5,
                }),
            },
            vocabulary: VOCABULARY,
            embedding: WIDTH,
        }
    }

    fn model(rmc: bool, device: &Device) -> LanguageModel<AnyCore> {
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
        let model = config(rmc).init(&mut init).unwrap();
        // Rows large enough for their effect on the gradient to show.
        let embedding = model.embedding.val().inner().mul_scalar(5.0);
        let bias = Tensor::from_floats([0.1, -0.3, 0.2, 0.0, 0.5, -0.1], &device.clone().inner());
        let lift = |tensor: Tensor<2>| match device.is_autodiff() {
            true => Tensor::from_inner(tensor).require_grad(),
            false => tensor,
        };
        LanguageModel {
            embedding: Param::from_tensor(lift(embedding)),
            bias: match device.is_autodiff() {
                true => Param::from_tensor(Tensor::from_inner(bias).require_grad()),
                false => Param::from_tensor(bias),
            },
            ..model
        }
    }

    fn words(device: &Device) -> Words {
        // The word 2 is looked up several times, is a target, and is dropped once.
        let inputs = [0, 2, 2, 5, 1, 3, 2, 0];
        let targets = [2, 2, 5, 4, 3, 2, 0, 1];
        Words::new(&inputs, &targets, BATCH, device)
    }

    fn dropout(device: &Device) -> WordDropout {
        let mask = |seed: usize| {
            let kept = |i: usize| {
                if (i * 7 + seed).is_multiple_of(3) {
                    0.0
                } else {
                    1.5
                }
            };
            let values: Vec<f32> = (0..TIME * BATCH * WIDTH).map(kept).collect();
            let data = TensorData::new(values, [TIME * BATCH, WIDTH]);
            Some(Tensor::from_data(data, device))
        };
        WordDropout {
            embedding: mask(0),
            output: mask(1),
        }
    }

    /// Mean nats of the window with dropout, for a model on a plain device.
    fn cost(model: &LanguageModel<AnyCore>, state: AnyCoreState) -> f64 {
        let device = model.device();
        let (words, dropout) = (words(&device), dropout(&device));
        let rows = model.embedding.val().select(0, words.inputs.clone());
        let rows = rows * dropout.embedding.unwrap();
        let outputs = model.read_rows(rows, BATCH, state).outputs * dropout.output.unwrap();
        let nats = values(model.nats(outputs, &words));
        nats.iter().map(|n| f64::from(*n)).sum::<f64>() / nats.len() as f64
    }

    /// The table's gradient is the sum over both of its uses; those of the biases and the projection are right, too.
    #[test]
    fn gradients_are_those_of_finite_differences() {
        let plain = Device::default();
        let device = plain.clone().autodiff();
        for rmc in [false, true] {
            let learning = model(rmc, &device);
            let state = learning.core.initial_state(BATCH, &device);
            let learned = learning.learn(&words(&plain), state, dropout(&plain), None);
            let at = model(rmc, &plain);
            let start = || at.core.initial_state(BATCH, &plain);
            let found = f64::from(values(learned.nats)[0]);
            assert!((found - cost(&at, start())).abs() < 1e-5, "rmc {rmc}");

            const STEP: f32 = 1e-2;
            let moved = |values: &[f32], place: usize, by: f32| {
                let mut values = values.to_vec();
                values[place] += by;
                values
            };
            let differences =
                |count: usize, with: &dyn Fn(usize, f32) -> LanguageModel<AnyCore>| {
                    let difference = |place| {
                        let [up, down] = [STEP, -STEP].map(|by| cost(&with(place, by), start()));
                        ((up - down) / (2.0 * f64::from(STEP))) as f32
                    };
                    (0..count).map(difference).collect::<Vec<f32>>()
                };
            let close = |found: Vec<f32>, expected: Vec<f32>, what: &str| {
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    assert!(
                        (found - expected).abs() < 1e-3,
                        "{what}: {found} {expected}"
                    );
                }
                let size = found.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                assert!(
                    size > 0.02,
                    "{what}: a gradient of {size} is too small to test"
                );
            };
            let table = values(at.embedding.val());
            let with = |place, by| LanguageModel {
                embedding: Param::from_tensor(Tensor::from_data(
                    TensorData::new(moved(&table, place, by), [VOCABULARY, WIDTH]),
                    &plain,
                )),
                ..at.clone()
            };
            close(
                values(learned.embedding),
                differences(table.len(), &with),
                "table",
            );
            let bias = values(at.bias.val());
            let with = |place, by| LanguageModel {
                bias: Param::from_tensor(Tensor::from_data(
                    TensorData::new(moved(&bias, place, by), [VOCABULARY]),
                    &plain,
                )),
                ..at.clone()
            };
            close(values(learned.bias), differences(bias.len(), &with), "bias");
            let weight = values(at.projection.weight.val());
            let shape = at.projection.weight.val().dims();
            let with = |place, by| LanguageModel {
                projection: Linear {
                    weight: Param::from_tensor(Tensor::from_data(
                        TensorData::new(moved(&weight, place, by), shape),
                        &plain,
                    )),
                    bias: at.projection.bias.clone(),
                },
                ..at.clone()
            };
            let projection = learning.projection.weight.val();
            let projection = projection.grad(&learned.gradients).unwrap();
            close(
                values(projection),
                differences(weight.len(), &with),
                "projection",
            );
        }
    }

    /// Two windows with the state carried over equal one window twice as long; with a reset state the second
    /// window differs.
    #[test]
    fn a_carried_state_makes_one_text_of_two_windows() {
        let device = Device::default();
        for rmc in [false, true] {
            let model = model(rmc, &device);
            let (inputs, targets) = ([0, 2, 2, 5, 1, 3], [2, 2, 5, 1, 3, 4]);
            let whole = Words::new(&inputs, &targets, 1, &device);
            let start = || model.core.initial_state(1, &device);
            let read = model.read(&whole, start());
            let expected = values(model.nats(read.outputs, &whole));
            let first = Words::new(&inputs[..3], &targets[..3], 1, &device);
            let second = Words::new(&inputs[3..], &targets[3..], 1, &device);
            let read = model.read(&first, start());
            let mut found = values(model.nats(read.outputs, &first));
            let carried = model.read(&second, read.state);
            found.extend(values(model.nats(carried.outputs, &second)));
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
            let anew = model.read(&second, start());
            let anew = values(model.nats(anew.outputs, &second));
            assert!((anew[0] - expected[3]).abs() > 1e-4, "rmc {rmc}");
            // Logits and nats agree.
            let read = model.read(&whole, start());
            let logits = values(model.logits(read.outputs));
            let row = &logits[..VOCABULARY];
            let sum: f32 = row.iter().map(|l| l.exp()).sum();
            assert!((sum.ln() - row[2] - expected[0]).abs() < 1e-5);
        }
    }

    #[test]
    fn sizes_of_zero_are_refused() {
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let config = LanguageConfig {
            vocabulary: 0,
            ..config(false)
        };
        let message = config.init(&mut init).unwrap_err().to_string();
        assert_eq!(message, "model.vocabulary is 0, it must be at least 1");
    }
}
