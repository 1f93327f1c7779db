//! Two recurrent cores of the same kind: the first reads a sequence of symbols to its end, the second starts
//! from the final state of the first and writes another sequence.
//!
//! Santoro et al. 2018, appendix A.2, following Sutskever et al. 2014 and Zaremba and Sutskever 2014.

use crate::{
    Footprint, ModelError,
    mlp::{Activation, Head},
};
use burn::{
    module::Module,
    tensor::{Device, Int, Tensor, TensorData, activation},
};
use mnemora_memory::{
    AnyCore, Attention, Bundle, CoreConfig, CoreOutput, Count, Initializer, RecurrentCore,
};

/// Sizes of an [`EncoderDecoder`].
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderDecoderConfig {
    /// Number of different symbols, for reading and for writing.
    pub symbols: usize,
    /// The core that reads, with `symbols` inputs.
    pub encoder: CoreConfig,
    /// The core that writes, with `symbols + 1` inputs, otherwise like the encoder.
    pub decoder: CoreConfig,
    /// Hidden layers of the head; 0 for a linear map.
    pub head_layers: usize,
    /// Units of each hidden layer.
    pub head_hidden: usize,
}

/// An encoder, a decoder that starts from its state, and an MLP with ReLU units from each output of the
/// decoder to the logits of the symbols.
///
/// The decoder has one input more than there are symbols: the start symbol, which is 1 at its first step.
#[derive(Module, Debug)]
pub struct EncoderDecoder<C: Module> {
    /// The core that reads.
    pub encoder: C,
    /// The core that writes.
    pub decoder: C,
    /// From the decoder's output to the logits.
    pub head: Head,
    symbols: usize,
}

/// The decoder's input at every step after the first.
#[derive(Clone, Copy, Debug)]
pub enum DecoderInput<'a> {
    /// The target symbol of the step before (teacher forcing). `[steps, batch, symbols]`, one-hot.
    Truth(&'a Tensor<3>),
    /// The predicted probabilities of the step before, without a gradient.
    Probabilities,
    /// The most probable symbol of the step before, one-hot.
    Symbol,
    /// Nothing: zeros.
    Nothing,
}

/// Sequences of symbols of different lengths, packed for an encoder.
///
/// They are sorted by length, the longest first. Sequences that have ended are then the last rows of a step
/// and can be dropped from the batch, so no padding is computed.
#[derive(Clone, Debug)]
pub struct PackedSymbols {
    /// Steps between two ends of sequences, one-hot, `[steps, rows, symbols]`; the rows are the first rows of
    /// the piece before.
    pieces: Vec<Tensor<3>>,
    /// The position of each sequence in the sorted order, `[batch]`.
    places: Tensor<1, Int>,
}

/// The output of an [`EncoderDecoder`].
#[derive(Clone, Debug)]
pub struct Written {
    /// `[steps, batch, symbols]`
    pub logits: Tensor<3>,
    /// Attention of each step: first of the encoder, where sequences are sorted by length, the longest first,
    /// and drop out of the batch as they end; then of the decoder.
    pub attention: Vec<Vec<Attention>>,
}

impl PackedSymbols {
    /// Sorts the sequences and uploads them.
    ///
    /// # Shapes
    /// `symbols`: `[batch, time]` row-major, each below `count` within its sequence; padding may have any
    /// value. `lengths`: `[batch]`, each from 1 to `time`
    ///
    /// # Panics
    /// If there is no sequence, one is empty, or shapes do not fit.
    pub fn new(symbols: &[u8], lengths: &[usize], count: usize, device: &Device) -> Self {
        let batch = lengths.len();
        let time = symbols.len() / batch;
        assert_eq!(symbols.len(), batch * time, "rows of equal length");
        assert!(
            lengths.iter().all(|length| (1..=time).contains(length)),
            "sequences of 1 to {time} symbols"
        );
        let mut sorted: Vec<usize> = (0..batch).collect();
        sorted.sort_by_key(|row| std::cmp::Reverse(lengths[*row]));
        let mut places = vec![0_i64; batch];
        for (place, row) in sorted.iter().enumerate() {
            places[*row] = place as i64;
        }
        let mut pieces = Vec::new();
        let mut start = 0;
        let mut rows = batch;
        while start < time && rows > 0 {
            let end = lengths[sorted[rows - 1]];
            let mut values = vec![0.0; (end - start) * rows * count];
            let places =
                (start..end).flat_map(|step| sorted[..rows].iter().map(move |r| (step, r)));
            for (values, (step, row)) in values.chunks_mut(count).zip(places) {
                values[usize::from(symbols[row * time + step])] = 1.0;
            }
            let values = TensorData::new(values, [end - start, rows, count]);
            pieces.push(Tensor::from_data(values, device));
            start = end;
            rows = sorted.partition_point(|row| lengths[*row] > end);
        }
        let places = TensorData::new(places, [batch]);
        Self {
            pieces,
            places: Tensor::from_data(places, device),
        }
    }

