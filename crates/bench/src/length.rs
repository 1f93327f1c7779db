//! Cost as a function of sequence length: time and peak memory of a training step.

use crate::training::FixedBatchTraining;
use crate::{BenchError, benchmark::median};
use mnemora_figures::chart::{self, Chart, Layout, Series};
use mnemora_lab::{Experiment, find_device, load_experiment};
use mnemora_training::{run::write_atomically, threads::Threads};
use serde::{Deserialize, Serialize};
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Steps of a sequence.
const TIMES: [usize; 6] = [25, 50, 100, 250, 500, 1_000];

/// The memories that are timed. The Introspection network has one slot per step, so its attention costs the
/// square of the length. The DNC has [`DNC_SLOTS`] at every length.
const MEMORIES: [&str; 3] = ["vrnn", "introspection", "dnc"];
const DNC_SLOTS: usize = 32;

const BATCH: usize = 10;

/// A training step on sequences of one length.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LengthRow {
    /// `train-step/MEMORY-small/TIME-steps`, followed by the segment if there is one.
    pub work: String,
    /// The memory.
    pub memory: String,
    /// Steps of the sequences.
    pub time: usize,
    /// Steps per segment; 0 for whole sequences.
    pub segment: usize,
    /// Median wall time of a training step in milliseconds.
    pub ours_ms: f64,
    /// Median wall time per step of the sequence, in milliseconds.
    pub ms_per_time_step: f64,
    /// Mean processor time of a training step, divided by the steps of the sequence, in milliseconds. On a busy
    /// machine this is the number to use. `None` if the system does not report it.
    pub cpu_ms_per_time_step: Option<f64>,
    /// Largest resident memory of a process that did nothing but these training steps, in MiB. `None` if the
    /// system does not report it.
    pub peak_mib: Option<f64>,
    /// Number of measurements.
    pub repetitions: usize,
    /// Processor threads.
    pub threads: usize,
}

/// Growth of the cost along one curve.
#[derive(Clone, Debug, Serialize)]
pub struct LengthGrowth {
    /// `length/MEMORY-small`, and whether by segments.
    pub work: String,
    /// Wall time per step of the longest sequence divided by that of the shortest.
    pub wall_ratio: f64,
    /// The same ratio for processor time.
    pub cpu_ratio: Option<f64>,
    /// Peak memory per additional step: slope of the least-squares line, in MiB.
    pub mib_per_time_step: Option<f64>,
    /// Largest distance of a measurement from that line, as a fraction of the largest measurement.
    pub off_line: Option<f64>,
}

/// One measurement, written on the command line of a child process as `MEMORY,TIME,SEGMENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Case {
    memory: String,
    time: usize,
    segment: usize,
}

impl Case {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let memory = parts.next()?.to_owned();
        let mut number = || parts.next()?.parse().ok();
        let (time, segment) = (number()?, number()?);
        Some(Self {
            memory,
            time,
            segment,
        })
    }

    fn words(&self) -> String {
        format!("{},{},{}", self.memory, self.time, self.segment)
    }

    fn experiment(&self) -> Result<Experiment, BenchError> {
        let recall = self.time / 5;
        let settings = [
            format!("model.memory={}", self.memory),
            format!("task.length={}", self.time - recall),
            format!("task.recall={recall}"),
            format!("training.segment={}", self.segment),
            format!("training.batch={BATCH}"),
            format!("memory.dnc.slots={DNC_SLOTS}"),
        ];
        Ok(load_experiment("perfect-recall-small", &settings)?)
    }
}

/// The segment length that needs about the least memory.
fn segment(time: usize) -> usize {
    (time as f64).sqrt().round() as usize
}

/// Times one training step of the models of `perfect-recall-small`, batch 10, on sequences of 25 to 1,000 steps,
/// whole and by segments.
///
/// Each measurement runs in a separate process, to get its own peak of memory: `program` is called as `program
/// bench --one-length WORK --steps STEPS`, and prints the result of [`one_length`] as JSON.
pub fn bench_length(program: &Path, steps: usize) -> Result<Vec<LengthRow>, BenchError> {
    let mut rows = Vec::new();
    for memory in MEMORIES {
        for by_segments in [false, true] {
            for time in TIMES {
                let case = Case {
                    memory: memory.to_owned(),
                    time,
                    segment: if by_segments { segment(time) } else { 0 },
                };
                rows.push(in_child(program, &case, steps)?);
            }
        }
    }
    Ok(rows)
}

fn in_child(program: &Path, case: &Case, steps: usize) -> Result<LengthRow, BenchError> {
    let words = case.words();
    let output = Command::new(program)
        .args(["bench", "--one-length", &words, "--steps"])
        .arg(steps.to_string())
        .output()
        .map_err(|error| BenchError::read(program, error))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or("it said nothing").to_owned();
        BenchError::Child {
            measurement: words.clone(),
            problem: said,
        }
    })
}

