//! Prints one sequence of the perfect recall task, with its labels.
//!
//! `cargo run --release --example perfect_recall`

use std::process::ExitCode;
use std::sync::Arc;

use mnemora_worlds::{Error, Limits, Mnist, PerfectRecall, Split, Stream, Task};

/// From background to ink.
const SHADES: [char; 5] = [' ', '.', '+', '#', '@'];

fn main() -> ExitCode {
    match print_sequence() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn print_sequence() -> Result<(), Error> {
    // The folder that MNEMORA_DATA names, or the digits inside the program.
    let digits = Arc::new(Mnist::find(None, Limits::default())?);
    println!("digits: {}", digits.origin());

    // Four digits to watch; then the first two again.
    let task = PerfectRecall::new(digits, 4, 2)?;

    // Batch 0 of this stream: one sequence. The same seed gives the same sequence on every machine.
    let batch = task.batch(Split::Train, &Stream::new(1, "data"), 0, 1);

    for (step, label) in batch.labels.iter().enumerate() {
        let recalled = batch.sources.get(step).copied().flatten();
        match recalled {
            Some(source) => println!("frame {step}: a {label}, frame {source} again"),
            None => println!("frame {step}: a {label}"),
        }
        if let Some(frame) = batch.frame_at(0, step) {
            print_frame(frame, batch.frame.width);
        }
    }
    Ok(())
}

/// A line for every two pixel rows, since a character is about twice as high as wide.
fn print_frame(frame: &[f32], width: usize) {
    for pair in frame.chunks(2 * width) {
        let (upper, lower) = pair.split_at(width.min(pair.len()));
        let line: String = upper
            .iter()
            .zip(lower)
            .map(|(a, b)| shade((a + b) / 2.0))
            .collect();
        println!("  {}", line.trim_end());
    }
}

fn shade(intensity: f32) -> char {
    let level = (intensity * SHADES.len() as f32) as usize;
    SHADES[level.min(SHADES.len() - 1)]
}
