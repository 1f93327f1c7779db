//! The worlds that a model can walk through.

use super::{settings::NavigationSettings, walks::Lesson};
use crate::{Experiment, LabError, experiment::data::found_in};
use mnemora_memory::Count;
use mnemora_worlds::{
    ImageNavigation, ImageWalkSettings, Navigation, Pictures, Split, Start, Stream, Walks,
    WallActions,
    labyrinth::{LabyrinthTask, LabyrinthWalks},
};
use std::{path::Path, sync::Arc};

/// A world to walk through.
// There is one of them in a process.
#[allow(clippy::large_enum_variant)]
pub enum World {
    /// Pictures under a window.
    Images {
        /// Walks over them.
        walked: ImageNavigation,
        /// The same, with steps into walls recorded as `stay`.
        without_walls: ImageNavigation,
        /// The pictures.
        pictures: Arc<Pictures>,
    },
    /// Rooms and corridors.
    Labyrinth(LabyrinthWalks),
}

/// What of a place is compared with the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The point on the plane: the first two numbers of a place.
    Point,
    /// The heading: the third.
    Heading,
}

impl World {
    /// The world of pictures.
    ///
    /// # Errors
    /// If settings do not fit the pictures.
    pub fn of_pictures(
        settings: &NavigationSettings,
        pictures: Arc<Pictures>,
    ) -> Result<Self, LabError> {
        let image = &settings.image;
        let open = ImageWalkSettings {
            walls: WallActions::None,
            ..image.clone()
        };
        Ok(Self::Images {
            walked: ImageNavigation::new(pictures.clone(), image.clone())?,
            without_walls: ImageNavigation::new(pictures.clone(), open)?,
            pictures,
        })
    }

    /// The world of a task of the labyrinth.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub fn of_labyrinth(
        settings: &NavigationSettings,
        task: LabyrinthTask,
    ) -> Result<Self, LabError> {
        let walks = LabyrinthWalks::new(task, settings.labyrinth.clone()).map_err(|error| {
            LabError::Configuration(error.to_string().replace("task.", "navigation.labyrinth."))
        })?;
        Ok(Self::Labyrinth(walks))
    }

    /// What is walked through.
    pub fn walked(&self) -> &dyn Navigation {
        match self {
            Self::Images { walked, .. } => walked,
            Self::Labyrinth(walks) => walks,
        }
    }

    /// Whether all walks start at one place.
    pub fn one_origin(&self) -> bool {
        match self {
            Self::Images { walked, .. } => walked.settings().start == Start::Middle,
            Self::Labyrinth(_) => false,
        }
    }

    /// What of a place is compared with the truth.
    pub fn compared(&self) -> Compared {
        match self {
            Self::Labyrinth(walks)
                if matches!(
                    walks.task(),
                    LabyrinthTask::Rotation | LabyrinthTask::AcceleratingRotation
                ) =>
            {
                Compared::Heading
            }
            _ => Compared::Point,
        }
    }

    /// Bytes of the data.
    pub fn bytes(&self) -> Count {
        match self {
            Self::Images { pictures, .. } => pictures.bytes().into(),
            Self::Labyrinth(_) => Count::NONE,
        }
    }

    /// A batch of walks.
    pub fn walks(
        &self,
        split: Split,
        stream: &Stream,
        index: u64,
        batch: usize,
        lesson: Lesson,
    ) -> Walks {
        let world: &dyn Navigation = match self {
            Self::Images { without_walls, .. } if lesson.without_walls => without_walls,
            _ => self.walked(),
        };
        let time = lesson.memorise + lesson.predict;
        world.walks(split, stream, index, batch, time)
    }
}

/// Finds the pictures of an experiment and records their identity.
///
/// # Errors
/// If there are none, or they are not those of the run.
pub fn find_pictures(
    experiment: &mut Experiment,
    data: Option<&Path>,
) -> Result<Arc<Pictures>, LabError> {
    let settings: NavigationSettings = experiment.own_settings()?;
    let path = experiment.data.path(data);
    let picture = settings.image.picture;
    let found = Pictures::find(path.as_deref(), picture, experiment.data.limits())?;
    experiment
        .data
        .check(found.fingerprint(), found.origin(), path.as_deref())?;
    experiment
        .data
        .record(found_in(found.origin()), found.fingerprint().to_owned());
    Ok(Arc::new(found))
}
