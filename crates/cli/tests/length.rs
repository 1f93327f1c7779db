//! Long sequences: training in segments, and measuring the cost of length.

mod common;

use common::{assert_says, mnemora, refuse, succeed, train};
use std::{fs, path::Path};
use tempfile::tempdir;

/// The rows of a run's metrics.
fn bounds(run: &Path) -> Vec<f64> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics are read");
    let rows = text.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row is JSON");
        row["bound"].as_f64().expect("a bound is a number")
    });
    rows.collect()
}

#[test]
fn training_by_segments_is_training() {
    let folder = tempdir().expect("a temporary folder is made");
    let whole = folder.path().join("whole");
    succeed(train(&whole, &["training.segment=0"]));
    let segments = folder.path().join("segments");
    succeed(train(&segments, &["training.segment=2"]));
    let (whole, segments) = (bounds(&whole), bounds(&segments));
    assert_eq!(whole.len(), 12);
    for (whole, segments) in whole.iter().zip(&segments) {
        assert!(
            (whole - segments).abs() < 1e-3 * whole.abs(),
            "{whole} {segments}"
        );
    }
}

#[test]
fn a_length_is_measured_in_its_process() {
    let words = ["bench", "--one-length", "vrnn,25,5", "--steps", "1"];
    let row = succeed(mnemora(words)).json();
    let sizes = (row["time"].as_u64(), row["segment"].as_u64());
    assert_eq!(sizes, (Some(25), Some(5)));
    assert!(row["ours_ms"].as_f64().is_some_and(|ms| ms > 0.0));
    if cfg!(target_os = "linux") {
        assert!(row["peak_mib"].as_f64().is_some_and(|peak| peak > 10.0));
    }
    let message = refuse(mnemora(["bench", "--one-length", "vrnn"]));
    assert_says(&message, &["'vrnn' is not MEMORY,TIME,SEGMENT"]);
    let message = refuse(train(Path::new("nowhere"), &["training.segment=5"]));
    assert_says(
        &message,
        &["training.segment is 5", "5 steps", "0 for whole sequences"],
    );
}
