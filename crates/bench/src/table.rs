//! The results of a benchmark as rows, and the rows as a table.

use crate::{
    BenchOptions,
    benchmarks::MUST_SHOW,
    cost::Cost,
    limits::{Limits, PRODUCT, TRIAD},
    peer::Greeting,
};
use mnemora_training::machine::describe;
use serde::Serialize;
use std::collections::BTreeMap;

/// The times of both sides for one benchmark.
pub struct Measured {
    /// Name of the benchmark.
    pub work: String,
    /// Lower bound on its cost.
    pub cost: Cost,
    /// Median of `ours_rounds_ms`.
    pub ours_ms: f64,
    /// Median of each round.
    pub ours_rounds_ms: Vec<f64>,
    /// Median of `peer_rounds_ms`.
    pub peer_ms: Option<f64>,
    /// The peer's fastest form of the work.
    pub peer_form: Option<String>,
    /// Median over the rounds for each of the peer's forms.
    pub peer_forms_ms: BTreeMap<String, f64>,
    /// Median of each round, for `peer_form`.
    pub peer_rounds_ms: Vec<f64>,
    /// The peer's time under `torch.compile`.
    pub peer_compiled_ms: Option<f64>,
    /// Share of our time in each part of the work, if it tells them apart.
    pub shares: BTreeMap<String, f64>,
}

/// The results of one benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// Name of the benchmark.
    pub work: String,
    /// Our wall time in milliseconds.
    pub ours_ms: f64,
    /// PyTorch's wall time in milliseconds.
    pub peer_ms: Option<f64>,
    /// Our time divided by PyTorch's; below 1 we are faster.
    pub ratio: Option<f64>,
    /// The least time that this machine needs for the counted work, divided by our time.
    pub share_of_limit: f64,
    /// PyTorch's fastest eager form of the work.
    pub peer_form: Option<String>,
    /// Times of all of PyTorch's eager forms.
    pub peer_forms_ms: BTreeMap<String, f64>,
    /// PyTorch's wall time under `torch.compile`.
    pub peer_compiled_ms: Option<f64>,
    /// Floating-point operations of products.
    pub flops: f64,
    /// Compulsory bytes.
    pub bytes: f64,
    /// Median of each round.
    pub ours_rounds_ms: Vec<f64>,
    /// PyTorch's median of each round.
    pub peer_rounds_ms: Vec<f64>,
    /// Share of our time in each part of the work, if it tells them apart.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, f64>,
    /// How it was measured.
    #[serde(flatten)]
    pub setting: Setting,
}

/// How and where a benchmark was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// Alternating rounds.
    pub rounds: usize,
    /// Repetitions per side and round.
    pub steps: usize,
    /// Our processor threads.
    pub threads: usize,
    /// PyTorch's processor threads.
    pub peer_threads: Option<usize>,
    /// Version of mnemora.
    pub mnemora: String,
    /// Commit that it was built from.
    pub commit: String,
    /// Version of PyTorch.
    pub torch: Option<String>,
    /// Version of Python.
    pub python: Option<String>,
    /// Description of the machine.
    pub machine: String,
    /// Load of the machine before the first round; `None` if the system does not report it.
    pub load_before: Option<f64>,
}

impl Setting {
    pub(super) fn new(
        options: &BenchOptions,
        threads: usize,
        peer: Option<&Greeting>,
        load_before: Option<f64>,
    ) -> Self {
        Self {
            rounds: options.rounds,
            steps: options.steps,
            threads,
            peer_threads: peer.map(|_| threads),
            mnemora: env!("CARGO_PKG_VERSION").to_owned(),
            commit: options.commit.clone(),
            torch: peer.map(|peer| peer.torch.clone()),
            python: peer.map(|peer| peer.python.clone()),
            machine: describe(),
            load_before,
        }
    }
}

