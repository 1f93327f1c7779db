//! One function per command.

use crate::{
    arguments::{Arguments, Command, Settings, Train},
    bench,
    error::Error,
    output::{say, say_lines, to_json},
    signals::{StopSignal, exit_code},
};
use clap::CommandFactory;
use mnemora_lab::{
    DATA_VARIABLE, DEVICE_VARIABLE, Device, Experiment, FirstWeights, KERNELS_VARIABLE, LabError,
    OldRows, Outcome, REPORT_FILE, ReplicasOutcome, Row, RunContext, THREADS_VARIABLE, Which,
    claim, compare, export, find_device, first_checkpoint, going_on, is_table, load_experiment,
    note, one_line, open, open_to_judge, pictures, plan, present, quoted, read_experiment, resume,
    run_name, train_from, train_replicas,
};
use std::path::{Path, PathBuf};

/// Runs a command and gives its exit status.
pub fn run(command: Command) -> Result<u8, Error> {
    Ok(match command {
        Command::List { json } => crate::list::run(json),
        Command::Keys { prefix, of, json } => crate::keys::run(&prefix, of.as_deref(), json),
        Command::Completions { shell } => completions(shell),
        Command::Man { out } => manual(&out),
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
            open,
        } => {
            let device = find_device(on.device)?;
            let signal = StopSignal::listen()?;
            let interrupted = || signal.received();
            let all_saved = |saved| signal.end_at_once(saved);
            let outcome = resume(
                &run,
                &overrides,
                data.data.as_deref(),
                &RunContext {
                    continue_differently,
                    ..context(&interrupted, &all_saved, device)
                },
            )?;
            finish(&run, outcome, json, open)
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
            let (trained, judged) =
                open_to_judge(&run, checkpoint.which, &overrides, data, &device)?;
            if seed.is_some() && !trained.evaluation_draws() {
                note(
                    "mnemora: --seed has no effect: a text is read from its start and nothing is sampled",
                );
            }
            let evaluation = match (judged, seed) {
                (Some(data), seed) => trained.evaluate_on(data, seed)?,
                (None, None) => trained.evaluate()?,
                (None, Some(seed)) => trained.evaluate_under(seed)?,
            };
            say_evaluation(&trained.experiment, &evaluation, json)?;
            trained.check_finite(&evaluation)?;
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
            let trained = open(&run, checkpoint.which, &[], data.data.as_deref(), &device)?;
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
        Command::Walk(arguments) => crate::walk::run(&arguments),
        Command::Play(arguments) => crate::play::run(&arguments),
        Command::Forecast(arguments) => crate::forecast::run(&arguments),
        Command::Query(arguments) => crate::query::run(&arguments),
        Command::Report {
            run,
            checkpoint,
            data,
            on,
            open: look,
        } => {
            let device = find_device(on.device)?;
            let trained = open(&run, checkpoint.which, &[], data.data.as_deref(), &device)?;
            let page = present::rewrite_report(&run, &trained)?;
            say(page.display())?;
            if look {
                open_in_browser(&page);
            }
            Ok(0)
        }
        Command::Export {
            run,
            out,
            with_data,
            checkpoint,
            data,
        } => {
            let data = data.data.as_deref();
            export(&run, checkpoint.which, data, with_data, &out)?;
            say(out.display())?;
            Ok(0)
        }
        Command::Compare {
            runs,
            claims: Some(file),
            join,
            replace,
            ..
        } => {
            let with = match (join, replace) {
                (true, _) => OldRows::Join,
                (_, true) => OldRows::Replace,
                _ => OldRows::Renew,
            };
            say(claim(&runs, &file, with)?.trim_end())?;
            note(file.display());
            Ok(0)
        }
        Command::Compare {
            runs, out, json, ..
        } => compare_command(&runs, &out, json),
        Command::Bench(arguments) => return Ok(bench::run(&arguments)?),
    }?)
}

