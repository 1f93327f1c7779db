//! Golden vectors in `reference/golden/`.

use burn::tensor::{Device, Tensor, TensorData};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// An open file of golden vectors.
pub struct Golden(Vec<u8>);

impl Golden {
    /// `reference/golden/<name>.safetensors`
    pub fn open(name: &str) -> Self {
        let path = format!(
            "{}/../../reference/golden/{name}.safetensors",
            env!("CARGO_MANIFEST_DIR")
        );
        Self(std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
    }

    /// The same with other tensors: names, shapes and values.
    #[allow(dead_code)]
    pub fn of(tensors: Vec<(String, Vec<usize>, Vec<f32>)>) -> Self {
        let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
            .into_iter()
            .map(|(name, shape, values)| {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes());
                (name, shape, bytes.collect())
            })
            .collect();
        let views = bytes.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
            (name.as_str(), view)
        });
        Self(safetensors::serialize(views, None).unwrap())
    }

    /// All names.
    #[allow(dead_code)]
    pub fn names(&self) -> Vec<String> {
        let file = self.file();
        file.names().into_iter().map(str::to_owned).collect()
    }

    fn file(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.file().names().contains(&name)
    }

    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.file().tensor(name).unwrap().shape().to_vec()
    }

    pub fn values(&self, name: &str) -> Vec<f32> {
        let file = self.file();
        let view = file
            .tensor(name)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        view.data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    pub fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(self.values(name), self.shape(name)), device)
    }

    /// The number of elements in all tensors that have a stored gradient, without inputs.
    #[allow(dead_code)]
    pub fn parameter_count(&self) -> usize {
        let inputs =
            ["latents", "features", "conditions", "inputs"].map(|name| format!("grad.{name}"));
        let file = self.file();
        let names = file.names().into_iter();
        names
            .filter(|name| name.starts_with("grad.") && !inputs.iter().any(|input| input == name))
            .map(|name| self.shape(name).iter().product::<usize>())
            .sum()
    }
}

/// Asserts that all elements agree to 1e-5 of the larger of 1 and the largest expected element.
pub fn assert_close<const D: usize>(name: &str, expected: &[f32], found: Tensor<D>) {
    let found = found.into_data().try_into_vec::<f32>().unwrap();
    assert_eq!(found.len(), expected.len(), "{name}: number of elements");
    let scale = expected.iter().fold(1.0_f32, |m, e| m.max(e.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= 1e-5 * scale,
            "{name}[{index}]: found {found}, expected {expected}"
        );
    }
}
