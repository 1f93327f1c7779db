//! Trains the classifier that scores generated digits, and reports how well it reads held-out ones.
//!
//! `cargo run --release --example train_digit_classifier`
//!
//! After `--`: `--out FILE` writes the weights; `--data FOLDER` names a folder with the four MNIST files and also tests
//! on their 10,000 test digits (training still uses the bundled digits); `--seed N` and `--updates N` change the
//! training.

use std::{error::Error, fs, path::PathBuf, time::Instant};

mod training;

use burn::tensor::Device;
use mnemora_lab::{
    LabError,
    families::frames::digit_classifier::{DigitClassifier, box_blur},
};
use mnemora_worlds::{Images, Limits, Mnist, Split};

const USAGE: &str =
    "usage: train_digit_classifier [--out FILE] [--data FOLDER] [--seed N] [--updates N]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut settings = training::DigitTraining::default();
    let mut out: Option<PathBuf> = None;
    let mut data: Option<PathBuf> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match name.as_str() {
            "--out" => out = Some(value.into()),
            "--data" => data = Some(value.into()),
            "--seed" => settings.seed = value.parse()?,
            "--updates" => settings.updates = value.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    // Opened first, so that a wrong folder is reported before the training.
    let bundled = Mnist::bundled()?;
    let full = data
        .as_deref()
        .map(|folder| Mnist::open(folder, Limits::default()))
        .transpose()?;

    let started = Instant::now();
    let mut losses = Vec::new();
    let classifier = training::train(
        bundled.split(Split::Train),
        &settings,
        &Device::default(),
        |update, loss| {
            losses.push(loss);
            if update % 500 == 0 {
                let mean = losses.iter().sum::<f32>() / losses.len() as f32;
                println!("update {update:>5}: {mean:.4} nats per digit");
                losses.clear();
            }
        },
    )?;
    println!("trained in {:.0} s", started.elapsed().as_secs_f64());

    let weights = classifier.to_safetensors();
    if let Some(path) = out {
        fs::write(&path, &weights)?;
        println!("{} bytes written to {}", weights.len(), path.display());
    }
    print_accuracy(&classifier, bundled.split(Split::Test), "bundled")?;
    if let Some(full) = full {
        print_accuracy(&classifier, full.split(Split::Test), "all")?;
    }
    Ok(())
}

/// Prints the fraction of `digits` that are read correctly: unchanged, blurred once and twice, and paler.
fn print_accuracy(
    classifier: &DigitClassifier,
    digits: &Images,
    which: &str,
) -> Result<(), LabError> {
    let sharp: Vec<f32> = digits
        .pixels()
        .iter()
        .map(|&p| f32::from(p) / 255.0)
        .collect();
    let blurred = blur(&sharp);
    let blurred_twice = blur(&blurred);
    let pale: Vec<f32> = blurred.iter().map(|intensity| 0.7 * intensity).collect();
    for (frames, how) in [
        (sharp, "as they are"),
        (blurred, "blurred"),
        (pale, "blurred, intensities x 0.7"),
        (blurred_twice, "blurred twice"),
    ] {
        let found = classifier.classify(&frames, DigitClassifier::FRAME)?;
        let right = found
            .iter()
            .zip(digits.labels())
            .filter(|&(&found, &label)| u16::from(found) == label)
            .count();
        let percent = 100.0 * right as f64 / digits.len() as f64;
        println!(
            "{which} {} test digits, {how}: {percent:.2} % correct",
            digits.len()
        );
    }
    Ok(())
}

/// Blurs every frame of `[count, 28 * 28]`.
fn blur(frames: &[f32]) -> Vec<f32> {
    let (frames, _) = frames.as_chunks::<{ Images::SIZE }>();
    frames.iter().flat_map(box_blur).collect()
}
