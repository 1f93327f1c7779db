//! The linear-Gaussian example with first steps that are not scored. At these steps the model would give its
//! prior and likelihood NaN, so neither may be called.

use crate::{
    X, conditions, log_normal,
    model::{LinearGaussian, inner, normal, tensor, values},
    observations,
};
use burn::tensor::{Device, Tensor};
use mnemora_memory::Attention;
use mnemora_models::{
    DiagonalGaussian, FilteringModel, InferenceNoise, Likelihood, Resampling, expected, filter,
    filter_given, follow, generate, infer, inference::GradientSteps, online_step, particle_bound,
};

/// Steps that are not scored.
const UNSCORED: usize = 2;

struct Memorising(LinearGaussian);

#[derive(Clone, Debug)]
struct State {
    before: Option<Tensor<2>>,
    seen: usize,
}

mnemora_memory::bundle!(State { before; seen });

struct Context {
    own: Tensor<2>,
    seen: usize,
}

impl Context {
    /// The tensor itself after the memorised steps, NaN before.
    fn guarded(&self, tensor: Tensor<2>) -> Tensor<2> {
        match self.seen < UNSCORED {
            true => tensor * f64::NAN,
            false => tensor,
        }
    }
}

impl FilteringModel for Memorising {
    type State = State;
    type Prepared = ();
    type Features = Tensor<2>;
    type Context = Context;
    type Emission = Tensor<2>;
    type Prior = DiagonalGaussian;

    fn latent_size(&self) -> usize {
        self.0.latent_size()
    }

    fn scored_from(&self, state: &State) -> usize {
        UNSCORED.saturating_sub(state.seen)
    }

    fn initial_state(&self, batch: usize) -> State {
        State {
            before: self.0.initial_state(batch),
            seen: 0,
        }
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<Tensor<2>> {
        self.0.encode(observations)
    }

    fn prepare(&self) {}

    fn predict(
        &self,
        prepared: &(),
        condition: Option<Tensor<2>>,
        noise: Option<Tensor<2>>,
        state: State,
    ) -> Context {
        Context {
            own: self.0.predict(prepared, condition, noise, state.before),
            seen: state.seen,
        }
    }

    fn prior_input(&self, context: &Context) -> Tensor<2> {
        context.guarded(self.0.prior_input(&context.own))
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        self.0.prior(input)
    }

    fn posterior(&self, features: &Tensor<2>, context: &mut Context) -> DiagonalGaussian {
        self.0.posterior(features, &mut context.own)
    }

    fn emit(&self, z: Tensor<2>, context: &Context) -> Tensor<2> {
        context.guarded(self.0.emit(z, &context.own))
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        self.0.decode(emissions)
    }

    fn update(&self, _: &Tensor<2>, z: Tensor<2>, _: &Tensor<2>, context: Context) -> State {
        State {
            before: Some(z),
            seen: context.seen + 1,
        }
    }

    fn attention<'a>(&self, _: &'a Context) -> &'a [Attention] {
        &[]
    }
}

fn models(device: &Device) -> (LinearGaussian, Memorising) {
    let model = || LinearGaussian::example(1, device);
    (model(), Memorising(model()))
}

fn noise(batch: usize, device: &Device) -> Tensor<3> {
    tensor(normal(X.len() * batch, 3), [X.len(), batch, 1], device)
}

/// The numbers of unscored steps are zeros, the others are as expected.
fn assert_scored(found: Tensor<2>, expected: Tensor<2>) {
    let [time, batch] = expected.dims();
    let (found, expected) = (values(found), values(expected));
    let unscored = UNSCORED * batch;
    assert_eq!(found.len(), time * batch);
    assert!(found[..unscored].iter().all(|number| *number == 0.0));
    assert_eq!(found[unscored..], expected[unscored..]);
}

