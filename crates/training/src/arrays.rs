//! A module's parameters by path, read from and written to safetensors.

use crate::Error;
use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Tensor, TensorData},
};
use mnemora_memory::Count;
use safetensors::{Dtype, SafeTensors, View};
use std::{borrow::Cow, collections::BTreeMap, path::Path};

/// Named arrays of f32, row-major.
pub type Arrays = BTreeMap<String, Array>;

/// One array.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements, row-major.
    pub values: Vec<f32>,
}

/// All float parameters and running statistics of a module, by path (`memory.lstm.bias`).
pub fn collect<M: Module>(module: &M) -> Arrays {
    // Leaving training mode first folds pending updates into the running statistics.
    let module = module.valid();
    let mut collector = Collector::default();
    module.visit(&mut collector);
    collector.arrays
}

/// Trainable numbers of a module, without running statistics.
pub fn parameter_count<M: Module>(module: &M) -> usize {
    in_a_word(parameters_of(module))
}

/// The same, also where the number exceeds a machine word.
pub fn parameters_of<M: Module>(module: &M) -> Count {
    parameters_within(module, "")
}

/// Trainable numbers of the part of a module whose parameters' paths start with `part`; of all of it if that is empty.
pub fn parameters_within<M: Module>(module: &M, part: &str) -> Count {
    let mut counter = Counter {
        names: Names::default(),
        part,
        count: Count::NONE,
    };
    module.visit(&mut counter);
    counter.count
}

/// The count as `usize`, saturating.
pub fn in_a_word(count: Count) -> usize {
    usize::try_from(count.get()).unwrap_or(usize::MAX)
}

/// Puts arrays into the module's parameters. Every parameter must have an array that fits, and no array may be left
/// over.
pub fn restore<M: Module>(module: M, arrays: Arrays, path: &Path) -> Result<M, Error> {
    let mut restorer = Restorer {
        names: Names::default(),
        arrays,
        problem: None,
    };
    let module = module.map(&mut restorer);
    let problem = restorer.problem.or_else(|| {
        let (name, array) = restorer.arrays.into_iter().next()?;
        Some(format!(
            "tensor '{name}' {:?} is not part of this model",
            array.shape
        ))
    });
    match problem {
        None => Ok(module),
        Some(problem) => Err(Error::WrongWeights {
            path: path.to_owned(),
            problem,
        }),
    }
}

/// The arrays as a safetensors file's bytes.
pub fn to_safetensors(arrays: &Arrays) -> Vec<u8> {
    let views = arrays.iter().map(|(name, array)| (name, Bytes(array)));
    safetensors::serialize(views, None).expect("views of whole arrays serialise")
}

/// An array as safetensors writes it; its bytes are made on writing.
struct Bytes<'a>(&'a Array);

impl View for Bytes<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let values = self.0.values.iter();
        values.flat_map(|value| value.to_le_bytes()).collect()
    }

    fn data_len(&self) -> usize {
        4 * self.0.values.len()
    }
}

/// Reads the arrays of a safetensors file; only f32 is accepted.
pub fn from_safetensors(bytes: &[u8], path: &Path) -> Result<Arrays, Error> {
    let damaged = |problem: String| Error::DamagedFile {
        path: path.to_owned(),
        problem,
    };
    let file = SafeTensors::deserialize(bytes)
        .map_err(|error| damaged(format!("no readable safetensors file: {error}")))?;
    file.tensors()
        .into_iter()
        .map(|(name, view)| {
            if view.dtype() != Dtype::F32 {
                return Err(damaged(format!(
                    "tensor '{name}' is {:?}, expected F32",
                    view.dtype()
                )));
            }
            let values = view
                .data()
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect();
            let shape = view.shape().to_vec();
            Ok((name, Array { shape, values }))
        })
        .collect()
}

/// The name of the first array with a number that is not finite.
pub fn non_finite(arrays: &Arrays) -> Option<&str> {
    let spoilt = |array: &Array| !array.values.iter().all(|value| value.is_finite());
    let mut named = arrays.iter();
    named
        .find(|(_, array)| spoilt(array))
        .map(|(name, _)| name.as_str())
}

/// Fields with another name in files, as (type, field, name in files). The field was renamed and its name in files
/// kept, so that old and new versions can read each other's files.
const NAMES_IN_FILES: [(&str, &str, &str); 1] = [("Struct:Dnc", "controller", "lstm")];

/// The path of the parameter that a traversal is at, as files name it. Enum variants are not part of it.
#[derive(Default)]
pub struct Names(Vec<Option<String>>);

impl Names {
    /// Enters a part of a container.
    pub fn enter(&mut self, name: &str, container: &str) {
        let renamed = NAMES_IN_FILES
            .iter()
            .find(|(of, field, _)| *of == container && *field == name);
        let name = renamed.map_or(name, |(_, _, in_files)| in_files);
        self.0
            .push((!container.starts_with("Enum:")).then(|| name.to_owned()));
    }