    /// Number of sequences.
    pub fn batch(&self) -> usize {
        self.places.dims()[0]
    }
}

/// Sequences of symbols as targets: one-hot `[time, batch, count]`, all zeros after the end of each.
///
/// # Shapes
/// `symbols`: `[batch, time]` row-major, each below `count` within its sequence; `lengths`: `[batch]`
///
/// # Panics
/// If there is no sequence, or shapes do not fit.
pub fn one_hot_targets(
    symbols: &[u8],
    lengths: &[usize],
    count: usize,
    device: &Device,
) -> Tensor<3> {
    let batch = lengths.len();
    let time = symbols.len() / batch;
    let mut values = vec![0.0_f32; time * batch * count];
    for (row, length) in lengths.iter().enumerate() {
        for (step, symbol) in symbols[row * time..][..*length].iter().enumerate() {
            values[(step * batch + row) * count + usize::from(*symbol)] = 1.0;
        }
    }
    Tensor::from_data(TensorData::new(values, [time, batch, count]), device)
}

impl EncoderDecoderConfig {
    /// Builds the model with cores chosen at run time; refuses sizes of zero.
    pub fn init(&self, init: &mut Initializer) -> Result<EncoderDecoder<AnyCore>, ModelError> {
        ModelError::require_positive(&[
            ("symbols", self.symbols),
            ("head_hidden", self.head_hidden),
        ])?;
        let encoder = self.encoder.init(init)?;
        let decoder = self.decoder.init(init)?;
        let sizes = [decoder.output_size(), self.symbols];
        let (layers, units) = (self.head_layers, self.head_hidden);
        Ok(EncoderDecoder {
            head: Head::new(sizes, layers, units, Activation::Relu, init),
            encoder,
            decoder,
            symbols: self.symbols,
        })
    }
}

impl EncoderDecoder<AnyCore> {
    /// Memory that learning needs: for reading, and for writing.
    pub fn footprints(&self) -> [Footprint; 2] {
        let symbols = self.symbols;
        let read = Footprint::of(
            Count::from(3 * symbols),
            self.encoder.kept() + self.encoder.output_size(),
        );
        let head = self.head.kept() + self.head.inputs();
        let written = Footprint::of(
            Count::from(6 * symbols),
            self.decoder.kept() + self.decoder.output_size() + head + 6 * symbols,
        );
        [read, written]
    }
}

impl<C: RecurrentCore> EncoderDecoder<C> {
    /// The device it is on.
    pub fn device(&self) -> Device {
        self.head.output.weight.device()
    }

    /// Reads each sequence to its end, then writes `steps` symbols.
    ///
    /// If the decoder's inputs do not depend on its outputs, all of its steps are projected, and
    /// go through the head, in one call.
    ///
    /// # Panics
    /// If `steps` is 0 or more than there are targets, shapes do not fit, or the encoder's state does not
    /// fit the decoder.
    pub fn forward(&self, read: &PackedSymbols, input: DecoderInput, steps: usize) -> Written {
        let (state, mut attention) = self.encode(read);
        let [batch, symbols] = [read.batch(), self.symbols];
        let (logits, written) = match input {
            DecoderInput::Truth(targets) => self.write(targets.clone(), steps, state),
            DecoderInput::Nothing => {
                let zeros = Tensor::zeros([steps, batch, symbols], &self.device());
                self.write(zeros, steps, state)
            }
            DecoderInput::Probabilities => {
                let probabilities = |logits: Tensor<2>| activation::softmax(logits.detach(), 1);
                self.write_after_itself(probabilities, steps, batch, state)
            }
            DecoderInput::Symbol => self.write_after_itself(most_probable, steps, batch, state),
        };
        attention.extend(written);
        Written {
            logits: logits.reshape([steps, batch, symbols]),
            attention,
        }
    }

