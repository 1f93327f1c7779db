//! The scenes of an experiment.

use super::settings::SceneSettings;
use crate::{Experiment, LabError, experiment::data::found_in};
use mnemora_memory::Count;
use mnemora_models::ModelName;
use mnemora_worlds::{
    Limits, Mnist, Split, Stream,
    scenes::{
        Ask, Dice, GqnData, Narratives, OwnViews, Part, Patterns, Prism, Readings, SceneBatch,
        Scenes, Showing, Views, readings, scene_batch,
    },
};
use std::{path::Path, sync::Arc};

/// Scenes, and how many of their views are shown.
#[derive(Clone)]
pub struct World {
    /// The scenes.
    pub scenes: Arc<dyn Scenes>,
    /// Bytes of the pictures that were read.
    pub bytes: Count,
    showing: Showing,
}

/// A world in the list of tasks.
pub struct Entry {
    /// The name of its task.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// Whether training needs data that do not come with the program.
    pub needs_data: bool,
    open: Open,
}

/// How the scenes of a world are come by.
enum Open {
    /// They are made.
    Made(fn(&SceneSettings) -> Result<Arc<dyn Scenes>, mnemora_worlds::Error>),
    /// They are read, from a path if one is named, with frames of a size.
    Read(fn(Option<&Path>, usize, Limits) -> Result<Views, mnemora_worlds::Error>),
}

/// All worlds.
pub static WORLDS: [Entry; 8] = [
    Entry {
        name: "patterns",
        about: "which of some random patterns? a toy whose best bound is known",
        needs_data: false,
        open: Open::Made(|settings| Ok(Arc::new(Patterns::new(settings.patterns, settings.size)?))),
    },
    Entry {
        name: "prism",
        about: "an upright prism with a digit on each face, seen from around",
        needs_data: false,
        open: Open::Made(|settings| {
            Ok(Arc::new(Prism::new(
                &Mnist::bundled()?,
                settings.size,
                settings.views,
            )?))
        }),
    },
    Entry {
        name: "mnist-dice",
        about: "a die with MNIST digits in a room, seen from around (cgqn, section 4.2)",
        needs_data: false,
        open: Open::Made(|settings| {
            let dice = Dice::of(&Mnist::bundled()?, settings.images, settings.size)?;
            let dice = dice.still(settings.still).seen_from(settings.views)?;
            Ok(Arc::new(dice))
        }),
    },
    Entry {
        name: "colour-reaction",
        about: "a shape moves to another, which then changes its colour (cgqn, section 4.1)",
        needs_data: false,
        open: Open::Made(|settings| Ok(Arc::new(Narratives::colour_reaction(settings.size)?))),
    },
    Entry {
        name: "travelling-salesman",
        about: "a shape visits four others in random order (cgqn, section 4.1)",
        needs_data: false,
        open: Open::Made(|settings| Ok(Arc::new(Narratives::travelling_salesman(settings.size)?))),
    },
    Entry {
        name: "dag-chase",
        about: "each of four shapes chases another (cgqn, section 4.1)",
        needs_data: false,
        open: Open::Made(|settings| Ok(Arc::new(Narratives::dag_chase(settings.size)?))),
    },
    Entry {
        name: OwnViews::NAME,
        about: "your own pictures with the poses of their cameras: transforms.json or poses.csv",
        needs_data: false,
        open: Open::Read(OwnViews::find),
    },
    Entry {
        name: GqnData::NAME,
        about: "the data sets of the GQN, TFRecord files (Eslami et al. 2018)",
        needs_data: true,
        open: Open::Read(GqnData::find),
    },
];

fn entry(experiment: &Experiment) -> Result<&'static Entry, LabError> {
    let name = experiment.task.name.as_str();
    let entry = WORLDS.iter().find(|entry| entry.name == name);
    entry.ok_or_else(|| LabError::Configuration(format!("the task {name} has no scenes")))
}

/// Whether the scenes of an experiment are read from files.
pub fn is_read(experiment: &Experiment) -> bool {
    entry(experiment).is_ok_and(|entry| matches!(entry.open, Open::Read(_)))
}

/// Reads the pictures of an experiment and records their identity; `None` if its scenes are made.
///
/// # Errors
/// If there are none, they cannot be read, or they are not those of the run.
pub fn find_views(
    experiment: &mut Experiment,
    data: Option<&Path>,
) -> Result<Option<Arc<Views>>, LabError> {
    let Open::Read(read) = entry(experiment)?.open else {
        return Ok(None);
    };
    let settings: SceneSettings = experiment.own_settings()?;
    let path = experiment.data.path(data);
    let found = read(path.as_deref(), settings.size, experiment.data.limits())?;
    experiment
        .data
        .check(found.fingerprint(), &found, path.as_deref())?;
    experiment
        .data
        .record(found_in(found.origin()), found.fingerprint().to_owned());
    Ok(Some(Arc::new(found)))
}

