//! Adam and RMSProp, with the gradient clipped by its global norm.

use crate::{
    Error,
    arrays::{Array, Arrays, Names, host},
    settings::{OptimiserName, RmsProp, TrainingSettings},
};
use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Bool, Device, Gradients, Tensor, TensorData},
};
use mnemora_kernels::adam::{BETA_1, BETA_2, Rates, step, sum_of_squares};
use std::{collections::BTreeMap, path::Path};

/// Adam (Kingma and Ba 2014, Algorithm 1) or RMSProp, with moments stored by parameter path.
///
/// Burn's own optimisers key their state by identifiers that change with every process, and clip each parameter on its
/// own; this one saves by name and clips by the norm of the whole gradient.
#[derive(Clone, Debug, Default)]
pub struct Optimiser {
    rule: Rule,
    /// The share of the rate by which parameters shrink (Loshchilov and Hutter 2019).
    decay: f64,
    moments: BTreeMap<String, Moments>,
    /// Factors of the learning rate for parameters whose path starts so; 1 for all others.
    factors: Vec<(String, f64)>,
}

/// How a parameter follows its gradient.
#[derive(Clone, Copy, Debug, Default)]
enum Rule {
    #[default]
    Adam,
    RmsProp(RmsProp),
}

/// First and second moment of a parameter's gradient, flattened. RMSProp's first is the last change.
#[derive(Debug, Clone)]
struct Moments {
    first: Tensor<1>,
    second: Tensor<1>,
}

impl Rule {
    /// Before the first update.
    fn begin(self, value: &Tensor<1>) -> Moments {
        let first = value.zeros_like();
        match self {
            Self::Adam => Moments {
                second: first.clone(),
                first,
            },
            Self::RmsProp(rule) => Moments {
                first,
                second: value.full_like(rule.begin),
            },
        }
    }

    /// The value and its moments after an update along `gradient`:
    ///
    /// ```text
    /// RMSProp   v' = decay v + (1 - decay) g^2
    ///           m' = momentum m + rate g / sqrt(v' + epsilon)
    ///           value' = value - m'
    /// ```
    ///
    /// with v = `begin` at the start, which is 1 in the code that Espeholt et al. 2018 published with IMPALA.
    fn step(
        self,
        value: Tensor<1>,
        gradient: Tensor<1>,
        moments: Moments,
        rates: Rates,
    ) -> [Tensor<1>; 3] {
        let Moments { first, second } = moments;
        match self {
            Self::Adam => step(value, gradient, first, second, rates),
            Self::RmsProp(RmsProp {
                decay,
                epsilon,
                momentum,
                ..
            }) => {
                let gradient = gradient * rates.scale;
                let second = second * decay + gradient.clone().square() * (1.0 - decay);
                let along = gradient * rates.rate / (second.clone() + epsilon).sqrt();
                let first = match momentum > 0.0 {
                    true => first * momentum + along,
                    false => along,
                };
                [value - first.clone(), first, second]
            }
        }
    }

    /// The rates of update number `step` (from 1).
    fn rates(self, scale: f64, learning_rate: f64, step: u64) -> Rates {
        let exponent = i32::try_from(step).unwrap_or(i32::MAX);
        match self {
            Self::Adam => Rates {
                scale,
                rate: learning_rate / (1.0 - BETA_1.powi(exponent)),
                correction: 1.0 / (1.0 - BETA_2.powi(exponent)).sqrt(),
            },
            Self::RmsProp(_) => Rates {
                scale,
                rate: learning_rate,
                correction: 1.0,
            },
        }
    }
}

/// Gradients of a module's parameters by path, flattened.
#[derive(Default)]
pub struct ParameterGradients(BTreeMap<String, Tensor<1>>);

impl ParameterGradients {
    /// Takes the gradients of the parameters from the result of `backward`.
    pub fn of<M: Module>(module: &M, gradients: Gradients) -> Self {
        let mut all = Self::default();
        all.add(module, gradients);
        all
    }

    /// Adds the gradients of another `backward`.
    pub fn add<M: Module>(&mut self, module: &M, gradients: Gradients) {
        module.visit(&mut Collector {
            names: Names::default(),
            gradients,
            found: &mut self.0,
        });
    }

