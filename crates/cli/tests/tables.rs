//! A user's own table: from a CSV file to a forecast, and what can be wrong with either.

mod common;

use common::{assert_png, assert_says, mnemora, refuse, run_with_input, succeed, with_settings};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::{TempDir, tempdir};

/// Settings with which a training takes a second.
const QUICK: [&str; 7] = [
    "training.steps=60",
    "training.checkpoint_every=20",
    "table.samples=40",
    "table.origins=8",
    "network.srnn.hidden=8",
    "network.srnn.units=8",
    "evaluation.pictures=1",
];

/// A file of this text.
fn written(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = tempdir().expect("a temporary folder is made");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("it is written");
    (folder, path)
}

/// A wave with a gap, scaled and shifted, and counts.
fn waves(scale: f64, shift: f64) -> String {
    let mut text = String::from("Date,level,visits\n");
    for week in (0..120_u32).filter(|week| !(40..43).contains(week)) {
        let noise = f64::from(week * 7919 % 101) / 50.0 - 1.0;
        let level = (f64::from(week) / 4.0).sin() * 3.0 + noise;
        let _ = writeln!(text, "{week},{},{}", level * scale + shift, (week * 31) % 9);
    }
    text
}

fn train(table: &Path, out: &Path, settings: &[&str]) -> Command {
    let words = [
        "train".as_ref(),
        table.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
    ];
    with_settings(mnemora(words), &[&QUICK, settings].concat())
}

/// The rows of a forecast: time, column, and numbers.
fn forecast(run: &Path, words: &[&str]) -> Vec<(String, String, Vec<f64>)> {
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(words);
    let text = succeed(command).stdout;
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let numbers = fields[2..]
            .iter()
            .map(|field| field.parse().expect("a number"));
        (
            fields[0].to_owned(),
            fields[1].to_owned(),
            numbers.collect(),
        )
    });
    rows.collect()
}

#[test]
fn a_table_is_trained_and_forecast_without_configuration() {
    let (folder, table) = written("waves.csv", &waves(1.0, 0.0));
    let run = folder.path().join("run");
    let ended = succeed(train(&table, &run, &[]));
    assert_says(
        &ended.stderr,
        &[
            "1 sequence, times in Date",
            "level (number), visits (count)",
            "3 steps are missing",
            "visits (negative-binomial)",
        ],
    );
    assert_says(
        &ended.stdout,
        &[
            "CRPS",
            "coverage",
            "CRPS of the random walk",
            "CRPS of the autoregression",
        ],
    );
    let picture = folder.path().join("f.png");
    let rows = forecast(&run, &["--steps", "5", "--draw", picture.to_str().unwrap()]);
    assert_png(&picture);
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[0].0, "120");
    for (_, column, numbers) in &rows {
        let [mean, low, median, high] = numbers[..] else {
            panic!("{numbers:?}")
        };
        assert!(
            low <= median && median <= high && mean.is_finite(),
            "{numbers:?}"
        );
        if column == "visits" {
            assert!(low >= 0.0 && median.fract() == 0.0, "{numbers:?}");
        } else {
            assert!(mean.abs() < 10.0, "{numbers:?}");
        }
    }
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(["--steps", "100000", "--samples", "1000000"]);
    assert_says(&refuse(command), &["--steps or --samples"]);
    // The same samples again, and others under another seed.
    assert_eq!(rows, forecast(&run, &["--steps", "5"]));
    assert_ne!(rows, forecast(&run, &["--steps", "5", "--seed", "2"]));
    // The same table from standard input.
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(["--steps", "5", "--data", "-"]);
    let piped = run_with_input(command, waves(1.0, 0.0).as_bytes());
    let told = succeed(mnemora(["forecast", run.to_str().unwrap(), "--steps", "5"]));
    assert_eq!((piped.status, piped.stdout), (Some(0), told.stdout));
}

/// The page is handed to the desktop's program.
#[cfg(target_os = "linux")]
#[test]
fn a_report_opens_in_a_browser() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, table) = written("waves.csv", &waves(1.0, 0.0));
    let run = folder.path().join("run");
    let programs = folder.path().join("programs");
    let opened = folder.path().join("opened");
    fs::create_dir(&programs).unwrap();
    let browser = programs.join("xdg-open");
    fs::write(
        &browser,
        format!("#!/bin/sh\necho \"$@\" > {}\n", opened.display()),
    )
    .unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = train(&table, &run, &[]);
    command
        .arg("--open")
        .env("PATH", format!("{}:{path}", programs.display()));
    succeed(command);
    // The browser is not waited for.
    let page = run.join("report.html").display().to_string();
    let shown = || fs::read_to_string(&opened).unwrap_or_default();
    for _ in 0..100 {
        if shown().contains(&page) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("opened: {:?}", shown());
}

