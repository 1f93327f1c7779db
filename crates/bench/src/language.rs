//! A training step of the language model of `wikitext-2` with an LSTM.

use crate::{
    benchmark::{Benchmark, Prepared},
    cost::Cost,
    sequences::LEARNING_RATE,
};
use mnemora_memory::{CoreConfig, Initializer, LstmConfig, RecurrentCore};
use mnemora_models::{LanguageConfig, WordDropout, Words};
use mnemora_training::{
    arrays::parameter_count,
    optimiser::{Optimiser, ParameterGradients, take},
};
use mnemora_worlds::Stream;

/// Vocabulary size of WikiText-2.
const VOCABULARY: usize = 33_278;
const EMBEDDING: usize = 192;
const HIDDEN: usize = 1050;
const BATCH: usize = 20;
const WINDOW: usize = 35;

/// A training step (forward, full softmax, backward, Adam) on a window of words; the state is carried over.
pub(super) fn benchmark() -> Benchmark {
    Benchmark {
        name: "train-step/lstm-language".into(),
        prepare: Box::new(|device| {
            let config = LanguageConfig {
                core: CoreConfig::Lstm(LstmConfig {
                    input: EMBEDDING,
                    hidden: HIDDEN,
                }),
                vocabulary: VOCABULARY,
                embedding: EMBEDDING,
            };
            let mut init = Initializer::new(Stream::new(1, "parameters").at(0), device.clone());
            let mut model = config.init(&mut init)?;
            let parameters = parameter_count(&model);
            let words = Stream::new(1, "words").uniform_values(0, 2 * BATCH * WINDOW);
            let words = words.into_iter().map(|u| (u * VOCABULARY as f64) as u32);
            let words: Vec<u32> = words.collect();
            let (inputs, targets) = words.split_at(BATCH * WINDOW);
            let words = Words::new(inputs, targets, BATCH, &device.clone().inner());
            let mut carried = model.core.initial_state(BATCH, device);
            let mut adam = Optimiser::default();
            let mut updates = 0;
            Ok(Prepared::of_model(
                cost(parameters),
                parameters,
                move || {
                    let state = carried.clone();
                    let learned = model.learn(&words, state, WordDropout::default(), None);
                    let mut gradients = ParameterGradients::of(&model, learned.gradients);
                    gradients.insert("embedding", learned.embedding);
                    gradients.insert("bias", learned.bias);
                    carried = learned.state;
                    updates += 1;
                    let before = take(&mut model);
                    model = adam.step(before, gradients, 1.0, LEARNING_RATE, updates);
                    Ok(())
                },
            ))
        }),
    }
}

/// The products of a step: gates, projection, logits.
fn cost(parameters: usize) -> Cost {
    let rows = BATCH * WINDOW;
    let products = Cost::product(rows, EMBEDDING + HIDDEN, 4 * HIDDEN)
        + Cost::product(rows, HIDDEN, EMBEDDING)
        + Cost::product(rows, EMBEDDING, VOCABULARY);
    products.with_backward() + Cost::array(6 * parameters)
}
