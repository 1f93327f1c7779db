//! Draws a walk in a labyrinth: the map with the places of the agent, and every few frames of what it sees.
//!
//! `cargo run --release --example labyrinth -- walking picture.png [SEED] [SIDE]`
//!
//! The tasks are rotation, accelerating-rotation, walking and rooms. SIDE is the number of pixel rows and columns of a
//! frame. The program also prints how many frames a second one core renders, the agent's steps counted in.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;
use std::time::Instant;

use mnemora_worlds::labyrinth::{Labyrinth, LabyrinthConfig, LabyrinthTask, LabyrinthWalks, Plan};
use mnemora_worlds::{Environment, Navigation, Split, Stream, Walks};

const COLUMNS: usize = 12;
const ROWS: usize = 6;
/// Every pixel is drawn as a square of about this size for frames of 32 x 32.
const FRAME_SIDE: usize = 128;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match draw(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn draw(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [task, file, rest @ ..] = arguments else {
        return Err("usage: labyrinth TASK PICTURE.png [SEED] [SIDE]".into());
    };
    let task = LabyrinthTask::named(task)
        .ok_or("the tasks are rotation, accelerating-rotation, walking and rooms")?;
    let seed = rest.first().map_or(Ok(1), |text| text.parse())?;
    let side = rest.get(1).map_or(Ok(32), |text| text.parse())?;
    let mut config = task.config();
    (config.view.width, config.view.height) = (side, side);
    let source = LabyrinthWalks::new(task, config)?;
    let walks = source.walks(Split::Train, &Stream::new(seed, "data"), 0, 1, task.time());
    let map = source.map(Split::Train, walks.scenes[0]);
    write(file, &sheet(&walks, map.plan(32)))?;
    measure(side)
}

/// The plan with the walk on it, and below it frames at equal intervals.
fn sheet(walks: &Walks, mut plan: Plan) -> Plan {
    for place in walks.places.chunks_exact(3) {
        let [column, row] = [place[0], place[1]].map(|value| (value * 32.0) as usize);
        for pixel in [row * plan.width + column, (row + 1) * plan.width + column] {
            plan.pixels[pixel * 3..][..6].fill(255);
        }
    }
    let (width, gap) = (COLUMNS * (FRAME_SIDE + 4), 4);
    let frames_top = plan.height + gap;
    let height = frames_top + ROWS * (FRAME_SIDE + gap);
    let width = width.max(plan.width);
    let mut pixels = vec![40; width * height * 3];
    for (row, line) in plan.pixels.chunks_exact(plan.width * 3).enumerate() {
        pixels[row * width * 3..][..line.len()].copy_from_slice(line);
    }
    let shape = walks.frame;
    for number in 0..(COLUMNS * ROWS).min(walks.time) {
        let step = number * walks.time / (COLUMNS * ROWS).min(walks.time);
        let frame = &walks.frames[step * shape.size()..][..shape.size()];
        let (left, top) = (
            number % COLUMNS * (FRAME_SIDE + gap),
            frames_top + number / COLUMNS * (FRAME_SIDE + gap),
        );
        for y in 0..FRAME_SIDE {
            for x in 0..FRAME_SIDE {
                let from =
                    y * shape.height / FRAME_SIDE * shape.width + x * shape.width / FRAME_SIDE;
                for channel in 0..3 {
                    let value = frame[channel * shape.height * shape.width + from];
                    pixels[((top + y) * width + left + x) * 3 + channel] = (value * 255.0) as u8;
                }
            }
        }
    }
    Plan {
        width,
        height,
        pixels,
    }
}

fn write(file: &str, picture: &Plan) -> Result<(), Box<dyn Error>> {
    let (width, height) = (picture.width as u32, picture.height as u32);
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(file)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(&picture.pixels)?;
    Ok(())
}

/// Frames a second of an agent that walks about, the median of several rounds.
fn measure(side: usize) -> Result<(), Box<dyn Error>> {
    const STEPS: usize = 20_000;
    const ROUNDS: u64 = 9;
    let mut config = LabyrinthConfig {
        length: STEPS,
        ..LabyrinthConfig::default()
    };
    config.map.goals = 0;
    (config.view.width, config.view.height) = (side, side);
    let mut labyrinth = Labyrinth::new(config)?;
    let mut observation = vec![0.0; labyrinth.spec().frame.size()];
    let mut rates = Vec::new();
    for seed in 0..ROUNDS {
        labyrinth.reset(seed, &mut observation)?;
        let clock = Instant::now();
        for step in 0..STEPS {
            // Walks in arcs, now to one side, now to the other.
            labyrinth.step([0, 6, 7, 0, 7, 4][step / 25 % 6], &mut observation)?;
        }
        rates.push(STEPS as f64 / clock.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{:.0} frames a second of {side} x {side}",
        rates[rates.len() / 2]
    );
    Ok(())
}