/// Scaled by a power of two, all numbers of the training are the same: so are the forecasts, scaled.
#[test]
fn a_scaled_column_has_scaled_forecasts_bit_for_bit() {
    let (folder, table) = written("waves.csv", &waves(1.0, 0.0));
    let (other, scaled) = written("waves.csv", &waves(1024.0, 0.0));
    let runs = [folder.path().join("run"), other.path().join("run")];
    succeed(train(&table, &runs[0], &[]));
    succeed(train(&scaled, &runs[1], &[]));
    let [one, other] = runs.map(|run| forecast(&run, &["--steps", "6"]));
    for ((_, column, numbers), (_, _, larger)) in one.iter().zip(&other) {
        let factor = if column == "level" { 1024.0 } else { 1.0 };
        for (number, larger) in numbers.iter().zip(larger) {
            assert_eq!(number * factor, *larger, "{column}");
        }
    }
}

#[test]
fn units_do_not_matter_to_what_is_learned() {
    let crps = [waves(1.0, 0.0), waves(1000.0, 5e5)].map(|text| {
        let (folder, table) = written("waves.csv", &text);
        let run = folder.path().join("run");
        succeed(train(&table, &run, &["table.leave_out=[\"visits\"]"]));
        evaluated(&run, &[], "crps")
    });
    assert!((crps[1] / crps[0] - 1.0).abs() < 0.02, "{crps:?}");
}

#[test]
fn a_table_of_categories_alone_is_forecast_by_probabilities() {
    let days: String = (0..80)
        .map(|day| ["dry\n", "rain\n", "dry\n", "snow\n"][day * 7919 % 101 % 4])
        .collect();
    let (folder, table) = written("sky.csv", &format!("sky\n{days}"));
    let run = folder.path().join("run");
    succeed(train(&table, &run, &[]));
    let picture = folder.path().join("f.png");
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(["--steps", "2", "--draw"]).arg(&picture);
    let text = succeed(command).stdout;
    assert_png(&picture);
    let rows: Vec<(&str, f64)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[1], fields[2].parse().expect("a share"))
        })
        .collect();
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(names[..3], ["sky=dry", "sky=rain", "sky=snow"]);
    for step in rows.chunks(3) {
        let sum: f64 = step.iter().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{rows:?}");
    }
}

#[test]
fn columns_known_in_advance_are_asked_for() {
    let table = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../lab/tests/tables/measured.csv"
    );
    let folder = tempdir().expect("a temporary folder is made");
    let run = folder.path().join("run");
    let known = ["table.known=[\"holiday\"]", "table.sequence=station"];
    succeed(train(Path::new(table), &run, &known));
    let ask = |future: Option<&Path>| {
        let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
        command.args(["--steps", "3"]);
        if let Some(future) = future {
            command.arg("--future").arg(future);
        }
        command
    };
    assert_says(&refuse(ask(None)), &["table.known has holiday", "--future"]);
    let future = folder.path().join("future.csv");
    let rows = |steps: u32| {
        let days = (1..=steps).map(|day| {
            format!(
                "2020-03-{day:02},north,{0}\n2020-03-{day:02},south,{0}\n",
                day % 2
            )
        });
        format!("date,station,holiday\n{}", days.collect::<String>())
    };
    fs::write(&future, rows(3)).unwrap();
    let text = succeed(ask(Some(&future))).stdout;
    assert!(
        text.starts_with("sequence,time,column,mean,q0.1,q0.5,q0.9\nnorth,2020-03-01,"),
        "{text}"
    );
    // Two sequences, three steps, three columns and a category of three names.
    assert_eq!(text.lines().count(), 1 + 2 * 3 * (3 + 3));
    fs::write(&future, rows(2)).unwrap();
    assert_says(
        &refuse(ask(Some(&future))),
        &["--future ends after 2 steps", "3"],
    );
    fs::write(&future, rows(3).replacen(",1\n", ",5\n", 1)).unwrap();
    assert_says(
        &refuse(ask(Some(&future))),
        &["--future, row 1, column holiday: 5", "neither 0 nor 1"],
    );
}

/// A table that comes along with an export makes it as useful as the run.
#[test]
fn an_export_forecasts_with_its_table() {
    let (folder, table) = written("waves.csv", &waves(1.0, 0.0));
    let run = folder.path().join("run");
    succeed(train(&table, &run, &[]));
    let export = |name: &str, words: &[&str]| {
        let out = folder.path().join(name);
        let mut command = mnemora(["export".as_ref(), run.as_os_str()]);
        command.arg("--out").arg(&out).args(words);
        (out, command)
    };
    let (with, command) = export("with", &["--with-data"]);
    succeed(command);
    let (without, command) = export("without", &[]);
    assert_says(&succeed(command).stderr, &["--with-data"]);
    let steps = ["--steps", "3"];
    let expected = forecast(&run, &steps);
    fs::remove_file(&table).expect("it is removed");
    assert_eq!(forecast(&with, &steps), expected);
    let one = filtered(&with, &[], "{\"level\":0.5}\n");
    assert_eq!(one, filtered(&run, &[], "{\"level\":0.5}\n"));
    let mut command = mnemora(["forecast".as_ref(), without.as_os_str()]);
    command.args(steps);
    assert_says(&refuse(command), &["no copy of its table", "--with-data"]);
    for (out, included) in [(&with, true), (&without, false)] {
        let card = fs::read_to_string(out.join("README.md")).expect("a card");
        assert_eq!(!card.contains("The table is not included"), included);
        assert!(card.contains(": a file"), "{card}");
    }
    // A future for a model that is told nothing of it.
    let future = folder.path().join("future.csv");
    fs::write(&future, "Date,holiday\n120,1\n121,0\n").expect("it is written");
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(steps).arg("--future").arg(&future);
    assert_says(&refuse(command), &["--future", "table.known"]);
}

