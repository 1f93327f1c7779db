//! Tables of measurements over time: models of users' own sequences, and their forecasts.
//!
//! | file | contents |
//! | --- | --- |
//! | `settings.rs` | the table `[table]` of an experiment |
//! | `source.rs` | the data, windows and lengths |
//! | `form.rs` | what of a number is modelled: its level, its change or its growth, from step to step or over a season |
//! | `past.rs` | the last values, from which changes are measured |
//! | `coding.rs` | how columns stand in an observation, and back |
//! | `learner.rs` | the learner, its measurements and pictures |
//! | `forecast.rs` | samples of the steps that follow |
//! | `filter.rs` | rows as they arrive: surprise, and the row that follows |
//! | `adapt.rs` | a model that goes on learning while it filters |
//! | `alarm.rs` | which rows are too surprising |
//! | `newer.rs` | new rows, to be judged |
//! | `going_on.rs` | the experiment that trains a run's model on with another table |
//! | `charts.rs` | charts of tables and forecasts |
//! | `backtest.rs`, `baselines.rs` | judging forecasts, beside forecasts without a network |
//! | `quantities.rs` | what is measured |

mod adapt;
mod alarm;
mod backtest;
mod baselines;
mod charts;
mod coding;
mod filter;
mod forecast;
mod form;
mod going_on;
mod learner;
mod newer;
mod past;
mod quantities;
mod settings;
mod source;

pub use adapt::{Adaptation, Adapted};
pub use charts::filtered;
pub use filter::{Expected, Fields, FilteredRow, NextRow, RefusedRow, RowAsk, RowFilter};
pub use forecast::{Ask, Forecast, Value};
pub use going_on::going_on;
pub use settings::{ChangeName, CountLikelihood, NumberLikelihood, OwnTable};

use crate::{
    Experiment, LabError, MemoryName, ModelName,
    curves::{Curves, free_energy_chart},
    experiment::{
        family::{Family, Found, TaskEntry},
        gallery::{Drawn, Gallery},
        shipped::{Shipped, presets},
    },
    families::{
        own::Own,
        recordings::{self, Seen},
    },
};
use burn::{module::Module, tensor::Device};
use learner::TableLearner;
use mnemora_figures::chart::Chart;
use mnemora_memory::Count;
use mnemora_models::{FilteringModel, ImageShape, LikelihoodConfig, WithModel};
use mnemora_training::{
    Quantity,
    arrays::parameters_of,
    memory_use::{Parts, Planned},
};
use quantities::QUANTITIES;
use source::Source;
use std::path::Path;
use toml::Table;

/// The family.
pub struct Tables;

/// Its settings.
static OWN: Own<OwnTable> = Own::new("table");

impl Family for Tables {
    fn name(&self) -> &'static str {
        "tables"
    }

    fn tasks(&self) -> Vec<TaskEntry> {
        vec![
            TaskEntry::new(
                "table",
                "your own measurements over time, from a CSV or Parquet file; forecasts with bands",
            )
            .needs_data(),
        ]
    }

    fn presets(&self) -> &'static [Shipped] {
        presets!["own-small"]
    }

    fn quantities(&self) -> &'static [Quantity] {
        &QUANTITIES
    }

    fn extras(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("sequences", "sequences of the table"),
            ("scored_steps", "held-out steps that were scored"),
            ("scored_part", "the part they belong to"),
            ("horizon", "steps of a judged forecast"),
            ("origins", "steps from which forecasts were judged"),
            (
                "random_walk_coverage",
                "share of truths in the random walk's bands of 80%",
            ),
            (
                "random_walk_mase",
                "mean absolute error of the random walk, scaled",
            ),
            (
                "season_before_coverage",
                "share of truths in the bands of the season before",
            ),
            (
                "season_before_mase",
                "mean absolute error of the season before, scaled",
            ),
            (
                "season_change_coverage",
                "share of truths in the bands of the season before and the change since",
            ),
            (
                "season_change_mase",
                "mean absolute error of the season before and the change since, scaled",
            ),
            (
                "of_changes_coverage",
                "share of truths in the bands of the autoregression of changes",
            ),
            (
                "of_changes_mase",
                "mean absolute error of the autoregression of changes, scaled",
            ),
            (
                "autoregression_coverage",
                "share of truths in the autoregression's bands",
            ),
            (
                "autoregression_mase",
                "mean absolute error of the autoregression, scaled",
            ),
        ]
    }

    fn models(&self) -> &'static [ModelName] {
        &[ModelName::Srnn, ModelName::Vrnn]
    }

    fn memories(&self) -> &'static [MemoryName] {
        &[]
    }

    fn has_latents(&self) -> bool {
        true
    }

    /// Each column has its own: `table.number_likelihood`, `table.count_likelihood`.
    fn chooses_likelihood(&self) -> bool {
        false
    }

    fn has_data(&self, _: &Experiment) -> bool {
        true
    }

    fn own_settings(&self) -> Option<(&'static str, Table)> {
        OWN.table()
    }

    fn own_schema(&self) -> Option<serde_json::Value> {
        Some(OWN.schema())
    }

    fn check(&self, experiment: &Experiment) -> Result<(), String> {
        let settings: OwnTable = experiment
            .own_settings()
            .map_err(|error| error.to_string())?;
        let particles = experiment.evaluation.particles;
        if particles > 0 {
            return Err(format!(
                "evaluation.particles is {particles}, it must be 0 for tables"
            ));
        }
        if experiment.network.srnn.smoothing {
            return Err(
                "network.srnn.smoothing is true, it must be false for tables: a forecast does not know what follows"
                    .into(),
            );
        }
        settings.check()
    }

    fn time(&self, experiment: &Experiment) -> usize {
        OWN.of(experiment).window.max(1) + 1
    }

    fn time_words(&self, experiment: &Experiment) -> String {
        format!("table.window {}", OWN.of(experiment).window)
    }

    fn words(&self, experiment: &Experiment) -> String {
        let window = OWN.of(experiment).window;
        format!("windows of {window} steps of a table")
    }

    fn numbers(&self, _: &Experiment) -> usize {
        1
    }

    fn judges_other_data(&self) -> bool {
        true
    }

    fn find(
        &'static self,
        experiment: &mut Experiment,
        data: Option<&Path>,
    ) -> Result<Box<dyn Found>, LabError> {
        Ok(Box::new(Source::find(experiment, data)?))
    }

    fn compared(&self, _: &Experiment, curves: &Curves) -> Vec<Chart> {
        vec![free_energy_chart(curves.held_out("free_energy"))]
    }
}

