//! Tasks of frames: sequences composed of images; some of the images are determined by earlier ones.
//!
//! A new task takes three edits: its file, with a `TASK` that describes it; its `mod` line below; and its row in
//! [`FRAME_TASKS`].

mod dynamic_dependency;
mod mnist_map;
mod parity_recall;
mod perfect_recall;
mod sequence;
mod similarity_cued_recall;

pub use self::dynamic_dependency::DynamicDependency;
pub use self::mnist_map::MnistMap;
pub use self::parity_recall::ParityRecall;
pub use self::perfect_recall::PerfectRecall;
pub use self::sequence::{Sequence, assemble, recall_layout};
pub use self::similarity_cued_recall::SimilarityCuedRecall;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::{DataSet, Error, Layout, Limits, Mnist, Omniglot, Task};

/// The tasks of frames.
pub const FRAME_TASKS: &[FrameTask] = &[
    perfect_recall::TASK,
    parity_recall::TASK,
    perfect_recall::ONE_SHOT,
    dynamic_dependency::TASK,
    similarity_cued_recall::TASK,
    mnist_map::TASK,
];

/// A task of frames, chosen by name, with a size for each of its keys.
///
/// ```
/// use std::sync::Arc;
/// use mnemora_worlds::{FrameTask, Mnist, Sizes};
///
/// let row = FrameTask::named("perfect-recall").expect("is in the table");
/// let sizes = Sizes::default().with("length", 20);
/// assert_eq!(row.layout(&sizes).time, 23);
/// let task = row.open(Arc::new(Mnist::bundled()?), &sizes)?;
/// assert_eq!(task.time(), 23);
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
#[derive(Debug)]
pub struct FrameTask {
    /// The name that experiments and the command line use.
    pub name: &'static str,
    /// Description of its sequences, in one line.
    pub about: &'static str,
    /// The images that it is made of if the user names none.
    pub images: ImageSet,
    /// Its sizes, as keys of `task`.
    pub sizes: &'static [Size],
    /// The layout of its sequences, for a complete set of sizes.
    pub laid_out: fn(&Sizes) -> Layout,
    /// The task over given images, for a complete set of sizes.
    pub opened: fn(Arc<DataSet>, &Sizes) -> Opened,
}

/// A task over its images, or why it cannot be made of these images or sizes.
pub type Opened = Result<Arc<dyn Task>, Error>;

impl FrameTask {
    /// The task with this name.
    pub fn named(name: &str) -> Option<&'static FrameTask> {
        FRAME_TASKS.iter().find(|task| task.name == name)
    }

    /// The layout of its sequences, without the data. The sizes are not checked.
    pub fn layout(&self, sizes: &Sizes) -> Layout {
        (self.laid_out)(&sizes.of(self.sizes))
    }

    /// The task over given images.
    ///
    /// # Errors
    /// A size is out of its range, or the images do not fit the task.
    pub fn open(&self, data: Arc<DataSet>, sizes: &Sizes) -> Result<Arc<dyn Task>, Error> {
        (self.opened)(data, &sizes.of(self.sizes))
    }
}

/// The images that a task is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageSet {
    /// The digits of MNIST, with labels from 0 to 9: [`Mnist`](crate::Mnist).
    Digits,
    /// The characters of Omniglot, different ones in each split: [`Omniglot`](crate::Omniglot).
    Characters,
}

impl ImageSet {
    /// The images: those in `folder` if given, otherwise those that come with the crate.
    ///
    /// # Errors
    /// The folder has no images, or more than `limits` allow.
    pub fn find(self, folder: Option<&Path>, limits: Limits) -> Result<DataSet, Error> {
        match self {
            ImageSet::Digits => Mnist::find(folder, limits),
            ImageSet::Characters => Omniglot::find(folder, limits),
        }
    }
}

/// A size of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Its key, without `task.`.
    pub key: &'static str,
    /// Description of what it counts.
    pub about: &'static str,
    /// Its value if the user sets none.
    pub default: usize,
}

/// Frames to watch.
pub const LENGTH: Size = Size {
    key: "length",
    about: "frames before the recall interval, l; steps on the map that are shown to a model",
    default: 8,
};
/// Frames to predict.
pub const RECALL: Size = Size {
    key: "recall",
    about: "frames of the recall interval, k; further steps on the map",
    default: 3,
};

