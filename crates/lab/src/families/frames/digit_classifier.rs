//! A small convolutional network that classifies digits, to score generated frames.
//!
//! Its weights come with the program. `examples/train_digit_classifier` trained them on the bundled training digits;
//! `weights/README.md` has the numbers.

use crate::LabError;
use burn::{
    module::Module,
    nn::{
        Linear, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    },
    tensor::{Device, Tensor, TensorData, activation},
};
use mnemora_memory::Initializer;
use mnemora_training::{
    Error,
    arrays::{collect, from_safetensors, host, restore, to_safetensors},
};
use mnemora_worlds::{FrameShape, Images, Mnist, Stream};
use std::path::Path;

/// The weights that come with the program, and their path in the crate.
const SHIPPED: &[u8] = include_bytes!("../../../weights/digit-classifier.safetensors");
const SHIPPED_PATH: &str = "weights/digit-classifier.safetensors";

const KERNEL: usize = 5;
const STRIDE: usize = 2;
const CHANNELS: [usize; 3] = [1, 16, 32];
/// Side of the last feature maps: from 28 to 14 to 7, with frames padded by [`PADDING`].
const TOP_SIDE: usize = 7;
const PADDING: usize = KERNEL / 2;
const FEATURES: usize = CHANNELS[2] * TOP_SIDE * TOP_SIDE;
/// Frames classified at once: their largest feature maps take about 3 MB.
const CHUNK: usize = 256;

/// Two convolutions that halve the side, then an affine map to one logit per digit.
#[derive(Module, Debug)]
pub struct DigitClassifier {
    /// 28 to 14.
    pub halve_1: Conv2d,
    /// 14 to 7.
    pub halve_2: Conv2d,
    /// From the flattened maps to the logits.
    pub digits: Linear,
}

fn halving([inputs, outputs]: [usize; 2], init: &mut Initializer) -> Conv2d {
    let bound = 1.0 / ((inputs * KERNEL * KERNEL) as f64).sqrt();
    let mut layer = Conv2dConfig::new([inputs, outputs], [KERNEL, KERNEL])
        .with_stride([STRIDE, STRIDE])
        .with_padding(PaddingConfig2d::Explicit(
            PADDING, PADDING, PADDING, PADDING,
        ))
        .init(init.device());
    layer.weight = init.uniform([outputs, inputs, KERNEL, KERNEL], bound);
    layer.bias = Some(init.uniform([outputs], bound));
    layer
}

impl DigitClassifier {
    /// The shape of its input frames.
    pub const FRAME: FrameShape = FrameShape {
        channels: CHANNELS[0],
        height: Images::ROWS,
        width: Images::COLUMNS,
    };

    /// An untrained classifier.
    pub fn new(init: &mut Initializer) -> Self {
        Self {
            halve_1: halving([CHANNELS[0], CHANNELS[1]], init),
            halve_2: halving([CHANNELS[1], CHANNELS[2]], init),
            digits: init.linear(FEATURES, Mnist::CLASSES),
        }
    }

    /// The classifier that comes with the program, on a device that records no gradients.
    ///
    /// # Errors
    /// Only if the program was built from a damaged file.
    pub fn shipped(device: &Device) -> Result<Self, LabError> {
        Self::from_safetensors(SHIPPED, Path::new(SHIPPED_PATH), device)
    }

    /// The classifier that [`to_safetensors`](Self::to_safetensors) wrote; `path` is for messages.
    ///
    /// # Errors
    /// If the bytes are not a safetensors file of f32, if a tensor is missing, extra or of another shape, or if a
    /// number is not finite.
    pub fn from_safetensors(bytes: &[u8], path: &Path, device: &Device) -> Result<Self, LabError> {
        let arrays = from_safetensors(bytes, path)?;
        let damaged = arrays
            .iter()
            .find(|(_, array)| array.values.iter().any(|value| !value.is_finite()));
        if let Some((name, _)) = damaged {
            return Err(Error::DamagedFile {
                path: path.to_owned(),
                problem: format!("tensor '{name}' holds a number that is not finite"),
            }
            .into());
        }
        // Every initial number is replaced.
        let mut init = Initializer::new(Stream::new(0, "replaced").at(0), device.clone());
        Ok(restore(Self::new(&mut init), arrays, path)?)
    }