impl Source {
    /// The likelihood of an observation, as a model takes it.
    fn model_likelihood(&self) -> LikelihoodConfig {
        LikelihoodConfig::Columns(self.coding.likelihood())
    }

    fn seen(&self, experiment: &Experiment) -> Seen {
        let settings = OWN.of(experiment);
        let width = self.data.width();
        let steps = |count: fn(&[usize]) -> usize| {
            let all: Vec<usize> = self.data.series.iter().map(|s| s.steps(width)).collect();
            count(&all)
        };
        let numbers: usize = steps(|all| all.iter().sum());
        Seen {
            frame: ImageShape {
                channels: 1,
                height: 1,
                width: self.coding.observation(),
            },
            likelihood: self.model_likelihood(),
            held_out: self.data.series.len(),
            longest: steps(|all| all.iter().copied().max().unwrap_or(0)) + 1,
            window: settings.window + 1,
            bytes: Count::product(&[4, numbers, self.coding.observation()])
                + Count::product(&[8, numbers, width]),
        }
    }

    /// What was found out about the data, one line each.
    fn notes(&self) -> Vec<String> {
        let mut notes = self.data.notes.clone();
        let columns = self.coding.columns();
        let modelled: Vec<String> = columns
            .iter()
            .map(|column| {
                let own = if column.by_sequence {
                    ", each sequence by its own scale"
                } else {
                    ""
                };
                let how = match (column.fixed, column.known) {
                    (true, _) => "one value in each sequence".to_owned(),
                    (_, true) => "known in advance".to_owned(),
                    _ => {
                        let form = column.shown().words();
                        format!("{form}{}{own}", column.likelihood.as_str())
                    }
                };
                format!("{} ({how})", column.name)
            })
            .collect();
        notes.push(format!("modelled: {}", modelled.join(", ")));
        notes
    }
}

/// What training on a table takes.
struct Plans;

impl Plans {
    fn of(experiment: &Experiment, source: &Source) -> Result<Planned, LabError> {
        recordings::planned(experiment, &source.seen(experiment))
    }

    fn parts<M: Module>(model: &M, inference: Option<Count>) -> Parts {
        recordings::parts(parameters_of(model), inference)
    }
}

impl Found for Source {
    fn words(&self) -> String {
        Self::words(self)
    }

    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        Plans::of(experiment, self)
    }

    fn check(&self, experiment: &Experiment) -> Result<(), LabError> {
        Source::check(self, OWN.of(experiment).window)
    }

    fn training_picture(&self, experiment: &Experiment) -> Result<Drawn, LabError> {
        learner::training_picture(self, &OWN.of(experiment))
    }

    fn learner(
        self: Box<Self>,
        experiment: &Experiment,
        device: &Device,
    ) -> Result<Box<dyn Gallery>, LabError> {
        let mut init = experiment.initializer(device);
        let recorded = self.seen(experiment).recorded(experiment);
        let name = experiment.model.name;
        let network = experiment.network.network(name, &recorded);
        let network = network.ok_or_else(|| {
            LabError::Configuration(format!(
                "model.name is '{}', for tables it must be srnn or vrnn",
                name.as_str()
            ))
        })?;
        network.init(&mut init)?.with(IntoLearner {
            experiment,
            source: *self,
            device,
        })
    }
}

/// Makes a learner of a model.
struct IntoLearner<'a> {
    experiment: &'a Experiment,
    source: Source,
    device: &'a Device,
}

impl WithModel for IntoLearner<'_> {
    type Output = Result<Box<dyn Gallery>, LabError>;

    fn with<M: FilteringModel<State: 'static> + Module + 'static>(self, model: M) -> Self::Output {
        let learner = TableLearner::new(self.experiment, self.source, model, self.device)?;
        Ok(Box::new(learner))
    }
}
