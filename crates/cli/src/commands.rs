//! One function a command.

use crate::{
    arguments::{Bench, Command, Settings, Train},
    signals::StopSignal,
};
use mnemora_lab::{
    DATA_VARIABLE, DEVICE_VARIABLE, Device, Evaluation, Experiment, KERNELS_VARIABLE, LabError,
    ModelName, Outcome, ReplicasOutcome, StrategyName, Surroundings, THREADS_VARIABLE, TaskName,
    bench, compare, export, find_device, load_experiment, note, one_line, open, plan, present,
    printable, quoted, resume, run_name, shipped, train, train_replicas,
};
use std::{
    fmt::Display,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Runs a command and gives its exit status.
pub fn run(command: Command) -> Result<u8, LabError> {
    match command {
        Command::List { json } => list(json),
        Command::Show {
            experiment,
            out,
            settings,
        } => show(&experiment, &out, &settings),
        Command::Train(arguments) => train_command(&arguments),
        Command::Resume {
            run,
            overrides,
            data,
            on,
            continue_differently,
            json,
        } => {
            let device = find_device(on.device)?;
            let signal = StopSignal::listen()?;
            let interrupted = || signal.received();
            let all_saved = |saved| signal.end_at_once(saved);
            let outcome = resume(
                &run,
                &overrides,
                data.data.as_deref(),
                &Surroundings {
                    continue_differently,
                    ..surroundings(&interrupted, &all_saved, device)
                },
            )?;
            finish(&run, outcome, json)
        }
        Command::Eval {
            run,
            overrides,
            seed,
            checkpoint,
            data,
            on,
            json,
        } => {
            let device = find_device(on.device)?;
            let data = data.data.as_deref();
            let trained = open(&run, checkpoint, &overrides, data, &device)?;
            if seed.is_some() && !trained.evaluation_draws() {
                note(
                    "mnemora: --seed changes nothing: a text is read from its start, nothing is drawn",
                );
            }
            let evaluation = match seed {
                None => trained.evaluate()?,
                Some(seed) => trained.evaluate_under(seed)?,
            };
            say_evaluation(&evaluation, json)?;
            evaluation.check_finite()?;
            Ok(0)
        }
        Command::Generate {
            run,
            out,
            sequences,
            steps,
            seed,
            checkpoint,
            data,
            on,
        } => {
            let device = find_device(on.device)?;
            let trained = open(&run, checkpoint, &[], data.data.as_deref(), &device)?;
            let out = out.unwrap_or_else(|| run.join("samples").join("generated.png"));
            let steps = steps.map(|steps| steps as usize);
            let line = present::write_generated(&trained, sequences as usize, seed, steps, &out)?;
            if let Some(line) = line {
                note(format_args!("mnemora: {line}"));
            }
            say(out.display())?;
            Ok(0)
        }
        Command::Filter(arguments) => crate::filter::run(&arguments),
        Command::Report {
            run,
            checkpoint,
            data,
            on,
        } => {
            let device = find_device(on.device)?;
            let trained = open(&run, checkpoint, &[], data.data.as_deref(), &device)?;
            say(present::rewrite_report(&run, &trained)?.display())?;
            Ok(0)
        }
        Command::Export {
            run,
            out,
            checkpoint,
            data,
        } => {
            export(&run, checkpoint, data.data.as_deref(), &out)?;
            say(out.display())?;
            Ok(0)
        }
        Command::Compare { runs, out, json } => compare_command(&runs, &out, json),
        Command::Bench(arguments) => bench_command(&arguments),
    }
}

/// Measures by length, in processes of this program.
fn bench_length(steps: usize, out: Option<&Path>, json: bool) -> Result<u8, LabError> {
    let program = std::env::current_exe().map_err(|source| LabError::Read {
        path: "this program".into(),
        source,
    })?;
    // A path where nothing can be written is better known before the measurements.
    if let Some(out) = out {
        bench::draw_length(&[], out)?;
    }
    let rows = bench::bench_length(&program, steps)?;
    if let Some(out) = out {
        bench::draw_length(&rows, out)?;
        note(out.display());
    }
    say_rows(&rows, bench::length_table, json)?;
    if json {
        say_lines(&bench::length_growth(&rows))?;
    }
    Ok(0)
}

fn bench_command(arguments: &Bench) -> Result<u8, LabError> {
    let steps = arguments.steps as usize;
    if let Some(work) = &arguments.one_length {
        say(to_json(&bench::one_length(work, steps)?))?;
        return Ok(0);
    }
    if arguments.length {
        return bench_length(steps, arguments.out.as_deref(), arguments.json);
    }
    if arguments.batches {
        let rows = bench::bench_batches(steps)?;
        say_rows(&rows, bench::batch_table, arguments.json)?;
        return Ok(0);
    }
    if arguments.inference {
        let rows = bench::bench_inference(steps)?;
        say_rows(&rows, bench::inference_table, arguments.json)?;
        return Ok(0);
    }
    if arguments.slots {
        let rows = bench::bench_slots(steps)?;
        say_rows(&rows, bench::slot_table, arguments.json)?;
        return Ok(0);
    }
    let rows = bench::bench(&bench::BenchOptions {
        peer: (arguments.peer != "none").then(|| arguments.peer.clone()),
        rounds: arguments.rounds as usize,
        steps,
        threads: arguments.threads as usize,
        only: arguments.only.clone(),
        compiled: arguments.compiled,
        commit: env!("MNEMORA_COMMIT").to_owned(),
    })?;
    say_rows(&rows, bench::table, arguments.json)?;
    if let Some(mean) = bench::geometric_mean(&rows).filter(|_| arguments.json) {
        note(format_args!(
            "geometric mean of the six promised ratios: {mean:.3}"
        ));
    }
    Ok(0)
}

/// Writes a result to standard output. Who closes the other end early has seen enough.
fn say(text: impl Display) -> Result<(), LabError> {
    let text = printable(text);
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(LabError::Write {
            path: "standard output".into(),
            source: error,
            hint: String::new(),
        }),
        _ => Ok(()),
    }
}