impl BenchRow {
    pub(super) fn new(measured: Measured, limits: &Limits, setting: &Setting) -> Self {
        let least = measured.cost.milliseconds(limits.flops, limits.bytes);
        Self {
            ratio: measured.peer_ms.map(|peer| measured.ours_ms / peer),
            share_of_limit: least / measured.ours_ms,
            work: measured.work,
            ours_ms: measured.ours_ms,
            peer_ms: measured.peer_ms,
            peer_form: measured.peer_form,
            peer_forms_ms: measured.peer_forms_ms,
            peer_compiled_ms: measured.peer_compiled_ms,
            flops: measured.cost.flops,
            bytes: measured.cost.bytes,
            ours_rounds_ms: measured.ours_rounds_ms,
            peer_rounds_ms: measured.peer_rounds_ms,
            shares: measured.shares,
            setting: setting.clone(),
        }
    }

    /// The faster side's time.
    fn best_ms(&self) -> f64 {
        self.ours_ms.min(self.peer_ms.unwrap_or(self.ours_ms))
    }
}

/// Geometric mean of the promised ratios, if all of them were measured.
pub fn geometric_mean(rows: &[BenchRow]) -> Option<f64> {
    let ratio = |name: &&str| rows.iter().find(|row| row.work == **name)?.ratio;
    let ratios: Option<Vec<f64>> = MUST_SHOW.iter().map(ratio).collect();
    let ratios = ratios?;
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    Some((logarithms / ratios.len() as f64).exp())
}

/// The rows as a Markdown table, followed by what is needed to read it.
pub fn table(rows: &[BenchRow]) -> String {
    let compiled = rows.iter().any(|row| row.peer_compiled_ms.is_some());
    let mut text = String::from("| work | ours ms | PyTorch ms | ratio | share of limit |");
    text.push_str(if compiled { " compiled ms |\n" } else { "\n" });
    text.push_str("| --- | --- | --- | --- | --- |");
    text.push_str(if compiled { " --- |\n" } else { "\n" });
    for row in rows {
        text.push_str(&format!(
            "| {} | {} | {} | {} | {:.2} |",
            row.work,
            time(row.ours_ms),
            row.peer_ms.map_or("-".into(), time),
            row.ratio.map_or("-".into(), ratio),
            row.share_of_limit
        ));
        if compiled {
            let time = row.peer_compiled_ms.map_or("-".into(), time);
            text.push_str(&format!(" {time} |"));
        }
        text.push('\n');
    }
    text.push_str(&footer(rows));
    text
}

/// Formats a time with three significant digits.
pub(super) fn time(milliseconds: f64) -> String {
    match milliseconds {
        ms if ms >= 99.95 => format!("{ms:.0}"),
        ms if ms >= 9.995 => format!("{ms:.1}"),
        ms if ms >= 0.9995 => format!("{ms:.2}"),
        ms if ms >= 0.09995 => format!("{ms:.3}"),
        ms if ms >= 0.009995 => format!("{ms:.4}"),
        ms if ms >= 0.0009995 => format!("{ms:.5}"),
        ms => format!("{ms:.6}"),
    }
}

/// Formats a ratio with two decimals, and a small one with two significant digits.
pub(super) fn ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 0.0995 => format!("{ratio:.2}"),
        ratio if ratio >= 0.00995 => format!("{ratio:.3}"),
        ratio => format!("{ratio:.4}"),
    }
}

fn footer(rows: &[BenchRow]) -> String {
    let mut text = String::from(
        "\nratio: our time divided by that of PyTorch's fastest eager form; below 1 ours is faster",
    );
    if let Some(mean) = geometric_mean(rows) {
        text.push_str(&format!(
            "\ngeometric mean of {}: {mean:.2}",
            MUST_SHOW.join(", ")
        ));
    }
    let rate = |name: &str, amount: fn(&BenchRow) -> f64| {
        let row = rows.iter().find(|row| row.work == name)?;
        Some(1e-6 * amount(row) / row.best_ms())
    };
    if let (Some(flops), Some(bytes)) = (rate(PRODUCT, |r| r.flops), rate(TRIAD, |r| r.bytes)) {
        text.push_str(&format!(
            "\nlimits of the machine: {flops:.0} GFLOP/s, {bytes:.1} GB/s"
        ));
    }
    for row in rows.iter().filter(|row| !row.shares.is_empty()) {
        text.push_str(&format!("\n{}: {}", row.work, percents(&row.shares)));
    }
    if let Some(BenchRow { setting, .. }) = rows.first() {
        let peer = match (&setting.torch, &setting.python) {
            (Some(torch), Some(python)) => format!(", PyTorch {torch} on Python {python}"),
            _ => String::new(),
        };
        text.push_str(&format!(
            "\nmnemora {} ({}){peer}; {} per side; {} of {}\n{}",
            setting.mnemora,
            setting.commit,
            counted(setting.threads, "thread"),
            counted(setting.rounds, "round"),
            counted(setting.steps, "step"),
            setting.machine
        ));
    }
    text
}

