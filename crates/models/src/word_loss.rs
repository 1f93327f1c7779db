//! The loss of words under the softmax of a large table, and its gradient, computed without autodiff.
//!
//! A full softmax has a logit for each word of the text and each word of the vocabulary: for 38,400 words
//! and a vocabulary of 267,735 that is 41 GB. Here it is computed a few rows at a time, and nothing is kept for a
//! backward pass, since the gradient of a softmax follows directly from its probabilities. No tensor here is on
//! an autodiff device.

use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor, TensorData, activation};
use mnemora_kernels::{product::product, softmax::softmax};
use mnemora_memory::Count;

/// Largest number of logits at a time: 256 MiB.
const LARGEST_LOGITS: usize = 1 << 26;

/// Replaces the logit of a word that does not count.
const NEVER: f64 = -1e9;

/// Words sampled from the vocabulary for a sampled softmax, which estimates the normaliser by
///
/// `Z ≈ exp(l_target) + sum_{s not target} exp(l_s) / (count q(s))`
///
/// with `count` words `s` drawn from `q`. The estimate is unbiased (Bengio and Senecal 2003); the same samples
/// serve all words of a batch (Jean et al. 2015). Its logarithm is too low on average, so the resulting nats are
/// not those of the model.
#[derive(Clone, Debug)]
pub struct WordSamples {
    words: Tensor<1, Int>,
    /// `-log(count q(s))`
    log_weights: Tensor<1>,
}

impl WordSamples {
    /// Draws one word for each number of `uniform`, in `[0, 1)`, from a vocabulary sorted from the most frequent
    /// word down, by Zipf's law:
    /// `q(s) = log((s + 2) / (s + 1)) / log(vocabulary + 1)`.
    ///
    /// # Panics
    /// If `uniform` is empty or `vocabulary` is 0.
    pub fn draw(uniform: &[f64], vocabulary: usize, device: &Device) -> Self {
        let count = uniform.len();
        assert!(count > 0 && vocabulary > 0, "a word to be drawn");
        let log_range = ((vocabulary + 1) as f64).ln();
        let draw = |u: &f64| ((u * log_range).exp() as usize).clamp(1, vocabulary) - 1;
        let words: Vec<usize> = uniform.iter().map(draw).collect();
        let log_weight = |word: &usize| {
            let probability = ((word + 2) as f64 / (word + 1) as f64).ln() / log_range;
            -(count as f64 * probability).ln() as f32
        };
        let log_weights: Vec<f32> = words.iter().map(log_weight).collect();
        let words: Vec<i64> = words.into_iter().map(|word| word as i64).collect();
        Self {
            words: Tensor::from_data(TensorData::new(words, [count]), device),
            log_weights: Tensor::from_data(TensorData::new(log_weights, [count]), device),
        }
    }
}

/// The loss of words, and the gradient of its mean.
#[derive(Clone, Debug)]
pub struct WordLoss {
    /// `-log p(word)` of each word, in nats, `[words]`; an estimate if the softmax is sampled.
    pub nats: Tensor<1>,
    /// Gradient for the outputs from which the words were predicted, `[words, width]`.
    pub outputs: Tensor<2>,
    /// Gradient for the table, `[vocabulary, width]`.
    pub table: Tensor<2>,
    /// Gradient for the biases, `[vocabulary]`.
    pub bias: Tensor<1>,
}

/// The words to be predicted, and the inputs of their logits.
///
/// The logits of row `n` are `table outputs[n] + bias`.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// `[words, width]`
    pub outputs: Tensor<2>,
    /// `[words]`
    pub targets: Tensor<1, Int>,
    /// `[vocabulary, width]`
    pub table: Tensor<2>,
    /// `[vocabulary]`
    pub bias: Tensor<1>,
}

impl Predicted {
    /// The row of the table for each target, and its logit.
    fn of_targets(&self) -> (Tensor<2>, Tensor<1>) {
        let rows = self.table.clone().select(0, self.targets.clone());
        let products = (self.outputs.clone() * rows.clone()).sum_dim(1);
        let bias = self.bias.clone().select(0, self.targets.clone());
        (rows, products.squeeze_dim(1) + bias)
    }

    /// Number of logits at a time, for `words` words with `columns` logits each.
    pub(crate) fn largest_chunk(words: usize, columns: usize) -> Count {
        let rows = (LARGEST_LOGITS / columns.max(1)).clamp(1, words.max(1));
        Count::product(&[rows, columns])
    }

