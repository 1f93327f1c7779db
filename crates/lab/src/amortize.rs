//! How an inference network learns while it is at work (Marino et al. 2018, avf).

use crate::adam::{Adam, ParameterGradients, take};
use burn::tensor::{Gradients, Tensor};
use mnemora_models::{Improver, IterativeNet, inference::Belief};

/// An [`IterativeNet`] that improves beliefs and learns from what becomes of them: updates by Adam
/// along the mean, over sequences and rounds, of the gradients of the new beliefs' free energies.
/// Each of these depends on the network through its own round only.
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
    gradients: ParameterGradients,
    /// Gradients that were added up.
    terms: usize,
    /// Named once a gradient is not finite; nothing is learned from then on.
    failure: Option<String>,
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
            gradients: ParameterGradients::default(),
            terms: 0,
            failure: None,
        }
    }

    /// The parameter whose gradient was not finite, if there was one.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Makes the update for the time steps since the last one, if there were any.
    pub fn finish(&mut self) {
        let gradients = std::mem::take(&mut self.gradients);
        let terms = std::mem::take(&mut self.terms);
        if terms == 0 || self.failure.is_some() {
            return;
        }
        if !gradients.global_norm().is_finite() {
            let name = gradients.non_finite();
            self.failure = Some(name.unwrap_or_else(|| "the norm of the gradient".to_owned()));
            return;
        }
        self.updates += 1;
        let scale = 1.0 / terms as f64;
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
        self.terms += x.dims()[0];
        self.net.forward(belief, gradient, x)
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, gradients: Gradients) {
        self.gradients.add(&self.net, gradients);
    }

    fn end(&mut self) {
        if self.online {
            self.finish();
        }
    }
}
