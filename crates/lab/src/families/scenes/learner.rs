//! The learner of models of scenes.

use super::{
    answers,
    batch::{context, normal, targets},
    evaluate::evaluate,
    figures,
    settings::SceneSettings,
    world::World,
};
use crate::{
    Answered, Experiment, LabError,
    experiment::gallery::{Drawn, Gallery, Question, Shown},
    families::image_shape,
    pictures::Figures,
};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mnemora_memory::{Count, Initializer};
use mnemora_models::{AnyScenes, Latents, Learning, ModelName};
use mnemora_training::{
    Error, Learner, Measures, Purpose, Row, Snapshot, StepFailure,
    arrays::{collect, parameters_of, parameters_within, restore},
    device::outline,
    learner::BATCHES_AHEAD,
    memory_use::{Parts, Planned, Work, in_words},
    optimiser::ParameterGradients,
    updates::Updates,
};
use mnemora_worlds::{Prefetch, Split, Stream, scenes::SceneBatch};
use std::{hint::black_box, path::Path, sync::Arc};

/// A model of scenes that learns.
pub struct SceneLearner {
    experiment: Experiment,
    settings: SceneSettings,
    world: Arc<World>,
    batches: Prefetch<SceneBatch, ()>,
    /// On an autodiff device for training.
    model: AnyScenes,
    updates: Updates,
    /// Noise of latents.
    noise: Stream,
    /// Draws which stories are given true frames, or how many targets the posterior sees.
    choices: Stream,
    device: Device,
}

/// The model of an experiment: the place where a model of scenes is chosen by its name.
fn model_of(
    experiment: &Experiment,
    settings: &SceneSettings,
    world: &World,
    init: &mut Initializer,
) -> Result<AnyScenes, LabError> {
    let frame = image_shape(world.scenes.frame());
    let query = world.scenes.query_width();
    let (seen, moments) = (world.context_most(), world.scenes.moments());
    let mut gqn = |latents| {
        let model = settings.model.init(latents, frame, query, init);
        model.map(AnyScenes::Cgqn)
    };
    let (table, model) = match experiment.model.name {
        ModelName::Gqn => ("model", gqn(Latents::Factored)),
        ModelName::Deterministic => ("model", gqn(Latents::None)),
        ModelName::GqnOriginal => {
            let model = settings.gqn.init(frame, query, init);
            ("gqn", model.map(AnyScenes::Gqn))
        }
        ModelName::Sssm => {
            let model = settings.sssm.init(frame, [seen, moments], init);
            ("sssm", model.map(AnyScenes::Sssm))
        }
        ModelName::Sv2p => {
            let model = settings.sv2p.init(frame, moments, init);
            ("sv2p", model.map(AnyScenes::Video))
        }
        ModelName::Cdna => {
            let model = settings.cdna.init(frame, moments, init);
            ("cdna", model.map(AnyScenes::Video))
        }
        _ => ("model", gqn(Latents::Consistent)),
    };
    // The keys of a model are those of its table.
    model.map_err(|error| {
        let text = error.to_string();
        LabError::Configuration(text.replace("model.", &format!("scenes.{table}.")))
    })
}

/// Trainable numbers, starting with the whole model.
fn parts(model: &AnyScenes) -> Parts {
    let parts = model.parts().into_iter();
    let parts = parts.map(|(name, path)| (name.into(), parameters_within(model, path)));
    let whole = ("model".into(), parameters_of(model));
    [whole].into_iter().chain(parts).collect()
}

/// The parts of the model, and how much memory its training takes.
pub fn planned(experiment: &Experiment, world: &World) -> Result<Planned, LabError> {
    let settings: SceneSettings = experiment.own_settings()?;
    let model = model_of(experiment, &settings, world, &mut outline()?)?;
    let (training, evaluation) = (&experiment.training, &experiment.evaluation);
    let kept = |batch: usize| model.kept(settings.context_most, settings.targets) * batch;
    let views = match model.tells_stories() {
        true => world.scenes.moments(),
        false => settings.context_most + settings.targets,
    };
    let numbers = world.scenes.frame().size() + world.scenes.query_width();
    let work = Work {
        learning: kept(training.batch),
        looking: kept(evaluation.batch) + world.read_with(evaluation.batch),
        batches: Count::product(&[numbers, views, training.batch]) * (BATCHES_AHEAD + 2),
        data: world.bytes,
    };
    Ok(Planned::new(parts(&model), work))
}

