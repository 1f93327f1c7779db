//! What is measured of agents.

use mnemora_training::{
    Quantity,
    measures::{Better, Claim, Format},
};

/// The measurements of agents.
pub static QUANTITIES: [Quantity; 9] = [
    Quantity::new("return", "return", "reward per episode")
        .meaning("sum of the rewards of an episode, actions drawn from the policy, mean over {sequences} episodes; in training, of the last hundred")
        .spread("return_stderr", "episodes")
        .format(Format::Decimals(3))
        .better(Better::Higher)
        .column(3)
        .tracked()
        .progress("return", Format::Decimals(3))
        .checkpoint("return", Format::Decimals(3))
        .claims(&[Claim::new("return", "reward per episode", 4)]),
    Quantity::new("outcome", "outcome", "")
        .meaning("mean of what the environment counts: {outcome_name}")
        .spread("outcome_stderr", "episodes")
        .format(Format::Decimals(4))
        .better(Better::Higher)
        .column(4)
        .tracked()
        .progress("outcome", Format::Decimals(3))
        .checkpoint("outcome", Format::Decimals(3))
        .claims(&[Claim::new("outcome", "", 4)]),
    Quantity::new("greedy_return", "return, most probable actions", "reward per episode")
        .meaning("the most probable action is taken at each step")
        .spread("greedy_return_stderr", "episodes")
        .compared()
        .format(Format::Decimals(3))
        .better(Better::Higher)
        .claims(&[Claim::new("return, most probable actions", "reward per episode", 4)]),
    Quantity::new("greedy_outcome", "outcome, most probable actions", "")
        .meaning("the most probable action is taken at each step")
        .spread("greedy_outcome_stderr", "episodes")
        .compared()
        .format(Format::Decimals(4))
        .better(Better::Higher)
        .claims(&[Claim::new("outcome, most probable actions", "", 4)]),
    Quantity::new("length", "length", "steps per episode")
        .meaning("actions of an episode")
        .compared()
        .format(Format::Decimals(1))
        .tracked()
        .claims(&[Claim::new("length of an episode", "steps", 2)]),
    Quantity::new("entropy", "entropy", "nats")
        .meaning("of the policy, mean over steps")
        .tracked(),
    Quantity::new("value_error", "error of the values", "squared reward")
        .meaning("mean squared difference from their targets")
        .better(Better::Lower)
        .tracked(),
    Quantity::new("lag", "lag", "updates")
        .meaning("made since the policy acted, of asynchronous actors or from an unroll before")
        .tracked(),
    Quantity::new("frames", "steps in the environment", "")
        .meaning("of all environments so far")
        .tracked(),
];
