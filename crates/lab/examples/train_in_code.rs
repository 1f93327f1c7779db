//! A training from code: an experiment with overrides, a run directory, its metrics read back.
//!
//! `cargo run --release --example train_in_code`

use std::error::Error;

use mnemora_lab::{Outcome, Surroundings, find_device, load_experiment, plan, read_metrics, train};

fn main() -> Result<(), Box<dyn Error>> {
    // What `mnemora train perfect-recall-small --set ...` would load: every key of the experiment
    // can be overridden, and a wrong one is an error that names the nearest right key.
    let overrides = [
        "task.length=4",
        "task.recall=2",
        "training.steps=40",
        "training.batch=8",
        "training.log_every=5",
        "training.checkpoint_every=20",
        "evaluation.batches=2",
    ]
    .map(String::from);
    let experiment = load_experiment("perfect-recall-small", &overrides)?;

    let planned = plan(experiment.clone(), None)?;
    println!("{}: {}", experiment.name, experiment.description);
    println!("data: {}", planned.data);
    for (part, count) in &planned.parameters {
        println!("{count:>9} parameters in the {part}");
    }

    // Where a run lives is up to the caller; this one goes away when the program ends. Without a
    // folder of its own (`None`), the task uses the digits inside the program.
    let directory = tempfile::tempdir()?;
    let run = directory.path().join("run");
    let surroundings = Surroundings {
        // Asked after every step; a signal's number stops the training after a checkpoint.
        interrupted: &|| None,
        all_saved: &|_| (),
        quiet: true,
        command: "train_in_code".into(),
        commit: "unknown".into(),
        device: find_device(None)?,
        continue_differently: false,
    };
    let outcome = train(experiment, &run, None, &surroundings)?;

    // Bounds, reconstructions and KL are in nats per sequence; a higher bound is better.
    println!("\n step      bound  reconstruction       kl");
    for row in read_metrics(&run)? {
        // The copy task has neither of the two.
        if let (Some(reconstruction), Some(kl)) = (row.reconstruction, row.kl) {
            println!(
                "{:>5} {:>10.1} {reconstruction:>15.1} {kl:>8.2}",
                row.step, row.bound
            );
        }
    }
    match outcome {
        Outcome::Finished(evaluation) => println!(
            "\nheld-out bound after {} updates: {:.1}",
            evaluation.step, evaluation.bound
        ),
        Outcome::Interrupted { signal, checkpoint } => println!(
            "\nstopped by signal {signal}; to go on from {}: mnemora_lab::resume",
            checkpoint.display()
        ),
    }

    // The same files that the command line leaves behind.
    let mut files: Vec<String> = std::fs::read_dir(&run)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, std::io::Error>>()?;
    files.sort();
    println!("the run held: {}", files.join(", "));
    Ok(())
}