    /// The parameters as a safetensors file's bytes.
    pub fn to_safetensors(&self) -> Vec<u8> {
        to_safetensors(&collect(self))
    }

    /// Frames `[count, 28 * 28]`, 0 (background) to 1 (ink), to logits `[count, 10]`.
    pub fn forward(&self, frames: Tensor<2>) -> Tensor<2> {
        let [count, _] = frames.dims();
        let frames = frames.reshape([count, CHANNELS[0], Images::ROWS, Images::COLUMNS]);
        let maps = activation::relu(self.halve_1.forward(frames));
        let maps = activation::relu(self.halve_2.forward(maps));
        self.digits.forward(maps.reshape([count, FEATURES]))
    }

    /// The most probable digit, 0 to 9, of each frame: `[count]`.
    ///
    /// `frames` is `[count, 28 * 28]` row-major, 0 (background) to 1 (ink), each of the shape `frame`.
    ///
    /// # Errors
    /// If the frames have another shape than digits, or the numbers are not whole frames.
    pub fn classify(&self, frames: &[f32], frame: FrameShape) -> Result<Vec<u8>, LabError> {
        let device = self.digits.weight.val().device();
        let (whole, rest) = frames.as_chunks::<{ Images::SIZE }>();
        if frame != Self::FRAME || !rest.is_empty() {
            let FrameShape {
                channels,
                height,
                width,
            } = frame;
            return Err(LabError::Configuration(format!(
                "the classifier takes whole frames of 1x28x28 pixels, not {} pixels of frames of \
                 {channels}x{height}x{width}",
                frames.len()
            )));
        }
        let frames = whole;
        let mut digits = Vec::with_capacity(frames.len());
        for chunk in frames.chunks(CHUNK) {
            let shape = [chunk.len(), Images::SIZE];
            let chunk = TensorData::new(chunk.as_flattened().to_vec(), shape);
            let logits = host(self.forward(Tensor::from_data(chunk, &device)).into_data());
            digits.extend(logits.chunks(Mnist::CLASSES).map(largest));
        }
        Ok(digits)
    }
}

/// The position of the largest number.
fn largest(logits: &[f32]) -> u8 {
    let (digit, _) = (0..)
        .zip(logits)
        .fold((0, f32::NEG_INFINITY), |best, (digit, &logit)| {
            if logit > best.1 { (digit, logit) } else { best }
        });
    digit
}

