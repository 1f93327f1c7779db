//! The tables of an experiment's TOML, with their defaults.

use super::family::{Family, families, family_of};
use super::programs::ProgramSettings;
use mnemora_memory::MemoryName;
use mnemora_models::ModelName;
use mnemora_worlds::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The task: what sequences look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TaskSettings {
    /// The task; `mnemora list` shows the tasks of every family.
    #[schemars(with = "String")]
    pub name: TaskName,
    /// Frames before the recall interval, `l`; on the map, steps that are shown to the model.
    pub length: usize,
    /// Frames of the recall interval, `k`; on the map, the steps that follow.
    pub recall: usize,
    /// Cells per side of the map.
    pub grid: usize,
    /// Bits of a vector of `copy`. That task uses only this key and the next.
    pub bits: usize,
    /// Vectors of the longest string of `copy`.
    pub longest: usize,
    /// Vectors of a sequence of `nth-farthest`. That task uses only this key and the next three.
    pub vectors: usize,
    /// Dimensions of each vector.
    pub dimensions: usize,
    /// Whether training starts with questions of n = 1 only and adds the next n when the moving accuracy reaches
    /// `task.admit_at`.
    pub curriculum: bool,
    /// Moving accuracy, over about the last twenty batches, at which the next n is added, or at which `programs` moves
    /// to the next stage of its curriculum.
    pub admit_at: f64,
    /// Steps of a training sequence cut from a recording or a text; gradients go back through all of them.
    pub window: usize,
    /// Rows and columns of the frames of clips and pictures.
    pub side: usize,
    /// Whether those frames are in colour.
    pub colour: bool,
    /// Digits of a `moving-digits` clip.
    pub digits: usize,
    /// The programs of the task `programs`, which uses only this table and `task.admit_at`.
    pub programs: ProgramSettings,
}

/// The name of a task of a [`Family`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TaskName(&'static str);

impl TaskName {
    /// Looks up a task; `None` if there is none of that name.
    pub fn find(name: &str) -> Option<Self> {
        let families = families().into_iter();
        let mut tasks = families.flat_map(|family| family.tasks());
        tasks
            .find(|task| task.name == name)
            .map(|task| Self(task.name))
    }

    /// All tasks, family by family.
    pub fn all() -> Vec<Self> {
        let families = families().into_iter();
        let tasks = families.flat_map(|family| family.tasks());
        tasks.map(|task| Self(task.name)).collect()
    }

    /// The name used in configurations.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// The family that has it.
    pub fn family(self) -> &'static dyn Family {
        family_of(self.0).expect("a name is made of a family's task")
    }
}

impl std::fmt::Debug for TaskName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl Serialize for TaskName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for TaskName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::find(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("there is no task '{name}'")))
    }
}

/// The generative model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelSettings {
    /// Which model: `mnemora list` shows those of each family of tasks. `gtmm` is the temporal VAE around a memory, or the
    /// memory alone in families that have no latents.
    pub name: ModelName,
    /// Which memory, if the model has one: `mnemora list` shows those of each family of tasks. `spatial` is for tasks that
    /// give actions.
    pub memory: MemoryName,
    /// Size of `z`.
    pub latent: usize,
    /// Networks for frames: `dense`, `inception` or, for frames of 32x32, `pathways`.
    pub visual: VisualName,
    /// Hidden units of the dense encoder and decoder.
    pub visual_hidden: usize,
    /// Features that the dense encoder outputs.
    pub visual_features: usize,
    /// Channels of the first maps of the global one of two pathways.
    pub visual_width: usize,
    /// Hidden units of the prior map, 0 for a linear map.
    pub prior_hidden: usize,
    /// Hidden units of the posterior map, 0 for a linear map.
    pub posterior_hidden: usize,
    /// Hidden layers between the memory and the classes of `nth-farthest` or the characters of `programs`, 0 for a
    /// linear map.
    pub head_layers: usize,
    /// Units of each of these layers.
    pub head_hidden: usize,
    /// Input of the decoder of `programs` after its first step: the `probabilities` of its previous output (without
    /// gradient), the most probable `symbol`, `nothing`, or the `truth`, which is teacher forcing and becomes `symbol`
    /// on held-out programs.
    pub decoder_input: DecoderInputName,
    /// Likelihood of observations: `bernoulli`, `gaussian`, or `normal`, whose standard deviations the model predicts.
    /// `normal` is a probability of the measured bins for samples of sound and pixels, and a density for other numbers.
    pub likelihood: LikelihoodName,
    /// Standard deviation of the Gaussian likelihood.
    pub likelihood_std: f64,
}

/// The visual networks by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VisualName {
    /// Fully connected.
    Dense,
    /// The convolutional blocks of gtmm, B.1.
    Inception,
    /// The two convolutional pathways of gtmm, B.2.
    Pathways,
}

/// The decoder's input, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecoderInputName {
    /// The probabilities of its previous output.
    Probabilities,
    /// The most probable symbol of its previous output.
    Symbol,
    /// Nothing.
    Nothing,
    /// The right symbol in training; otherwise the most probable one.
    Truth,
}

