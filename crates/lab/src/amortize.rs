//! How an inference network learns while it is at work (Marino et al. 2018, avf).

use crate::adam::{Adam, ParameterGradients, take};
use burn::{module::Module, tensor::Tensor};
use mnemora_memory::Bundle;
use mnemora_models::{Improver, IterativeNet, inference::Belief};

/// An [`IterativeNet`] that improves beliefs and learns from what becomes of them: updates by Adam
/// along the mean, over sequences and rounds, of the gradients of the new beliefs' free energies.
/// Each of these depends on the network through its own round only, so that nothing of the network's
/// graph is needed while beliefs are found: an update asks it again for all rounds in one call, and
/// goes back from the gradients that these new beliefs turned out to have.
pub struct Amortizer {
    /// On an autodiff device, its parameters tracked.
    pub net: IterativeNet,
    /// Its optimiser.
    pub adam: Adam,
    /// Updates made so far.
    pub updates: u64,
    /// Adam's rate.
    pub learning_rate: f64,
    /// How often the network is asked at each time step.
    pub iterations: usize,
    /// Whether it learns after each time step; if not, once in [`finish`](Self::finish).
    pub online: bool,
    asked: Option<Asked>,
    /// What it was asked since the last update, and the gradient for the belief that came of it.
    rounds: Vec<(Asked, Belief)>,
    /// Named once a gradient is not finite; nothing is learned from then on.
    failure: Option<String>,
}

/// What the network was asked, for the sequences of a batch.
struct Asked {
    belief: Belief,
    gradient: Belief,
    x: Tensor<2>,
}

impl Amortizer {
    /// A network that has learned nothing yet, and will learn after each time step.
    pub fn new(net: IterativeNet, iterations: usize, learning_rate: f64) -> Self {
        Self {
            net,
            adam: Adam::default(),
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

    /// Makes the update for the time steps since the last one, if there were any.
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
        // Its gradient is the sum of those of the free energies.
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
            .adam
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