/// One measurement of [`bench_length`], in this process. Short sequences are timed more often, so that all
/// lengths run about the same number of steps.
pub fn one_length(case: &str, steps: usize) -> Result<LengthRow, BenchError> {
    let Some(case) = Case::parse(case) else {
        return Err(BenchError::NotALength(case.to_owned()));
    };
    let experiment = case.experiment()?;
    let threads = Threads::so_many(experiment.training.threads)?;
    let repetitions = steps.max(TIMES[TIMES.len() - 1] / case.time.max(1));
    let (times, cpu) = threads.run(|| step_times(experiment, repetitions))?;
    let milliseconds = median(times);
    let Case {
        memory,
        time,
        segment,
    } = case;
    let by_segments = match segment {
        0 => String::new(),
        segment => format!("/segment-{segment}"),
    };
    Ok(LengthRow {
        work: format!("train-step/{memory}-small/{time}-steps{by_segments}"),
        memory,
        time,
        segment,
        ours_ms: milliseconds,
        ms_per_time_step: milliseconds / time as f64,
        cpu_ms_per_time_step: cpu.map(|cpu| cpu.as_secs_f64() * 1e3 / (repetitions * time) as f64),
        peak_mib: peak_memory(),
        repetitions,
        threads: threads.count(),
    })
}

/// Milliseconds of each training step except the first, which warms up, and the processor time of these steps.
/// All use the same batch.
fn step_times(
    experiment: Experiment,
    steps: usize,
) -> Result<(Vec<f64>, Option<Duration>), BenchError> {
    let device = find_device(None)?.autodiff();
    let mut training = FixedBatchTraining::new(experiment, 0, &device)?;
    let mut step = || {
        training.update()?;
        training.wait()
    };
    step()?;
    let mut times = Vec::with_capacity(steps);
    let before = cpu_time();
    for _ in 0..steps {
        let clock = Instant::now();
        step()?;
        times.push(clock.elapsed().as_secs_f64() * 1e3);
    }
    let cpu = cpu_time().zip(before);
    Ok((
        times,
        cpu.map(|(after, before)| after.saturating_sub(before)),
    ))
}

/// Processor time of all living threads of this process. `None` on systems other than Linux.
fn cpu_time() -> Option<Duration> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let nanoseconds = threads.map(|thread| {
        let said = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        said.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<Option<u64>>().map(Duration::from_nanos)
}

/// Largest resident memory of this process so far, in MiB. `None` on systems other than Linux.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    high_water(&status)
}

/// `VmHWM` of a process's status, in MiB.
fn high_water(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// The measurements of each memory, whole or by segments, sorted by length.
fn curves(rows: &[LengthRow]) -> Vec<(String, Vec<&LengthRow>)> {
    let mut curves: Vec<(String, Vec<&LengthRow>)> = Vec::new();
    for row in rows {
        let name = match row.segment {
            0 => row.memory.clone(),
            _ => format!("{}, segments", row.memory),
        };
        match curves.iter_mut().find(|(known, _)| *known == name) {
            Some((_, curve)) => curve.push(row),
            None => curves.push((name, vec![row])),
        }
    }
    curves
}

/// How the cost of each curve grows with length.
pub fn length_growth(rows: &[LengthRow]) -> Vec<LengthGrowth> {
    curves(rows)
        .into_iter()
        .map(|(name, curve)| {
            let ratio =
                |of: fn(&LengthRow) -> Option<f64>| Some(of(curve.last()?)? / of(curve.first()?)?);
            let peaks = curve.iter();
            let peaks = peaks.map(|row| Some((row.time as f64, row.peak_mib?)));
            let line = peaks.collect::<Option<Vec<_>>>().map(|peaks| line(&peaks));
            LengthGrowth {
                work: format!("length/{name}"),
                wall_ratio: ratio(|row| Some(row.ms_per_time_step)).unwrap_or(f64::NAN),
                cpu_ratio: ratio(|row| row.cpu_ms_per_time_step),
                mib_per_time_step: line.map(|(slope, _)| slope),
                off_line: line.map(|(_, off)| off),
            }
        })
        .collect()
}

/// Slope of the least-squares line, and the largest distance from it as a fraction of the largest value.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| of(x - x_mean, y - y_mean)).sum()
    };
    let slope = sum(&|x, y| x * y) / sum(&|x, _| x * x);
    let off = points
        .iter()
        .map(|(x, y)| (y - y_mean - slope * (x - x_mean)).abs());
    let largest = points.iter().map(|(_, y)| *y).fold(f64::NAN, f64::max);
    (slope, off.fold(0.0, f64::max) / largest)
}