#[test]
fn what_is_wrong_is_one_line_before_anything_is_trained() {
    let column = |value: fn(u32) -> f64| {
        let lines = (0..60_u32).map(|row| format!("{}\n", value(row)));
        format!("a\n{}", lines.collect::<String>())
    };
    let jump = column(|row| match row {
        0..55 => f64::from(row * 7 % 11) * 1e-9,
        _ => 5.0,
    });
    let through_zero = column(|row| f64::from(row % 7) * 1.5);
    for (text, settings, parts) in [
        ("a;b\n1;2\n", vec![], vec!["separator looks like ';'"]),
        ("a,a\n1,2\n", vec![], vec!["two columns are named a"]),
        (
            "a,b\n1.5,1\n2.5,1\n",
            vec![],
            vec!["b is constant", "table.leave_out"],
        ),
        (
            "a\n1\n1\n1\n1\n1\n1\n1\n1\n2.5\n3\n",
            vec![],
            vec!["column a does not change in the training part"],
        ),
        (
            "date,a\n2020-01-02,1\n2020-01-01,2\n",
            vec![],
            vec!["does not come after"],
        ),
        (
            "a\n1.5\n2.5\n3.5\n",
            vec![],
            vec!["steps to train on", "table.window"],
        ),
        (
            "a\n1.5\n2.5\n",
            vec!["table.known=[\"b\"]"],
            vec!["table.known has 'b'", "a"],
        ),
        (
            "a\n1.5\n2.5\n",
            vec!["table.dropped=1"],
            vec!["table.dropped is 1"],
        ),
        (
            "a\n1.5\n2.5\n",
            vec!["table.change=up"],
            vec!["auto", "growth"],
        ),
        (
            "a\n1.5\n2.5\n3.5\n",
            vec!["table.change=season-change"],
            vec!["there is no season", "regular dates"],
        ),
        (
            "a\n1.5\n2.5\n",
            vec!["table.counts=[\"a\"]"],
            vec!["1.5", "table.counts"],
        ),
        (
            "a\n1.5\n2.5\n",
            vec!["table.counts=[\"a\"]", "table.numbers=[\"a\"]"],
            vec!["table.numbers", "table.counts", "both name the column 'a'"],
        ),
        ("a\n1.5\n", vec![], vec!["a single row"]),
        (
            &jump,
            vec![],
            vec!["column a: 5", "a million deviations", "x.csv"],
        ),
        (
            &through_zero,
            vec!["table.change=growth"],
            vec!["column a: 1.5 is no growth", "table.change"],
        ),
    ] {
        let (folder, table) = written("x.csv", text);
        let run = folder.path().join("run");
        let problem = refuse(train(&table, &run, &settings));
        assert_says(&problem, &parts);
        assert!(!run.exists(), "{problem}");
    }
    let refused = refuse(mnemora(["train", "nothing.csv"]));
    assert_says(&refused, &["nothing.csv"]);
    let perfect =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pretrained/perfect-recall-small-hybrid");
    let refused = refuse(mnemora(["forecast".as_ref(), perfect.as_os_str()]));
    assert_says(&refused, &["does not forecast", "mnemora train FILE.csv"]);
}

/// Days of a slow wave with noise: `level(day)` of each.
fn days(range: std::ops::Range<i64>, level: impl Fn(i64, f64) -> f64) -> String {
    let mut text = String::from("date,level\n");
    for day in range {
        // Numbers without a pattern, nearly normal.
        let noise: i64 = (1..5)
            .map(|k| (day * day * 31 + day * 7919 * k + 17 * k) % 1009 - 504)
            .sum();
        let wave = (day as f64 / 6.0).sin();
        let date = days_after(day);
        let _ = writeln!(text, "{date},{}", level(day, wave + noise as f64 / 3000.0));
    }
    text
}

/// A day of the year 2001 or later, as text.
fn days_after(mut day: i64) -> String {
    let months = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut year = 2001;
    loop {
        let leap = i64::from(year % 4 == 0);
        for (month, days) in months.iter().enumerate() {
            let days = days + if month == 1 { leap } else { 0 };
            if day < days {
                return format!("{year}-{:02}-{:02}", month + 1, day + 1);
            }
            day -= days;
        }
        year += 1;
    }
}