    /// Sets the gradient of the parameter at `path` directly.
    pub fn insert<const D: usize>(&mut self, path: &str, gradient: Tensor<D>) {
        let size = gradient.shape().num_elements();
        self.0.insert(path.to_owned(), gradient.reshape([size]));
    }

    /// Paths of the parameters that have a gradient.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Squared Euclidean norm of each parameter's gradient; `None` without gradients.
    pub fn squares(&self) -> Option<Tensor<1>> {
        let squares: Vec<Tensor<1>> = self
            .0
            .values()
            .map(|gradient| sum_of_squares(gradient.clone()))
            .collect();
        (!squares.is_empty()).then(|| Tensor::cat(squares, 0))
    }

    /// Euclidean norm over all parameters; reads one number from the device.
    pub fn global_norm(&self) -> f32 {
        self.squares()
            .map_or(0.0, |squares| squares.sum().sqrt().into_scalar())
    }

    /// The first parameter whose gradient has a number that is not finite.
    pub fn non_finite(&self) -> Option<String> {
        self.0
            .iter()
            .find(|(_, gradient)| host(gradient.to_data()).iter().any(|g| !g.is_finite()))
            .map(|(name, _)| name.clone())
    }
}

impl Optimiser {
    /// The optimiser of these settings.
    pub fn new(settings: &TrainingSettings) -> Self {
        Self {
            rule: match settings.optimiser {
                OptimiserName::Adam => Rule::Adam,
                OptimiserName::Rmsprop => Rule::RmsProp(settings.rmsprop),
            },
            decay: settings.weight_decay,
            ..Self::default()
        }
    }

    /// Sets other learning rates for some parameters: each pair is the start of their paths, and a factor.
    pub fn set_factors(&mut self, factors: &[(&str, f64)]) {
        let factors = factors
            .iter()
            .map(|(start, factor)| ((*start).to_owned(), *factor));
        self.factors = factors.collect();
    }

    /// Forgets the moments of the parameters whose path starts with `start`.
    pub fn forget(&mut self, start: &str) {
        self.moments.retain(|name, _| !name.starts_with(start));
    }

    /// Makes update number `step` (from 1) of the module's parameters, with the gradient scaled by `scale`.
    pub fn step<M: Module>(
        &mut self,
        module: M,
        gradients: ParameterGradients,
        scale: f64,
        learning_rate: f64,
        step: u64,
    ) -> M {
        self.map(module, gradients, scale, None, learning_rate, step)
    }

    /// As [`step`](Self::step), but the factor is on the device, `[1]`, and nothing changes unless `made`, `[1]`, is
    /// true.
    pub fn step_if<M: Module>(
        &mut self,
        made: Tensor<1, Bool>,
        module: M,
        gradients: ParameterGradients,
        scale: Tensor<1>,
        learning_rate: f64,
        step: u64,
    ) -> M {
        let on_device = Some((scale, made));
        self.map(module, gradients, 1.0, on_device, learning_rate, step)
    }

    fn map<M: Module>(
        &mut self,
        module: M,
        gradients: ParameterGradients,
        scale: f64,
        on_device: Option<(Tensor<1>, Tensor<1, Bool>)>,
        learning_rate: f64,
        step: u64,
    ) -> M {
        let mut update = Update {
            names: Names::default(),
            rule: self.rule,
            shrink: 1.0 - learning_rate * self.decay,
            moments: &mut self.moments,
            factors: &self.factors,
            gradients: gradients.0,
            on_device,
            rates: self.rule.rates(scale, learning_rate, step),
        };
        module.map(&mut update)
    }

    /// The moments as arrays, `<path>.first` and `<path>.second`.
    pub fn collect(&self) -> Arrays {
        let array = |tensor: &Tensor<1>| Array {
            shape: tensor.dims().to_vec(),
            values: host(tensor.to_data()),
        };
        self.moments
            .iter()
            .flat_map(|(name, moments)| {
                [
                    (format!("{name}.first"), array(&moments.first)),
                    (format!("{name}.second"), array(&moments.second)),
                ]
            })
            .collect()
    }

