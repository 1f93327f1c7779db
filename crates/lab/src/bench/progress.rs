//! What a person sees while works are timed, on standard error.

use super::BenchRow;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// A bar on a terminal, a line for each finished work elsewhere.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// For so many rounds of all works together.
    pub fn new(rounds: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} rounds  {eta} left  {msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(rounds as u64).with_style(style)
        });
        Self { bar }
    }

    /// A round of a work begins.
    pub fn round(&self, work: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(work.to_owned());
        }
    }

    /// A round is done.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A work is done.
    pub fn row(&self, row: &BenchRow) {
        let mut line = format!("{}: {:.3} ms", row.work, row.ours_ms);
        if let (Some(peer), Some(form), Some(ratio)) = (row.peer_ms, &row.peer_form, row.ratio) {
            line.push_str(&format!(
                ", PyTorch {peer:.3} ms ({form}), ratio {ratio:.2}"
            ));
        }
        match &self.bar {
            Some(bar) => bar.println(line),
            None => crate::say::note(line),
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