/// Measurements as lines of JSON or as a table.
fn say_rows<T: serde::Serialize>(
    rows: &[T],
    table: impl Fn(&[T]) -> String,
    json: bool,
) -> Result<(), LabError> {
    match json {
        true => say_lines(rows),
        false => say(table(rows).trim_end()),
    }
}

fn say_lines<T: serde::Serialize>(rows: &[T]) -> Result<(), LabError> {
    rows.iter().try_for_each(|row| say(to_json(row)))
}

fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("results hold only numbers, texts and lists")
}

fn list(json: bool) -> Result<u8, LabError> {
    let experiments: Vec<Experiment> = shipped()
        .iter()
        .map(|shipped| shipped.experiment(&[]))
        .collect::<Result<_, _>>()?;
    if json {
        let rows: Vec<_> = experiments
            .iter()
            .map(|e| serde_json::json!({"name": e.name, "task": e.task.name, "description": e.description}))
            .collect();
        let memories: Vec<_> = mnemora_lab::MemoryName::ALL
            .iter()
            .map(|memory| memory.as_str())
            .collect();
        let models: Vec<_> = ModelName::ALL.iter().map(|name| name.as_str()).collect();
        let strategies: Vec<_> = StrategyName::ALL.iter().map(|name| name.as_str()).collect();
        let all = serde_json::json!({
            "experiments": rows, "memories": memories, "models": models, "strategies": strategies,
        });
        say(to_json(&all))?;
        return Ok(0);
    }
    let width = experiments.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for experiment in &experiments {
        say(format_args!(
            "{:width$}  {}",
            experiment.name, experiment.description
        ))?;
    }
    let memories = |task: TaskName| {
        let names = task.memories().iter().map(|memory| memory.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    say(format_args!(
        "\nmemories (--memory NAME): {}; for copy: {}; for nth-farthest and programs: {}; for texts: {}",
        memories(TaskName::PerfectRecall),
        memories(TaskName::Copy),
        memories(TaskName::NthFarthest),
        memories(TaskName::Books)
    ))?;
    let models: Vec<_> = ModelName::ALL.iter().map(|name| name.as_str()).collect();
    let strategies: Vec<_> = StrategyName::ALL.iter().map(|name| name.as_str()).collect();
    say(format_args!(
        "for recorded sequences: --set model.name={}; latents of all: --set filtering.strategy={}",
        models.join("|"),
        strategies.join("|")
    ))?;
    Ok(0)
}

/// An experiment as the command line has it.
fn experiment(name: &str, settings: &Settings) -> Result<Experiment, LabError> {
    let overrides = settings.all();
    let experiment = load_experiment(name, &overrides)?;
    experiment.refuse_unread(&overrides)?;
    Ok(experiment)
}

fn show(name: &str, out: &Path, settings: &Settings) -> Result<u8, LabError> {
    let experiment = experiment(name, settings)?;
    present::write_training_sequences(experiment, settings.data.data.as_deref(), out)?;
    say(out.display())?;
    Ok(0)
}

fn train_command(arguments: &Train) -> Result<u8, LabError> {
    let experiment = experiment(&arguments.experiment, &arguments.settings)?;
    let data = arguments.settings.data.data.as_deref();
    // One that is not there is refused by a dry run, too.
    let device = find_device(arguments.on.device)?;
    if arguments.dry_run {
        let plan = plan(experiment, data)?;
        if arguments.json {
            let parameters: serde_json::Map<_, _> = plan
                .parameters
                .iter()
                .map(|(name, count)| (name.clone(), (*count).into()))
                .collect();
            let all = serde_json::json!({
                "experiment": plan.experiment, "parameters": parameters, "memory": plan.memory,
                "data": plan.data,
            });
            say(to_json(&all))?;
            return Ok(0);
        }
        for (name, count) in &plan.parameters {
            say(format_args!("{name:10} {count:>10} parameters"))?;
        }
        say(format_args!("data       {}\n", one_line(&plan.data)))?;
        say(format_args!("{}\n", plan.memory))?;
        say(plan.experiment.to_toml()?.trim_end())?;
        return Ok(0);
    }
    let name = run_name(
        &arguments.experiment,
        &experiment,
        &arguments.settings.overrides,
    )?;
    if let Some(count) = arguments.replicas {
        let out = arguments.out.clone();
        let out = out.unwrap_or_else(|| Path::new("runs").join(name));
        return replicas(&experiment, &out, count, data, device, arguments.json);
    }
    let out = arguments.out.clone();
    let out = out.unwrap_or_else(|| {
        Path::new("runs").join(format!("{name}-seed{seed}", seed = experiment.seed))
    });
    let signal = StopSignal::listen()?;
    let interrupted = || signal.received();
    let all_saved = |saved| signal.end_at_once(saved);
    let outcome = train(
        experiment,
        &out,
        data,
        &surroundings(&interrupted, &all_saved, device),
    )?;
    finish(&out, outcome, arguments.json)
}

/// Trains replicas and says their means.
fn replicas(
    experiment: &Experiment,
    out: &Path,
    count: u64,
    data: Option<&Path>,
    device: Device,
    json: bool,
) -> Result<u8, LabError> {
    let signal = StopSignal::listen()?;
    let interrupted = || signal.received();
    let all_saved = |saved| signal.end_at_once(saved);
    let surroundings = surroundings(&interrupted, &all_saved, device);
    match train_replicas(experiment, out, count, data, &surroundings)? {
        ReplicasOutcome::Finished(runs) => {
            let picture = out.join("compare.png");
            compare_command(&runs, &picture, json)
        }
        ReplicasOutcome::Elsewhere(runs) => {
            for run in runs {
                note(format_args!(
                    "{} is in training in another process",
                    run.display()
                ));
            }
            note("the same command says the means once all are trained");
            Ok(0)
        }
        ReplicasOutcome::Interrupted { signal } => {
            note("stopped; the same command goes on");
            Ok(u8::try_from(128 + signal).unwrap_or(1))
        }
    }
}

fn compare_command(runs: &[PathBuf], out: &Path, json: bool) -> Result<u8, LabError> {
    let comparison = compare::compare(runs)?;
    comparison.draw(out)?;
    match json {
        true => say_lines(comparison.rows())?,
        false => say(comparison.table().trim_end())?,
    }
    note(out.display());
    Ok(0)
}

fn surroundings<'a>(
    interrupted: &'a (dyn Fn() -> Option<i32> + Sync),
    all_saved: &'a (dyn Fn(bool) + Sync),
    device: Device,
) -> Surroundings<'a> {
    Surroundings {
        interrupted,
        all_saved,
        quiet: false,
        command: command_line(),
        commit: env!("MNEMORA_COMMIT").to_owned(),
        device,
        continue_differently: false,
    }
}