/// Markdown tables of the rows and of their growth.
pub fn length_table(rows: &[LengthRow]) -> String {
    let number = |value: Option<f64>, digits: usize| match value {
        Some(value) => format!("{value:.digits$}"),
        None => "not measured".to_owned(),
    };
    let head = |columns: &[&str]| {
        let rule = vec!["---"; columns.len()];
        format!("| {} |\n| {} |\n", columns.join(" | "), rule.join(" | "))
    };
    let mut text = head(&[
        "memory",
        "steps",
        "segment",
        "ms",
        "ms per step",
        "processor ms per step",
        "peak MiB",
    ]);
    for row in rows {
        text.push_str(&format!(
            "| {} | {} | {} | {:.1} | {:.3} | {} | {} |\n",
            row.memory,
            row.time,
            row.segment,
            row.ours_ms,
            row.ms_per_time_step,
            number(row.cpu_ms_per_time_step, 3),
            number(row.peak_mib, 0)
        ));
    }
    text.push('\n');
    text.push_str(&head(&[
        "from the shortest to the longest",
        "time per step, ratio",
        "processor time per step, ratio",
        "peak MiB for each step",
        "largest distance from that line",
    ]));
    for growth in length_growth(rows) {
        text.push_str(&format!(
            "| {} | {:.2} | {} | {} | {} |\n",
            growth.work,
            growth.wall_ratio,
            number(growth.cpu_ratio, 2),
            number(growth.mib_per_time_step, 3),
            number(growth.off_line, 3)
        ));
    }
    text
}

/// Draws time per step (processor time, if the system reports it) and peak memory as functions of length.
pub fn draw_length(rows: &[LengthRow], out: &Path) -> Result<(), BenchError> {
    let curves = curves(rows);
    let cpu = rows.iter().all(|row| row.cpu_ms_per_time_step.is_some());
    let series = |y: fn(&LengthRow) -> Option<f64>| -> Vec<Series> {
        let points = |curve: &[&LengthRow]| {
            let points = curve.iter();
            points
                .filter_map(|row| Some((row.time as f64, y(row)?)))
                .collect()
        };
        curves
            .iter()
            .map(|(name, curve)| Series {
                label: name.clone(),
                points: points(curve),
                band: None,
            })
            .collect()
    };
    // The axis starts at 0, so that a flat curve looks flat.
    let largest = |series: &[Series]| {
        let points = series.iter().flat_map(|series| &series.points);
        1.05 * points.map(|(_, y)| *y).fold(f64::MIN_POSITIVE, f64::max)
    };
    let chart = |title: &str, y_label: &str, series: Vec<Series>| Chart {
        title: title.into(),
        x_label: "steps per sequence".into(),
        y_label: y_label.into(),
        y_range: Some((0.0, largest(&series))),
        series,
        ..Chart::default()
    };
    let time = match cpu {
        true => chart(
            "Processor time of a training step",
            "ms per step of the sequence",
            series(|row| row.cpu_ms_per_time_step),
        ),
        false => chart(
            "Time of a training step",
            "ms per step of the sequence",
            series(|row| Some(row.ms_per_time_step)),
        ),
    };
    let memory = chart("Peak memory", "MiB", series(|row| row.peak_mib));
    let charts = [time, memory];
    let layout = Layout {
        columns: 2,
        width: 560,
        height: 400,
    };
    let bytes = chart::png(&charts, &layout, 2)?;
    Ok(write_atomically(out, &bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_a_process_is_read_from_its_status() {
        let status = "Name:\tmnemora\nVmPeak:\t  9000 kB\nVmHWM:\t  2048 kB\nThreads:\t1\n";
        assert_eq!(high_water(status), Some(2.0));
        assert_eq!(high_water("Name:\tmnemora\n"), None);
    }

    #[test]
    fn growth_is_the_slope_of_a_line() {
        let row = |time: usize, peak_mib| LengthRow {
            work: String::new(),
            memory: "vrnn".into(),
            time,
            segment: 0,
            ours_ms: 2.0 * time as f64,
            ms_per_time_step: 2.0,
            cpu_ms_per_time_step: Some(1.5 + 0.5 * f64::from(time > 500)),
            peak_mib,
            repetitions: 1,
            threads: 1,
        };
        let rows = [25, 100, 1000].map(|time| row(time, Some(30.0 + 0.5 * time as f64)));
        let [growth] = &length_growth(&rows)[..] else {
            panic!("there should be one curve");
        };
        assert_eq!(growth.wall_ratio, 1.0);
        assert_eq!(growth.cpu_ratio, Some(2.0 / 1.5));
        assert!((growth.mib_per_time_step.unwrap() - 0.5).abs() < 1e-9);
        assert!(growth.off_line.unwrap() < 1e-9);
        let unknown = length_growth(&[row(25, None), row(50, Some(1.0))]);
        assert_eq!(unknown[0].mib_per_time_step, None);
        assert!(length_table(&[row(25, None)]).contains("not measured"));
    }

    #[test]
    fn a_case_survives_its_words() {
        let case = Case {
            memory: "dnc".into(),
            time: 25,
            segment: 5,
        };
        assert_eq!(Case::parse(&case.words()), Some(case));
        assert_eq!(Case::parse("dnc,25"), None);
        for memory in MEMORIES {
            for time in TIMES {
                let work = format!("{memory},{time},{}", segment(time));
                let experiment = Case::parse(&work).unwrap().experiment().unwrap();
                assert_eq!(experiment.time(), time);
            }
        }
    }
}