/// The likelihoods by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LikelihoodName {
    /// Independent Bernoulli pixels.
    Bernoulli,
    /// Independent Gaussian pixels with the same standard deviation.
    Gaussian,
    /// Independent Gaussians, or bins of them, each with a predicted standard deviation.
    Normal,
}

/// Where the data come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DataSettings {
    /// Folder of the data; empty for the images that come with mnemora.
    pub directory: String,
    /// Most bytes of the data: of all files together, and of what is kept of them in memory.
    pub max_bytes: u64,
    /// Most bytes that a single file may unpack to, or take in memory after decoding. A file may always unpack to
    /// sixteen times its own size.
    pub max_unpacked_bytes: u64,
    /// Fingerprint of the data that were used, a SHA-256 that `crates/worlds/data/README.md` defines; filled in when a
    /// run starts.
    pub fingerprint: String,
    /// Cycles of the calendar that the model of a table is told of, in days; filled in when a run starts.
    pub calendar: Vec<f64>,
    /// What a step of recorded data is; filled in when a run starts. With it a model can filter without its data.
    pub step: StepSettings,
    /// How the columns of a table are coded; filled in when a run starts.
    pub columns: Vec<ColumnSettings>,
}

/// The likelihood of a table's column, by name.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnLikelihoodName {
    /// Of truth values.
    Bernoulli,
    /// Of categories.
    Categorical,
    /// Of counts, whose variance is at least the mean.
    NegativeBinomial,
    /// Of numbers.
    Normal,
    /// Of counts, whose variance is the mean.
    Poisson,
    /// Of numbers, which is not upset by single large values.
    #[default]
    StudentT,
}

impl ColumnLikelihoodName {
    /// Its name in a run.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bernoulli => "bernoulli",
            Self::Categorical => "categorical",
            Self::NegativeBinomial => "negative-binomial",
            Self::Normal => "normal",
            Self::Poisson => "poisson",
            Self::StudentT => "student-t",
        }
    }
}

/// What of a table's number is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The number itself.
    #[default]
    Level,
    /// Its change.
    Change,
    /// The change of its logarithm.
    Growth,
}

/// How a column of a table is coded for a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ColumnSettings {
    /// Its name in the header.
    pub name: String,
    /// Its likelihood.
    pub likelihood: ColumnLikelihoodName,
    /// Whether it is known in advance, and not modelled.
    pub known: bool,
    /// Whether it has one value in each sequence; it is then known in advance, too.
    pub fixed: bool,
    /// What of its numbers is modelled: `level`, `change` or `growth`.
    pub form: Form,
    /// Steps over which a change or growth is measured; 0 from the step before.
    pub season: usize,
    /// Whether each sequence has a mean and a deviation of its own.
    pub by_sequence: bool,
    /// Mean of the training part: of what is modelled of numbers, and of ln(1 + n) of counts.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// The names of categories.
    pub names: Vec<String>,
}

/// A step of recorded data; the width is 0 for other data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepSettings {
    /// The kind of its numbers.
    pub kind: Kind,
    /// Channels of a picture, otherwise 1.
    pub channels: usize,
    /// Rows of a picture, otherwise 1.
    pub height: usize,
    /// Columns of a picture, otherwise the number of values.
    pub width: usize,
    /// Subtracted from each number before the model sees it.
    pub mean: f32,
    /// Divides each number after the subtraction.
    pub deviation: f32,
    /// Steps per quarter note.
    pub steps_per_quarter: u8,
}

/// The kind of the numbers of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Notes, on or off: 1 or 0.
    Notes,
    /// Samples of sound.
    Sound,
    /// Intensities in `[0, 1]`.
    Pixels,
    /// Any numbers.
    #[default]
    Numbers,
}

impl DataSettings {
    /// Limits on the data to be read.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            bytes: self.max_bytes,
            unpacked_bytes: self.max_unpacked_bytes,
        }
    }
}

impl Default for DataSettings {
    fn default() -> Self {
        let Limits {
            bytes,
            unpacked_bytes,
        } = Limits::default();
        Self {
            directory: String::new(),
            max_bytes: bytes,
            max_unpacked_bytes: unpacked_bytes,
            fingerprint: String::new(),
            calendar: Vec::new(),
            step: StepSettings::default(),
            columns: Vec::new(),
        }
    }
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            name: TaskName("perfect-recall"),
            length: 8,
            recall: 3,
            grid: 4,
            bits: 8,
            longest: 20,
            vectors: 8,
            dimensions: 16,
            curriculum: false,
            admit_at: 0.85,
            window: 25,
            side: 64,
            colour: false,
            digits: 2,
            programs: ProgramSettings::default(),
        }
    }
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            name: ModelName::Gtmm,
            memory: MemoryName::Introspection,
            latent: 32,
            visual: VisualName::Dense,
            visual_hidden: 256,
            visual_features: 64,
            visual_width: 128,
            prior_hidden: 128,
            posterior_hidden: 128,
            head_layers: 4,
            head_hidden: 256,
            decoder_input: DecoderInputName::Probabilities,
            likelihood: LikelihoodName::Bernoulli,
            likelihood_std: 0.2,
        }
    }
}