    /// The state after the last symbol of each sequence, and the attention of each step.
    fn encode(&self, read: &PackedSymbols) -> (C::State, Vec<Vec<Attention>>) {
        let mut rows = read.batch();
        let mut state = self.encoder.initial_state(rows, &self.device());
        let mut ended = Vec::new();
        let mut attention = Vec::new();
        for piece in &read.pieces {
            let left = piece.dims()[1];
            if left < rows {
                ended.push(state.clone().rows(left..rows));
                state = state.rows(0..left);
                rows = left;
            }
            let (steps, next) = self.encoder.sequence(piece.clone(), None, state);
            attention.extend(steps.into_iter().map(|step| step.attention));
            state = next;
        }
        ended.push(state);
        ended.reverse();
        let state = Bundle::concatenate(ended).select(&read.places);
        (state, attention)
    }

    /// Logits `[steps * batch, symbols]` and attention, if step t reads row t - 1 of `before`,
    /// `[steps, batch, symbols]`.
    fn write(
        &self,
        before: Tensor<3>,
        steps: usize,
        state: C::State,
    ) -> (Tensor<2>, Vec<Vec<Attention>>) {
        let [given, batch, _] = before.dims();
        let device = before.device();
        let no_go = Tensor::zeros([given, batch, 1], &device);
        let after = Tensor::cat(vec![before, no_go], 2);
        let inputs = Tensor::cat(vec![self.go(batch).unsqueeze_dim(0), after], 0);
        let (outputs, _) = self
            .decoder
            .sequence(inputs.narrow(0, 0, steps), None, state);
        let (outputs, attention) = parted(outputs);
        (self.head.forward(Tensor::cat(outputs, 0)), attention)
    }

    /// The same if each step reads the `feedback` of the previous step's logits, `[batch, symbols]`.
    fn write_after_itself(
        &self,
        feedback: impl Fn(Tensor<2>) -> Tensor<2>,
        steps: usize,
        batch: usize,
        mut state: C::State,
    ) -> (Tensor<2>, Vec<Vec<Attention>>) {
        let no_go = Tensor::zeros([batch, 1], &self.device());
        let prepared = self.decoder.prepare();
        let mut input = self.go(batch);
        let (mut all, mut attention) = (Vec::new(), Vec::new());
        for _ in 0..steps {
            let (step, next) = self.decoder.step(&prepared, input, state);
            let logits = self.head.forward(step.output);
            input = Tensor::cat(vec![feedback(logits.clone()), no_go.clone()], 1);
            state = next;
            all.push(logits);
            attention.push(step.attention);
        }
        (Tensor::cat(all, 0), attention)
    }

    /// The decoder's first input, `[batch, symbols + 1]`.
    fn go(&self, batch: usize) -> Tensor<2> {
        let device = self.device();
        let zeros = Tensor::zeros([batch, self.symbols], &device);
        Tensor::cat(vec![zeros, Tensor::ones([batch, 1], &device)], 1)
    }
}

/// Outputs and attention of steps.
fn parted(steps: Vec<CoreOutput>) -> (Vec<Tensor<2>>, Vec<Vec<Attention>>) {
    steps
        .into_iter()
        .map(|CoreOutput { output, attention }| (output, attention))
        .unzip()
}

/// 1 at the largest element of each row (the first one if several are equal), otherwise 0.
fn most_probable(logits: Tensor<2>) -> Tensor<2> {
    let shape = logits.dims();
    let all = Tensor::<1, Int>::arange(0..shape[1] as i64, &logits.device());
    let largest = logits.argmax(1).expand(shape);
    largest.equal(all.unsqueeze::<2>().expand(shape)).float()
}

impl Written {
    /// `sum_t log p(target[t, b])`, in nats, `[batch]`.
    ///
    /// `targets`: `[steps, batch, symbols]`, one-hot; a step of zeros does not count.
    pub fn log_likelihood(&self, targets: Tensor<3>) -> Tensor<1> {
        let log_probabilities = activation::log_softmax(self.logits.clone(), 2);
        let steps = (log_probabilities * targets).sum_dim(2).squeeze_dim::<2>(2);
        steps.sum_dim(0).squeeze_dim(0)
    }

    /// Number of symbols in each target that were the most probable ones, `[batch]`. Ties count as right.
    ///
    /// `targets` as for [`log_likelihood`](Self::log_likelihood).
    pub fn right(&self, targets: Tensor<3>) -> Tensor<1> {
        let logits = self.logits.clone();
        let counted = targets.clone().sum_dim(2);
        let target = (logits.clone() * targets).sum_dim(2);
        let right = target.greater_equal(logits.max_dim(2)).float() * counted;
        right.sum_dim(0).flatten(0, 2)
    }

