//! Adam with clipping by the global norm.

use crate::{
    LabError,
    weights::{Array, Arrays, Names, host},
};
use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Device, Gradients, Tensor, TensorData},
};
use std::{collections::BTreeMap, path::Path};

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.999;
/// The epsilon of the papers.
const EPSILON: f64 = 1e-8;

/// Adam (Kingma and Ba 2014, Algorithm 1), its moments held by the path of the parameter.
///
/// Burn's own Adam keeps its state by identifiers that are new in every process and clips each
/// parameter on its own; this one saves by name and clips by the norm of the whole gradient.
#[derive(Debug, Default)]
pub struct Adam {
    moments: BTreeMap<String, Moments>,
}

/// First and second moment of a parameter's gradient, flattened.
#[derive(Debug, Clone)]
struct Moments {
    first: Tensor<1>,
    second: Tensor<1>,
}

/// Gradients of a module's parameters by path, flattened.
pub struct ParameterGradients(BTreeMap<String, Tensor<1>>);

impl ParameterGradients {
    /// Takes them out of what `backward` gave.
    pub fn of<M: Module>(module: &M, gradients: Gradients) -> Self {
        let mut collector = Collector {
            names: Names::default(),
            gradients,
            found: BTreeMap::new(),
        };
        module.visit(&mut collector);
        Self(collector.found)
    }

    /// Euclidean norm over all parameters; one number is read from the device.
    pub fn global_norm(&self) -> f32 {
        let squares: Vec<Tensor<1>> = self
            .0
            .values()
            .map(|gradient| gradient.clone().powi_scalar(2).sum())
            .collect();
        match squares.is_empty() {
            true => 0.0,
            false => Tensor::cat(squares, 0).sum().sqrt().into_scalar(),
        }
    }

    /// The first parameter whose gradient holds a number that is not finite.
    pub fn non_finite(&self) -> Option<String> {
        self.0
            .iter()
            .find(|(_, gradient)| host(gradient.to_data()).iter().any(|g| !g.is_finite()))
            .map(|(name, _)| name.clone())
    }
}

impl Adam {
    /// Update number `step` (from 1) of the module's parameters, the gradient scaled by `scale`.
    pub fn step<M: Module>(
        &mut self,
        module: M,
        gradients: ParameterGradients,
        scale: f64,
        learning_rate: f64,
        step: u64,
    ) -> M {
        let exponent = i32::try_from(step).unwrap_or(i32::MAX);
        let mut update = Update {
            names: Names::default(),
            moments: &mut self.moments,
            gradients: gradients.0,
            scale,
            rate: learning_rate / (1.0 - BETA_1.powi(exponent)),
            correction: 1.0 / (1.0 - BETA_2.powi(exponent)).sqrt(),
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

    /// The state that [`collect`](Self::collect) gave, on `device`.
    pub fn restore(mut arrays: Arrays, device: &Device, path: &Path) -> Result<Self, LabError> {
        let names: Vec<String> = arrays
            .keys()
            .filter_map(|key| key.strip_suffix(".first").map(str::to_owned))
            .collect();
        let mut moments = BTreeMap::new();
        for name in names {
            let mut take = |suffix: &str| {
                let key = format!("{name}.{suffix}");
                let array = arrays.remove(&key).ok_or_else(|| LabError::DamagedFile {
                    path: path.to_owned(),
                    problem: format!("tensor '{key}' is missing"),
                })?;
                let length = array.values.len();
                Ok::<_, LabError>(Tensor::from_data(
                    TensorData::new(array.values, [length]),
                    device,
                ))
            };
            let (first, second) = (take("first")?, take("second")?);
            moments.insert(name, Moments { first, second });
        }
        match arrays.into_keys().next() {
            None => Ok(Self { moments }),
            Some(key) => Err(LabError::DamagedFile {
                path: path.to_owned(),
                problem: format!("tensor '{key}' has no counterpart"),
            }),
        }
    }
}

struct Collector {
    names: Names,
    gradients: Gradients,
    found: BTreeMap<String, Tensor<1>>,
}

impl ModuleVisitor for Collector {
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
            self.found
                .insert(self.names.path(), gradient.reshape([size]));
        }
    }
}

struct Update<'a> {
    names: Names,
    moments: &'a mut BTreeMap<String, Moments>,
    gradients: BTreeMap<String, Tensor<1>>,
    scale: f64,
    rate: f64,
    correction: f64,
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
        let Some(gradient) = self.gradients.remove(&name) else {
            return param;
        };
        let (id, tensor, mapper) = param.consume();
        let shape = tensor.dims();
        let size = shape.iter().product::<usize>();
        let value = tensor.inner().reshape([size]);

        let gradient = match self.scale {
            1.0 => gradient,
            scale => gradient.mul_scalar(scale),
        };
        let fresh = gradient.clone().mul_scalar(1.0 - BETA_1);
        let fresh_square = gradient.powi_scalar(2).mul_scalar(1.0 - BETA_2);
        let (first, second) = match self.moments.remove(&name) {
            None => (fresh, fresh_square),
            Some(Moments { first, second }) => (
                first.mul_scalar(BETA_1) + fresh,
                second.mul_scalar(BETA_2) + fresh_square,
            ),
        };
        let denominator = second
            .clone()
            .sqrt()
            .mul_scalar(self.correction)
            .add_scalar(EPSILON);
        let value = value - first.clone().mul_scalar(self.rate) / denominator;
        self.moments.insert(name, Moments { first, second });

        let tensor = Tensor::from_inner(value.reshape(shape)).require_grad();
        Param::from_mapped_value(id, tensor, mapper)
    }
}