    /// Chunks of rows whose logits, `columns` per row, exist at the same time.
    fn chunks(&self, columns: usize, largest: usize) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.outputs.dims()[0];
        let chunk = (largest / columns).max(1);
        let starts = (0..rows).step_by(chunk);
        starts.map(move |start| (start, chunk.min(rows - start)))
    }

    /// `-log p(target)` of each word under the full softmax, in nats, `[words]`.
    pub fn nats(&self) -> Tensor<1> {
        let columns = self.table.clone().transpose();
        let normalisers = self
            .chunks(self.table.dims()[0], LARGEST_LOGITS)
            .map(|(start, rows)| {
                let outputs = self.outputs.clone().narrow(0, start, rows);
                softmax(product(outputs, columns.clone()), self.bias.clone()).1
            });
        let normalisers = Tensor::cat(normalisers.collect(), 0);
        normalisers - self.of_targets().1
    }

    /// The loss of the words and its gradient, under the full softmax or, with `samples`, under a sampled
    /// one.
    pub fn loss(&self, samples: Option<&WordSamples>) -> WordLoss {
        self.loss_by_chunks(samples, LARGEST_LOGITS)
    }

    fn loss_by_chunks(&self, samples: Option<&WordSamples>, largest: usize) -> WordLoss {
        let count = self.outputs.dims()[0] as f64;
        // The words with a column of logits: all words, or the sampled ones.
        let (columns, column_bias) = match samples {
            None => (self.table.clone(), self.bias.clone()),
            Some(samples) => (
                self.table.clone().select(0, samples.words.clone()),
                self.bias.clone().select(0, samples.words.clone()) + samples.log_weights.clone(),
            ),
        };
        let (target_rows, target_logits) = self.of_targets();
        let mut nats = Vec::new();
        let mut outputs_gradient = Vec::new();
        let mut target_gradient = Vec::new();
        let mut target_weights = Vec::new();
        let mut columns_gradient: Option<(Tensor<2>, Tensor<2>)> = None;
        for (start, rows) in self.chunks(columns.dims()[0], largest) {
            let outputs = self.outputs.clone().narrow(0, start, rows);
            let mut logits = product(outputs.clone(), columns.clone().transpose());
            if let Some(samples) = samples {
                let targets = self.targets.clone().narrow(0, start, rows);
                let hits = targets
                    .unsqueeze_dim::<2>(1)
                    .equal(samples.words.clone().unsqueeze_dim(0));
                logits = logits.mask_fill(hits, NEVER);
            }
            let (probabilities, normalisers) = softmax(logits, column_bias.clone());
            let above = normalisers - target_logits.clone().narrow(0, start, rows);
            // The gradient is `softmax - 1 at the target`. Without samples the target is one of the columns. With
            // samples it is separate, and the columns share the remaining probability, hence the factor `share`.
            let share = match samples {
                None => above.ones_like(),
                Some(_) => activation::sigmoid(above.clone()),
            };
            nats.push(match samples {
                None => above,
                Some(_) => mnemora_kernels::softplus(above),
            });
            let weights = share.div_scalar(count).unsqueeze_dim::<2>(1);
            let weighted = outputs * weights.clone();
            let rows_of_targets = target_rows.clone().narrow(0, start, rows);
            let expected = product(probabilities.clone(), columns.clone());
            outputs_gradient.push((expected - rows_of_targets) * weights.clone());
            let bias = product(weights.clone().transpose(), probabilities.clone());
            let table = product(probabilities.transpose(), weighted.clone());
            columns_gradient = Some(match columns_gradient {
                None => (table, bias),
                Some((all_table, all_bias)) => (all_table + table, all_bias + bias),
            });
            target_gradient.push(weighted.neg());
            target_weights.push(weights.neg());
        }
        let (table, bias) = columns_gradient.expect("there is a word to be predicted");
        let bias = bias.squeeze_dim::<1>(0);
        let (table, bias) = match samples {
            None => (table, bias),
            Some(samples) => (
                add_rows(self.table.zeros_like(), &samples.words, table),
                add_rows(self.bias.zeros_like(), &samples.words, bias),
            ),
        };
        let target_weights = Tensor::cat(target_weights, 0).squeeze_dim::<1>(1);
        WordLoss {
            nats: Tensor::cat(nats, 0),
            outputs: Tensor::cat(outputs_gradient, 0),
            table: add_rows(table, &self.targets, Tensor::cat(target_gradient, 0)),
            bias: add_rows(bias, &self.targets, target_weights),
        }
    }
}

