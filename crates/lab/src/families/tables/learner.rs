//! The learner of tables, and what is measured of it.

use super::{
    Plans,
    adapt::Adapter,
    alarm::Alarm,
    backtest,
    baselines::BASELINES,
    charts::chart,
    filter::{RowAsk, RowFilter, Start, TableFilter},
    forecast::{self, Ask, Forecast, calibrated, factors},
    settings::OwnTable,
    source::Source,
};
use crate::{
    Experiment, LabError,
    curves::{free_energy_chart, held_out_series, training_series},
    experiment::gallery::{Drawn, Gallery, Shown},
    families::{
        held_out::{batches, data_stream, part},
        trainer::{FILTERED_TERMS, Trainer, filtered_terms},
    },
    pictures::{Figures, chart_figure, charts_image},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_figures::chart::Chart;
use mnemora_models::{FilteringModel, follow};
use mnemora_training::{
    Error, Learner, Measures, Purpose, Row, Snapshot, StepFailure,
    arrays::{collect, host},
    learner::BATCHES_AHEAD,
    memory_use::{Planned, in_words},
    online::{Numbers, Observed, Online, load_filter_state},
    optimiser::ParameterGradients,
    say::note,
    settings::StrategyName,
    strategy::{Inference, noise},
};
use mnemora_worlds::{FrameShape, Part, Prefetch, Scale, Stream};
use std::{hint::black_box, path::Path, sync::Arc};

/// A model that learns from windows of a table.
pub struct TableLearner<M> {
    experiment: Experiment,
    settings: OwnTable,
    source: Arc<Source>,
    trainer: Trainer<M>,
    batches: Prefetch<Vec<f32>>,
}

impl<M: FilteringModel + Module> TableLearner<M> {
    /// A fresh learner.
    ///
    /// # Errors
    /// The data cannot be trained on.
    pub fn new(
        experiment: &Experiment,
        source: Source,
        model: M,
        device: &Device,
    ) -> Result<Self, LabError> {
        let settings: OwnTable = experiment.own_settings()?;
        source.check(settings.window)?;
        let observation = source.coding.observation();
        let source = Arc::new(source);
        let (of, stream) = (source.clone(), Stream::new(experiment.seed, "data"));
        let (size, window) = (experiment.training.batch, settings.window);
        let dropped = settings.dropped;
        Ok(Self {
            batches: Prefetch::new("table", BATCHES_AHEAD, move |(), index| {
                of.batch(&stream, index, size, window, dropped)
            }),
            trainer: Trainer::new(experiment, model, observation, device.clone())?,
            experiment: experiment.clone(),
            settings,
            source,
        })
    }

    fn upload(&self, values: Vec<f32>, batch: usize) -> Tensor<3> {
        let size = self.source.coding.observation();
        let time = values.len() / (batch * size);
        let data = TensorData::new(values, [batch, time, size]);
        Tensor::from_data(data, &self.trainer.device)
    }

    fn inference(&self) -> Inference<M> {
        self.trainer.inference()
    }

    /// The part to evaluate on.
    fn part(&self, purpose: Purpose) -> Part {
        part(purpose, |part| self.source.data.steps(part) > 0)
    }

    /// Free energy and KL of each step of a part, after all steps before it: `each` is told the sequence, the step, and
    /// both numbers.
    fn scored(
        &self,
        source: &Source,
        mut rows: Vec<usize>,
        part: Part,
        draws: &Stream,
        mut each: impl FnMut(usize, usize, [f64; 2]),
    ) {
        let inference = self.inference();
        let width = source.data.width();
        rows.sort_by_key(|number| source.frames[*number].steps);
        let size = source.coding.observation();
        for (index, rows) in rows.chunks(self.experiment.evaluation.batch).enumerate() {
            let ends = rows.iter().map(|number| {
                let range = source.data.series[*number].part(part, width);
                range.end + 1
            });
            let time = ends.max().unwrap_or(1);
            let mut values = Vec::with_capacity(rows.len() * time * size);
            for number in rows {
                // Steps beyond the end of a sequence are not observed, and not counted.
                let mut frames = source.frames[*number].values.clone();
                frames.resize(time * size, 0.0);
                values.extend(frames);
            }
            let x = self.upload(values, rows.len());
            let (filtered, _) = inference.filter(x, None, draws, index as u64);
            let reconstruction = host(filtered.reconstruction.into_data());
            let kl = host(filtered.kl.into_data());
            for (row, number) in rows.iter().enumerate() {
                for step in source.data.series[*number].part(part, width) {
                    let at = (step + 1) * rows.len() + row;
                    let kl = f64::from(kl[at]);
                    each(*number, step, [kl - f64::from(reconstruction[at]), kl]);
                }
            }
        }
    }

    /// The surprise of all validation and test steps of which everything was observed.
    fn held_out_surprise(&self, seed: u64) -> Vec<f64> {
        let source = &self.source;
        let size = source.coding.observation();
        let likelihood = source.coding.likelihood();
        let mask = likelihood.values()..likelihood.values() + likelihood.columns.len();
        let mut all = Vec::new();
        for part in [Part::Valid, Part::Test] {
            let draws = Stream::new(seed, &format!("surprise of the {part} part"));
            let rows = source.with_steps(part);
            self.scored(source, rows, part, &draws, |number, step, [nats, _]| {
                let frame = &source.frames[number].values[(step + 1) * size..][..size];
                if frame[mask.clone()].iter().all(|observed| *observed == 1.0) {
                    all.push(nats);
                }
            });
        }
        all
    }

    /// The model as a filter of rows.
    fn row_filter(&self, ask: &RowAsk) -> Result<TableFilter<M>, LabError> {
        let source = &self.source;
        let names = || {
            let names = source.data.series.iter().map(|series| series.name.as_str());
            names.take(20).collect::<Vec<_>>().join(", ")
        };
        let found = ask.sequence.as_ref().map(|name| {
            let place = source.data.series.iter().position(|s| s.name == *name);
            place.ok_or_else(|| {
                LabError::Configuration(match source.data.sequence.is_empty() {
                    true => format!("--sequence {name}: the run's table is one sequence"),
                    false => format!("--sequence {name}: the run's table has {}", names()),
                })
            })
        });
        let series = match (found.transpose()?, source.data.series.len()) {
            (Some(place), _) => place,
            (None, 1) => 0,
            (None, count) => {
                return Err(LabError::Configuration(format!(
                    "the run's table has {count} sequences: choose the one that goes on with --sequence NAME ({})",
                    names()
                )));
            }
        };
        let rows = source.data.series[series].steps(source.data.width());
        let size = source.coding.observation();
        let inference = self.inference();
        let state = (!ask.fresh).then(|| {
            let frames = source.frames[series].values[..rows * size].to_vec();
            let x = self.upload(frames, 1);
            let model = inference.working_model();
            let draws = Stream::new(ask.seed, "filtering before the first row");
            let shape = [rows, 1, model.noise_size()];
            let noise = noise(&draws, 0, shape, &self.trainer.device);
            let state = follow(model, x, None, noise, None);
            (state, rows as u64)
        });
        let alarm = ask
            .alarms
            .map(|rate| Alarm::new(rate, self.held_out_surprise(ask.seed)));
        let factors = match ask.samples {
            0 => vec![1.0; source.coding.modelled.len()],
            _ => factors(&inference, source, &self.settings, ask.seed),
        };
        // Rows are coded before they are passed on.
        let observed = Observed {
            frame: FrameShape {
                channels: 1,
                height: 1,
                width: size,
            },
            numbers: Numbers::Any,
            scale: Scale {
                mean: 0.0,
                deviation: 1.0,
            },
            conditions: 0,
        };
        let adapter = ask.adaptation.map(|how| {
            how.check()?;
            if self.experiment.filtering.strategy != StrategyName::Direct {
                return Err(LabError::Configuration(format!(
                    "--adapt: the run's filtering.strategy is {}, and only models with their own posterior (direct) adapt",
                    self.experiment.filtering.strategy.as_str()
                )));
            }
            let likelihood = source.coding.likelihood();
            let shown = likelihood.values() + likelihood.columns.len();
            let window = self.settings.window;
            Ok(Adapter::new(how, &self.trainer.model, window, [size, shown], ask.seed))
        });
        let online = Online::new(inference, observed, &collect(&self.trainer.model), ask.seed);
        let start = Start { series, state };
        let (alarm, adapter) = (alarm.transpose()?, adapter.transpose()?);
        TableFilter::new(online, source, ask, start, factors, alarm, adapter)
    }

    /// Adds how well steps of a part are scored and, after training, forecast.
    fn measured_on(&self, source: &Source, part: Part, purpose: Purpose) -> Measures {
        let most = usize::try_from(batches(&self.experiment, purpose))
            .unwrap_or(usize::MAX)
            .saturating_mul(self.experiment.evaluation.batch);
        let with = source.with_steps(part);
        let chosen = data_stream(&self.experiment, purpose).choose(0, with.len(), most);
        let rows = chosen.into_iter().map(|place| with[place]).collect();
        let seed = purpose.seed(self.experiment.seed);
        let draws = Stream::new(seed, &format!("{} noise", purpose.stream()));
        let ([mut free_energy, mut kl], mut steps) = ([0.0; 2], 0_usize);
        self.scored(source, rows, part, &draws, |_, _, scored| {
            free_energy += scored[0];
            kl += scored[1];
            steps += 1;
        });
        let count = steps.max(1) as f64;
        let measures = Measures::new()
            .with("sequences", source.data.series.len())
            .with("free_energy", free_energy / count)
            .with("kl", kl / count)
            .with("scored_steps", steps);
        match purpose.is_short() {
            true => measures,
            false => self.judged(source, part, seed, measures),
        }
    }

    fn judged(&self, source: &Source, part: Part, seed: u64, measures: Measures) -> Measures {
        let horizon = self.settings.horizon;
        let origins = backtest::origins(source, part, horizon, self.settings.origins);
        if origins.is_empty() {
            note(format_args!(
                "mnemora: no forecast is judged: the {part} part has no {horizon} steps to forecast (table.horizon)"
            ));
            return measures;
        }
        let inference = self.inference();
        let factors = factors(&inference, &self.source, &self.settings, seed);
        let size = [horizon, self.settings.samples];
        let drawn = calibrated(&inference, source, &factors, &origins, size, seed);
        let judged = backtest::judge_samples(source, &origins, horizon, |origin, step, column| {
            drawn[origin].sorted(step, column)
        });
        let mut measures = measures
            .with("horizon", horizon)
            .with("origins", origins.len());
        if let Some(judged) = judged {
            measures = measures
                .with("crps", judged.crps)
                .with_some("crps_stderr", judged.crps_stderr)
                .with_some("coverage", judged.coverage.map(|(share, _)| share))
                .with_some(
                    "coverage_stderr",
                    judged.coverage.and_then(|(_, stderr)| stderr),
                )
                .with("mase", judged.mase)
                .with("rmse", judged.rmse);
        }
        for judged in backtest::judge_baselines(source, &origins, horizon) {
            let keys = BASELINES.iter().find(|keys| keys[0] == judged.name);
            if let Some([_, crps, coverage, mase]) = keys {
                measures = measures
                    .with(*crps, judged.crps)
                    .with_some(*coverage, judged.coverage.map(|(share, _)| share))
                    .with(*mase, judged.mase);
            }
        }
        measures
    }
}

impl<M: FilteringModel + Module + 'static> Learner for TableLearner<M>
where
    M::State: 'static,
{
    fn sizes(&self) -> Vec<(String, usize)> {
        in_words(Plans::parts(
            &self.trainer.model,
            self.trainer.strategy.parameters(),
        ))
    }

    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let values = self.batches.batch(step - 1, ())?;
        let training = &self.experiment.training;
        let x = self.upload(values, training.batch);
        let Trainer {
            model,
            strategy,
            updates,
            ..
        } = &mut self.trainer;
        let filtered = strategy.learn(training, model, x, None, step)?;
        let terms = filtered_terms(&filtered);
        // The step before the window is not one of the table.
        let loss =
            filtered.bound(training.kl_weight(step)).mean().neg() / self.settings.window as f64;
        let gradients = ParameterGradients::of(model, loss.backward());
        updates.make(model, step, gradients, &FILTERED_TERMS, terms)
    }

    fn deferred(&self) -> bool {
        self.trainer.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        let window = self.settings.window as f32;
        self.trainer.updates.measured(|terms| {
            Measures::new()
                .with("free_energy", (terms[1] - terms[0]) / window)
                .with("kl", terms[1] / window)
        })
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let part = self.part(purpose);
        let measures = self.measured_on(&self.source, part, purpose);
        let measures = measures.with("scored_part", part.to_string());
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        self.trainer.snapshot()
    }

    fn restore(&mut self, from: Snapshot, path: &Path) -> Result<(), Error> {
        self.trainer.restore(from, path)
    }
}