/// Sizes by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes(BTreeMap<String, usize>);

impl Sizes {
    /// The same with another value for `key`. Keys that a task does not have are ignored by it.
    pub fn with(mut self, key: impl Into<String>, value: usize) -> Sizes {
        self.0.insert(key.into(), value);
        self
    }

    /// A size that the task lists; its default if it is missing.
    pub fn get(&self, size: Size) -> usize {
        self.0.get(size.key).copied().unwrap_or(size.default)
    }

    /// Only those in `sizes`.
    fn of(&self, sizes: &[Size]) -> Sizes {
        let pairs = sizes
            .iter()
            .map(|size| (size.key.to_owned(), self.get(*size)));
        Sizes(pairs.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Split, Stream};
    use std::collections::BTreeSet;

    fn data(task: &FrameTask) -> Arc<DataSet> {
        Arc::new(match task.images {
            ImageSet::Digits => Mnist::bundled().expect("the bundled digits are sound"),
            ImageSet::Characters => Omniglot::bundled().expect("the bundled images are sound"),
        })
    }

    #[test]
    fn every_task_is_found_by_its_name_and_does_what_its_layout_says() {
        let mut names = BTreeSet::new();
        for row in FRAME_TASKS {
            assert!(names.insert(row.name), "{} is there twice", row.name);
            let found = FrameTask::named(row.name).map(|found| found.about);
            assert_eq!(found, Some(row.about));
            assert!(
                !row.about.is_empty() && !row.about.ends_with('.'),
                "{}",
                row.about
            );
            let sizes = Sizes::default().with("length", 12).with("recall", 4);
            let task = row.open(data(row), &sizes).unwrap();
            let layout = row.layout(&sizes);
            assert_eq!((task.name(), task.layout()), (row.name, &layout));
            assert_eq!((task.time(), task.prompt()), (layout.time, layout.prompt));
            let batch = task.batch(Split::Train, &Stream::new(1, "data"), 0, 2);
            assert_eq!((batch.time, batch.frame), (layout.time, layout.frame));
            let width = batch.conditions.map_or(0, |conditions| conditions.width);
            assert_eq!(width, task.condition_width());
            if let Some(interval) = task.recall_interval() {
                let before = &batch.predictable[..interval.start];
                assert!(
                    before.iter().all(|predictable| !predictable),
                    "{}",
                    row.name
                );
                let within = &batch.predictable[interval.clone()];
                assert!(
                    within.iter().all(|predictable| *predictable),
                    "{}",
                    row.name
                );
                assert_eq!(interval.end, layout.time);
            }
        }
        assert!(FrameTask::named("copy").is_none());
    }

    /// A size that a task does not have has no effect; one that it has does.
    #[test]
    fn a_task_reads_the_sizes_that_it_lists() {
        let keys: BTreeSet<_> = FRAME_TASKS
            .iter()
            .flat_map(|row| row.sizes)
            .map(|size| size.key)
            .collect();
        let stream = Stream::new(1, "data");
        for row in FRAME_TASKS {
            // Use the second batch, since the first walks on two maps may agree for a few steps.
            let sizes = Sizes::default().with("length", 12);
            let made = |sizes: &Sizes| {
                let task = row.open(data(row), sizes).unwrap();
                task.batch(Split::Train, &stream, 1, 4)
            };
            let before = made(&sizes);
            for key in &keys {
                let listed = row.sizes.iter().any(|size| size.key == *key);
                let changed = made(&sizes.clone().with(*key, 11)) != before;
                assert_eq!(changed, listed, "{}: {key}", row.name);
            }
        }
    }

    #[test]
    fn a_size_out_of_range_is_refused() {
        for row in FRAME_TASKS {
            for size in row.sizes {
                let error = row.open(
                    data(row),
                    &Sizes::default().with("length", 12).with(size.key, 0),
                );
                let error = error.err().expect("0 is no size").to_string();
                assert!(
                    error.starts_with(&format!("task.{} = 0: ", size.key)),
                    "{error}"
                );
            }
        }
    }
}
