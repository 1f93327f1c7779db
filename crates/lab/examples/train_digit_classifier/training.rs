//! Trains the classifier on labelled digits.

use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData, activation},
};
use mnemora_lab::{
    LabError,
    families::frames::digit_classifier::{DigitClassifier, box_blur},
};
use mnemora_memory::{Draws, Initializer};
use mnemora_training::optimiser::{Optimiser, ParameterGradients};
use mnemora_worlds::{Images, Mnist, Stream};
use std::f64::consts::PI;

/// Settings for training a [`DigitClassifier`].
#[derive(Clone, Debug, PartialEq)]
pub struct DigitTraining {
    /// Updates, at least 1.
    pub updates: u64,
    /// Digits per update, at least 1.
    pub batch: usize,
    /// Adam's learning rate at the first update; it falls to zero along half a cosine.
    pub learning_rate: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for DigitTraining {
    fn default() -> Self {
        Self {
            updates: 8000,
            batch: 64,
            learning_rate: 2e-3,
            seed: 1,
        }
    }
}

/// Trains a classifier on labelled digits by maximum likelihood.
///
/// Generated frames are less sharp than digits of the data, paler, and may be a little off-centre. So each digit is
/// randomly changed every time it is used: it is moved by up to 2 pixels in both directions, blurred by
/// [`box_blur`] with probability 1/2, and its intensities are scaled by a factor from `[0.7, 1)`.
///
/// `device` records no gradients; `report` is called with each update's number (from 1) and its mean loss in nats.
/// Equal settings give equal parameters on the same machine.
///
/// # Errors
/// If a setting is zero, or a label is not a digit.
pub fn train(
    digits: &Images,
    settings: &DigitTraining,
    device: &Device,
    mut report: impl FnMut(u64, f32),
) -> Result<DigitClassifier, LabError> {
    let DigitTraining {
        updates,
        batch,
        learning_rate,
        seed,
    } = *settings;
    if updates == 0 || batch == 0 {
        return Err(LabError::Configuration(
            "training a classifier needs at least one update and at least one digit".into(),
        ));
    }
    if digits
        .labels()
        .iter()
        .any(|&label| usize::from(label) >= Mnist::CLASSES)
    {
        return Err(LabError::Configuration(
            "training a digit classifier needs images with labels from 0 to 9".into(),
        ));
    }
    let recording = device.clone().autodiff();
    let parameters = Stream::new(seed, "parameters").at(0);
    let order = Stream::new(seed, "digit order");
    let variation = Stream::new(seed, "digit variation");

    let mut classifier = DigitClassifier::new(&mut Initializer::new(parameters, recording.clone()));
    let mut adam = Optimiser::default();
    let mut indices = (0..).flat_map(|epoch| shuffled(&order, epoch, digits.len()));
    for update in 1..=updates {
        let mut draws = Draws::new(variation.at(update));
        let mut frames = Vec::with_capacity(batch * Images::SIZE);
        let mut one_hot = vec![0.0; batch * Mnist::CLASSES];
        for (row, index) in one_hot.chunks_mut(Mnist::CLASSES).zip(&mut indices) {
            let (image, label) = digits
                .image(index)
                .zip(digits.label(index))
                .expect("an index below the number of digits");
            row[usize::from(label)] = 1.0;
            frames.extend(varied(image, &mut draws));
        }
        let frames = Tensor::from_data(TensorData::new(frames, [batch, Images::SIZE]), &recording);
        let one_hot = Tensor::from_data(
            TensorData::new(one_hot, [batch, Mnist::CLASSES]),
            &recording,
        );

        let log_probabilities = activation::log_softmax(classifier.forward(frames), 1);
        let loss = (log_probabilities * one_hot).sum().neg() / batch as f64;
        let nats = loss.clone().into_scalar();
        let gradients = ParameterGradients::of(&classifier, loss.backward());
        let done = (update - 1) as f64 / updates as f64;
        let rate = learning_rate * 0.5 * (1.0 + (PI * done).cos());
        classifier = adam.step(classifier, gradients, 1.0, rate, update);
        report(update, nats);
    }
    Ok(classifier.valid())
}

/// `0..count` in a different order for each epoch.
fn shuffled(stream: &Stream, epoch: u64, count: usize) -> Vec<usize> {
    let keys = stream.standard_normal(epoch, count);
    let mut indices: Vec<usize> = (0..count).collect();
    indices.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
    indices
}

/// An image moved, perhaps blurred, and made paler; uses four numbers of `draws`.
fn varied(image: &[u8], draws: &mut Draws) -> Vec<f32> {
    let draws = draws.uniform(4, 1.0);
    let [down, right] = [draws[0], draws[1]].map(|draw| (draw * 2.5).round().clamp(-2.0, 2.0));
    let factor = 0.85 + 0.15 * draws[3];
    let mut frame = moved(image, down as isize, right as isize);
    if draws[2] < 0.0 {
        frame = box_blur(&frame);
    }
    frame.iter().map(|intensity| factor * intensity).collect()
}

/// The intensities of an image moved by whole pixels; background fills the gap.
fn moved(image: &[u8], down: isize, right: isize) -> [f32; Images::SIZE] {
    std::array::from_fn(|pixel| {
        let row = (pixel / Images::COLUMNS).checked_add_signed(-down);
        let column = (pixel % Images::COLUMNS).checked_add_signed(-right);
        match (row, column) {
            (Some(row), Some(column)) if row < Images::ROWS && column < Images::COLUMNS => {
                f32::from(image[row * Images::COLUMNS + column]) / 255.0
            }
            _ => 0.0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::Split;

    #[test]
    fn training_is_a_function_of_its_settings_and_lowers_the_loss() {
        let data = Mnist::bundled().unwrap();
        let train = |settings: &DigitTraining| {
            let mut losses = Vec::new();
            let device = Device::default();
            let digits = data.split(Split::Train);
            super::train(digits, settings, &device, |_, loss| losses.push(loss))
                .map(|classifier| (classifier.to_safetensors(), losses))
        };
        let settings = DigitTraining {
            updates: 30,
            batch: 16,
            learning_rate: 5e-3,
            seed: 1,
        };
        let (bytes, losses) = train(&settings).unwrap();
        assert_eq!(losses.len(), 30);
        assert!(losses[29] < losses[0] - 0.3, "{losses:?}");
        assert!(train(&settings).unwrap() == (bytes.clone(), losses));
        let other = DigitTraining {
            seed: 2,
            ..settings.clone()
        };
        assert!(train(&other).unwrap().0 != bytes);
        for wrong in [
            DigitTraining {
                updates: 0,
                ..settings.clone()
            },
            DigitTraining {
                batch: 0,
                ..settings
            },
        ] {
            assert!(matches!(train(&wrong), Err(LabError::Configuration(_))));
        }
    }

    #[test]
    fn an_epoch_holds_every_digit_once() {
        let stream = Stream::new(1, "test");
        let [mut first, second] = [0, 1].map(|epoch| shuffled(&stream, epoch, 100));
        assert_ne!(first, second);
        first.sort_unstable();
        assert!(first.into_iter().eq(0..100));
    }

    #[test]
    fn images_move_over_the_edge() {
        let mut image = [0; Images::SIZE];
        image[0] = 255;
        image[5 * Images::COLUMNS + 7] = 255;
        let found = moved(&image, -2, 1);
        let mut expected = [0.0; Images::SIZE];
        expected[3 * Images::COLUMNS + 8] = 1.0;
        assert_eq!(found, expected);
    }
}