#[test]
fn a_pass_scores_the_others() {
    let (device, batch) = (Device::default(), 3);
    let (all, some) = models(&device);
    let x = observations(batch, 1, &device);
    let given = Some(conditions(batch, &device));
    let whole = filter(&all, x.clone(), given.clone(), noise(batch, &device), None);
    let found = filter(&some, x.clone(), given.clone(), noise(batch, &device), None);
    assert_eq!(values(found.latents.clone()), values(whole.latents));
    assert_eq!(
        values(found.posteriors.mean.clone()),
        values(whole.posteriors.mean)
    );
    assert_scored(found.reconstruction.clone(), whole.reconstruction.clone());
    assert_scored(found.kl.clone(), whole.kl.clone());
    let scored = |of: Tensor<2>| {
        let count = of.dims()[0] - UNSCORED * batch;
        values(of.narrow(0, UNSCORED * batch, count))
    };
    assert_eq!(values(found.priors.mean.clone()), scored(whole.priors.mean));
    assert_eq!(
        values(found.likelihood.mean()),
        scored(whole.likelihood.mean())
    );
    let bound = whole.reconstruction - whole.kl;
    let bound = bound.narrow(0, UNSCORED, X.len() - UNSCORED).sum_dim(0);
    assert_eq!(values(found.bound(1.0)), values(bound));
    let before = expected(&some, x, given, found.latents, None);
    assert_eq!(values(before.mean()), values(found.priors.mean));
}

/// The sequence may be cut anywhere, within the memorised steps or after them.
#[test]
fn a_sequence_goes_on_from_its_state() {
    let (device, batch) = (Device::default(), 2);
    let (_, model) = models(&device);
    let parts = |from: usize, to: usize| {
        (
            observations(batch, 1, &device).narrow(1, from, to - from),
            Some(conditions(batch, &device).narrow(1, from, to - from)),
            noise(batch, &device).narrow(0, from, to - from),
        )
    };
    let (x, given, drawn) = parts(0, X.len());
    let whole = filter(&model, x, given, drawn, None);
    for cut in 1..X.len() {
        let (x, given, drawn) = parts(0, cut);
        let state = follow(&model, x, given, drawn, None);
        let (x, given, drawn) = parts(cut, X.len());
        let rest = filter(&model, x, given, drawn, Some(state));
        let expected = whole.kl.clone().narrow(0, cut, X.len() - cut);
        assert_eq!(values(rest.kl), values(expected), "cut at {cut}");
    }
    // The memorised steps are a prompt.
    let (x, given, drawn) = parts(0, UNSCORED);
    let state = follow(&model, x, given, drawn, None);
    let rest = noise(batch, &device).narrow(0, 0, 1);
    let given = Some(conditions(batch, &device).narrow(1, 0, 1));
    let made = generate(&model, state, given, rest, |_, likelihood| {
        likelihood.mean()
    });
    assert!(values(made.frames).iter().all(|x| x.is_finite()));
}

#[test]
#[should_panic(expected = "no step of 2 is scored")]
fn a_pass_without_a_score_is_refused() {
    let device = Device::default();
    filter(
        &models(&device).1,
        observations(1, 1, &device).narrow(1, 0, UNSCORED),
        Some(conditions(1, &device).narrow(1, 0, UNSCORED)),
        noise(1, &device).narrow(0, 0, UNSCORED),
        None,
    );
}

#[test]
#[should_panic(expected = "still memorises")]
fn nothing_is_generated_before_all_is_memorised() {
    let device = Device::default();
    let (_, model) = models(&device);
    let given = Some(conditions(1, &device));
    generate(
        &model,
        model.initial_state(1),
        given,
        noise(1, &device),
        |_, of| of.mean(),
    );
}

