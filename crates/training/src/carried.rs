//! A recurrent state in a checkpoint: its tensors as arrays.

use crate::{
    Error,
    arrays::{Array, Arrays, host},
};
use burn::tensor::{Int, Tensor, TensorData};
use mnemora_memory::{Bundle, TensorMapper};
use std::path::Path;

/// The tensors of a state in visiting order, with separate numbering for numbers and indices; names start with `prefix`.
pub fn save<S: Bundle>(state: S, prefix: &str) -> Arrays {
    let mut save = Save {
        arrays: Arrays::new(),
        prefix,
        numbers: 0,
        indices: 0,
    };
    state.map_tensors(&mut save);
    save.arrays
}

/// The state whose tensors are those of [`save`], taken out of `arrays`. `like` is a state with the same tensors; its
/// device is that of the result.
///
/// # Errors
/// An array is missing, or has another shape. `path` is the file that they come from.
pub fn load<S: Bundle>(
    like: S,
    arrays: &mut Arrays,
    prefix: &str,
    path: &Path,
) -> Result<S, Error> {
    let mut load = Load {
        arrays,
        prefix,
        numbers: 0,
        indices: 0,
        problem: None,
    };
    let state = like.map_tensors(&mut load);
    match load.problem {
        None => Ok(state),
        Some(problem) => Err(Error::WrongWeights {
            path: path.to_owned(),
            problem,
        }),
    }
}

struct Save<'a> {
    arrays: Arrays,
    prefix: &'a str,
    numbers: usize,
    indices: usize,
}

impl Save<'_> {
    fn insert(&mut self, name: String, shape: &[usize], values: Vec<f32>) {
        let shape = shape.to_vec();
        self.arrays.insert(name, Array { shape, values });
    }
}

impl TensorMapper for Save<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let values = host(tensor.clone().into_data());
        self.insert(
            number_name(self.prefix, self.numbers),
            &tensor.dims(),
            values,
        );
        self.numbers += 1;
        tensor
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        // Slot indices: far smaller than the integers that f32 represents exactly.
        let values = host(tensor.clone().float().into_data());
        self.insert(
            index_name(self.prefix, self.indices),
            &tensor.dims(),
            values,
        );
        self.indices += 1;
        tensor
    }
}

fn number_name(prefix: &str, place: usize) -> String {
    format!("{prefix}{place}")
}

fn index_name(prefix: &str, place: usize) -> String {
    format!("{prefix}index.{place}")
}

/// Replaces a state's tensors by arrays. A missing array or one of another shape is a problem.
struct Load<'a> {
    arrays: &'a mut Arrays,
    prefix: &'a str,
    numbers: usize,
    indices: usize,
    problem: Option<String>,
}

impl Load<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> Option<TensorData> {
        let found = self.arrays.remove(name);
        let Some(array) = found.filter(|array| array.shape == shape) else {
            self.problem
                .get_or_insert(format!("its carried state has no '{name}' of {shape:?}"));
            return None;
        };
        Some(TensorData::new(array.values, array.shape))
    }
}

impl TensorMapper for Load<'_> {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let name = number_name(self.prefix, self.numbers);
        self.numbers += 1;
        match self.take(&name, &tensor.dims()) {
            Some(data) => Tensor::from_data(data, &tensor.device()),
            None => tensor,
        }
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        let name = index_name(self.prefix, self.indices);
        self.indices += 1;
        match self.take(&name, &tensor.dims()) {
            Some(data) => Tensor::<D>::from_data(data, &tensor.device()).int(),
            None => tensor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use mnemora_memory::{Initializer, LruConfig, LruState, RecurrentCore};
    use mnemora_worlds::Stream;

    /// The state of a memory with sparse reads contains slot indices.
    #[test]
    fn indices_of_a_state_are_saved() {
        let device = Device::default();
        let config = LruConfig {
            input: 3,
            hidden: 4,
            slots: 6,
            width: 5,
            reads: 2,
            nearest: 2,
        };
        let stream = Stream::new(1, "parameters").at(0);
        let core = config
            .init(&mut Initializer::new(stream, device.clone()))
            .unwrap();
        let inputs = |seed| {
            let values = Stream::new(seed, "inputs").standard_normal(0, 5 * 2 * 3);
            Tensor::<3>::from_data(TensorData::new(values, [5, 2, 3]), &device)
        };
        let (_, state) = core.sequence(inputs(1), None, core.initial_state(2, &device));
        let saved = |state: LruState| save(state, "state ");
        let load = |arrays: &mut Arrays| {
            load(
                core.initial_state(2, &device),
                arrays,
                "state ",
                Path::new("test"),
            )
        };
        let arrays = saved(state.clone());
        assert!(arrays.contains_key("state index.0"), "{:?}", arrays.keys());
        let mut left = arrays.clone();
        let restored = load(&mut left).unwrap();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(saved(restored.clone()), arrays);
        let after = |state| {
            let (steps, _) = core.sequence(inputs(2), None, state);
            let outputs = steps.into_iter().map(|step| step.output).collect();
            host(Tensor::cat(outputs, 0).into_data())
        };
        assert_eq!(after(restored), after(state));

        let mut less = arrays;
        less.remove("state index.0");
        let problem = load(&mut less).unwrap_err().to_string();
        assert!(problem.contains("'state index.0'"), "{problem}");
    }
}
