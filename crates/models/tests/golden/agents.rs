//! What agents learn from compared with the NumPy implementation in `reference/`: values and gradients.

use crate::file::{Golden, assert_close};
use burn::tensor::{Device, Tensor};
use mnemora_models::{
    Costs, Objective, Trajectories, Transitions, generalised_advantages, objective, v_trace,
};

fn compare(name: &str, kind: Objective) {
    let golden = Golden::open(name);
    let device = Device::default().autodiff();
    let logits: Tensor<3> = golden.tensor("logits", &device).require_grad();
    let values: Tensor<2> = golden.tensor("values", &device).require_grad();
    let [time, batch, actions] = logits.dims();
    let [rewards, discounts] = ["rewards", "discounts"].map(|name| golden.values(name));
    let behaviour = golden.values("behaviour");
    let chosen = golden.values("actions");
    let chosen: Vec<usize> = chosen.into_iter().map(|action| action as usize).collect();
    let taken = Transitions {
        batch,
        actions: &chosen,
        log_probabilities: &behaviour,
        rewards: &rewards,
        discounts: &discounts,
    };
    let found = objective(
        kind,
        Costs {
            value: 0.5,
            entropy: 0.01,
        },
        logits.clone().reshape([time * batch, actions]),
        values.clone().flatten(0, 1),
        &taken,
    );
    assert_close("terms", &golden.values("terms"), found.terms);
    assert_close("loss", &golden.values("loss"), found.loss.clone());
    let gradients = found.loss.backward();
    let gradient = logits.grad(&gradients).expect("the policy learns");
    assert_close("grad.logits", &golden.values("grad.logits"), gradient);
    let gradient = values.grad(&gradients).expect("the values learn");
    assert_close("grad.values", &golden.values("grad.values"), gradient);
}

#[test]
fn the_policy_gradient_with_v_trace() {
    compare("v_trace", Objective::VTrace);
    let golden = Golden::open("v_trace");
    let [rewards, discounts, values] =
        ["rewards", "discounts", "values"].map(|name| golden.values(name));
    let what = Trajectories {
        batch: 3,
        rewards: &rewards,
        discounts: &discounts,
        values: &values,
    };
    let device = Device::default();
    let logits: Tensor<2> = golden.tensor::<3>("logits", &device).flatten(0, 1);
    let log_pi = burn::tensor::activation::log_softmax(logits, 1);
    let actions = log_pi.dims()[1];
    let log_pi = log_pi.into_data().try_into_vec::<f32>().unwrap();
    let ratios = golden.values("actions").into_iter().enumerate();
    let ratios: Vec<f32> = ratios
        .zip(golden.values("behaviour"))
        .map(|((row, action), behaviour)| log_pi[row * actions + action as usize] - behaviour)
        .collect();
    let returns = v_trace(&what, &ratios);
    let close = |name: &str, found: Vec<f32>| {
        assert_close(
            name,
            &golden.values(name),
            Tensor::<1>::from_floats(found.as_slice(), &device),
        );
    };
    close("targets", returns.targets);
    close("advantages", returns.advantages);
}

#[test]
fn the_clipped_objective_of_ppo() {
    compare(
        "ppo",
        Objective::Ppo {
            clip: 0.2,
            lambda: 0.95,
        },
    );
    let golden = Golden::open("ppo");
    let [rewards, discounts, values] =
        ["rewards", "discounts", "values"].map(|name| golden.values(name));
    let what = Trajectories {
        batch: 3,
        rewards: &rewards,
        discounts: &discounts,
        values: &values,
    };
    let returns = generalised_advantages(&what, 0.95);
    let targets = Tensor::<1>::from_floats(returns.targets.as_slice(), &Device::default());
    assert_close("targets", &golden.values("targets"), targets);
}
