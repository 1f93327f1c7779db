//! What a person sees while training goes on.

use crate::{evaluate::Evaluation, present::digits, run::Metrics, say::note};
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
    Plain { pace: Pace, spoken: Cell<Instant> },
}

/// How fast a training goes since it was begun or resumed.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Updates made before.
    start: u64,
    /// Updates in all.
    steps: u64,
    begun: Instant,
}

impl Pace {
    /// Updates a second, with `step` of them made after some time.
    fn rate(&self, step: u64, elapsed: Duration) -> f64 {
        step.saturating_sub(self.start) as f64 / elapsed.as_secs_f64().max(1e-9)
    }

    /// What remains, in words; nothing is known before the first update.
    fn left(&self, step: u64, elapsed: Duration) -> String {
        let rate = self.rate(step, elapsed);
        if rate == 0.0 {
            return "? left".into();
        }
        let seconds = (self.steps.saturating_sub(step) as f64 / rate).round() as u64;
        match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
            (0, 0, 0) => format!("{seconds} s left"),
            (0, 0, minutes) => format!("{minutes} min {} s left", seconds % 60),
            (0, hours, minutes) => format!("{hours} h {minutes} min left"),
            (days, hours, _) => format!("{days} d {hours} h left"),
        }
    }
}

/// A rate with about three digits.
fn rate_text(rate: f64) -> String {
    match rate {
        rate if rate < 10.0 => format!("{rate:.2} steps/s"),
        rate if rate < 100.0 => format!("{rate:.1} steps/s"),
        rate => format!("{rate:.0} steps/s"),
    }
}

/// The bar of a training, of which `pace` tells.
fn bar(pace: Pace) -> ProgressBar {
    // What is too long for the terminal is cut off the message, so that the bar stays on one line.
    let style = ProgressStyle::with_template("{bar:10} {pos}/{len}  {rate}  {left}  {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        // What cannot be written leaves a gap in the bar, nothing worse.
        .with_key("rate", move |state: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&rate_text(pace.rate(state.pos(), pace.begun.elapsed())));
        })
        .with_key("left", move |state: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&pace.left(state.pos(), pace.begun.elapsed()));
        });
    ProgressBar::new(pace.steps)
        .with_position(pace.start)
        .with_style(style)
}

impl Progress {
    /// For a training that has made `start` of `steps` updates.
    pub fn new(start: u64, steps: u64, quiet: bool) -> Self {
        let pace = Pace {
            start,
            steps,
            begun: Instant::now(),
        };
        let kind = if quiet {
            Kind::Quiet
        } else if std::io::stderr().is_terminal() {
            Kind::Bar(bar(pace))
        } else {
            Kind::Plain {
                pace,
                spoken: Cell::new(Instant::now()),
            }
        };
        Self { kind }
    }

    /// After a step.
    pub fn step(&self, row: &Metrics) {
        let mut message = match row.perplexity {
            Some(perplexity) => format!("perplexity {}", digits(perplexity.into())),
            None => format!("bound {}", digits(row.bound.into())),
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
            Kind::Plain { pace, spoken } => {
                if spoken.get().elapsed() < PLAIN_EVERY {
                    return;
                }
                spoken.set(Instant::now());
                let elapsed = pace.begun.elapsed();
                note(format_args!(
                    "step {}/{}  {}  {}  {message}",
                    row.step,
                    pace.steps,
                    rate_text(pace.rate(row.step, elapsed)),
                    pace.left(row.step, elapsed)
                ));
            }
        }
    }

    /// After the evaluation at a checkpoint.
    pub fn checkpoint(&self, step: u64, held_out: &Evaluation) {
        let line = checkpoint_line(step, held_out);
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

/// The short evaluation at a checkpoint, told apart from the one after training by its name and the number of
/// its sequences.
fn checkpoint_line(step: u64, held_out: &Evaluation) -> String {
    let (name, value) = match held_out.perplexity {
        Some(perplexity) => ("perplexity", perplexity),
        None => ("bound", held_out.bound),
    };
    let mut line = format!("step {step}: checkpoint {name} {}", digits(value));
    if let Some(ratio) = held_out.kl_ratio {
        line.push_str(&format!("  KL ratio {ratio:.3}"));
    }
    if let Some(error) = held_out.bit_error {
        line.push_str(&format!("  bit error {error:.4}"));
    }
    if let Some(accuracy) = held_out.accuracy {
        line.push_str(&format!("  accuracy {accuracy:.3}"));
    }
    line.push_str(&match &held_out.text {
        Some(text) => format!("  ({} words of the {} part)", text.words, text.part),
        None => format!("  ({} held-out sequences)", held_out.sequences),
    });
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{ProgressDrawTarget, TermLike};
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    /// A terminal of 80 columns that keeps what is written to it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn add(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.add(text).and_then(|()| self.add("\n"))
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.add(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_resumed_training_is_timed_from_where_it_goes_on() {
        let pace = Pace {
            start: 29_000,
            steps: 56_000,
            begun: Instant::now(),
        };
        assert_eq!(pace.left(29_000, SECOND), "? left");
        assert_eq!(pace.rate(29_300, 2 * SECOND), 150.0);
        assert_eq!(pace.left(29_300, 2 * SECOND), "2 min 58 s left");
        assert_eq!(pace.left(56_000, 180 * SECOND), "0 s left");
        assert_eq!(pace.left(29_001, 10 * SECOND), "3 d 2 h left");
        assert_eq!(rate_text(1908.3), "1908 steps/s");
        assert_eq!(rate_text(0.1234), "0.12 steps/s");
    }

    #[test]
    fn the_bar_fits_a_terminal_of_80_columns() {
        let screen = Screen::default();
        let begun = Instant::now().checked_sub(100 * SECOND).unwrap();
        let bar = bar(Pace {
            start: 29_000,
            steps: 500_000,
            begun,
        });
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(screen.clone())));
        let progress = Progress {
            kind: Kind::Bar(bar),
        };
        let row = Metrics {
            step: 44_000,
            bound: -12_345.678,
            kl_last: Some(12.34),
            accuracy: Some(0.5),
            admitted: Some(8),
            ..Metrics::default()
        };
        progress.step(&row);
        let Kind::Bar(bar) = &progress.kind else {
            unreachable!("it was made of a bar")
        };
        bar.force_draw();
        let drawn = screen.0.lock().unwrap().clone();
        let lines: Vec<&str> = drawn.lines().collect();
        let said = lines.iter().find(|line| line.contains("44000/500000"));
        let said = said.unwrap_or_else(|| panic!("{drawn:?}"));
        for line in &lines {
            assert!(line.trim_end().chars().count() <= 80, "{line:?}");
        }
        // 15,000 updates in 100 seconds.
        assert!(said.contains(" 150 steps/s  50 min"), "{said:?}");
        assert!(said.contains("bound -12346"), "{said:?}");
    }

    #[test]
    fn evaluations_at_checkpoints_have_a_name_and_a_number() {
        let held_out = Evaluation {
            sequences: 128,
            bound: -784.2345,
            kl_ratio: Some(0.25),
            ..Evaluation::default()
        };
        assert_eq!(
            checkpoint_line(2000, &held_out),
            "step 2000: checkpoint bound -784.23  KL ratio 0.250  (128 held-out sequences)"
        );
    }
}