/// Beliefs about memorised steps are the model's own; the others are improved.
#[test]
fn inference_improves_beliefs_about_scored_steps() {
    let (device, batch) = (Device::default().autodiff(), 3);
    let (all, some) = models(&device);
    let (x, given) = (
        observations(batch, 1, &device),
        Some(conditions(batch, &device)),
    );
    let noise = InferenceNoise {
        inner: vec![inner(X.len(), batch, 1, &device)],
        step: noise(batch, &device),
    };
    let mut improver = GradientSteps::new(600, 0.03);
    let found = infer(
        &some,
        &mut improver,
        x.clone(),
        given.clone(),
        noise.clone(),
        1.0,
        None,
    );
    let unscored = UNSCORED * batch;
    let last = values(found.energies.last().unwrap().clone());
    assert!(last[..unscored].iter().all(|energy| *energy == 0.0));
    // The model's own posterior is the optimum.
    let own = filter(&all, x.clone(), given.clone(), noise.step, None);
    let [means, expected] = [&found.posteriors, &own.posteriors].map(|of| values(of.mean.clone()));
    assert_eq!(means[..unscored], expected[..unscored]);
    for (found, expected) in means.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-2, "{found} {expected}");
    }
    let scored = filter_given(&some, x, given, &found, None);
    assert!(
        values(scored.kl.clone())[..unscored]
            .iter()
            .all(|kl| *kl == 0.0)
    );
    let energies = values(scored.kl.neg() + scored.reconstruction);
    assert!(energies.iter().all(|energy| energy.is_finite()));
}

/// Memorised steps follow the chain of the model's own posteriors; after them, a Kalman filter gives the
/// likelihood of the rest.
#[test]
fn particles_find_the_likelihood_of_the_scored_steps() {
    let (device, runs, particles) = (Device::default(), 100, 2000);
    let (_, model) = models(&device);
    let rows = runs * particles;
    let found = particle_bound(
        &model,
        observations(runs, 1, &device),
        Some(conditions(runs, &device)),
        noise(rows, &device),
        Resampling::Below(0.5),
        |t, features, context, _| {
            assert!(t >= UNSCORED);
            model.posterior(features, context)
        },
        |t| {
            (0..runs)
                .map(|run| ((run * 37 + t * 11) % 101) as f64 / 101.0)
                .collect()
        },
    );
    let LinearGaussian {
        transition: a,
        variances: [q, r, p1],
        ..
    } = model.0;
    let (mut mean, mut variance, mut log) = (0.0, 0.0, 0.0);
    for (t, x) in X.into_iter().enumerate() {
        let (x, own) = (f64::from(x), if t == 0 { p1 } else { q });
        let carried = a * a * variance;
        mean *= a;
        if t < UNSCORED {
            // q(z_t | z_{t-1}, x_t) with the sampled z_{t-1}.
            let gain = own / (own + r);
            mean += gain * (x - mean);
            variance = (1.0 - gain).powi(2) * carried + gain * r;
        } else {
            let predicted = carried + own;
            log += log_normal(x, mean, predicted + r);
            let gain = predicted / (predicted + r);
            mean += gain * (x - mean);
            variance = gain * r;
        }
    }
    let bound = found.bound.iter().sum::<f64>() / runs as f64;
    assert!((bound - log).abs() < 0.02, "{bound} {log}");
    assert!(
        found.effective[..UNSCORED]
            .iter()
            .flatten()
            .all(|size| *size == particles as f64)
    );
}

#[test]
fn one_step_at_a_time_is_the_pass() {
    let (device, batch) = (Device::default(), 2);
    let (_, model) = models(&device);
    let (x, given) = (observations(batch, 1, &device), conditions(batch, &device));
    let noise = noise(batch, &device);
    let filtered = filter(&model, x.clone(), Some(given.clone()), noise.clone(), None);
    let surprises = filtered.kl - filtered.reconstruction;
    let mut state = model.initial_state(batch);
    for t in 0..X.len() {
        let step = online_step(
            &model,
            &(),
            state,
            x.clone().narrow(1, t, 1).squeeze_dim(1),
            Some(given.clone().narrow(1, t, 1).squeeze_dim(1)),
            noise.clone().narrow(0, t, 1).squeeze_dim(0),
            |features, context, _| {
                assert!(t >= UNSCORED);
                model.posterior(features, context)
            },
        );
        let found = step.scored.map(|scored| values(scored.surprise()));
        let expected = values(surprises.clone().narrow(0, t, 1));
        assert_eq!(found, (t >= UNSCORED).then_some(expected));
        state = step.state;
    }
}
