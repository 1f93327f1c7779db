//! `mnemora bench`: chooses what to measure and prints the results.

use crate::{
    arguments::Bench,
    output::{say, say_lines, say_rows, to_json},
};
use mnemora_bench::{
    BenchError, BenchOptions, batch_table, bench, bench_batches, bench_inference, bench_length,
    bench_slots, draw_length, geometric_mean, inference_table, length_growth, length_table,
    one_length, slot_table, table,
};
use mnemora_lab::{LabError, note};
use std::path::Path;

/// Runs `mnemora bench`.
pub fn run(arguments: &Bench) -> Result<u8, BenchError> {
    let steps = arguments.steps as usize;
    if let Some(work) = &arguments.one_length {
        say(to_json(&one_length(work, steps)?))?;
        return Ok(0);
    }
    if arguments.length {
        return by_length(steps, arguments.out.as_deref(), arguments.json);
    }
    if arguments.batches {
        let rows = bench_batches(steps)?;
        say_rows(&rows, batch_table, arguments.json)?;
        return Ok(0);
    }
    if arguments.inference {
        let rows = bench_inference(steps)?;
        say_rows(&rows, inference_table, arguments.json)?;
        return Ok(0);
    }
    if arguments.slots {
        let rows = bench_slots(steps)?;
        say_rows(&rows, slot_table, arguments.json)?;
        return Ok(0);
    }
    let rows = bench(&BenchOptions {
        peer: (arguments.peer != "none").then(|| arguments.peer.clone()),
        rounds: arguments.rounds as usize,
        steps,
        threads: arguments.threads as usize,
        only: arguments.only.clone(),
        compiled: arguments.compiled,
        commit: env!("MNEMORA_COMMIT").to_owned(),
    })?;
    say_rows(&rows, table, arguments.json)?;
    if let Some(mean) = geometric_mean(&rows).filter(|_| arguments.json) {
        note(format_args!(
            "geometric mean of the six promised ratios: {mean:.3}"
        ));
    }
    Ok(0)
}

/// Measures by length, in processes of this program.
fn by_length(steps: usize, out: Option<&Path>, json: bool) -> Result<u8, BenchError> {
    let program =
        std::env::current_exe().map_err(|source| LabError::read("this program", source))?;
    // Find out before the measurements whether the picture can be written.
    if let Some(out) = out {
        draw_length(&[], out)?;
    }
    let rows = bench_length(&program, steps)?;
    if let Some(out) = out {
        draw_length(&rows, out)?;
        note(out.display());
    }
    say_rows(&rows, length_table, json)?;
    if json {
        say_lines(&length_growth(&rows))?;
    }
    Ok(0)
}
