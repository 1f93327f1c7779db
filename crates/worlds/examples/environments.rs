//! Acts at random in an environment and prints how the episodes end and how fast it is.
//!
//! `cargo run --release --example environments -- box-world 100000 [SETTINGS]`
//!
//! SETTINGS is a JSON object, such as `{"viewport": 0}`. Without arguments, the program lists all environments.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use mnemora_worlds::{ENVIRONMENTS, EnvironmentKind, Finished, Stream, Vectorised};
use rand::RngExt;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [name, steps, rest @ ..] = arguments else {
        for kind in ENVIRONMENTS {
            println!("{:16} {}", kind.name, kind.about);
            println!("{:16} {}", "", (kind.defaults)());
        }
        return Ok(());
    };
    let kind = EnvironmentKind::named(name)
        .ok_or("no such environment; all are listed without arguments")?;
    let steps: usize = steps.parse()?;
    let settings = serde_json::from_str(rest.first().map_or("{}", String::as_str))?;
    let mut environment = Vectorised::new(vec![(kind.build)(&settings)?], 1)?;
    let actions = environment.spec().actions.len();
    let mut random = Stream::new(1, "random actions").at(0);
    let chosen: Vec<usize> = (0..4096).map(|_| random.random_range(0..actions)).collect();
    let clock = Instant::now();
    for step in 0..steps {
        environment.step(&[chosen[(step + step / 4096) % 4096]])?;
    }
    let seconds = clock.elapsed().as_secs_f64();
    let frame = environment.spec().frame;
    let finished = environment.take_finished();
    println!(
        "{name}: observations of {} x {} x {}, {actions} actions",
        frame.channels, frame.height, frame.width
    );
    println!("{} episodes ended", finished.len());
    if !finished.is_empty() {
        let mean = |value: fn(&Finished) -> f64| {
            finished.iter().map(value).sum::<f64>() / finished.len() as f64
        };
        println!("mean length {:.1}", mean(|episode| episode.length as f64));
        println!("mean return {:.4}", mean(|episode| episode.total));
        if let Some((score, _)) = finished[0].score {
            let value = mean(|episode| episode.score.map_or(0.0, |(_, value)| value));
            println!("mean of {score} {value:.4}");
        }
    }
    println!("{:.0} steps per second", steps as f64 / seconds);
    Ok(())
}
