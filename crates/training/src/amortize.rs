//! Training an inference network while it is in use (Marino et al. 2018, avf).

use crate::optimiser::{Optimiser, ParameterGradients, take};
use burn::{module::Module, tensor::Tensor};
use mnemora_memory::Bundle;
use mnemora_models::{Improver, IterativeNet, inference::Belief};

/// An [`IterativeNet`] that improves beliefs and learns from the result. Adam follows the gradient of the new beliefs'
/// free energies, averaged over sequences and rounds. Each free energy depends on the network through its own round
/// only, so no graph of the network is kept while beliefs are inferred: an update runs the network again on the inputs
/// of all rounds in one call, and backpropagates the gradients found for the new beliefs.
pub struct Amortizer {
    /// On an autodiff device, with tracked parameters.
    pub net: IterativeNet,
    /// Its optimiser.
    pub optimiser: Optimiser,
    /// Updates made so far.
    pub updates: u64,
    /// The learning rate of Adam.
    pub learning_rate: f64,
    /// Calls of the network per time step.
    pub iterations: usize,
    /// Whether it learns after each time step; otherwise once, in [`finish`](Self::finish).
    pub online: bool,
    asked: Option<Asked>,
    /// Its inputs since the last update, with the gradient for each resulting belief.
    rounds: Vec<(Asked, Belief)>,
    /// Set once a gradient is not finite; learning stops then.
    failure: Option<String>,
}

/// The inputs of the network, for the sequences of a batch.
struct Asked {
    belief: Belief,
    gradient: Belief,
    x: Tensor<2>,
}

impl Amortizer {
    /// An untrained network that learns after each time step.
    pub fn new(net: IterativeNet, iterations: usize, learning_rate: f64) -> Self {
        Self {
            net,
            optimiser: Optimiser::default(),
            updates: 0,
            learning_rate,
            iterations,
            online: true,
            asked: None,
            rounds: Vec::new(),
            failure: None,
        }
    }

    /// The parameter whose gradient was not finite, if there was one.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Makes the update for the time steps since the last update, if there were any.
    pub fn finish(&mut self) {
        let rounds = std::mem::take(&mut self.rounds);
        if rounds.is_empty() || self.failure.is_some() {
            return;
        }
        let mut seen = Vec::with_capacity(rounds.len());
        let mut parts = [const { Vec::new() }; 3];
        for (asked, outcome) in rounds {
            let beliefs = [asked.belief, asked.gradient, outcome];
            for (part, belief) in parts.iter_mut().zip(beliefs) {
                part.push(belief);
            }
            seen.push(asked.x);
        }
        let [belief, gradient, outcome] = parts.map(Belief::concatenate);
        let x = Tensor::cat(seen, 0);
        let found = self.net.forward(&belief, &gradient, &x);
        // The gradient of this dot product is the sum of the gradients of the free energies.
        let objective =
            (found.mean * outcome.mean + found.log_variance * outcome.log_variance).sum();
        let gradients = ParameterGradients::of(&self.net, objective.backward());
        if !gradients.global_norm().is_finite() {
            let name = gradients.non_finite();
            self.failure = Some(name.unwrap_or_else(|| "the norm of the gradient".to_owned()));
            return;
        }
        self.updates += 1;
        let scale = 1.0 / x.dims()[0] as f64;
        let before = take(&mut self.net);
        self.net = self
            .optimiser
            .step(before, gradients, scale, self.learning_rate, self.updates);
    }
}

impl Improver for Amortizer {
    fn rounds(&self) -> usize {
        self.iterations
    }

    fn improve(&mut self, belief: &Belief, gradient: &Belief, x: &Tensor<2>) -> Belief {
        self.asked = Some(Asked {
            belief: belief.clone(),
            gradient: gradient.clone(),
            x: x.clone(),
        });
        self.net.clone().freeze().forward(belief, gradient, x)
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, gradient: &Belief) {
        let asked = self.asked.take();
        self.rounds
            .extend(asked.map(|asked| (asked, gradient.clone())));
    }

    fn end(&mut self) {
        if self.online {
            self.finish();
        }
    }
}