/// The mean over each pixel's 3 x 3 neighbourhood, with background around the frame.
pub fn box_blur(frame: &[f32; Images::SIZE]) -> [f32; Images::SIZE] {
    let around = |position: usize, end: usize| position.saturating_sub(1)..(position + 2).min(end);
    std::array::from_fn(|pixel| {
        let (row, column) = (pixel / Images::COLUMNS, pixel % Images::COLUMNS);
        let sum: f32 = around(row, Images::ROWS)
            .flat_map(|row| around(column, Images::COLUMNS).map(move |column| (row, column)))
            .map(|(row, column)| frame[row * Images::COLUMNS + column])
            .sum();
        sum / 9.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::Split;

    fn shipped() -> DigitClassifier {
        DigitClassifier::shipped(&Device::default()).unwrap()
    }

    fn read(classifier: &DigitClassifier, frames: &[f32]) -> Vec<u8> {
        classifier.classify(frames, DigitClassifier::FRAME).unwrap()
    }

    fn refusal(bytes: &[u8]) -> String {
        DigitClassifier::from_safetensors(bytes, Path::new("some file"), &Device::default())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn shipped_weights_are_small_and_come_back_as_they_are() {
        let classifier = shipped();
        assert!(mnemora_training::arrays::parameter_count(&classifier) < 30_000);
        assert_eq!(classifier.to_safetensors(), SHIPPED);
    }

    #[test]
    fn shipped_classifier_reads_held_out_digits() {
        let data = Mnist::bundled().unwrap();
        let digits = data.split(Split::Test);
        let sharp: Vec<f32> = digits
            .pixels()
            .iter()
            .map(|&p| f32::from(p) / 255.0)
            .collect();
        let blurred: Vec<f32> = sharp
            .as_chunks()
            .0
            .iter()
            .flat_map(box_blur)
            .map(|intensity| 0.7 * intensity)
            .collect();
        let classifier = shipped();
        for (frames, at_least) in [(sharp, 0.98), (blurred, 0.975)] {
            let found = read(&classifier, &frames);
            assert_eq!(found.len(), digits.len());
            let right = found
                .iter()
                .zip(digits.labels())
                .filter(|&(&found, &label)| u16::from(found) == label)
                .count();
            let share = right as f64 / digits.len() as f64;
            assert!(share >= at_least, "{share}");
        }
    }

    #[test]
    fn only_whole_frames_are_read_and_each_on_its_own() {
        let data = Mnist::bundled().unwrap();
        let frames: Vec<f32> = data.split(Split::Test).pixels()[..3 * Images::SIZE]
            .iter()
            .map(|&p| f32::from(p) / 255.0)
            .collect();
        let classifier = shipped();
        let all = read(&classifier, &frames);
        assert_eq!(read(&classifier, &frames[2 * Images::SIZE..]), all[2..]);
        assert!(read(&classifier, &[]).is_empty());
        // Left-over pixels, and frames of another shape with the same number of pixels.
        let colour = FrameShape {
            channels: 4,
            height: 14,
            width: 14,
        };
        for (frames, frame, says) in [
            (&frames[1..], DigitClassifier::FRAME, "not 2351 pixels"),
            (&frames[..], colour, "4x14x14"),
        ] {
            let refused = classifier.classify(frames, frame).unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
        }
    }

    #[test]
    fn damaged_weights_are_refused() {
        for bytes in [&[], &SHIPPED[..7], &SHIPPED[..SHIPPED.len() - 1]] {
            let message = refusal(bytes);
            assert!(message.starts_with("some file: no readable"), "{message}");
        }
        let altered = |alter: &dyn Fn(&mut mnemora_training::arrays::Arrays)| {
            let mut arrays = collect(&shipped());
            alter(&mut arrays);
            refusal(&to_safetensors(&arrays))
        };
        let message = altered(&|arrays| drop(arrays.remove("halve_2.bias")));
        assert!(message.contains("'halve_2.bias' is missing"), "{message}");
        let message = altered(&|arrays| {
            arrays.get_mut("digits.weight").unwrap().shape = vec![Mnist::CLASSES, FEATURES];
        });
        assert!(
            message.contains("'digits.weight' is [10, 1568]"),
            "{message}"
        );
        let message = altered(&|arrays| {
            arrays.get_mut("halve_1.weight").unwrap().values[3] = f32::NAN;
        });
        assert!(message.contains("'halve_1.weight' holds"), "{message}");
    }

    #[test]
    fn blur_keeps_what_stays_inside() {
        let mut image = [0.0; Images::SIZE];
        image[3 * Images::COLUMNS + 8] = 1.0;
        let blurred = box_blur(&image);
        assert!((blurred.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        for (row, column, value) in [
            (2, 7, 1.0 / 9.0),
            (4, 9, 1.0 / 9.0),
            (5, 8, 0.0),
            (3, 10, 0.0),
        ] {
            assert_eq!(
                blurred[row * Images::COLUMNS + column],
                value,
                "{row} {column}"
            );
        }
        // In a corner, five of the nine pixels are outside and count as background.
        let corner = box_blur(&[1.0; Images::SIZE])[Images::SIZE - 1];
        assert!((corner - 4.0 / 9.0).abs() < 1e-6, "{corner}");
    }
}