/// The share of each part: 'environments 1.0%, inference 20.5%'.
fn percents(shares: &BTreeMap<String, f64>) -> String {
    let parts = shares.iter();
    let texts: Vec<String> = parts
        .map(|(part, share)| format!("{part} {:.1}%", 100.0 * share))
        .collect();
    texts.join(", ")
}

/// A number of things: '1 round', '2 rounds'.
fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(work: &str, peer_ms: Option<f64>) -> BenchRow {
        let options = BenchOptions {
            peer: None,
            rounds: 1,
            steps: 1,
            threads: 2,
            only: None,
            compiled: false,
            commit: "abc".into(),
        };
        let measured = Measured {
            work: work.into(),
            cost: Cost::product(1000, 1000, 1),
            ours_ms: 2.0,
            ours_rounds_ms: vec![2.0],
            peer_ms,
            peer_form: None,
            peer_forms_ms: BTreeMap::new(),
            peer_rounds_ms: Vec::new(),
            peer_compiled_ms: None,
            shares: BTreeMap::new(),
        };
        let limits = Limits {
            flops: 2e9,
            bytes: 1e9,
        };
        BenchRow::new(measured, &limits, &Setting::new(&options, 2, None, None))
    }

    #[test]
    fn ratio_and_share_are_of_our_time() {
        let row = row("lstm-step/128", Some(8.0));
        assert_eq!(row.ratio, Some(0.25));
        // 2e6 operations at 2e9 per second take 1 ms.
        assert_eq!(row.share_of_limit, 0.5);
    }

    #[test]
    fn times_have_three_digits() {
        for (milliseconds, text) in [
            (1234.0, "1234"),
            (12.34, "12.3"),
            (0.9996, "1.00"),
            (0.1234, "0.123"),
            (0.000345, "0.000345"),
        ] {
            assert_eq!(time(milliseconds), text);
        }
    }

    #[test]
    fn small_ratios_keep_their_digits() {
        for (number, text) in [
            (1.234, "1.23"),
            (0.1, "0.10"),
            (0.0234, "0.023"),
            (0.0024, "0.0024"),
        ] {
            assert_eq!(ratio(number), text);
        }
    }

    #[test]
    fn the_geometric_mean_wants_all_rows() {
        let mut rows: Vec<BenchRow> = MUST_SHOW[1..]
            .iter()
            .map(|work| row(work, Some(4.0)))
            .collect();
        assert_eq!(geometric_mean(&rows), None);
        rows.push(row(MUST_SHOW[0], Some(256.0)));
        let mean = geometric_mean(&rows).unwrap();
        assert!((mean - 0.25).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn parts_of_the_work_have_a_line() {
        let spent = crate::benchmark::Spent::default();
        for (part, milliseconds) in [("learning", 30), ("environments", 1), ("learning", 9)] {
            spent.add(part, std::time::Duration::from_millis(milliseconds));
        }
        let mut row = row("agent-loop/rmc", None);
        row.shares = spent.shares();
        let text = table(&[row]);
        assert!(
            text.contains("\nagent-loop/rmc: environments 2.5%, learning 97.5%\n"),
            "{text}"
        );
    }

    #[test]
    fn benchmarks_without_a_peer_have_gaps() {
        let text = table(&[row("train-step/ntm-paper", None)]);
        assert!(text.contains("| train-step/ntm-paper | 2.00 | - | - | 0.50 |"));
        assert!(
            text.contains("2 threads per side; 1 round of 1 step\n"),
            "{text}"
        );
    }
}