    /// Replaces the moments by those that [`collect`](Self::collect) returned, on `device`.
    ///
    /// # Errors
    /// If a moment is missing or has no counterpart. `path` is the file that they come from.
    pub fn restore(
        &mut self,
        mut arrays: Arrays,
        device: &Device,
        path: &Path,
    ) -> Result<(), Error> {
        let names: Vec<String> = arrays
            .keys()
            .filter_map(|key| key.strip_suffix(".first").map(str::to_owned))
            .collect();
        let mut moments = BTreeMap::new();
        for name in names {
            let mut take = |suffix: &str| {
                let key = format!("{name}.{suffix}");
                let array = arrays.remove(&key).ok_or_else(|| Error::DamagedFile {
                    path: path.to_owned(),
                    problem: format!("tensor '{key}' is missing"),
                })?;
                let length = array.values.len();
                Ok::<_, Error>(Tensor::from_data(
                    TensorData::new(array.values, [length]),
                    device,
                ))
            };
            let (first, second) = (take("first")?, take("second")?);
            moments.insert(name, Moments { first, second });
        }
        match arrays.into_keys().next() {
            None => {
                self.moments = moments;
                Ok(())
            }
            Some(key) => Err(Error::DamagedFile {
                path: path.to_owned(),
                problem: format!("tensor '{key}' has no counterpart"),
            }),
        }
    }
}

fn shrunk(value: Tensor<1>, factor: f64) -> Tensor<1> {
    match factor == 1.0 {
        true => value,
        false => value * factor,
    }
}

/// Takes a module out of its place. A module of the same structure without numbers stays there until the module is put
/// back: updates are in place only for tensors with a single owner.
pub fn take<M: Module>(place: &mut M) -> M {
    let husk = place.clone().map(&mut Husk);
    std::mem::replace(place, husk)
}

struct Husk;

impl ModuleMapper for Husk {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // Running statistics are shared by clones.
        if !param.is_require_grad() {
            return param;
        }
        let (id, tensor, mapper) = param.consume();
        let empty = Tensor::empty([0; D], &tensor.device());
        Param::from_mapped_value(id, empty, mapper)
    }
}

struct Collector<'a> {
    names: Names,
    gradients: Gradients,
    found: &'a mut BTreeMap<String, Tensor<1>>,
}

impl ModuleVisitor for Collector<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.names.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.names.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.is_require_grad()
            && let Some(gradient) = param.val().grad_remove(&mut self.gradients)
        {
            let size = param.shape().num_elements();
            let path = self.names.path();
            let gradient = gradient.reshape([size]);
            let sum = match self.found.remove(&path) {
                None => gradient,
                Some(before) => before + gradient,
            };
            self.found.insert(path, sum);
        }
    }
}

struct Update<'a> {
    names: Names,
    rule: Rule,
    /// The factor of each parameter before its update.
    shrink: f64,
    moments: &'a mut BTreeMap<String, Moments>,
    factors: &'a [(String, f64)],
    gradients: BTreeMap<String, Tensor<1>>,
    /// Another factor for the gradient, and whether to make the update.
    on_device: Option<(Tensor<1>, Tensor<1, Bool>)>,
    rates: Rates,
}