impl SceneLearner {
    /// A fresh learner with its model on `device`, initialised from the experiment's seed.
    pub fn new(
        experiment: &Experiment,
        world: Arc<World>,
        device: &Device,
    ) -> Result<Self, LabError> {
        let settings: SceneSettings = experiment.own_settings()?;
        let seed = experiment.seed;
        let mut init = experiment.initializer(device);
        let model = model_of(experiment, &settings, &world, &mut init)?;
        let (data, size) = (Stream::new(seed, "data"), experiment.training.batch);
        let (made, ask) = (world.clone(), World::learned_from(experiment.model.name));
        Ok(Self {
            batches: Prefetch::new(
                experiment.task.name.as_str(),
                BATCHES_AHEAD,
                move |(), index| made.batch(Split::Train, ask, &data, index, size),
            ),
            updates: Updates::new(&experiment.training, device),
            noise: Stream::new(seed, "latent noise"),
            choices: Stream::new(seed, "scheduled sampling"),
            experiment: experiment.clone(),
            settings,
            world,
            model,
            device: device.clone(),
        })
    }
}

impl Learner for SceneLearner {
    fn sizes(&self) -> Vec<(String, usize)> {
        in_words(parts(&self.model))
    }

    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let batch = self.batches.batch(step - 1, ())?;
        let (context, targets) = (context(&batch, &self.device), targets(&batch, &self.device));
        let shape = [batch.scenes, self.model.noise_size(batch.targets)];
        let noise = normal(&self.noise, step, shape, &self.device);
        let variance = self.settings.variance_at(step);
        let known = self.model.know(context.as_ref(), batch.scenes);
        let choices = self.model.choices(batch.scenes, batch.targets);
        let learning = Learning {
            update: step,
            variance,
            noise,
            choices: self.choices.uniform_values(step, choices),
        };
        let learned = self.model.learn(&known, &targets, learning);
        let found = learned.bound;
        let bound = found.without_constant(variance).mean();
        let numbers = (batch.targets * batch.frame.size()) as f64;
        let error = found.squared_error.sum_dim(1).mean() / numbers;
        let terms = [bound, found.kl.mean(), error];
        let terms = Tensor::cat(terms.map(Tensor::inner).into(), 0);
        let gradients = ParameterGradients::of(&self.model, learned.loss.backward());
        let names = ["bound", "KL", "reconstruction error"];
        self.updates
            .make(&mut self.model, step, gradients, &names, terms)
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        self.updates.measured(|terms| {
            Measures::new()
                .with("bound", terms[0])
                .with("kl", terms[1])
                .with("reconstruction_error", terms[2])
        })
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let model = self.model.valid();
        let (settings, world) = (&self.settings, &self.world);
        let measures = evaluate(&self.experiment, settings, world, &model, purpose);
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            model: collect(&self.model),
            optimiser: self.updates.optimiser.collect(),
            ..Snapshot::default()
        }
    }

    fn restore(&mut self, from: Snapshot, path: &Path) -> Result<(), Error> {
        self.updates.restore(from.optimiser, path)?;
        self.model = restore(self.model.clone(), from.model, path)?;
        Ok(())
    }
}

impl Gallery for SceneLearner {
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        planned(experiment, &self.world)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        black_box(self.batches.make(step - 1, &()));
        Ok(())
    }

    /// `steps` are targets.
    fn draw(&self, scenes: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        let model = self.model.valid();
        match steps {
            Some(_) if model.tells_stories() => Err(LabError::Configuration(format!(
                "--steps: the model {} draws whole stories, leave it out",
                self.experiment.model.name.as_str()
            ))),
            None => figures::answered(&self.world, &model, scenes, seed),
            Some(targets) => figures::answered(&self.world.asking(targets)?, &model, scenes, seed),
        }
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        let (world, settings) = (&self.world, &self.settings);
        figures::figures(world, settings, &self.model.valid(), shown)
    }

    fn answers(&self, question: &Question) -> Option<Result<Answered, LabError>> {
        let (world, settings) = (&self.world, &self.settings);
        Some(answers::answers(
            world,
            settings,
            &self.model.valid(),
            question,
        ))
    }
}