/// Prints the completions of a shell.
fn completions(shell: clap_complete::Shell) -> Result<u8, LabError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "mnemora", &mut script);
    say(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

/// Writes the manual pages.
fn manual(folder: &Path) -> Result<u8, LabError> {
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    written.map_err(|error| LabError::write(folder, error))?;
    note(folder.display());
    Ok(0)
}

/// The experiment with the command line's settings.
fn experiment(name: &str, settings: &Settings) -> Result<Experiment, LabError> {
    let overrides = settings.all();
    if let (true, Some(data)) = (is_table(name), &settings.data.data) {
        return Err(LabError::Configuration(format!(
            "{name} is the data already; leave out --data {}",
            data.display()
        )));
    }
    let experiment = load_experiment(name, &overrides)?;
    experiment.refuse_unread(&overrides)?;
    Ok(experiment)
}

/// The experiment that a training makes.
fn to_train(arguments: &Train) -> Result<Experiment, LabError> {
    let Some(run) = &arguments.from else {
        return experiment(&arguments.experiment, &arguments.settings);
    };
    let file = Path::new(&arguments.experiment);
    if !file.is_file() {
        return Err(LabError::Configuration(format!(
            "--from {}: {} is no file; give the table to go on with, such as new.csv",
            run.display(),
            arguments.experiment
        )));
    }
    let mut experiment = going_on(run, file, &arguments.settings.all())?;
    let own = file.file_stem().unwrap_or_default().to_string_lossy();
    experiment.name = format!(
        "{own}-from-{}",
        run.file_name().unwrap_or_default().display()
    );
    Ok(experiment)
}

fn show(name: &str, out: &Path, settings: &Settings) -> Result<u8, LabError> {
    let experiment = experiment(name, settings)?;
    present::write_training_sequences(experiment, settings.data.data.as_deref(), out)?;
    say(out.display())?;
    Ok(0)
}

fn train_command(arguments: &Train) -> Result<u8, LabError> {
    let experiment = to_train(arguments)?;
    let data = arguments.settings.data.data.as_deref();
    // A dry run refuses a missing device, too.
    let device = find_device(arguments.on.device)?;
    let newest = arguments.weights.as_deref().map(|run| (run, Which::Last));
    let usual = arguments.from.as_deref().map(|run| (run, Which::Usual));
    let weights = newest
        .or(usual)
        .map(|(run, which)| FirstWeights { run, which });
    let name = run_name(
        &arguments.experiment,
        &experiment,
        &arguments.settings.overrides,
    )?;
    if arguments.dry_run {
        if let Some(weights) = weights {
            first_checkpoint(weights, &experiment)?;
        }
        let plan = plan(experiment, data)?;
        if arguments.json {
            let parameters: serde_json::Map<_, _> = plan
                .parameters
                .iter()
                .map(|(name, count)| (name.clone(), (*count).into()))
                .collect();
            let all = serde_json::json!({
                "experiment": plan.experiment.resolved()?, "parameters": parameters, "memory": plan.memory,
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
    let outcome = train_from(
        experiment,
        &out,
        data,
        weights,
        &context(&interrupted, &all_saved, device),
    )?;
    finish(&out, outcome, arguments.json, arguments.open)
}

/// Trains replicas and prints their means.
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
    let context = context(&interrupted, &all_saved, device);
    match train_replicas(experiment, out, count, data, &context)? {
        ReplicasOutcome::Finished(runs) => {
            let picture = out.join("compare.png");
            compare_command(&runs, &[picture], json)
        }
        ReplicasOutcome::Elsewhere(runs) => {
            for run in runs {
                note(format_args!(
                    "{} is being trained by another process",
                    run.display()
                ));
            }
            note("run the same command again for the means once all are trained");
            Ok(0)
        }
        ReplicasOutcome::Interrupted { signal } => {
            note("stopped; run the same command again to continue");
            Ok(exit_code(signal))
        }
    }
}

fn compare_command(runs: &[PathBuf], out: &[PathBuf], json: bool) -> Result<u8, LabError> {
    compare::check_names(out)?;
    let comparison = compare::compare(runs)?;
    for file in out {
        comparison.write(file)?;
    }
    match json {
        true => say_lines(comparison.rows())?,
        false => say(comparison.table().trim_end())?,
    }
    for file in out {
        note(file.display());
    }
    Ok(0)
}

fn context<'a>(
    interrupted: &'a (dyn Fn() -> Option<i32> + Sync),
    all_saved: &'a (dyn Fn(bool) + Sync),
    device: Device,
) -> RunContext<'a> {
    RunContext {
        interrupted,
        all_saved,
        quiet: false,
        command: command_line(),
        commit: env!("MNEMORA_COMMIT").to_owned(),
        device,
        continue_differently: false,
    }
}

/// The command in shell syntax, after the environment variables that also affect the numbers.
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

fn finish(run: &Path, outcome: Outcome, json: bool, open: bool) -> Result<u8, LabError> {
    match outcome {
        Outcome::Finished(evaluation) => {
            say_evaluation(&read_experiment(run, &[])?, &evaluation, json)?;
            let page = run.join(REPORT_FILE);
            note(format_args!("report: {}", page.display()));
            if open {
                open_in_browser(&page);
            }
            Ok(0)
        }
        Outcome::Interrupted { signal, checkpoint } => {
            note(format_args!(
                "stopped; saved {}; continue with `mnemora resume {}`",
                checkpoint.display(),
                quoted(&run.display().to_string())
            ));
            Ok(exit_code(signal))
        }
    }
}

/// Hands a page to the desktop's browser. A failure is reported, not an error: the report is written.
fn open_in_browser(page: &Path) {
    let absolute = std::path::absolute(page).unwrap_or_else(|_| page.to_owned());
    if let Err(error) = opener::open(absolute) {
        note(format_args!(
            "mnemora: {} could not be opened: {error}",
            page.display()
        ));
    }
}

fn say_evaluation(experiment: &Experiment, evaluation: &Row, json: bool) -> Result<(), LabError> {
    if json {
        return say(to_json(evaluation));
    }
    let quantities = experiment.family().quantities();
    let numbers = pictures::numbers(quantities, evaluation).into_iter();
    let rows: Vec<[String; 4]> = numbers
        .map(|number| [number.name, number.value, number.unit, number.meaning])
        .collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let (names, values, units) = (width(0), width(1), width(2));
    rows.iter().try_for_each(|[name, value, unit, meaning]| {
        let line = format!("{name:names$}  {value:>values$} {unit:units$}  {meaning}");
        say(line.trim_end())
    })
}