    /// The most probable symbols, `[steps, batch]`.
    pub fn symbols(&self) -> Tensor<2, Int> {
        self.logits.clone().argmax(2).squeeze_dim(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values;
    use burn::tensor::Gradients;
    use mnemora_memory::{ControllerKind, DncConfig, EntNetConfig, GateStyle, RmcConfig};
    use mnemora_memory::{Lstm, LstmConfig, StackedLstmConfig};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    /// Symbols of the tests.
    const COUNT: usize = 5;
    /// Four sequences, padded with a value that is not a symbol.
    const SYMBOLS: [[u8; 6]; 4] = [
        [1, 4, 99, 99, 99, 99],
        [0, 1, 2, 3, 4, 0],
        [3, 99, 99, 99, 99, 99],
        [2, 2, 1, 0, 99, 99],
    ];
    const LENGTHS: [usize; 4] = [2, 6, 1, 4];
    const STEPS: usize = 3;

    fn assert_close(name: &str, found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(expected) {
            let error = (found - expected).abs();
            assert!(error < 2e-5, "{name}: {found} {expected}");
        }
    }

    fn cores(input: usize) -> [(&'static str, CoreConfig); 5] {
        let hidden = 6;
        let stacked = StackedLstmConfig {
            input,
            hidden,
            layers: 2,
        };
        let dnc = DncConfig {
            input,
            controller: ControllerKind::Lstm,
            layers: 2,
            hidden,
            reads: 2,
            width: 4,
            slots: 5,
        };
        let rmc = RmcConfig {
            gates: GateStyle::Memory,
            ..RmcConfig::new(input, 3, 2, 4)
        };
        [
            ("lstm", CoreConfig::Lstm(LstmConfig { input, hidden })),
            ("stacked lstm", CoreConfig::StackedLstm(stacked)),
            ("dnc", CoreConfig::Dnc(dnc)),
            ("rmc", CoreConfig::Rmc(rmc)),
            (
                "ent-net",
                CoreConfig::EntNet(EntNetConfig::new(input, 2, hidden)),
            ),
        ]
    }

    /// One model per core, with logits large enough for the probabilities to differ.
    fn models(device: &Device) -> Vec<(&'static str, EncoderDecoder<AnyCore>)> {
        let build = |((name, encoder), (_, decoder))| {
            let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(4), device.clone());
            let config = EncoderDecoderConfig {
                symbols: COUNT,
                encoder,
                decoder,
                head_layers: 1,
                head_hidden: 7,
            };
            let mut model = config.init(&mut init).unwrap();
            let weight = model.head.output.weight;
            model.head.output.weight = weight.map(|weight| {
                let learns = weight.is_require_grad();
                (weight * 4.0).detach().set_require_grad(learns)
            });
            (name, model)
        };
        cores(COUNT)
            .into_iter()
            .zip(cores(COUNT + 1))
            .map(build)
            .collect()
    }

    fn read(device: &Device) -> PackedSymbols {
        PackedSymbols::new(SYMBOLS.as_flattened(), &LENGTHS, COUNT, device)
    }

    fn targets(device: &Device) -> Tensor<3> {
        let symbols = [[4, 0, 1], [2, 99, 99], [1, 3, 99], [0, 0, 2]];
        one_hot_targets(symbols.as_flattened(), &[3, 1, 2, 3], COUNT, device)
    }

    /// `[1, COUNT + 1]`
    fn one_hot(symbol: usize, device: &Device) -> Tensor<2> {
        let mut row = [0.0; COUNT + 1];
        row[symbol] = 1.0;
        Tensor::from_floats([row], device)
    }

    /// A single sequence, step by step, as in the definition: logits `[STEPS * COUNT]`.
    fn alone(model: &EncoderDecoder<AnyCore>, row: usize, input: DecoderInput) -> Vec<f32> {
        let device = model.device();
        let prepared = model.encoder.prepare();
        let mut state = model.encoder.initial_state(1, &device);
        for symbol in &SYMBOLS[row][..LENGTHS[row]] {
            let input = one_hot(usize::from(*symbol), &device).narrow(1, 0, COUNT);
            state = model.encoder.step(&prepared, input, state).1;
        }
        let prepared = model.decoder.prepare();
        let mut all = Vec::new();
        let mut fed = one_hot(COUNT, &device);
        for step in 0..STEPS {
            let (output, next) = model.decoder.step(&prepared, fed, state);
            state = next;
            let logits = model.head.forward(output.output);
            all.extend(values(logits.clone()));
            let logits = values(logits);
            let sum: f32 = logits.iter().map(|x| x.exp()).sum();
            let row = match input {
                DecoderInput::Nothing => [0.0; COUNT + 1].to_vec(),
                DecoderInput::Probabilities => {
                    let shares = logits.iter().map(|x| x.exp() / sum);
                    shares.chain([0.0]).collect()
                }
                DecoderInput::Symbol => {
                    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
                    let ones = logits.iter().map(|x| f32::from(u8::from(*x == largest)));
                    ones.chain([0.0]).collect()
                }
                DecoderInput::Truth(targets) => {
                    let target = targets.clone().narrow(0, step, 1).narrow(1, row, 1);
                    values(target).into_iter().chain([0.0]).collect()
                }
            };
            fed = Tensor::<1>::from_floats(row.as_slice(), &device).unsqueeze();
        }
        all
    }

    /// Sequences of different lengths give the same logits in a batch as alone, for every decoder input.
    #[test]
    fn a_batch_is_its_sequences_step_by_step() {
        let device = Device::default();
        let targets = targets(&device);
        for (name, model) in models(&device) {
            let mut seen: Vec<Vec<f32>> = Vec::new();
            for input in [
                DecoderInput::Truth(&targets),
                DecoderInput::Probabilities,
                DecoderInput::Symbol,
                DecoderInput::Nothing,
            ] {
                let written = model.forward(&read(&device), input, STEPS);
                assert_eq!(written.logits.dims(), [STEPS, 4, COUNT]);
                assert_eq!(written.attention.len(), 6 + STEPS);
                for row in 0..4 {
                    let found = values(written.logits.clone().narrow(1, row, 1));
                    assert_close(name, &found, &alone(&model, row, input));
                }
                let logits = values(written.logits);
                assert!(!seen.contains(&logits), "{name}: {input:?} has no effect");
                seen.push(logits);
            }
        }
    }

    /// Values after the end of a sequence, or of a target, have no effect.
    #[test]
    fn padding_changes_nothing() {
        let device = Device::default();
        let mut other = SYMBOLS;
        for (row, length) in other.iter_mut().zip(LENGTHS) {
            row[length..].fill(3);
        }
        let other = PackedSymbols::new(other.as_flattened(), &LENGTHS, COUNT, &device);
        for (name, model) in models(&device) {
            let logits = |read: &PackedSymbols| {
                values(model.forward(read, DecoderInput::Symbol, STEPS).logits)
            };
            assert_eq!(logits(&read(&device)), logits(&other), "{name}");
        }
    }

    /// Gradients of some parameters of a model: of encoder, decoder and head.
    fn some_gradients(model: &EncoderDecoder<AnyCore>, gradients: &Gradients) -> Vec<Vec<f32>> {
        let lstm = |core: &AnyCore| -> Tensor<2> {
            let of = |lstm: &Lstm| lstm.weight_hidden.val().grad(gradients).unwrap();
            match core {
                AnyCore::Lstm(core) => of(core),
                AnyCore::StackedLstm(core) => of(&core.layers[0]),
                AnyCore::Dnc(core) => core.interface.weight.val().grad(gradients).unwrap(),
                AnyCore::Rmc(core) => core.input.weight.val().grad(gradients).unwrap(),
                AnyCore::EntNet(core) => core.from_cell.val().grad(gradients).unwrap(),
                _ => unreachable!("none of the tests' cores"),
            }
        };
        let head = model.head.output.weight.val().grad(gradients).unwrap();
        vec![
            values(lstm(&model.encoder)),
            values(lstm(&model.decoder)),
            values(head),
        ]
    }

    /// The gradient of a batch is the sum of the gradients of its sequences, which do not affect each
    /// other.
    #[test]
    fn gradients_are_those_of_the_sequences() {
        let device = Device::default().autodiff();
        let targets = targets(&device);
        for (name, model) in models(&device) {
            let input = DecoderInput::Truth(&targets);
            let written = model.forward(&read(&device), input, STEPS);
            let loss = written.log_likelihood(targets.clone()).sum();
            let whole = some_gradients(&model, &loss.backward());
            let mut sums: Vec<Vec<f32>> = whole.iter().map(|g| vec![0.0; g.len()]).collect();
            for row in 0..4 {
                let symbols = &SYMBOLS[row][..LENGTHS[row]];
                let read = PackedSymbols::new(symbols, &LENGTHS[row..=row], COUNT, &device);
                let target = targets.clone().narrow(1, row, 1);
                let written = model.forward(&read, DecoderInput::Truth(&target), STEPS);
                let loss = written.log_likelihood(target.clone()).sum();
                for (sum, part) in sums
                    .iter_mut()
                    .zip(some_gradients(&model, &loss.backward()))
                {
                    sum.iter_mut()
                        .zip(part)
                        .for_each(|(sum, part)| *sum += part);
                }
            }
            for (whole, sum) in whole.iter().zip(&sums) {
                let largest = sum.iter().fold(0.0_f32, |most, g| most.max(g.abs()));
                assert!(largest > 0.0, "{name}");
                let scaled = |g: &[f32]| g.iter().map(|g| g / largest).collect::<Vec<f32>>();
                assert_close(name, &scaled(whole), &scaled(sum));
            }
        }
    }

    /// When a model is fed its own probabilities, no gradient flows through them.
    #[test]
    fn no_gradient_goes_back_through_what_is_fed() {
        let device = Device::default().autodiff();
        let targets = targets(&device);
        for (name, model) in models(&device) {
            let read = read(&device);
            let own = model.forward(&read, DecoderInput::Probabilities, STEPS);
            let constants = activation::softmax(own.logits.clone().detach(), 2);
            let loss = own.log_likelihood(targets.clone()).sum();
            let found = some_gradients(&model, &loss.backward());
            let given = model.forward(&read, DecoderInput::Truth(&constants), STEPS);
            let loss = given.log_likelihood(targets.clone()).sum();
            let expected = some_gradients(&model, &loss.backward());
            for (found, expected) in found.iter().zip(&expected) {
                let largest = expected.iter().fold(0.0_f32, |most, g| most.max(g.abs()));
                let scaled = |g: &[f32]| g.iter().map(|g| g / largest).collect::<Vec<f32>>();
                assert_close(name, &scaled(found), &scaled(expected));
            }
        }
    }

    /// A model with perfect predictions gives the same output with and without teacher forcing.
    #[test]
    fn a_teacher_says_nothing_new_where_predictions_are_right() {
        let device = Device::default();
        for (name, model) in models(&device) {
            let own = model.forward(&read(&device), DecoderInput::Symbol, STEPS);
            let symbols = own.symbols().swap_dims(0, 1).into_data();
            let symbols: Vec<u8> = symbols.iter::<i64>().map(|symbol| symbol as u8).collect();
            let targets = one_hot_targets(&symbols, &[STEPS; 4], COUNT, &device);
            let taught = model.forward(&read(&device), DecoderInput::Truth(&targets), STEPS);
            assert_close(name, &values(taught.logits), &values(own.logits.clone()));
            assert_eq!(values(own.right(targets)), [STEPS as f32; 4], "{name}");
        }
    }

    /// Softmax by hand: two sequences of two steps; the second sequence has only one symbol.
    #[test]
    fn the_likelihood_is_that_of_a_softmax_up_to_the_end() {
        let device = Device::default();
        let logits = [[[2.0, -1.0], [0.5, 1.5]], [[0.0, 3.0], [9.0, -9.0]]];
        let written = Written {
            logits: Tensor::from_floats(logits, &device),
            attention: Vec::new(),
        };
        let targets = one_hot_targets(&[0, 0, 0, 1], &[2, 1], 2, &device);
        let log_share = |of: f64, other: f64| -(1.0 + (other - of).exp()).ln();
        let expected = [
            log_share(2.0, -1.0) + log_share(0.0, 3.0),
            log_share(0.5, 1.5),
        ];
        let found = values(written.log_likelihood(targets.clone()));
        assert_close("likelihood", &found, &expected.map(|x| x as f32));
        assert_eq!(values(written.right(targets)), [1.0, 0.0]);
        let symbols: Vec<i64> = written.symbols().into_data().iter::<i64>().collect();
        assert_eq!(symbols, [0, 1, 1, 0]);
    }

    #[test]
    fn sizes_of_zero_are_refused() {
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), Device::default());
        let [(_, encoder), ..] = cores(COUNT);
        let [(_, decoder), ..] = cores(COUNT + 1);
        let config = EncoderDecoderConfig {
            symbols: COUNT,
            encoder,
            decoder,
            head_layers: 1,
            head_hidden: 0,
        };
        let message = config.init(&mut init).unwrap_err().to_string();
        assert_eq!(message, "model.head_hidden is 0, it must be at least 1");
    }
}
