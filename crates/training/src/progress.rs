//! What a user sees during training.

use crate::{
    Quantity, Row,
    measures::{Format, filled, number_words},
    say::note,
};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::{
    cell::Cell,
    fmt::Write,
    io::IsTerminal,
    time::{Duration, Instant},
};

/// Time between plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(15);

/// A bar with rate and time left on a terminal, plain lines elsewhere. Everything goes to standard error.
pub struct Progress {
    kind: Kind,
    quantities: &'static [Quantity],
}

enum Kind {
    Quiet,
    Bar(ProgressBar),
    Plain { pace: Pace, spoken: Cell<Instant> },
}

/// The speed of a training since it was started or resumed.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Updates made before this process.
    start: u64,
    /// Updates in all.
    steps: u64,
    begun: Instant,
}

impl Pace {
    /// Updates per second, after `elapsed` time and with `step` updates made in all.
    fn rate(&self, step: u64, elapsed: Duration) -> f64 {
        step.saturating_sub(self.start) as f64 / elapsed.as_secs_f64().max(1e-9)
    }

    /// The time left, in words; unknown before the first update.
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

/// The progress bar of a training.
fn bar(pace: Pace) -> ProgressBar {
    // A message too long for the terminal is cut, so that the bar stays on one line.
    let style = ProgressStyle::with_template("{bar:10} {pos}/{len}  {rate}  {left}  {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        // A write that fails leaves a gap in the bar, nothing worse.
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
    /// For a training with `start` of `steps` updates made.
    pub fn new(start: u64, steps: u64, quantities: &'static [Quantity], quiet: bool) -> Self {
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
        Self { kind, quantities }
    }

    /// Shows a step.
    pub fn step(&self, row: &Row) {
        let shown = self.quantities.iter().filter_map(|quantity| {
            let value = row.measures.number(quantity.key)?;
            named(quantity.progress?, value)
        });
        let message = shown.collect::<Vec<_>>().join("  ");
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

    /// Shows the evaluation at a checkpoint.
    pub fn checkpoint(&self, held_out: &Row) {
        let line = checkpoint_line(self.quantities, held_out);
        match &self.kind {
            Kind::Quiet => {}
            Kind::Bar(bar) => bar.println(line),
            Kind::Plain { .. } => note(line),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Kind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

/// The short evaluation at a checkpoint. Its name and the number of its sequences distinguish it from the one after
/// training.
fn checkpoint_line(quantities: &[Quantity], held_out: &Row) -> String {
    let shown = quantities.iter().filter_map(|quantity| {
        let value = held_out.measures.number(quantity.path)?;
        named(quantity.checkpoint?, value)
    });
    let shown = shown.collect::<Vec<_>>().join("  ");
    let scored = filled(
        "[{text.words} words of the {text.part} part|{sequences} held-out sequences]",
        &held_out.measures,
    );
    format!("step {}: checkpoint {shown}  ({scored})", held_out.step)
}

/// A name and a number for a progress line.
fn named((name, format): (&str, Format), value: f64) -> Option<String> {
    Some(format!("{name} {}", number_words(value, format)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measures;
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

    const QUANTITIES: [Quantity; 5] = [
        Quantity::new("bound", "bound", "nats")
            .progress("bound", Format::Digits)
            .checkpoint("bound", Format::Digits),
        Quantity::new("kl_last", "KL", "nats").progress("last KL", Format::Decimals(2)),
        Quantity::new("kl_ratio", "KL", "").checkpoint("KL ratio", Format::Decimals(3)),
        Quantity::new("accuracy", "accuracy", "").progress("accuracy", Format::Decimals(3)),
        Quantity::new("admitted", "admitted", "").progress("admitted", Format::Decimals(0)),
    ];

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
            quantities: &QUANTITIES,
        };
        let row = Row {
            step: 44_000,
            measures: Measures::new()
                .with("bound", -12_345.678)
                .with("kl_last", 12.34)
                .with("accuracy", 0.5)
                .with("admitted", 8_usize),
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
        let held_out = Row {
            step: 2000,
            measures: Measures::new()
                .with("sequences", 128_usize)
                .with("bound", -784.2345)
                .with("kl_ratio", 0.25),
        };
        assert_eq!(
            checkpoint_line(&QUANTITIES, &held_out),
            "step 2000: checkpoint bound -784.23  KL ratio 0.250  (128 held-out sequences)"
        );
    }
}
