//! What a person sees while training goes on.

use crate::{evaluate::Evaluation, run::Metrics, say::note};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::{
    cell::Cell,
    fmt::Write,
    io::IsTerminal,
    time::{Duration, Instant},
};

/// Time between plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(15);

/// A bar with rate and time left on a terminal, plain lines elsewhere. All on standard error.
pub struct Progress {
    kind: Kind,
}

enum Kind {
    Quiet,
    Bar(ProgressBar),
    Plain {
        start: u64,
        steps: u64,
        begun: Instant,
        spoken: Cell<Instant>,
    },
}

impl Progress {
    /// For a training that has made `start` of `steps` updates.
    pub fn new(start: u64, steps: u64, quiet: bool) -> Self {
        let kind = if quiet {
            Kind::Quiet
        } else if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template(
                "{bar:30} {pos}/{len} steps  {rate}  {eta} left  {msg}",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                // A rate that cannot be written leaves a gap in the bar, nothing worse.
                let _ = write!(out, "{:.1} steps/s", state.per_sec());
            });
            let bar = ProgressBar::new(steps)
                .with_position(start)
                .with_style(style);
            bar.reset_eta();
            Kind::Bar(bar)
        } else {
            Kind::Plain {
                start,
                steps,
                begun: Instant::now(),
                spoken: Cell::new(Instant::now()),
            }
        };
        Self { kind }
    }

    /// After a step.
    pub fn step(&self, row: &Metrics) {
        let mut message = match row.perplexity {
            Some(perplexity) => format!("perplexity {perplexity:.1}"),
            None => format!("bound {:.1}", row.bound),
        };
        if let Some(kl) = row.kl_last {
            message.push_str(&format!("  last KL {kl:.2}"));
        }
        if let Some(error) = row.bit_error {
            message.push_str(&format!("  bit error {error:.4}"));
        }
        if let Some(accuracy) = row.accuracy {
            message.push_str(&format!("  accuracy {accuracy:.3}"));
        }
        if let Some(admitted) = row.admitted {
            message.push_str(&format!("  admitted {admitted}"));
        }
        match &self.kind {
            Kind::Quiet => {}
            Kind::Bar(bar) => {
                bar.set_message(message);
                bar.set_position(row.step);
            }
            Kind::Plain {
                start,
                steps,
                begun,
                spoken,
            } => {
                if spoken.get().elapsed() < PLAIN_EVERY {
                    return;
                }
                spoken.set(Instant::now());
                let rate = (row.step - start) as f64 / begun.elapsed().as_secs_f64();
                let left = (steps - row.step) as f64 / rate;
                note(format_args!(
                    "step {}/{steps}  {rate:.1} steps/s  {:.0} s left  {message}",
                    row.step, left
                ));
            }
        }
    }

    /// After the evaluation at a checkpoint.
    pub fn checkpoint(&self, step: u64, held_out: &Evaluation) {
        let mut line = match held_out.perplexity {
            Some(perplexity) => format!("step {step}: held-out perplexity {perplexity:.2}"),
            None => format!("step {step}: held-out bound {:.1}", held_out.bound),
        };
        if let Some(ratio) = held_out.kl_ratio {
            line.push_str(&format!("  KL ratio {ratio:.3}"));
        }
        if let Some(error) = held_out.bit_error {
            line.push_str(&format!("  bit error {error:.4}"));
        }
        if let Some(accuracy) = held_out.accuracy {
            line.push_str(&format!("  accuracy {accuracy:.3}"));
        }
        match &self.kind {
            Kind::Quiet => {}
            Kind::Bar(bar) => bar.println(line),
            Kind::Plain { .. } => note(line),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Kind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}
