//! The prior `p(z_t | s_t, M)`: from the entries near a place to a distribution of what is seen there (gtm-sm, sections
//! 4.1 and 4.2).

use crate::{
    DiagonalGaussian, MixtureOfGaussians,
    mlp::{Activation, Head, Mlp},
};
use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use mnemora_memory::{Initializer, Neighbours, dnd::log_weights};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the entries of the dictionary make a prior.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PriorKind {
    /// A mixture of the entries' Gaussians, weighted by distance (section 4.1).
    Mixture,
    /// A Gaussian from a network that reads all entries (section 4.2).
    Mlp,
}

/// Numbers by which the distance of places of `place` numbers is measured.
pub fn feature_size(place: usize) -> usize {
    match place {
        3 => 4,
        place => place,
    }
}

/// `phi(s)`: a place `[rows, place]`, with a heading replaced by its cosine and sine, so that whole turns do not count
/// (gtm-sm, section 4.2). Places of three numbers have a heading, the last; others are their own features.
pub fn features(places: Tensor<2>) -> Tensor<2> {
    if places.dims()[1] != 3 {
        return places;
    }
    let heading = places.clone().narrow(1, 2, 1);
    let (cos, sin) = (heading.clone().cos(), heading.sin());
    Tensor::cat(vec![places.narrow(1, 0, 2), cos, sin], 1)
}

/// Bound of the first numbers of `B` beside those that leave features as they are.
const FAINT: f64 = 0.05;

/// The first `B`: features as they are, apart from small numbers.
pub fn first_distance([features, outputs]: [usize; 2], init: &mut Initializer) -> Param<Tensor<2>> {
    init.parameter([features, outputs], |draws| {
        let mut weights = draws.uniform(features * outputs, FAINT);
        for number in 0..features.min(outputs) {
            weights[number * outputs + number] += 1.0;
        }
        weights
    })
}

/// Width of [`input`].
pub fn input_size(neighbours: usize, features: usize, latent: usize) -> usize {
    neighbours * (1 + features + 2 * latent) + features
}

/// What a prior reads, one row for each query: squared distances, offsets of the keys from the query, means and log
/// standard deviations of the entries, then the query's own features `here`, `[rows, features]`.
pub fn input(near: &Neighbours, here: Tensor<2>, latent: usize) -> Tensor<2> {
    let [rows, count, width] = near.keys.dims();
    let offsets = near.keys.clone() - here.clone().unsqueeze_dim::<3>(1);
    let statistic = |start: usize| {
        let part = near.values.clone().narrow(2, start, latent);
        part.reshape([rows, count * latent])
    };
    Tensor::cat(
        vec![
            near.squares.clone(),
            offsets.reshape([rows, count * width]),
            statistic(0),
            statistic(latent),
            here,
        ],
        1,
    )
}

/// The parts of [`input`].
pub struct Found {
    /// Squared distances, `[rows, count]`.
    squares: Tensor<2>,
    /// `u(s_k) - u(s)`, `[rows, count, features]`.
    offsets: Tensor<3>,
    /// `[rows, count, latent]`
    means: Tensor<3>,
    /// `[rows, count, latent]`
    log_stds: Tensor<3>,
    /// `u(s)`, `[rows, features]`.
    here: Tensor<2>,
}

impl Found {
    /// Takes [`input`] apart.
    pub fn from_input(input: Tensor<2>, count: usize, latent: usize) -> Self {
        let [rows, width] = input.dims();
        let features = (width - count * (1 + 2 * latent)) / (count + 1);
        let mut start = 0;
        let mut next = |numbers: usize| {
            let part = input.clone().narrow(1, start, numbers);
            start += numbers;
            part
        };
        let squares = next(count);
        let offsets = next(count * features).reshape([rows, count, features]);
        let means = next(count * latent).reshape([rows, count, latent]);
        let log_stds = next(count * latent).reshape([rows, count, latent]);
        Self {
            squares,
            offsets,
            means,
            log_stds,
            here: next(features),
        }
    }

    /// `sum_k w_k N(mean_k, std_k^2)`
    pub fn mixture(self, delta: f64) -> MixtureOfGaussians {
        MixtureOfGaussians {
            log_weights: log_weights(self.squares, delta),
            means: self.means,
            log_stds: self.log_stds,
        }
    }
}

/// The prior of the Labyrinth: a Gaussian from all entries and the place. Its mean is that of the weighted entries plus
/// a learned difference.
#[derive(Module, Debug)]
pub struct MlpPrior {
    /// From the entries, the nearest first, to an embedding.
    pub embedding: Mlp,
    /// From the embedding and the features of the place to mean and log standard deviation.
    pub map: Head,
}

impl MlpPrior {
    /// A prior over `latent` numbers from `neighbours` entries, for places of `features` features.
    pub fn new(
        neighbours: usize,
        features: usize,
        latent: usize,
        hidden: usize,
        init: &mut Initializer,
    ) -> Self {
        let entry = features + 1 + 2 * latent;
        Self {
            embedding: Mlp::new(neighbours * entry, 2, hidden, Activation::Relu, init),
            map: Head::new(
                [hidden + features, 2 * latent],
                1,
                hidden,
                Activation::Relu,
                init,
            ),
        }
    }

    /// The prior of each row, as a mixture of one component.
    pub fn forward(&self, found: Found, delta: f64) -> MixtureOfGaussians {
        let [rows, count, latent] = found.means.dims();
        // The root has no slope at 0.
        let distances = found.squares.clone().add_scalar(1e-12).sqrt();
        let weights = log_weights(found.squares.clone(), delta)
            .exp()
            .unsqueeze_dim::<3>(2);
        let weighted = (weights * found.means.clone())
            .sum_dim(1)
            .squeeze_dim::<2>(1);
        let entries = Tensor::cat(
            vec![
                found.offsets,
                distances.unsqueeze_dim(2),
                found.means,
                found.log_stds,
            ],
            2,
        );
        let width = entries.dims()[2];
        let embedded = self
            .embedding
            .forward(entries.reshape([rows, count * width]));
        let output = self.map.forward(Tensor::cat(vec![embedded, found.here], 1));
        let DiagonalGaussian { mean, log_std } = DiagonalGaussian::from_parameters(output);
        let mean = mean + weighted;
        MixtureOfGaussians {
            log_weights: Tensor::zeros([rows, 1], &mean.device()),
            means: mean.reshape([rows, 1, latent]),
            log_stds: log_std.reshape([rows, 1, latent]),
        }
    }
}