/// The most charts of a held-out forecast, and of a picture.
const CHARTS: usize = 4;
const MOST_CHARTS: usize = CHARTS * CHARTS;

impl<M: FilteringModel + Module> TableLearner<M> {
    /// Forecasts of held-out steps beside what happened, from `count` places.
    fn held_out_charts(
        &self,
        count: usize,
        seed: u64,
        steps: usize,
    ) -> Result<Vec<Chart>, LabError> {
        let part = self.part(Purpose::Final);
        let origins = backtest::origins(&self.source, part, steps, count);
        let inference = self.inference();
        let factors = factors(&inference, &self.source, &self.settings, seed);
        let size = [steps, self.settings.samples];
        let drawn = calibrated(&inference, &self.source, &factors, &origins, size, seed);
        let mut charts = Vec::new();
        for (origin, drawn) in origins.iter().zip(&drawn) {
            for (which, coded) in self.source.coding.modelled.iter().enumerate() {
                let series = &self.source.data.series[origin.series];
                let all = self.source.column(series, which);
                let name = &coded.name;
                let title = match series.name.as_str() {
                    "" => format!("{name}, from step {}", origin.known + 1),
                    series => format!("{series}: {name}, from step {}", origin.known + 1),
                };
                let (past, next) = all.split_at(origin.known);
                let next = &next[..steps.min(next.len())];
                charts.push(chart(&title, coded, past, drawn, which, steps, next));
            }
        }
        charts.truncate(count.max(1) * CHARTS);
        Ok(charts)
    }
}

