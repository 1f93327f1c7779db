//! The data of an experiment on a table.

use super::{
    coding::{Coding, Frames, Places, number_words},
    form::cycles_of,
    settings::OwnTable,
};
use crate::{Experiment, LabError, experiment::ColumnLikelihoodName};
use mnemora_worlds::{
    Part, Stream,
    series::{STANDARD_INPUT, STANDARD_INPUT_NAME, Series, SeriesData, TableSettings},
};
use std::path::{Path, PathBuf};
use toml::Value;

/// Steps of the longest window that is chosen without being asked for.
const LONGEST_WINDOW: usize = 64;
/// Steps that a training window must have.
const SHORTEST_WINDOW: usize = 4;
/// Steps of the longest horizon that is chosen without being asked for.
const LONGEST_HORIZON: usize = 24;

/// A table and its coding.
pub struct Source {
    /// What was read.
    pub data: SeriesData,
    /// How a model sees it.
    pub coding: Coding,
    /// Where the table has the columns.
    pub places: Places,
    /// Its sequences as a model sees them.
    pub frames: Vec<Frames>,
    /// Columns of the file that are left out.
    pub left_out: Vec<String>,
    /// Its file.
    pub path: PathBuf,
}

/// The path of a table as messages call it.
pub fn named(path: &Path) -> PathBuf {
    match path.as_os_str() == STANDARD_INPUT {
        true => STANDARD_INPUT_NAME.into(),
        false => path.to_owned(),
    }
}

impl Source {
    /// Reads the data of an experiment, and records their identity and the coding of their columns. A run's own coding is
    /// kept.
    ///
    /// # Errors
    /// There is no file, it cannot be read, or it does not fit the run.
    pub fn find(experiment: &mut Experiment, data: Option<&Path>) -> Result<Self, LabError> {
        let path = experiment.data.path(data).ok_or_else(|| {
            LabError::Configuration(match experiment.data.columns.is_empty() {
                true => "the task table has no data of its own: name a CSV or Parquet file with --data, or train it as \
                         mnemora train FILE.csv"
                    .into(),
                false => "the run has no copy of its table, which bands, alarms and the first state follow from; where there \
                          is one, `mnemora export RUN --with-data` takes it along"
                    .into(),
            })
        })?;
        let settings: OwnTable = experiment.own_settings()?;
        let table = match experiment.data.columns.is_empty() {
            true => SeriesData::open(&path, &settings.reading(), experiment.data.limits())?,
            false => Self::table_for(experiment, &path)?,
        };
        let fingerprint = table.fingerprint();
        let words = named(&path);
        experiment
            .data
            .check(&fingerprint, words.display(), Some(&path))?;
        // A run's model that goes on with another table keeps its columns, and learns on in this table's units.
        if experiment.data.fingerprint.is_empty() {
            for column in &mut experiment.data.columns {
                column.refit(&table);
            }
        }
        let source = Self::of(table, &settings, experiment, &path)?;
        source.check_seasons()?;
        experiment.data.record(Some(path), fingerprint);
        experiment.data.columns = source.coding.columns();
        experiment.data.calendar.clone_from(&source.coding.calendar);
        source.choose_lengths(experiment, &settings);
        Ok(source)
    }

    /// Another table for the model of a run. Its columns may stand still or be empty.
    ///
    /// # Errors
    /// It does not have the run's columns.
    pub fn other(experiment: &Experiment, path: &Path) -> Result<Self, LabError> {
        let table = Self::table_for(experiment, path)?;
        let settings: OwnTable = experiment.own_settings()?;
        let source = Self::of(table, &settings, experiment, path)?;
        source.check_seasons()?;
        Ok(source)
    }

