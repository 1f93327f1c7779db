//! Training from code: an experiment with overrides, a run directory, reading back its metrics.
//!
//! `cargo run --release --example train_in_code`

use std::error::Error;

use mnemora_lab::{Outcome, RunContext, find_device, load_experiment, plan, read_metrics, train};

fn main() -> Result<(), Box<dyn Error>> {
    // The same as `mnemora train perfect-recall-small --set ...`: every key of the experiment can be overridden. A
    // misspelt key is an error that names the nearest right one.
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

    // The caller chooses the folder of the run; this one is deleted when the program ends. Without a data folder
    // (`None`) the task uses the digits inside the program.
    let directory = tempfile::tempdir()?;
    let run = directory.path().join("run");
    let context = RunContext {
        // Called after every step; returning a signal's number stops the training after a checkpoint.
        interrupted: &|| None,
        all_saved: &|_| (),
        quiet: true,
        command: "train_in_code".into(),
        commit: "unknown".into(),
        device: find_device(None)?,
        continue_differently: false,
    };
    let outcome = train(experiment, &run, None, &context)?;

    // Bounds, reconstructions and KL are in nats per sequence; a higher bound is better.
    println!("\n step      bound  reconstruction       kl");
    for row in read_metrics(&run)? {
        // The available numbers depend on the family; `Family::quantities` lists them.
        let [bound, reconstruction, kl] =
            ["bound", "reconstruction", "kl"].map(|key| row.measures.number(key));
        if let (Some(bound), Some(reconstruction), Some(kl)) = (bound, reconstruction, kl) {
            println!(
                "{:>5} {bound:>10.1} {reconstruction:>15.1} {kl:>8.2}",
                row.step
            );
        }
    }
    match outcome {
        Outcome::Finished(evaluation) => {
            let bound = evaluation.measures.number("bound").ok_or("no bound")?;
            println!(
                "\nheld-out bound after {} updates: {bound:.1}",
                evaluation.step
            );
        }
        Outcome::Interrupted { signal, checkpoint } => println!(
            "\nstopped by signal {signal}; to continue from {}: mnemora_lab::resume",
            checkpoint.display()
        ),
    }

    // The same files that the command line writes.
    let mut files: Vec<String> = std::fs::read_dir(&run)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, std::io::Error>>()?;
    files.sort();
    println!("the run contains: {}", files.join(", "));
    Ok(())
}