/// The command as a shell takes it, after the environment variables that decide the numbers too.
fn command_line() -> String {
    const DECIDING: [&str; 4] = [
        DATA_VARIABLE,
        KERNELS_VARIABLE,
        DEVICE_VARIABLE,
        THREADS_VARIABLE,
    ];
    let variables = DECIDING.iter().filter_map(|name| {
        let value = std::env::var_os(name)?;
        Some(format!("{name}={}", quoted(&value.to_string_lossy())))
    });
    let words = std::env::args().skip(1).map(|word| quoted(&word));
    let all: Vec<String> = variables
        .chain(["mnemora".to_owned()])
        .chain(words)
        .collect();
    all.join(" ")
}

fn finish(run: &Path, outcome: Outcome, json: bool) -> Result<u8, LabError> {
    match outcome {
        Outcome::Finished(evaluation) => {
            say_evaluation(&evaluation, json)?;
            note(format_args!(
                "report: {}",
                run.join("report.html").display()
            ));
            Ok(0)
        }
        Outcome::Interrupted { signal, checkpoint } => {
            note(format_args!(
                "stopped; saved {}; go on with `mnemora resume {}`",
                checkpoint.display(),
                quoted(&run.display().to_string())
            ));
            Ok(u8::try_from(128 + signal).unwrap_or(1))
        }
    }
}

fn say_evaluation(evaluation: &Evaluation, json: bool) -> Result<(), LabError> {
    if json {
        return say(to_json(evaluation));
    }
    present::numbers(evaluation).iter().try_for_each(|number| {
        say(format_args!(
            "{:26} {:>16} {:18} {}",
            number.name, number.value, number.unit, number.meaning
        ))
    })
}