/// Adds `values[i]` to row `rows[i]` of `to`.
pub(crate) fn add_rows<const D: usize>(
    to: Tensor<D>,
    rows: &Tensor<1, Int>,
    values: Tensor<D>,
) -> Tensor<D> {
    to.select_assign(0, rows.clone(), values, IndexingUpdateOp::Add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;

    const WORDS: usize = 7;
    const WIDTH: usize = 5;
    const VOCABULARY: usize = 11;

    fn numbers(count: usize, seed: f32) -> Vec<f32> {
        let number = |i: usize| (i as f32 * 1.7 + seed).sin() + (i as f32 * 0.31 - seed).cos();
        (0..count).map(number).collect()
    }

    fn tensor<const D: usize>(shape: [usize; D], seed: f32, device: &Device) -> Tensor<D> {
        let values = numbers(shape.iter().product(), seed);
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    fn close<const D: usize>(found: Tensor<D>, expected: Tensor<D>, what: &str) {
        assert_eq!(found.dims(), expected.dims(), "{what}");
        for (found, expected) in values(found).into_iter().zip(values(expected)) {
            assert!(
                (found - expected).abs() < 2e-5,
                "{what}: {found} {expected}"
            );
        }
    }

    fn predicted(device: &Device) -> Predicted {
        // One target occurs twice.
        let targets = vec![3_i64, 0, 10, 3, 7, 1, 9];
        Predicted {
            outputs: tensor([WORDS, WIDTH], 0.3, device),
            targets: Tensor::from_data(TensorData::new(targets, [WORDS]), device),
            table: tensor([VOCABULARY, WIDTH], 1.1, device),
            bias: tensor([VOCABULARY], 2.0, device),
        }
    }

    fn samples() -> WordSamples {
        let uniform = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0_f64].map(|i| (i * 0.618_033_988).fract());
        WordSamples::draw(&uniform, VOCABULARY, &Device::default())
    }

    /// The same with Burn's autodiff, all logits at once.
    fn by_burn(samples: Option<&WordSamples>) -> WordLoss {
        let device = Device::default().autodiff();
        let predicted = predicted(&device.clone().inner());
        let lift = |tensor: &Tensor<2>| Tensor::from_inner(tensor.clone()).require_grad();
        let (outputs, table) = (lift(&predicted.outputs), lift(&predicted.table));
        let bias = Tensor::from_inner(predicted.bias.clone()).require_grad();
        let logits =
            outputs.clone().matmul(table.clone().transpose()) + bias.clone().unsqueeze::<2>();
        let targets = Tensor::<1, Int>::from_inner(predicted.targets.clone());
        let own = logits.clone().gather(1, targets.clone().unsqueeze_dim(1));
        let all = match samples {
            None => logits,
            Some(samples) => {
                let words = Tensor::<1, Int>::from_inner(samples.words.clone());
                let weights = Tensor::from_inner(samples.log_weights.clone());
                let hits = targets
                    .unsqueeze_dim::<2>(1)
                    .equal(words.clone().unsqueeze_dim(0));
                let drawn = logits.select(1, words) + weights.unsqueeze::<2>();
                Tensor::cat(
                    vec![own.clone(), drawn.mask_fill(hits, f32::NEG_INFINITY)],
                    1,
                )
            }
        };
        let largest = all.clone().max_dim(1).detach();
        let normalisers = (all - largest.clone()).exp().sum_dim(1).log() + largest;
        let nats = (normalisers - own).squeeze_dim::<1>(1);
        let gradients = nats.clone().mean().backward();
        WordLoss {
            nats: nats.inner(),
            outputs: outputs.grad(&gradients).unwrap(),
            table: table.grad(&gradients).unwrap(),
            bias: bias.grad(&gradients).unwrap(),
        }
    }

    #[test]
    fn chunks_give_what_the_whole_gives_and_burn_too() {
        let predicted = predicted(&Device::default());
        for sampled in [false, true] {
            let samples = sampled.then(samples);
            let expected = by_burn(samples.as_ref());
            // All rows at once, three at a time with one left over, and one by one.
            for largest in [LARGEST_LOGITS, 35, 1] {
                let found = predicted.loss_by_chunks(samples.as_ref(), largest);
                let what = format!("sampled {sampled}, {largest} logits");
                close(found.nats, expected.nats.clone(), &what);
                close(found.outputs, expected.outputs.clone(), &what);
                close(found.table, expected.table.clone(), &what);
                close(found.bias, expected.bias.clone(), &what);
            }
        }
        close(predicted.nats(), by_burn(None).nats, "nats");
    }

    /// If all logits are equal, the loss of every word is the logarithm of the vocabulary's size.
    #[test]
    fn a_uniform_model_has_the_perplexity_of_its_vocabulary() {
        let device = Device::default();
        let predicted = Predicted {
            table: Tensor::zeros([VOCABULARY, WIDTH], &device),
            bias: Tensor::zeros([VOCABULARY], &device),
            ..predicted(&device)
        };
        let nats = values(predicted.nats().mean())[0];
        assert!((nats.exp() - VOCABULARY as f32).abs() < 1e-4, "{nats}");
    }

    /// The estimated normaliser is right on average over draws.
    #[test]
    fn samples_estimate_the_normaliser_without_bias() {
        let device = Device::default();
        let predicted = predicted(&device);
        let exact = values(predicted.nats());
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let draws = 4_000;
        let mut means = [0.0_f64; WORDS];
        for _ in 0..draws {
            let samples = WordSamples::draw(&[(); 8].map(|()| uniform()), VOCABULARY, &device);
            let nats = values(predicted.loss(Some(&samples)).nats);
            for (mean, nats) in means.iter_mut().zip(nats) {
                *mean += f64::from(nats).exp() / f64::from(draws);
            }
        }
        for (mean, exact) in means.iter().zip(exact) {
            // exp(nats) is the normaliser divided by the target's own weight.
            let off = mean / f64::from(exact).exp() - 1.0;
            assert!(off.abs() < 0.05, "{off}");
        }
    }
}