impl ModuleMapper for Update<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.names.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.names.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.names.path();
        let gradient = self.gradients.remove(&name);
        if gradient.is_none() && !param.is_require_grad() {
            return param;
        }
        let (id, tensor, mapper) = param.consume();
        let Some(gradient) = gradient else {
            // Graph nodes that were computed from this leaf but reached no loss live as long as the leaf, and each
            // backward pass walks through them: replace the leaf.
            let tensor = Tensor::from_inner(tensor.inner()).require_grad();
            return Param::from_mapped_value(id, tensor, mapper);
        };
        let shape = tensor.dims();
        let size = shape.iter().product::<usize>();
        let value = tensor.inner().reshape([size]);
        let own = self
            .factors
            .iter()
            .find(|(start, _)| name.starts_with(start));
        let rates = Rates {
            rate: self.rates.rate * own.map_or(1.0, |(_, factor)| *factor),
            ..self.rates
        };

        let begun = self.moments.remove(&name);
        let moments = begun.unwrap_or_else(|| self.rule.begin(&value));
        let [value, first, second] = match &self.on_device {
            None => self
                .rule
                .step(shrunk(value, self.shrink), gradient, moments, rates),
            Some((scale, made)) => {
                let before = [value, moments.first.clone(), moments.second.clone()];
                let gradient = gradient * scale.clone();
                let value = shrunk(before[0].clone(), self.shrink);
                let after = self.rule.step(value, gradient, moments, rates);
                let mut both = before.into_iter().zip(after);
                // Not a product: a number that is not finite stays so under any factor.
                std::array::from_fn(|_| {
                    let (before, after) = both.next().expect("there are three");
                    before.mask_where(made.clone().expand([size]), after)
                })
            }
        };
        self.moments.insert(name, Moments { first, second });

        let tensor = Tensor::from_inner(value.reshape(shape)).require_grad();
        Param::from_mapped_value(id, tensor, mapper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::collect;
    use burn::nn::Linear;

    fn linear(device: &Device) -> Linear {
        Linear {
            weight: Param::from_tensor(Tensor::from_floats([[0.5], [-1.0]], device)),
            bias: Some(Param::from_tensor(Tensor::from_floats([0.25], device))),
        }
    }

    /// Gradients of `sum(a w) + 3 b`: `a` for the weight, 3 for the bias.
    fn gradients(module: &Linear, a: [f32; 2], device: &Device) -> ParameterGradients {
        let a = Tensor::<2>::from_floats([[a[0]], [a[1]]], device);
        let bias = module.bias.as_ref().expect("it has one").val();
        let loss = (a * module.weight.val()).sum() + bias.mul_scalar(3.0).sum();
        ParameterGradients::of(module, loss.backward())
    }

    /// Kingma and Ba 2014, Algorithm 1, on one number in f64.
    fn by_hand(mut value: f64, gradients: &[f64], rate: f64) -> f64 {
        let (mut m, mut v) = (0.0, 0.0);
        for (t, g) in (1..).zip(gradients) {
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            let (m_hat, v_hat): (f64, f64) =
                (m / (1.0 - 0.9_f64.powi(t)), v / (1.0 - 0.999_f64.powi(t)));
            value -= rate * m_hat / (v_hat.sqrt() + 1e-8);
        }
        value
    }

    #[test]
    fn follows_algorithm_1_with_the_gradient_scaled() {
        let device = Device::default().autodiff();
        let mut module = linear(&device);
        let mut adam = Optimiser::default();
        for (step, a) in (1..).zip([[2.0, -0.001], [-1.0, 0.5], [0.1, 40.0]]) {
            let gradients = gradients(&module, a, &device);
            module = adam.step(module, gradients, 0.5, 0.01, step);
        }
        let found = collect(&module);
        let expected = [
            by_hand(0.5, &[1.0, -0.5, 0.05], 0.01),
            by_hand(-1.0, &[-0.0005, 0.25, 20.0], 0.01),
        ];
        for (found, expected) in found["weight"].values.iter().zip(expected) {
            assert!(
                (f64::from(*found) - expected).abs() < 1e-6,
                "{found} {expected}"
            );
        }
        let expected = by_hand(0.25, &[1.5; 3], 0.01);
        assert!((f64::from(found["bias"].values[0]) - expected).abs() < 1e-6);
    }

    #[test]
    fn weights_decay_apart_from_the_gradient() {
        let device = Device::default().autodiff();
        let mut optimiser = Optimiser::new(&TrainingSettings {
            weight_decay: 0.5,
            ..TrainingSettings::default()
        });
        let module = linear(&device);
        let gradients = gradients(&module, [2.0, -1.0], &device);
        let module = optimiser.step(module, gradients, 1.0, 0.01, 1);
        let found = &collect(&module)["weight"].values;
        // Adam's first step is the rate along the sign of the gradient.
        for (found, expected) in found.iter().zip([0.5 * 0.995 - 0.01, -0.995 + 0.01]) {
            assert!((found - expected as f32).abs() < 1e-6, "{found} {expected}");
        }
    }

    /// The equations of RMSProp on one number in f64.
    fn rmsprop_by_hand(mut value: f64, gradients: &[f64], rate: f64, rule: RmsProp) -> f64 {
        let (mut m, mut v) = (0.0, rule.begin);
        for g in gradients {
            v = rule.decay * v + (1.0 - rule.decay) * g * g;
            m = rule.momentum * m + rate * g / (v + rule.epsilon).sqrt();
            value -= m;
        }
        value
    }

    #[test]
    fn rmsprop_follows_its_equations() {
        let device = Device::default().autodiff();
        for (momentum, begin) in [(0.0, 1.0), (0.5, 0.03)] {
            let rule = RmsProp {
                decay: 0.9,
                begin,
                epsilon: 0.1,
                momentum,
            };
            let mut optimiser = Optimiser::new(&TrainingSettings {
                optimiser: OptimiserName::Rmsprop,
                rmsprop: rule,
                ..TrainingSettings::default()
            });
            let mut module = linear(&device);
            for (step, a) in (1..).zip([[2.0, -0.001], [-1.0, 0.5], [0.1, 40.0]]) {
                let gradients = gradients(&module, a, &device);
                module = optimiser.step(module, gradients, 0.5, 0.01, step);
            }
            let found = &collect(&module)["weight"].values;
            for (found, (first, gradients)) in found
                .iter()
                .zip([(0.5, [1.0, -0.5, 0.05]), (-1.0, [-0.0005, 0.25, 20.0])])
            {
                let expected = rmsprop_by_hand(first, &gradients, 0.01, rule);
                let found = f64::from(*found);
                assert!((found - expected).abs() < 1e-6, "{found} {expected}");
            }
        }
    }

    /// What IMPALA's numbers do for a sum over 1,280 steps, the defaults do for the mean.
    #[test]
    fn rmsprop_begins_for_a_mean_as_impala_does_for_a_sum() {
        let default = RmsProp::default();
        let impala = RmsProp {
            begin: 1.0,
            epsilon: 0.1,
            ..default
        };
        let sums = [3.0, -0.2, 40.0, 0.0, 7.0];
        let means = sums.map(|sum| sum / 1_280.0);
        let of_sum = rmsprop_by_hand(0.5, &sums, 0.01, impala);
        let of_mean = rmsprop_by_hand(0.5, &means, 0.01, default);
        assert!((of_sum - of_mean).abs() < 1e-12, "{of_sum} {of_mean}");
    }

    #[test]
    fn state_survives_a_round_trip() {
        let device = Device::default().autodiff();
        let plain = device.clone().inner();
        let mut adam = Optimiser::default();
        let first = gradients(&linear(&device), [1.0, 2.0], &device);
        let module = adam.step(linear(&device), first, 1.0, 0.1, 1);
        let mut again = Optimiser::default();
        again
            .restore(adam.collect(), &plain, Path::new("x"))
            .unwrap();
        let one = gradients(&module, [3.0, 1.0], &device);
        let two = gradients(&module, [3.0, 1.0], &device);
        let a = adam.step(module.clone(), one, 1.0, 0.1, 2);
        let b = again.step(module, two, 1.0, 0.1, 2);
        assert_eq!(collect(&a), collect(&b));

        let mut arrays = adam.collect();
        arrays.remove("bias.second");
        let error = again.restore(arrays, &plain, Path::new("x")).unwrap_err();
        assert!(error.to_string().contains("bias.second"), "{error}");
    }

    #[test]
    fn the_norm_is_over_all_parameters_and_names_what_is_not_finite() {
        let device = Device::default().autodiff();
        let module = linear(&device);
        let norm = gradients(&module, [4.0, 12.0], &device).global_norm();
        assert!((norm - 13.0).abs() < 1e-5, "{norm}");
        let bad = gradients(&module, [f32::NAN, 1.0], &device);
        assert!(bad.global_norm().is_nan());
        assert_eq!(bad.non_finite().as_deref(), Some("weight"));
    }

    /// A backward pass walks through all nodes that are kept, so its time shows how many there are.
    #[test]
    fn what_reached_no_loss_is_not_kept() {
        let device = Device::default().autodiff();
        let (mut read, mut unread) = (linear(&device), linear(&device));
        let mut adam = Optimiser::default();
        let mut times = Vec::new();
        for step in 1..=1500 {
            let clock = std::time::Instant::now();
            let x = Tensor::<2>::ones([1, 2], &device);
            let _ = unread.forward(x).mul_scalar(2.0).exp();
            let gradients = gradients(&read, [1.0, -1.0], &device);
            read = adam.step(read, gradients, 1.0, 1e-3, step);
            unread = adam.step(unread, ParameterGradients::default(), 1.0, 1e-3, step);
            times.push(clock.elapsed());
        }
        let median = |times: &[std::time::Duration]| {
            let mut times = times.to_vec();
            times.sort();
            times[times.len() / 2]
        };
        let [first, last] = [median(&times[..100]), median(&times[1400..])];
        assert!(last < 10 * first, "an update took {first:?}, then {last:?}");
    }
}
