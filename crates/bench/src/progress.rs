//! Progress on standard error while benchmarks are timed.

use crate::{BenchRow, table};
use indicatif::{ProgressBar, ProgressStyle};
use mnemora_lab::note;
use std::io::IsTerminal;

/// A progress bar on a terminal; otherwise a line for each finished benchmark.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar for all rounds of all benchmarks together.
    pub fn new(rounds: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} rounds  {eta} left  {msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(rounds as u64).with_style(style)
        });
        Self { bar }
    }

    /// Called when a round of a benchmark begins.
    pub fn round(&self, benchmark: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(benchmark.to_owned());
        }
    }

    /// Called when a round is done.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Called when a benchmark is done.
    pub fn row(&self, row: &BenchRow) {
        let mut line = format!("{}: {} ms", row.work, table::time(row.ours_ms));
        if let (Some(peer), Some(form), Some(ratio)) = (row.peer_ms, &row.peer_form, row.ratio) {
            line.push_str(&format!(
                ", PyTorch {} ms ({form}), ratio {}",
                table::time(peer),
                table::ratio(ratio)
            ));
        }
        match &self.bar {
            Some(bar) => bar.println(line),
            None => note(line),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
