//! The worlds that a model can walk through.

use super::{settings::NavigationSettings, walks::Lesson};
use crate::{Experiment, LabError};
use mnemora_memory::Count;
use mnemora_worlds::{
    DATA_VARIABLE, ImageNavigation, ImageWalkSettings, Navigation, Origin, Pictures, Split, Start,
    Stream, Walks, WallActions,
};
use std::{path::Path, sync::Arc};

/// A world, and its identity.
pub struct World {
    walked: ImageNavigation,
    /// The same, with steps into walls recorded as `stay`.
    without_walls: ImageNavigation,
    pictures: Arc<Pictures>,
    one_origin: bool,
}

impl World {
    /// The world of an experiment's task over its data.
    pub fn new(settings: &NavigationSettings, pictures: Arc<Pictures>) -> Result<Self, LabError> {
        let image = &settings.image;
        let open = ImageWalkSettings {
            walls: WallActions::None,
            ..image.clone()
        };
        Ok(Self {
            walked: ImageNavigation::new(pictures.clone(), image.clone())?,
            without_walls: ImageNavigation::new(pictures.clone(), open)?,
            one_origin: image.start == Start::Middle,
            pictures,
        })
    }

    /// What is walked through.
    pub fn walked(&self) -> &dyn Navigation {
        &self.walked
    }

    /// The same, as walks over pictures.
    pub fn images(&self) -> &ImageNavigation {
        &self.walked
    }

    /// Whether all walks start at one place.
    pub fn one_origin(&self) -> bool {
        self.one_origin
    }

    /// Bytes of the data.
    pub fn bytes(&self) -> Count {
        self.pictures.bytes().into()
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
        let world = match lesson.without_walls {
            true => &self.without_walls,
            false => &self.walked,
        };
        world.walks(
            split,
            stream,
            index,
            batch,
            lesson.memorise + lesson.predict,
        )
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
    let configured = &experiment.data.directory;
    let path = data.or((!configured.is_empty()).then(|| Path::new(configured)));
    let found = Pictures::find(path, settings.image.picture, experiment.data.limits())?;
    let expected = &experiment.data.fingerprint;
    if !expected.is_empty() && expected != found.fingerprint() {
        return Err(LabError::Configuration(format!(
            "the pictures found ({}) are not the ones the run was made with; name their folder with --data, or \
             unset {DATA_VARIABLE} for those that come with mnemora",
            found.origin()
        )));
    }
    if let Origin::Folder(folder) = found.origin() {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        experiment.data.directory = folder.display().to_string();
    }
    experiment.data.fingerprint = found.fingerprint().to_owned();
    Ok(Arc::new(found))
}