/// The filter's answers to rows.
fn filtered(run: &Path, words: &[&str], input: &str) -> Vec<serde_json::Value> {
    let mut command = mnemora(["filter".as_ref(), run.as_os_str()]);
    command.args(words);
    let ended = run_with_input(command, input.as_bytes());
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

const PAST: i64 = 1500;

#[test]
fn rows_are_filtered_as_they_arrive() {
    let (folder, table) = written("days.csv", &days(0..PAST, |_, level| level));
    let run = folder.path().join("run");
    let settings = ["training.steps=200", "network.srnn.hidden=16"];
    succeed(train(&table, &run, &settings));
    let state = folder.path().join("state");
    let state = state.to_str().unwrap();

    // All at once, or stopped and continued: the same.
    let rows = days(PAST..PAST + 40, |_, level| level);
    let all = filtered(&run, &["--anomalies"], &rows);
    let half = rows.lines().take(21).collect::<Vec<_>>().join("\n");
    let rest: Vec<&str> = rows
        .lines()
        .enumerate()
        .filter(|(n, _)| *n == 0 || *n > 20)
        .map(|(_, l)| l)
        .collect();
    let mut parts = filtered(&run, &["--anomalies", "--state", state], &half);
    parts.extend(filtered(
        &run,
        &["--anomalies", "--state", state],
        &rest.join("\n"),
    ));
    assert_eq!(all, parts);
    assert_eq!(all[0]["t"], PAST + 1);
    assert_eq!(all[39]["next"]["time"], days_after(PAST + 40).as_str());
    let next = &all[9]["next"]["columns"]["level"];
    let [low, high] = [0, 2].map(|place| next["quantiles"][place].as_f64().unwrap());
    let mean = next["mean"].as_f64().unwrap();
    assert!(
        low < mean && mean < high && next["std"].as_f64().unwrap() > 0.0,
        "{next}"
    );

    // A forecast from the state begins with the row that follows.
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(["--state", state, "--steps", "3"]);
    let text = succeed(command).stdout;
    let first = format!("{},level,", days_after(PAST + 40));
    assert!(text.lines().nth(1).unwrap().starts_with(&first), "{text}");
    assert_eq!(text.lines().count(), 4);

    // Rows that are missing, null, of an earlier day, with a word for a number.
    let input = format!(
        "{{\"date\":\"{0}\",\"level\":0.1}}\n{{\"date\":\"{1}\",\"level\":0.2}}\n{{\"level\":null}}\n{{\"date\":\"{0}\",\"level\":1}}\n\
         {{\"level\":\"low\"}}\n{{\"level\":0.3,\"levle\":1}}\n{{\"level\":0.2}}\n",
        days_after(PAST),
        days_after(PAST + 6),
    );
    let answers = filtered(&run, &[], &input);
    assert_eq!([&answers[0]["t"], &answers[1]["t"]], [PAST + 1, PAST + 7]);
    assert_eq!(answers[1]["missing"], 5);
    let surprise = answers[1]["surprise"].as_f64().unwrap();
    assert!(surprise < 10.0, "{surprise} nats after five missing rows");
    assert_eq!(answers[2]["t"], PAST + 8);
    assert_eq!(answers[2].get("surprise"), None);
    assert_says(
        answers[3]["error"].as_str().unwrap(),
        &["date", "does not come after"],
    );
    assert_eq!(answers[3]["advanced"], false);
    assert_says(
        answers[4]["error"].as_str().unwrap(),
        &["level", "\"low\" is not a number"],
    );
    assert_eq!(answers[4]["advanced"], true);
    assert_eq!(answers[4]["t"], PAST + 9);
    assert_says(
        answers[5]["error"].as_str().unwrap(),
        &["no column levle", "level"],
    );
    assert_eq!(answers[6]["t"], PAST + 10);

    // A belief widens while nothing is observed.
    let std = |row: &serde_json::Value| row["next"]["columns"]["level"]["std"].as_f64().unwrap();
    let silent = filtered(
        &run,
        &["--samples", "1000"],
        &"{\"level\":null}\n".repeat(8),
    );
    assert!(
        std(&silent[7]) > std(&silent[0]),
        "{} {}",
        std(&silent[0]),
        std(&silent[7])
    );

    // Spikes raise alarms, a change of variance ten times as many as there were; both are drawn.
    let odd = days(PAST..PAST + 300, |day, level| match day - PAST {
        50 | 120 => level + 5.0,
        200.. => level * if day % 2 == 0 { 3.0 } else { -3.0 },
        _ => level,
    });
    let picture = folder.path().join("alarms.png");
    let words = ["--anomalies=0.01", "--draw", picture.to_str().unwrap()];
    let answers = filtered(&run, &words, &odd);
    assert_png(&picture);
    let alarms: Vec<usize> = (0..300).filter(|n| answers[*n]["alarm"] == true).collect();
    assert!(alarms.contains(&50) && alarms.contains(&120), "{alarms:?}");
    let clean = alarms
        .iter()
        .filter(|n| **n < 200 && ![50, 51, 120, 121].contains(*n))
        .count();
    assert!(clean <= 6, "{alarms:?}");
    assert!(
        alarms.iter().filter(|n| **n >= 200).count() >= 10,
        "{alarms:?}"
    );

    // What cannot be.
    let refused = |words: &[&str]| {
        let mut command = mnemora(["filter".as_ref(), run.as_os_str()]);
        command.args(words);
        refuse(command)
    };
    assert_says(
        &refused(&["--anomalies=1.5"]),
        &["--anomalies 1.5", "between 0 and 1"],
    );
    assert_says(
        &refused(&["--anomalies=0.0001"]),
        &["needs 9999 held-out steps"],
    );
    assert_says(&refused(&["--sequence", "north"]), &["--sequence north"]);
    assert_says(&refused(&["--recording", "1"]), &["--recording"]);
    assert_says(&refused(&["--quantiles", "2"]), &["--quantiles"]);
    let perfect =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pretrained/perfect-recall-small-hybrid");
    let mut command = mnemora(["filter".as_ref(), perfect.as_os_str()]);
    command.arg("--anomalies");
    assert_says(&refuse(command), &["--anomalies is for models of tables"]);
}

/// A number of an evaluation.
fn evaluated(run: &Path, words: &[&str], key: &str) -> f64 {
    let mut command = mnemora(["eval".as_ref(), run.as_os_str()]);
    command.args(words).arg("--json");
    let row: serde_json::Value = serde_json::from_str(&succeed(command).stdout).expect("an object");
    row[key].as_f64().expect("a number")
}

#[test]
fn a_run_judges_new_rows_and_goes_on_with_them() {
    let (folder, table) = written("days.csv", &days(0..PAST, |_, level| level));
    let run = folder.path().join("run");
    let settings = ["training.steps=200", "network.srnn.hidden=16"];
    succeed(train(&table, &run, &settings));
    let named = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let shift = |_: i64, level: f64| 30.0 + 10.0 * level;

    // The run keeps a copy of its table.
    let own = evaluated(&run, &[], "free_energy");
    let moved = folder.path().join("moved.csv");
    fs::rename(&table, &moved).unwrap();
    assert_eq!(evaluated(&run, &[], "free_energy"), own);
    assert_eq!(forecast(&run, &["--steps", "2"]).len(), 2);
    let again = evaluated(&run, &["--data", moved.to_str().unwrap()], "free_energy");
    assert_eq!(again, own);

    // Rows that follow, with or without those of the run before them, after a gap.
    let later = named("later.csv", days(PAST + 5..PAST + 205, |_, level| level));
    let both = named("both.csv", days(PAST - 300..PAST + 200, |_, level| level));
    let on = |data: &str, key: &str| evaluated(&run, &["--data", data], key);
    assert_eq!(
        [on(&later, "scored_steps"), on(&both, "scored_steps")],
        [200.0; 2]
    );
    let new = on(&later, "free_energy");
    assert!((new - own).abs() < 0.3, "{new} {own}");
    let shifted = named("shifted.csv", days(PAST..PAST + 200, shift));
    assert!(on(&shifted, "free_energy") > own + 2.0);
    let refused = |data: &str| {
        let words = [
            "eval".as_ref(),
            run.as_os_str(),
            "--data".as_ref(),
            data.as_ref(),
        ];
        refuse(mnemora(words))
    };
    let old = named("old.csv", days(PAST - 50..PAST, |_, level| level));
    assert_says(&refused(&old), &["no rows after those of the run's table"]);
    let other = named("other.csv", "date,weight\n2001-01-01,1\n".into());
    assert_says(&refused(&other), &["no column level"]);
    let numbers = named("numbers.csv", "date,level\n1,1.5\n2,1.6\n".into());
    assert_says(&refused(&numbers), &["times are numbers, not dates"]);

    // An extra column is reported and ignored.
    let wider = days(PAST + 5..PAST + 205, |_, level| level);
    let wider = wider.lines().enumerate().map(|(row, line)| {
        let more = if row == 0 {
            "weight".into()
        } else {
            row.to_string()
        };
        format!("{line},{more}\n")
    });
    let wider = named("wider.csv", wider.collect());
    let words = [
        "eval".as_ref(),
        run.as_os_str(),
        "--data".as_ref(),
        wider.as_ref(),
    ];
    let ended = succeed(mnemora(words));
    assert_says(
        &ended.stderr,
        &["ignored columns that are not in the run's table: weight"],
    );
    assert_eq!(on(&wider, "free_energy"), new);

    // Going on: the same model in the new table's units.
    let onward = folder.path().join("onward");
    let perfect =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pretrained/perfect-recall-small-hybrid");
    let go_on = |run: &Path, table: &str, setting: &str| {
        let mut command = mnemora(["train", table, "--set", setting]);
        command.arg("--from").arg(run);
        refuse(command)
    };
    let steps = "training.steps=40";
    assert_says(
        &go_on(&perfect, &shifted, steps),
        &["--from", "only models of tables"],
    );
    assert_says(&go_on(&run, "own-small", steps), &["own-small is no file"]);
    let key = "network.srnn.hidden=20";
    assert_says(
        &go_on(&run, &shifted, key),
        &["network.srnn.hidden", "--from"],
    );
    let mut command = mnemora(["train", &shifted, "--set", steps, "--out"]);
    command.arg(&onward).arg("--from").arg(&run);
    succeed(command);
    let after = named("after.csv", days(PAST + 200..PAST + 400, shift));
    let adapted = evaluated(&onward, &["--data", &after], "free_energy");
    assert!(adapted < own + 0.7, "{adapted} {own}");
    let mut command = mnemora(["resume".as_ref(), onward.as_os_str()]);
    command.args(["--set", "training.steps=50"]);
    succeed(command);
}

/// Days with a level for each day of the week, and noise on it. Without noise it is an exact timetable.
fn weeks(range: std::ops::Range<i64>, noise: f64) -> String {
    let mut text = String::from("date,level\n");
    for day in range {
        let level = LEVELS[(day % 7) as usize] + noise * (day * day * 31 % 1009) as f64;
        let _ = writeln!(text, "{},{level}", days_after(day));
    }
    text
}

const LEVELS: [f64; 7] = [5.5, 9.0, 1.0, 30.0, 2.0, 7.5, 12.0];

#[test]
fn changes_over_a_season_are_added_to_the_week_before() {
    let (folder, table) = written("weeks.csv", &weeks(0..300, 1e-5));
    let run = folder.path().join("run");
    let settings = ["table.change=season-change", "training.steps=60"];
    let said = succeed(train(&table, &run, &settings)).stderr;
    assert_says(&said, &["level (changes over 7 steps, "]);
    let expect = |rows: &[(String, String, Vec<f64>)], first: i64| {
        for (row, day) in rows.iter().zip(first..) {
            assert_eq!(row.0, days_after(day));
            let level = LEVELS[(day % 7) as usize];
            assert!((row.2[0] - level).abs() < 0.5, "{row:?}, not {level}");
        }
    };
    let rows = forecast(&run, &["--steps", "17"]);
    assert_eq!(rows.len(), 17);
    expect(&rows, 300);

    // Rows that arrive one by one, the state kept in between.
    let state = folder.path().join("state");
    let state = state.to_str().unwrap();
    let all = filtered(&run, &[], &weeks(300..310, 1e-5));
    let mut parts = filtered(&run, &["--state", state], &weeks(300..303, 1e-5));
    parts.extend(filtered(&run, &["--state", state], &weeks(303..310, 1e-5)));
    assert_eq!(all, parts);
    for (answer, day) in all.iter().zip(300..) {
        let mean = answer["next"]["columns"]["level"]["mean"].as_f64();
        let level = LEVELS[((day + 1) % 7) as usize];
        assert!((mean.unwrap() - level).abs() < 0.5, "{mean:?}, not {level}");
    }
    // A missing row: a week later the week before it stands in.
    filtered(&run, &["--state", state], &weeks(311..312, 1e-5));
    expect(&forecast(&run, &["--state", state, "--steps", "9"]), 312);

    // Tables that are too short to know a change, or whose steps have another length.
    let named = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let short = named("short.csv", weeks(310..318, 1e-5));
    let mut command = mnemora(["train".as_ref(), short.as_os_str()]);
    command.arg("--from").arg(&run);
    command.arg("--out").arg(folder.path().join("short"));
    assert_says(
        &refuse(command),
        &["its change over 7 steps", "let the file begin earlier"],
    );
    let few = named("few.csv", weeks(310..313, 1e-5));
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(["--steps", "2", "--data"]).arg(&few);
    assert_says(&succeed(command).stderr, &["3 steps, fewer than the 7"]);
    let months: String = (0..40)
        .map(|month| format!("{}-{:02}-01,{month}\n", 2001 + month / 12, 1 + month % 12))
        .collect();
    let months = named("months.csv", format!("date,level\n{months}"));
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.arg("--data").arg(&months);
    assert_says(
        &refuse(command),
        &["months.csv", "its change over 7 steps", "none"],
    );

    // An exact timetable has no changes over a week, and is learned by its levels.
    let exact = named("exact.csv", weeks(0..300, 0.0));
    let said = succeed(train(&exact, &folder.path().join("exact"), &[])).stderr;
    assert_says(&said, &["level (student-t)"]);
}

#[test]
fn a_filter_adapts_to_what_it_sees() {
    let (folder, table) = written("days.csv", &days(0..PAST, |_, level| level));
    let run = folder.path().join("run");
    let settings = [
        "training.steps=200",
        "network.srnn.hidden=16",
        "table.window=32",
    ];
    succeed(train(&table, &run, &settings));
    let state = folder.path().join("state");
    let state = state.to_str().unwrap();
    // A budget that never binds, so that no update depends on the machine.
    let adapt = ["--samples", "0", "--adapt=8", "--adapt-budget", "100000"];
    let stopped = [&adapt[..], &["--state", state]].concat();

    // Ten times as loud: the model learns it, and goes on bit for bit after a stop.
    let loud = days(PAST..PAST + 400, |_, level| 10.0 * level);
    let all = filtered(&run, &adapt, &loud);
    let cut = |keep: &dyn Fn(usize) -> bool| {
        let lines = loud.lines().enumerate();
        let kept = lines.filter(|(n, _)| *n == 0 || keep(*n));
        kept.map(|(_, line)| format!("{line}\n"))
            .collect::<String>()
    };
    let mut parts = filtered(&run, &stopped, &cut(&|n| n <= 203));
    parts.extend(filtered(&run, &stopped, &cut(&|n| n > 203)));
    assert_eq!(all, parts);
    let mean = |rows: &[serde_json::Value]| {
        let all = rows.iter().map(|row| row["surprise"].as_f64().unwrap());
        all.sum::<f64>() / rows.len() as f64
    };
    let fixed = filtered(&run, &["--samples", "0"], &loud);
    let (fixed, adapted) = (mean(&fixed[200..]), mean(&all[200..]));
    assert!(adapted < fixed - 0.5, "{adapted} {fixed}");

    // What it learned stays when it adapts no more, and forecasts have it.
    let more = days(PAST + 400..PAST + 500, |_, level| 10.0 * level);
    let settled = filtered(&run, &["--samples", "0", "--state", state], &more);
    assert!(mean(&settled) < fixed - 0.5);
    let again = days(PAST + 500..PAST + 510, |_, level| 10.0 * level);
    let settled = filtered(&run, &["--samples", "0", "--state", state], &again);
    assert!(mean(&settled) < fixed - 0.5);
    assert_eq!(forecast(&run, &["--state", state, "--steps", "2"]).len(), 2);

    // Numbers far beyond all others change no parameter to what is not finite.
    let mut wild = days(PAST..PAST + 100, |day, level| match day % 9 {
        0 => 1e30 * level,
        _ => level,
    });
    wild.push_str(&format!(
        "{},inf\n{},1e300\n",
        days_after(PAST + 100),
        days_after(PAST + 101)
    ));
    wild.push_str(
        days(PAST + 102..PAST + 120, |_, level| level)
            .split_once('\n')
            .unwrap()
            .1,
    );
    let answers = filtered(&run, &adapt, &wild);
    let last = answers.last().unwrap()["surprise"].as_f64().unwrap();
    assert!(last.is_finite());

    // A budget that allows nothing but the first update.
    let words = ["--samples", "0", "--adapt=1", "--adapt-budget", "1e-6"];
    let mut command = mnemora(["filter".as_ref(), run.as_os_str()]);
    command.args(words);
    let ended = run_with_input(command, loud.as_bytes());
    assert_says(
        &ended.stderr,
        &["adapted by 1 updates", "left out for the budget"],
    );
    for (words, parts) in [
        (
            ["--adapt", "--adapt-rate=0", "--fresh"],
            ["--adapt-rate 0", "above 0"],
        ),
        (
            ["--adapt", "--adapt-budget=-1", "--fresh"],
            ["--adapt-budget -1", "above 0"],
        ),
        (
            ["--adapt", "--adapt-budget=0", "--fresh"],
            ["--adapt-budget 0", "no update"],
        ),
    ] {
        let mut command = mnemora(["filter".as_ref(), run.as_os_str()]);
        command.args(words);
        assert_says(&refuse(command), &parts);
    }
}

/// Values, names and times that a run's model does not know, wherever new rows are read.
#[test]
fn new_rows_that_do_not_fit_are_refused_or_answered() {
    let mut text = String::from("shop,date,level,open\n");
    for shop in ["north", "south"] {
        for (day, line) in days(0..200, |_, level| level).lines().skip(1).enumerate() {
            let _ = writeln!(text, "{shop},{line},{}", usize::from(day % 3 > 0));
        }
    }
    let (folder, table) = written("shops.csv", &text);
    let run = folder.path().join("run");
    succeed(train(
        &table,
        &run,
        &["table.sequence=shop", "table.known=[open]"],
    ));
    let named = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let row =
        |day: i64, level: &str, open: &str| format!("north,{},{level},{open}\n", days_after(day));
    let head = "shop,date,level,open\n";
    let judged = |rows: &str, parts: &[&str]| {
        let data = named("rows.csv", &format!("{head}{rows}"));
        let words = [
            "eval".as_ref(),
            run.as_os_str(),
            "--data".as_ref(),
            data.as_ref(),
        ];
        assert_says(&refuse(mnemora(words)), parts);
    };
    judged(
        &row(200, "1", "7"),
        &["rows.csv", "north", "column open: 7", "neither 0 nor 1"],
    );
    judged(
        &row(200, "1e300", "1"),
        &[
            "column level: 1e300",
            "a million deviations",
            "leave it empty",
        ],
    );
    let all = days(100..230, |_, level| level);
    let lines: Vec<String> = all
        .lines()
        .skip(1)
        .map(|line| format!("north,{line},1\n"))
        .collect();
    // Rows that the run has are passed over, however many they are.
    let scores = [0, 70, 100].map(|first| {
        let data = named("rows.csv", &format!("{head}{}", lines[first..].concat()));
        evaluated(&run, &["--data", &data], "free_energy")
    });
    assert_eq!(scores, [scores[0]; 3]);

    // A stream goes on after a line that is no row, and its state is kept.
    let state = folder.path().join("state");
    let state = state.to_str().unwrap();
    let first = "{\"level\":0.5}\nERR upstream timeout\n[1,2]\n{\"level\":0.25}\n";
    let north = ["--sequence", "north", "--state", state, "--anomalies=0.1"];
    let answers = filtered(&run, &north, first);
    assert_eq!(answers.len(), 4);
    assert_eq!(
        [&answers[1]["advanced"], &answers[2]["advanced"]],
        [false; 2]
    );
    assert_eq!([&answers[0]["t"], &answers[3]["t"]], [201, 202]);
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(["--sequence", "south", "--state", state]);
    assert_says(&refuse(command), &["it is the state of the sequence north"]);
    // What is beyond all bounds is an alarm, and a step.
    let extreme = filtered(&run, &north, "{\"level\":1e25}\n");
    assert_says(
        extreme[0]["error"].as_str().unwrap(),
        &["column level", "deviations"],
    );
    assert_eq!([&extreme[0]["advanced"], &extreme[0]["alarm"]], [true; 2]);
    assert_eq!(extreme[0]["t"], 203);
    // A value known in advance that comes with its own row comes too late.
    let mut command = mnemora(["filter".as_ref(), run.as_os_str()]);
    command.args(["--sequence", "north"]);
    let ended = run_with_input(
        command,
        b"{\"level\":1,\"open\":1}\n{\"level\":1,\"open\":1}\n",
    );
    assert_says(&ended.stderr, &["open is known in advance", "next.open"]);
    assert_eq!(ended.stderr.matches("known in advance").count(), 1);
    let twice = run_with_input(
        {
            let mut command = mnemora(["filter".as_ref(), run.as_os_str()]);
            command.args(["--sequence", "north"]);
            command
        },
        b"date,level,level\n",
    );
    assert_says(&twice.stdout, &["two columns are named level"]);

    // The rows of the future are those that follow.
    let mut late = String::from(head);
    for shop in ["north", "south"] {
        for day in 201..203 {
            let _ = writeln!(late, "{shop},{},,1", days_after(day));
        }
    }
    let late = named("late.csv", &late);
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(["--steps", "2", "--future", &late]);
    let wanted = days_after(200);
    assert_says(&refuse(command), &["--future: row 1", wanted.as_str()]);

    // Before anything is trained.
    let refused = |text: &str, words: &[&str]| {
        let path = named("wrong.csv", text);
        let mut command = mnemora(["train", &path]);
        command.args(words);
        refuse(command)
    };
    let mut rows = days(0..60, |_, level| level);
    assert_says(
        &refused(&rows, &["--data", "other.csv"]),
        &["is the data already", "--data"],
    );
    rows.push_str("2001-02-30,1\n");
    assert_says(
        &refused(&rows, &[]),
        &["line 62", "date", "\"2001-02-30\" is no date"],
    );
    let late: String = (0..60)
        .map(|n| {
            format!(
                "{},{},{}\n",
                1900 + n,
                (n * 7) % 5,
                if n < 55 {
                    ""
                } else {
                    ["1.5", "2.5"][n as usize % 2]
                }
            )
        })
        .collect();
    let silent = refused(&format!("year,y,z\n{late}"), &[]);
    assert_says(
        &silent,
        &[
            "column z has no value in the training part",
            "table.leave_out",
        ],
    );
}

/// What kind of sequence it is stands in a column that does not change within it.
#[test]
fn a_column_that_stands_still_in_each_sequence_tells_which_kind_it_is() {
    let mut text = String::from("sequence,kind,y\n");
    for sequence in 0..12 {
        let kind = ["calm", "wild"][sequence % 2];
        for step in 0..60 {
            let noise = (step * step * 37 + sequence * 7919) % 101;
            let size = if kind == "calm" { 0.01 } else { 1.0 };
            let y = (noise as f64 / 50.0 - 1.0) * size;
            let _ = writeln!(text, "s{sequence},{kind},{y}");
        }
    }
    let (folder, table) = written("kinds.csv", &text);
    let run = folder.path().join("run");
    let ended = succeed(train(
        &table,
        &run,
        // Learning what `kind` means takes some hundred updates.
        &[
            "table.division=sequence",
            "table.change=level",
            "training.steps=400",
            "training.checkpoint_every=100",
        ],
    ));
    assert_says(&ended.stderr, &["kind (one value in each sequence)"]);
    // A sequence that is held out whole is not scaled by itself.
    assert!(
        !ended.stderr.contains("by its own scale"),
        "{}",
        ended.stderr
    );
    let mut command = mnemora(["forecast".as_ref(), run.as_os_str()]);
    command.args(["--steps", "1"]);
    let text = succeed(command).stdout;
    let width = |row: usize| {
        let fields: Vec<&str> = text.lines().nth(row).unwrap().split(',').collect();
        let number = |place: usize| fields[place].parse::<f64>().unwrap();
        assert_eq!(fields[0], format!("s{}", row - 1));
        number(6) - number(4)
    };
    assert_eq!(text.lines().count(), 13);
    for wild in [2, 4, 6, 8, 10, 12] {
        assert!(width(wild) > 2.0 * width(wild - 1), "{text}");
    }
}