/// Charts as a picture.
fn picture(charts: &[Chart], time: usize) -> Result<Drawn, LabError> {
    Ok(Drawn::picture(charts_image(charts)?, time))
}

/// Windows of the table as curves, a chart for each numeric column of the first sequences.
pub fn training_picture(source: &Source, settings: &OwnTable) -> Result<Drawn, LabError> {
    let width = source.data.width();
    let mut charts = Vec::new();
    for series in source.data.series.iter().take(CHARTS) {
        for (which, coded) in source.coding.modelled.iter().enumerate() {
            let all = source.column(series, which);
            let of = |part: Part| {
                let range = series.part(part, width);
                let points = range.map(|t| ((t + 1) as f64, all[t]));
                mnemora_figures::chart::Series {
                    label: part.to_string(),
                    points: points.collect(),
                    band: None,
                }
            };
            charts.push(Chart {
                title: match series.name.as_str() {
                    "" => coded.name.clone(),
                    name => format!("{name}: {}", coded.name),
                },
                x_label: "step".into(),
                series: Part::ALL.map(of).into(),
                ..Chart::default()
            });
        }
    }
    charts.truncate(MOST_CHARTS);
    picture(&charts, settings.window)
}

impl<M: FilteringModel + Module + 'static> Gallery for TableLearner<M>
where
    M::State: 'static,
{
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        Plans::of(experiment, &self.source)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        black_box(self.batches.make(step - 1, &()));
        Ok(())
    }

    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        let steps = steps.unwrap_or(self.settings.horizon);
        let mut charts = self.held_out_charts(sequences, seed, steps)?;
        if charts.len() > MOST_CHARTS {
            charts.truncate(MOST_CHARTS);
            note(format_args!(
                "mnemora: the picture shows the first {MOST_CHARTS} charts"
            ));
        }
        if charts.is_empty() {
            return Err(LabError::Configuration(format!(
                "the held-out part has no {steps} steps to forecast; choose fewer"
            )));
        }
        picture(&charts, steps)
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        let steps = self.settings.horizon;
        let count = shown.experiment.evaluation.pictures;
        let mut held_out = self.held_out_charts(count, 1, steps)?;
        held_out.truncate(MOST_CHARTS);
        // Held-out parts may be shorter than a forecast.
        let generated = match held_out.is_empty() {
            true => training_picture(&self.source, &self.settings)?.picture,
            false => charts_image(&held_out)?,
        };
        let mut charts = Vec::new();
        for chart in held_out {
            charts.push(chart_figure(
                chart,
                "A forecast of held-out steps: the median of the samples, a band of 80%, and what happened; of categories how \
                 probable each is.",
            ));
        }
        charts.push(chart_figure(
            free_energy_chart(vec![
                training_series(shown.metrics, "free_energy"),
                held_out_series("validation", shown.held_out, "free_energy"),
            ]),
            "Free energy over training. Where validation gets worse while training gets better, the model learns by heart; \
             the best checkpoint is before that.",
        ));
        Ok(Figures {
            generated,
            pictures: Vec::new(),
            charts,
            memory: Vec::new(),
        })
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes()
    }

    fn kept_data(&self) -> Option<&Path> {
        Some(&self.source.path)
    }

    fn evaluate_on(
        &self,
        data: &Path,
        purpose: Purpose,
        step: u64,
    ) -> Option<Result<Row, LabError>> {
        let evaluate = || {
            let table = Source::table_for(&self.experiment, data)?;
            if table.fingerprint() == self.experiment.data.fingerprint {
                return Ok(self.evaluate(purpose, step)?);
            }
            let newer = self.source.followed_by(&self.experiment, data)?;
            let measures = self.measured_on(&newer, Part::Test, purpose);
            let measures = measures.with("scored_part", "new rows".to_owned());
            Ok(Row { step, measures })
        };
        Some(evaluate())
    }

    fn forecast(&self, ask: &Ask) -> Option<Result<Forecast, LabError>> {
        let past = |path: &Path| Source::other(&self.experiment, path);
        let future = |path: &Path| Source::table_for(&self.experiment, path);
        let forecast = || {
            if let Some(path) = &ask.state {
                let mut filter = self.row_filter(&ask.rows())?;
                load_filter_state(&mut filter, path)?;
                return filter.forecast(ask);
            }
            let past = ask.past.as_deref().map(past).transpose()?;
            let future = ask.future.as_deref().map(future).transpose()?;
            let source = past.as_ref().unwrap_or(&self.source);
            let inference = self.inference();
            let factors = factors(&inference, &self.source, &self.settings, ask.seed);
            forecast::forecast(&inference, source, &factors, ask, future.as_ref())
        };
        Some(forecast())
    }

    fn rows(&self, ask: &RowAsk) -> Option<Result<Box<dyn RowFilter>, LabError>> {
        let filter = self.row_filter(ask);
        Some(filter.map(|filter| -> Box<dyn RowFilter> { Box::new(filter) }))
    }
}