    /// Leaves it.
    pub fn exit(&mut self) {
        self.0.pop();
    }

    /// The names so far, with dots between them.
    pub fn path(&self) -> String {
        let parts: Vec<&str> = self.0.iter().flatten().map(String::as_str).collect();
        parts.join(".")
    }
}

#[derive(Default)]
struct Collector {
    names: Names,
    arrays: Arrays,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.names.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.names.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let shape = tensor.dims().to_vec();
        let values = host(tensor.into_data());
        self.arrays
            .insert(self.names.path(), Array { shape, values });
    }
}

struct Counter<'a> {
    names: Names,
    part: &'a str,
    count: Count,
}

impl Counter<'_> {
    fn is_within(&self) -> bool {
        let path = self.names.path();
        let rest = path.strip_prefix(self.part);
        rest.is_some_and(|rest| self.part.is_empty() || rest.is_empty() || rest.starts_with('.'))
    }
}

impl ModuleVisitor for Counter<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.names.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.names.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.is_require_grad() && self.is_within() {
            self.count = self.count + Count::product(&param.dims());
        }
    }
}

struct Restorer {
    names: Names,
    arrays: Arrays,
    problem: Option<String>,
}

impl ModuleMapper for Restorer {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.names.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.names.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.names.path();
        let (id, tensor, mapper) = param.consume();
        let shape = tensor.dims();
        let tensor = match self.arrays.remove(&name) {
            Some(array) if array.shape == shape => {
                let data = TensorData::new(array.values, shape);
                Tensor::from_data(data, &tensor.device()).set_require_grad(tensor.is_require_grad())
            }
            found => {
                let found = match found {
                    None => "is missing".to_owned(),
                    Some(array) => format!("is {:?}", array.shape),
                };
                self.problem.get_or_insert(format!(
                    "tensor '{name}' {found}, the model of the configuration wants {shape:?}"
                ));
                tensor
            }
        };
        Param::from_mapped_value(id, tensor, mapper)
    }
}

/// Copies a tensor's numbers to the host.
pub fn host(data: TensorData) -> Vec<f32> {
    data.try_into_vec::<f32>()
        .expect("tensors of this project hold f32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use mnemora_memory::{
        AnyCore, ConvLstmConfig, CoreConfig, EntNetConfig, GateStyle, Initializer, RecurrentCore,
        RmcConfig, StackedLstmConfig,
    };
    use mnemora_worlds::Stream;

    fn core(config: &CoreConfig, seed: u64) -> AnyCore {
        let stream = Stream::new(seed, "parameters").at(0);
        config
            .init(&mut Initializer::new(stream, Device::default()))
            .unwrap()
    }

    /// Outputs of four steps on two sequences.
    fn outputs(core: &AnyCore) -> Vec<f32> {
        let device = Device::default();
        let shape = [4, 2, core.input_size()];
        let inputs = Stream::new(3, "inputs").standard_normal(0, shape.iter().product());
        let inputs = Tensor::from_data(TensorData::new(inputs, shape), &device);
        let (steps, _) = core.sequence(inputs, None, core.initial_state(2, &device));
        let steps = steps.into_iter().map(|step| step.output).collect();
        host(Tensor::cat(steps, 1).into_data())
    }

    #[test]
    fn cores_go_through_safetensors_unchanged() {
        let path = Path::new("weights.safetensors");
        let rmc = RmcConfig::new(5, 3, 2, 4);
        let configs = [
            CoreConfig::Rmc(rmc.clone()),
            CoreConfig::Rmc(RmcConfig {
                blocks: 2,
                mlp_layers: 3,
                key_size: 3,
                rows: 2,
                gates: GateStyle::Memory,
                output_gate: true,
                ..rmc.clone()
            }),
            CoreConfig::StackedLstm(StackedLstmConfig {
                input: 5,
                hidden: 4,
                layers: 2,
            }),
            CoreConfig::EntNet(EntNetConfig::new(5, 3, 4)),
            CoreConfig::ConvLstm(ConvLstmConfig {
                inputs: 2,
                channels: 3,
                height: 3,
                width: 2,
                kernel: 2,
            }),
        ];
        for config in configs {
            let original = core(&config, 1);
            let bytes = to_safetensors(&collect(&original));
            let arrays = from_safetensors(&bytes, path).unwrap();
            let other = core(&config, 2);
            assert_ne!(outputs(&other), outputs(&original), "{config:?}");
            let restored = restore(other, arrays, path).unwrap();
            assert_eq!(outputs(&restored), outputs(&original), "{config:?}");
        }

        // With another number of layers, the error names the missing one.
        let original = collect(&core(&CoreConfig::Rmc(rmc.clone()), 1));
        let deeper = CoreConfig::Rmc(RmcConfig {
            mlp_layers: 3,
            ..rmc
        });
        let error = restore(core(&deeper, 1), original, path).unwrap_err();
        assert!(error.to_string().contains("'mlp.2.weight'"), "{error}");
    }
}
