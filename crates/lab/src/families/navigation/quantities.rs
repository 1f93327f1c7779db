//! What is measured on walks.

use mnemora_training::{
    Quantity,
    measures::{Better, Claim, Format},
};

const MSE: &str = "mean squared error of a pixel";

/// Its measurements.
pub static QUANTITIES: [Quantity; 20] = [
    Quantity::new("bound", "bound", "nats per foreseen frame")
        .meaning("mean over {sequences} held-out walks, higher is better")
        .spread("bound_stderr", "walks")
        .better(Better::Higher)
        .column(1)
        .tracked()
        .finite()
        .progress("bound", Format::Digits)
        .checkpoint("bound", Format::Digits)
        .claims(&[Claim::new("bound", "nats per foreseen frame", 2)]),
    Quantity::new("kl", "KL", "nats per foreseen frame")
        .meaning("KL of what is seen from what was expected")
        .better(Better::Lower)
        .tracked()
        .finite()
        .progress("KL", Format::Digits)
        .claims(&[Claim::new("KL", "nats per foreseen frame", 2)]),
    Quantity::new("place_r2", "places known", "R²")
        .meaning(
            "share of the variance of the true place that an affine map of the model's place explains; a plateau near \
             0.5 means that both axes lie on one line",
        )
        .better(Better::Higher)
        .format(Format::Decimals(5))
        .column(5)
        .tracked()
        .checkpoint("R²", Format::Decimals(4))
        .claims(&[Claim::new("R² of the place", "share of variance", 5)]),
    Quantity::new("place_error", "place error, last 64 steps", "cells")
        .meaning("distance from the true place (for a rotation: radians), in the first 64 steps {place_error_first}")
        .better(Better::Lower)
        .column(4)
        .tracked()
        .claims(&[Claim::new("place error, last 64 steps", "cells", 4)]),
    Quantity::new("memorised_error", "place error, last memorised step", "cells")
        .meaning("the model saw all frames up to this step; with landmarks they correct its place")
        .better(Better::Lower)
        .tracked()
        .claims(&[Claim::new("place error, last memorised step", "cells", 4)]),
    Quantity::new("foreseen_error", "place error, last foreseen step", "cells")
        .meaning("after all steps from the actions alone")
        .better(Better::Lower)
        .claims(&[Claim::new("place error, last foreseen step", "cells", 4)]),
    Quantity::new("stop_recognised", "stops recognised", "% of stopped moves")
        .meaning("memorised steps whose move a wall or an obstacle stopped, and in which the model believed to move by less than half a cell")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .claims(&[Claim::new("stops recognised", "share of stopped moves", 4)]),
    Quantity::new("place_kl", "KL of places", "nats per foreseen frame")
        .meaning("of the place after the frame is seen from that of the transition; part of the bound with landmarks")
        .better(Better::Lower)
        .claims(&[Claim::new("KL of places", "nats per foreseen frame", 3)]),
    Quantity::new("turn", "turns", "per true turn")
        .meaning("of the model's heading; 1 if a whole turn leads back to the same place, 1/2 if only two do")
        .format(Format::Decimals(4))
        .tracked()
        .claims(&[Claim::new("turns of the model per true turn", "ratio", 4)]),
    Quantity::new("nearest_right", "nearest entry right", "% of steps to places seen")
        .meaning("the stored entry nearest to the model's place is of the true place; {seen%}% of the steps lead to places seen")
        .format(Format::Percent(2))
        .better(Better::Higher)
        .column(4)
        .tracked()
        .checkpoint("nearest", Format::Percent(1))
        .claims(&[Claim::new("nearest entry right", "share of steps to places seen", 4)]),
    Quantity::new("best_seen", "foreseen, places seen", MSE)
        .meaning("the mean of the component of largest weight, decoded; the VAE itself has {own_seen}")
        .better(Better::Lower)
        .claims(&[Claim::new("error of the foreseen frame, places seen", "mse", 5)]),
    Quantity::new("best_ratio", "foreseen against the VAE", "ratio")
        .meaning("error of foreseen frames at places seen, divided by the VAE's own")
        .better(Better::Lower)
        .format(Format::Decimals(3))
        .column(3)
        .tracked()
        .claims(&[Claim::new("foreseen / VAE, places seen", "ratio", 3)]),
    Quantity::new("flatness", "last block against the first", "ratio")
        .meaning("error of foreseen frames at places seen in the last 32 steps, divided by that in the first 32")
        .better(Better::Lower)
        .format(Format::Decimals(3))
        .column(3)
        .tracked()
        .claims(&[Claim::new("error of the last block / of the first", "ratio", 3)]),
    Quantity::new("best", "foreseen", MSE)
        .meaning(
            "over all steps; with the VAE's frame of the place seen that is truly nearest {oracle}, with the last memorised \
             frame {copied}",
        )
        .better(Better::Lower)
        .column(5)
        .tracked()
        .claims(&[Claim::new("error of the foreseen frame", "mse", 5)]),
    Quantity::new("oracle_ratio", "foreseen against the oracle", "ratio")
        .meaning("error of foreseen frames divided by that of the VAE's frame of the place seen that is truly nearest")
        .better(Better::Lower)
        .format(Format::Decimals(3))
        .claims(&[Claim::new("foreseen / oracle", "ratio", 3)]),
    Quantity::new("sampled", "sampled", MSE)
        .meaning("a frame decoded from a sample of the prior; at places seen {sampled_seen}")
        .better(Better::Lower)
        .column(5)
        .tracked()
        .claims(&[Claim::new("error of the sampled frame", "mse", 5)]),
    Quantity::new("sampled_ratio", "sampled against the mean of memory", "ratio")
        .meaning("error of sampled frames divided by that of the mean of all memorised frames, {average}")
        .better(Better::Lower)
        .format(Format::Decimals(3))
        .claims(&[Claim::new("sampled / mean of memory", "ratio", 3)]),
    Quantity::new("whole_bound", "bound of whole walks", "nats per walk")
        .meaning("for a model without places: reconstruction minus KL of all steps")
        .better(Better::Higher)
        .claims(&[Claim::new("bound of whole walks", "nats per walk", 1)]),
    Quantity::new("kl_last", "KL of the last frame", "nats")
        .meaning("for a model without places: near zero if memory predicts it")
        .format(Format::Decimals(2))
        .better(Better::Lower)
        .column(2)
        .progress("last KL", Format::Decimals(2))
        .claims(&[Claim::new("KL of the last frame", "nats", 2)]),
    Quantity::new("own", "VAE itself", MSE)
        .meaning("frames that the VAE sees, decoded again")
        .better(Better::Lower)
        .claims(&[Claim::new("error of the VAE itself", "mse", 5)]),
];