impl World {
    /// The world of an experiment, with the pictures that were read for it.
    pub fn new(
        experiment: &Experiment,
        settings: &SceneSettings,
        views: Option<&Arc<Views>>,
    ) -> Result<Self, LabError> {
        let showing = Showing {
            anywhere: settings.anywhere,
            context_least: settings.context_least,
            context_most: settings.context_most,
            targets_least: match settings.targets_least {
                0 => settings.targets,
                least => least,
            },
            targets: settings.targets,
            hiding: settings.hiding,
            revealing: settings.revealing,
        };
        let scenes: Arc<dyn Scenes> = match (&entry(experiment)?.open, views) {
            (Open::Made(make), _) => make(settings)?,
            (Open::Read(_), Some(views)) => {
                Arc::new(views.showing(showing.context_most, showing.targets)?)
            }
            (Open::Read(_), None) => {
                let problem = "this needs the run's data: name them with --data";
                return Err(LabError::Configuration(problem.into()));
            }
        };
        let world = Self {
            scenes,
            bytes: views.map_or(Count::NONE, |views| views.bytes().into()),
            showing,
        };
        let model = experiment.model.name;
        if model.needs_stories() && !world.scenes.ordered() {
            return Err(LabError::Configuration(format!(
                "model.name is '{}', which needs stories, but the task {} tells none; choose travelling-salesman, \
                 dag-chase or colour-reaction",
                model.as_str(),
                experiment.task.name.as_str()
            )));
        }
        if model.needs_stories() && showing.context_most == 0 {
            return Err(LabError::Configuration(format!(
                "scenes.context_most is 0, it must be at least 1 for the model {}: a story needs a first frame",
                model.as_str()
            )));
        }
        world.checked().map_err(LabError::Configuration)
    }

    /// With another number of targets in evaluations and pictures.
    pub fn asking(&self, targets: usize) -> Result<Self, LabError> {
        let showing = Showing {
            targets_least: targets.min(self.showing.targets_least),
            targets,
            ..self.showing
        };
        let world = Self {
            showing,
            ..self.clone()
        };
        world.checked().map_err(LabError::Configuration)
    }

    /// What a model learns from.
    pub fn learned_from(model: ModelName) -> Ask {
        match model.needs_stories() {
            true => Ask::Story,
            false => Ask::Training,
        }
    }

    /// Views of a context at most.
    pub fn context_most(&self) -> usize {
        self.showing.context_most
    }

    /// Whether contexts and targets of a batch are the first frames of stories and others.
    pub fn begins(&self, batch: &SceneBatch) -> bool {
        let moments = self.scenes.moments();
        let mut times = batch.context_queries.iter().enumerate();
        moments > 0
            && times.all(|(place, time)| {
                let number = (place % batch.context + 1) as f32;
                (time * moments as f32 - number).abs() < 0.5
            })
    }

    /// What is asked of held-out scenes, besides any views.
    pub fn hidden(&self) -> Option<Ask> {
        self.scenes.hides().then_some(Ask::Hidden)
    }

    /// The same with a context that tells, if there are views that do.
    pub fn told(&self) -> Option<Ask> {
        let shown = self
            .showing
            .context_most
            .min(self.scenes.most(Ask::Told)[0]);
        (self.scenes.hides() && shown > 0).then_some(Ask::Told)
    }

    /// The parts of stories that are shown: all if contexts are drawn from anywhere.
    pub fn parts(&self) -> &'static [Part] {
        match self.scenes.ordered() && self.showing.anywhere {
            true => &Part::ALL,
            false => &[],
        }
    }

    /// Whether every scene has as many views as are to be shown and asked for.
    fn checked(self) -> Result<Self, String> {
        if self.showing.hiding > 0.0 && !self.scenes.hides() {
            return Err(format!(
                "scenes.hiding is {}, it must be 0 for {}, whose scenes hide nothing",
                self.showing.hiding,
                self.scenes.name()
            ));
        }
        let parts = self.parts().iter().map(|part| Ask::Part(*part));
        // Of views that hide or tell something there may be fewer.
        for ask in [Ask::Any].into_iter().chain(parts) {
            let [context, targets] = self.scenes.most(ask);
            for (key, value, most) in [
                ("context_most", self.showing.context_most, context),
                ("targets", self.showing.targets, targets),
            ] {
                if value > most {
                    return Err(format!(
                        "scenes.{key} is {value}, it must be at most {most} for {}",
                        self.scenes.name()
                    ));
                }
            }
        }
        Ok(self)
    }

    /// See [`scene_batch`].
    pub fn batch(
        &self,
        split: Split,
        ask: Ask,
        stream: &Stream,
        index: u64,
        count: usize,
    ) -> SceneBatch {
        let of = (split, stream);
        scene_batch(self.scenes.as_ref(), self.showing, ask, of, index, count)
    }

    /// Numbers that the [`readings`](Self::readings) of a batch of held-out scenes hold.
    pub fn read_with(&self, scenes: usize) -> Count {
        if !self.scenes.hides() {
            return Count::NONE;
        }
        let targets = self.showing.targets.min(self.scenes.most(Ask::Hidden)[1]);
        let scene = self.scenes.scene(Split::Test, &Stream::new(0, "sizes"), 0);
        let frame = self.scenes.frame().size();
        Count::product(&[scenes, targets, scene.renderings(), frame])
    }

    /// See [`readings`].
    pub fn readings(&self, split: Split, stream: &Stream, batch: &SceneBatch) -> Vec<Readings> {
        readings(self.scenes.as_ref(), (split, stream), batch)
    }
}