    /// A table with some of the run's columns.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn table_for(experiment: &Experiment, path: &Path) -> Result<SeriesData, LabError> {
        let settings: OwnTable = experiment.own_settings()?;
        let columns = experiment.data.columns.iter();
        let categorical =
            columns.filter(|column| column.likelihood == ColumnLikelihoodName::Categorical);
        let reading = TableSettings {
            lenient: true,
            // Texts that look like numbers, too.
            categories: categorical.map(|column| column.name.clone()).collect(),
            ..settings.reading()
        };
        Ok(SeriesData::open(path, &reading, experiment.data.limits())?)
    }

    fn of(
        data: SeriesData,
        settings: &OwnTable,
        experiment: &Experiment,
        path: &Path,
    ) -> Result<Self, LabError> {
        let of_run = &experiment.data.columns;
        let coding = match of_run.is_empty() {
            true => Coding::of(&data, settings)?,
            false => Coding::from_run(of_run, &experiment.data.calendar),
        };
        let source = Self {
            coding,
            data: SeriesData::default(),
            places: Places::default(),
            frames: Vec::new(),
            left_out: settings.leave_out.clone(),
            path: named(path),
        };
        let source = source.with(data)?;
        source.check_values()?;
        Ok(source)
    }

    /// Returns an error if a season of the run is none here.
    pub fn check_seasons(&self) -> Result<(), LabError> {
        for coded in self.coding.modelled.iter().filter(|c| c.season > 0) {
            let mut series = self.data.series.iter();
            let other = series.find(|series| {
                let cycles = cycles_of(&series.clock, usize::MAX);
                series.clock.pace().is_some() && !cycles.contains(&coded.season)
            });
            if other.is_some() {
                return Err(LabError::Configuration(format!(
                    "{}: column {} is modelled by its change over {} steps, a season of the table that the model was trained \
                     with; here that is none: give a table whose steps are as long",
                    named(&self.path).display(),
                    coded.name,
                    coded.season
                )));
            }
        }
        Ok(())
    }

    /// Returns an error if a value is not what the model was trained with, or nothing can be computed of it.
    pub fn check_values(&self) -> Result<(), LabError> {
        let coding = &self.coding;
        let modelled = coding.modelled.iter().zip(&self.places.modelled);
        let known = coding.known.iter().zip(&self.places.known);
        for (coded, place) in modelled.chain(known) {
            for series in &self.data.series {
                let column = place.column(&self.data, series);
                let scale = coded.scale(&column, series.part(Part::Train, self.data.width()));
                let shown = coded.shown().of(&column);
                for (step, value) in column.iter().enumerate() {
                    let wrong = coded.refuse(*value);
                    let wrong = wrong.or_else(|| coded.too_far(shown[step], scale));
                    if let Some(wrong) = wrong {
                        return Err(LabError::Configuration(format!(
                            "{}: {}column {}: {} is {wrong}",
                            self.path.display(),
                            match series.name.as_str() {
                                "" => format!("{}, ", series.clock.text(step)),
                                name => format!("{name}, {}, ", series.clock.text(step)),
                            },
                            coded.name,
                            number_words(*value)
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// Fills in the lengths that were left to the data.
    fn choose_lengths(&self, experiment: &mut Experiment, settings: &OwnTable) {
        let longest = |part| {
            let series = self.data.series.iter();
            let steps = series.map(|series| series.part(part, self.data.width()).len());
            steps.max().unwrap_or(0)
        };
        let window = match settings.window {
            0 => longest(Part::Train).clamp(1, LONGEST_WINDOW),
            given => given,
        };
        let horizon = match settings.horizon {
            0 => (longest(Part::Test) / 2).clamp(1, LONGEST_HORIZON),
            given => given,
        };
        let table = experiment.own.entry("table".into()).or_default();
        for (key, value) in [("window", window), ("horizon", horizon)] {
            table.insert(key.into(), Value::Integer(value as i64));
        }
    }

    /// The data in words.
    pub fn words(&self) -> String {
        format!("{}: {}", self.data.name, self.path.display())
    }

    /// The modelled column number `which` of a sequence; of categories the model's numbers.
    pub fn column(&self, series: &Series, which: usize) -> Vec<f64> {
        self.places.modelled[which].column(&self.data, series)
    }

    /// The sequences with steps of a part.
    pub fn with_steps(&self, part: Part) -> Vec<usize> {
        let series = self.data.series.iter().enumerate();
        series
            .filter(|(_, series)| !series.part(part, self.data.width()).is_empty())
            .map(|(number, _)| number)
            .collect()
    }

    /// Returns an error if nothing can be learned or nothing judged.
    pub fn check(&self, window: usize) -> Result<(), LabError> {
        let counts = Part::ALL.map(|part| self.data.steps(part));
        let refuse = |problem: String| Err(LabError::Configuration(problem));
        if self.windows(window).is_empty() || window < SHORTEST_WINDOW {
            return refuse(format!(
                "{} has too few rows: {} steps to train on, and no sequence with the {} of a window (table.window)",
                self.data.name,
                counts[0],
                window.max(SHORTEST_WINDOW)
            ));
        }
        let longest = self.data.series.iter();
        let longest = longest.map(|series| series.part(Part::Train, self.data.width()).len());
        let longest = longest.max().unwrap_or(0);
        let mut modelled = self.coding.modelled.iter();
        if let Some(coded) = modelled.find(|coded| coded.season >= longest) {
            return refuse(format!(
                "column {} is modelled by its change over {} steps, and {} has no sequence with more steps to train on; let \
                 the file begin earlier",
                coded.name, coded.season, self.data.name
            ));
        }
        if counts[1] + counts[2] == 0 {
            return refuse(format!(
                "{} has no steps to judge the model by; with a column split, some rows must be valid or test",
                self.data.name
            ));
        }
        Ok(())
    }

    /// The sequences with so many training steps, and the number of their windows.
    fn windows(&self, window: usize) -> Vec<(usize, usize)> {
        let series = self.data.series.iter().enumerate();
        series
            .filter_map(|(place, series)| {
                let steps = series.part(Part::Train, self.data.width()).len();
                Some((place, steps.checked_sub(window)? + 1))
            })
            .collect()
    }

    /// Training batch `index`: `batch` windows, `[batch, window + 1, observation]`. Of a share of the steps nothing is
    /// shown.
    pub fn batch(
        &self,
        stream: &Stream,
        index: u64,
        batch: usize,
        window: usize,
        dropped: f64,
    ) -> Vec<f32> {
        let windows = self.windows(window);
        let total: usize = windows.iter().map(|(_, count)| count).sum();
        let size = self.coding.observation();
        let likelihood = self.coding.likelihood();
        let shown = likelihood.values() + likelihood.columns.len();
        let mut draws = stream
            .uniform_values(index, batch * (window + 1))
            .into_iter();
        let mut draw = move || draws.next().unwrap_or(0.0);
        let mut all = Vec::with_capacity(batch * (window + 1) * size);
        for _ in 0..batch {
            let mut place = ((draw() * total as f64) as usize).min(total.saturating_sub(1));
            let mut chosen = windows[0];
            for candidate in &windows {
                chosen = *candidate;
                if place < candidate.1 {
                    break;
                }
                place -= candidate.1;
            }
            let frames = &self.frames[chosen.0].values;
            let begun = all.len();
            all.extend_from_slice(&frames[place * size..][..(window + 1) * size]);
            // The step before a window only tells what is known of the first one.
            all[begun..][..shown].fill(0.0);
            for row in all[begun + size..].chunks_mut(size) {
                if draw() < dropped {
                    row[..shown].fill(0.0);
                }
            }
        }
        all
    }
}

impl Source {
    /// Other data under the same coding.
    ///
    /// # Errors
    /// They do not fit it.
    pub fn with(&self, data: SeriesData) -> Result<Self, LabError> {
        let places = self.coding.places(&data)?;
        let frames = data.series.iter();
        let frames = frames.map(|series| self.coding.frames(&data, &places, series));
        Ok(Self {
            frames: frames.collect(),
            coding: self.coding.clone(),
            data,
            places,
            left_out: self.left_out.clone(),
            path: self.path.clone(),
        })
    }
}
