//! Experiments as configuration: what a TOML file may say, defaults, overrides, validation.

mod language;
mod network;
mod programs;
mod reads;
mod sizes;

pub use language::{LanguageSettings, WordStyleName};
pub use network::{
    FilteringSettings, ModelName, NetworkSettings, SrnnNetworkSettings, StrategyName,
    SvgNetworkName, SvgNetworkSettings, SvgPriorName, SvgSkipsName, VrnnNetworkSettings,
};
pub use programs::{CurriculumName, DecoderInputName, FamilyName, ProgramSettings};
pub use sizes::{
    DncControllerName, DncSettings, EntNetSettings, GateName, HybridSettings,
    IntrospectionSettings, LruSettings, LstmSettings, MemorySettings, NtmSettings, RmcSettings,
    StackedLstmSettings, VrnnSettings,
};

use crate::{
    LabError,
    keys::{apply_override, flatten, merge},
};
use mnemora_memory::{
    ControllerKind, CoreConfig, DncConfig, EntNetConfig, GateStyle, HybridConfig,
    IntrospectionConfig, LruConfig, MemoryConfig, MemoryError, NtmConfig, RmcConfig,
    StackedLstmConfig, VrnnConfig,
};
use mnemora_models::{
    ClassifierConfig, EncoderDecoderConfig, FrameShape, GtmmConfig, LikelihoodConfig,
    SequenceConfig, VisualConfig,
};
use mnemora_worlds::Limits;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use toml::{Table, Value};

/// An experiment with every setting resolved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Experiment {
    /// Name of the experiment.
    pub name: String,
    /// One line that says what it shows.
    pub description: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// What sequences look like.
    pub task: TaskSettings,
    /// The generative model.
    pub model: ModelSettings,
    /// Sizes of each memory; `model.memory` says which one is used.
    pub memory: MemorySettings,
    /// Sizes of each model without such a memory; `model.name` says which one is used.
    pub network: NetworkSettings,
    /// How beliefs about latents are found.
    pub filtering: FilteringSettings,
    /// How parameters are learned.
    pub training: TrainingSettings,
    /// What is measured on held-out sequences.
    pub evaluation: EvaluationSettings,
    /// Where the data come from.
    pub data: DataSettings,
    /// Language models, and which words they know.
    pub language: LanguageSettings,
}

/// A key in which two experiments differ.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// With its tables, as `training.batch`.
    pub key: String,
    /// What one has.
    pub before: Value,
    /// What the other has.
    pub after: Value,
}

/// What sequences look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskSettings {
    /// Which task: `perfect-recall`, `parity-recall`, `one-shot-recall`, `dynamic-dependency`,
    /// `similarity-cued-recall`, `mnist-map`, `copy`, `nth-farthest` or `programs`; or sequences as they were recorded: music
    /// (`jsb-chorales`, `nottingham`, `muse-data`, `piano-midi`, `midi`), sound (`speech`,
    /// `spoken-digits`, `timit`, `recordings`), clips (`video`, `kth`, `moving-digits`) or `own`; or words:
    /// `books`, `wikitext-2`, `wikitext-103` or `text`, a folder of one's own.
    pub name: TaskName,
    /// Frames before the recall interval, `l`; steps on the map that a model is shown.
    pub length: usize,
    /// Frames of the recall interval, `k`; further steps on the map.
    pub recall: usize,
    /// Cells along a side of the map.
    pub grid: usize,
    /// Bits of a vector that is to be copied. `copy` reads this key and the next, and no other.
    pub bits: usize,
    /// Vectors of the longest string that is to be copied.
    pub longest: usize,
    /// Vectors of a sequence of `nth-farthest`, which reads this key and the next three, and no other.
    pub vectors: usize,
    /// Numbers of each of them.
    pub dimensions: usize,
    /// Whether training begins with questions of n = 1 alone and admits the next n when the moving
    /// accuracy is `task.admit_at`.
    pub curriculum: bool,
    /// Moving accuracy, over about the last twenty batches, at which the next n is admitted, or the next
    /// stage of a curriculum of `programs`.
    pub admit_at: f64,
    /// Steps of a training sequence that is cut from a recording or a text, through which gradients go
    /// back.
    pub window: usize,
    /// Rows and columns of the frames of clips and pictures.
    pub side: usize,
    /// Whether those frames are in colour.
    pub colour: bool,
    /// Digits of a `moving-digits` clip.
    pub digits: usize,
    /// Which programs the task `programs` executes. It reads this table and `task.admit_at`, and no
    /// other key.
    pub programs: ProgramSettings,
}

/// The tasks by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskName {
    /// Digits, then the first of them again.
    PerfectRecall,
    /// Digits, then whether the first of them were even.
    ParityRecall,
    /// Characters never seen in training, then the first of them again.
    OneShotRecall,
    /// Digits, each of the last naming the place of the next.
    DynamicDependency,
    /// Digits, then one of them again and those that followed it.
    SimilarityCuedRecall,
    /// A walk over a map of digits.
    MnistMap,
    /// Random bit vectors, to be written out again (Graves et al. 2014, section 4.1).
    Copy,
    /// Which vector is the n-th farthest from another? (Santoro et al. 2018, section 4.1)
    NthFarthest,
    /// What does a program print? (Zaremba, Sutskever 2014; Santoro et al. 2018, section 4.2)
    Programs,
    /// Four-part chorales as piano-rolls; comes with mnemora.
    JsbChorales,
    /// Folk tunes as piano-rolls.
    Nottingham,
    /// Orchestral and piano music as piano-rolls.
    MuseData,
    /// Classical piano music as piano-rolls.
    PianoMidi,
    /// A folder of MIDI files.
    Midi,
    /// Read English (LibriSpeech); a few utterances come with mnemora.
    Speech,
    /// Single spoken digits.
    SpokenDigits,
    /// TIMIT in its original layout.
    Timit,
    /// A folder of recordings.
    Recordings,
    /// A folder of clips; a few come with mnemora.
    Video,
    /// The KTH actions.
    Kth,
    /// Digits that bounce around, made without end.
    MovingDigits,
    /// A user's own sequences: arrays, a table, folders of pictures.
    Own,
    /// Books as words; a few come with mnemora.
    Books,
    /// WikiText-2: two million words (Merity et al. 2016).
    #[serde(rename = "wikitext-2")]
    WikiText2,
    /// WikiText-103: 103 million words.
    #[serde(rename = "wikitext-103")]
    WikiText103,
    /// A user's own text: a file or a folder of them.
    Text,
}

impl TaskName {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::PerfectRecall,
        Self::ParityRecall,
        Self::OneShotRecall,
        Self::DynamicDependency,
        Self::SimilarityCuedRecall,
        Self::MnistMap,
        Self::Copy,
        Self::NthFarthest,
        Self::Programs,
        Self::JsbChorales,
        Self::Nottingham,
        Self::MuseData,
        Self::PianoMidi,
        Self::Midi,
        Self::Speech,
        Self::SpokenDigits,
        Self::Timit,
        Self::Recordings,
        Self::Video,
        Self::Kth,
        Self::MovingDigits,
        Self::Own,
        Self::Books,
        Self::WikiText2,
        Self::WikiText103,
        Self::Text,
    ];

    /// As in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PerfectRecall => "perfect-recall",
            Self::ParityRecall => "parity-recall",
            Self::OneShotRecall => "one-shot-recall",
            Self::DynamicDependency => "dynamic-dependency",
            Self::SimilarityCuedRecall => "similarity-cued-recall",
            Self::MnistMap => "mnist-map",
            Self::Copy => "copy",
            Self::NthFarthest => "nth-farthest",
            Self::Programs => "programs",
            Self::JsbChorales => "jsb-chorales",
            Self::Nottingham => "nottingham",
            Self::MuseData => "muse-data",
            Self::PianoMidi => "piano-midi",
            Self::Midi => "midi",
            Self::Speech => "speech",
            Self::SpokenDigits => "spoken-digits",
            Self::Timit => "timit",
            Self::Recordings => "recordings",
            Self::Video => "video",
            Self::Kth => "kth",
            Self::MovingDigits => "moving-digits",
            Self::Own => "own",
            Self::Books => "books",
            Self::WikiText2 => "wikitext-2",
            Self::WikiText103 => "wikitext-103",
            Self::Text => "text",
        }
    }

    /// Which of the kinds it is.
    pub fn kind(self) -> TaskKind {
        match self {
            Self::PerfectRecall
            | Self::ParityRecall
            | Self::OneShotRecall
            | Self::DynamicDependency
            | Self::SimilarityCuedRecall
            | Self::MnistMap => TaskKind::Frames,
            Self::Copy => TaskKind::Copy,
            Self::NthFarthest => TaskKind::Classes,
            Self::Programs => TaskKind::Programs,
            Self::Books | Self::WikiText2 | Self::WikiText103 | Self::Text => TaskKind::Words,
            Self::JsbChorales
            | Self::Nottingham
            | Self::MuseData
            | Self::PianoMidi
            | Self::Midi
            | Self::Speech
            | Self::SpokenDigits
            | Self::Timit
            | Self::Recordings
            | Self::Video
            | Self::Kth
            | Self::MovingDigits
            | Self::Own => TaskKind::Recordings,
        }
    }

    /// What the images are that a task of frames composes; `None` for all other tasks.
    pub fn images(self) -> Option<TaskImages> {
        match self {
            Self::PerfectRecall
            | Self::ParityRecall
            | Self::DynamicDependency
            | Self::SimilarityCuedRecall
            | Self::MnistMap => Some(TaskImages::Digits),
            Self::OneShotRecall => Some(TaskImages::Characters),
            Self::Copy
            | Self::NthFarthest
            | Self::Programs
            | Self::JsbChorales
            | Self::Nottingham
            | Self::MuseData
            | Self::PianoMidi
            | Self::Midi
            | Self::Speech
            | Self::SpokenDigits
            | Self::Timit
            | Self::Recordings
            | Self::Video
            | Self::Kth
            | Self::MovingDigits
            | Self::Own
            | Self::Books
            | Self::WikiText2
            | Self::WikiText103
            | Self::Text => None,
        }
    }

    /// The models that can be trained on it.
    pub fn models(self) -> &'static [ModelName] {
        match self.kind() {
            TaskKind::Recordings => &ModelName::ALL,
            TaskKind::Frames
            | TaskKind::Copy
            | TaskKind::Classes
            | TaskKind::Programs
            | TaskKind::Words => &[ModelName::Gtmm],
        }
    }

    /// Memories that can be trained on it.
    pub fn memories(self) -> &'static [MemoryName] {
        use MemoryName::{
            Dnc, EntNet, Hybrid, Introspection, Lru, Lstm, Ntm, Rmc, StackedLstm, Vrnn,
        };
        match self.kind() {
            TaskKind::Copy => &[Lstm, Ntm, Lru, Dnc, Rmc],
            TaskKind::Classes | TaskKind::Programs => {
                &[Lstm, StackedLstm, Ntm, Lru, Dnc, Rmc, EntNet]
            }
            TaskKind::Words => &[Lstm, StackedLstm, Rmc],
            TaskKind::Frames | TaskKind::Recordings => {
                &[Vrnn, Introspection, Ntm, Lru, Dnc, Hybrid, Rmc]
            }
        }
    }
}

/// The images that frames show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskImages {
    /// MNIST's, each named by a label from 0 to 9.
    Digits,
    /// Omniglot's.
    Characters,
}

/// What a task is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Sequences of images that are composed so as to ask something of a memory.
    Frames,
    /// Strings to be copied.
    Copy,
    /// Sequences that ask a question, which a class answers.
    Classes,
    /// Programs, which an answer follows.
    Programs,
    /// Sequences of unequal length as they were recorded.
    Recordings,
    /// Texts, of which each word is predicted from those before it.
    Words,
}

impl TaskKind {
    /// Whether its models are recurrent cores alone, which answer and have no latents.
    pub(crate) fn without_latents(self) -> bool {
        match self {
            Self::Copy | Self::Classes | Self::Programs | Self::Words => true,
            Self::Frames | Self::Recordings => false,
        }
    }
}

/// The generative model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    /// Which model: `gtmm`, the temporal VAE around a memory, or, for recorded sequences, `vrnn`,
    /// `srnn` or, for clips, `svg`. The tasks `copy`, `nth-farthest` and `programs` take the memory
    /// alone, the last one twice.
    pub name: ModelName,
    /// Which memory: `vrnn`, `introspection`, `ntm`, `lru`, `dnc`, `hybrid` or `rmc`; for the task
    /// `copy` `lstm`, `ntm`, `lru`, `dnc` or `rmc`; for `nth-farthest` and `programs` also `stacked-lstm` or
    /// `ent-net`; for texts `lstm`, `stacked-lstm` or `rmc`.
    pub memory: MemoryName,
    /// Size of `z`.
    pub latent: usize,
    /// Networks for frames: `dense` or `inception`.
    pub visual: VisualName,
    /// Hidden units of the dense encoder and decoder.
    pub visual_hidden: usize,
    /// Features that the dense encoder gives.
    pub visual_features: usize,
    /// Hidden units of the prior map, 0 for a linear map.
    pub prior_hidden: usize,
    /// Hidden units of the posterior map, 0 for a linear map.
    pub posterior_hidden: usize,
    /// Hidden layers from the memory onto the classes of `nth-farthest` or the characters of `programs`,
    /// 0 for a linear map.
    pub head_layers: usize,
    /// Units of each of them.
    pub head_hidden: usize,
    /// What the decoder of `programs` reads after its first step: the `probabilities` that it gave
    /// before, without a gradient through them, the most probable `symbol`, `nothing`, or the `truth`,
    /// which is teacher forcing and becomes `symbol` on held-out programs.
    pub decoder_input: DecoderInputName,
    /// Likelihood of observations: `bernoulli`, `gaussian`, or `normal`, whose standard deviations the
    /// model gives itself: a probability of the bins in which samples of sound and pixels are
    /// measured, a density for other numbers.
    pub likelihood: LikelihoodName,
    /// Standard deviation of the Gaussian likelihood.
    pub likelihood_std: f64,
}

/// The memories by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryName {
    /// LSTM core.
    Vrnn,
    /// Introspection network.
    Introspection,
    /// Neural Turing Machine.
    Ntm,
    /// Least-recently-used memory.
    Lru,
    /// Differentiable Neural Computer.
    Dnc,
    /// Direct storage with positional and content addressing.
    Hybrid,
    /// An LSTM without any other memory, for the tasks `copy`, `nth-farthest` and `programs`.
    Lstm,
    /// Relational Memory Core.
    Rmc,
    /// An LSTM in layers, for the tasks `nth-farthest` and `programs`.
    StackedLstm,
    /// Memory of the entity network, for the tasks `nth-farthest` and `programs`.
    EntNet,
}

impl MemoryName {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Vrnn,
        Self::Introspection,
        Self::Ntm,
        Self::Lru,
        Self::Dnc,
        Self::Hybrid,
        Self::Lstm,
        Self::Rmc,
        Self::StackedLstm,
        Self::EntNet,
    ];

    /// As in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vrnn => "vrnn",
            Self::Introspection => "introspection",
            Self::Ntm => "ntm",
            Self::Lru => "lru",
            Self::Dnc => "dnc",
            Self::Hybrid => "hybrid",
            Self::Lstm => "lstm",
            Self::Rmc => "rmc",
            Self::StackedLstm => "stacked-lstm",
            Self::EntNet => "ent-net",
        }
    }
}

/// The visual networks by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VisualName {
    /// Fully connected.
    Dense,
    /// The convolutional blocks of gtmm, B.1.
    Inception,
}

/// The likelihoods by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LikelihoodName {
    /// Independent Bernoulli pixels.
    Bernoulli,
    /// Independent Gaussian pixels of one standard deviation.
    Gaussian,
    /// Independent Gaussians, or bins of them, with standard deviations of their own.
    Normal,
}

/// How the learning rate goes from its first to its final value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// It stays.
    Constant,
    /// In a straight line over all steps.
    Linear,
    /// Along half a cosine over all steps.
    Cosine,
    /// By the same factor at each step.
    Exponential,
}

/// How parameters are learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainingSettings {
    /// Updates in all.
    pub steps: u64,
    /// Sequences in a batch.
    pub batch: usize,
    /// Adam's rate at the first step.
    pub learning_rate: f64,
    /// How the rate changes.
    pub schedule: Schedule,
    /// Rate at the last step, for schedules that change it.
    pub final_learning_rate: f64,
    /// Largest global norm of the gradient, 0 for no clipping.
    pub clip: f64,
    /// Steps over which the weight of the KL rises from 0 to 1, 0 for none.
    pub kl_warmup: u64,
    /// Steps of a sequence whose graph is in memory at a time, 0 for all. With fewer the time loop is
    /// computed twice; gradients are the same. The square root of a sequence's length takes the
    /// least memory. The tasks `copy`, `nth-farthest` and `programs` take whole sequences only.
    pub segment: usize,
    /// Steps between rows of metrics.jsonl.
    pub log_every: u64,
    /// Steps between checkpoints.
    pub checkpoint_every: u64,
    /// Checkpoints kept beside the best one.
    pub keep: usize,
    /// Processor threads for tensor operations, 0 for one a core. Small models are faster on one.
    /// The variable `RAYON_NUM_THREADS` goes first.
    pub threads: usize,
}

/// What is measured on held-out sequences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvaluationSettings {
    /// Batches of the evaluation after training; windows of a text at most.
    pub batches: u64,
    /// Sequences in one of them. Streams in which a held-out text is gone through side by side; 1 is the
    /// one pass that perplexities are published for.
    pub batch: usize,
    /// Batches of the short evaluation at each checkpoint, which decides the best one.
    pub checkpoint_batches: u64,
    /// Sequences drawn in pictures.
    pub pictures: usize,
    /// Particles of the importance-weighted and the particle filter's bound, 0 for neither; for
    /// models with latents.
    pub particles: usize,
    /// Held-out words on which lengths of the past are compared after training, 0 for none; for texts.
    pub unroll_words: usize,
}

/// Where the data come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataSettings {
    /// Folder of the data, empty for the images that come with mnemora.
    pub directory: String,
    /// Most bytes of the data: of all files together, and of what is kept of them in memory.
    pub max_bytes: u64,
    /// Most bytes that a single file may unpack to, or take in memory once it is decoded. A file may always
    /// unpack to sixteen times its own size.
    pub max_unpacked_bytes: u64,
    /// Fingerprint of the data that were used, a SHA-256 that `crates/worlds/data/README.md` defines; filled in when a run starts.
    pub fingerprint: String,
    /// What a step of recorded data is; filled in when a run starts. With it a model filters where its data
    /// are not at hand.
    pub step: StepSettings,
}

/// A step of recorded data; of no width where the data are others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepSettings {
    /// What its numbers are.
    pub kind: Kind,
    /// Channels of a picture, else 1.
    pub channels: usize,
    /// Rows of a picture, else 1.
    pub height: usize,
    /// Columns of a picture, else how many numbers there are.
    pub width: usize,
    /// Taken off each number before the model sees it.
    pub mean: f32,
    /// What the rest is divided by.
    pub deviation: f32,
    /// Steps of a quarter note.
    pub steps_per_quarter: u8,
}

/// What the numbers of a step are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Notes that sound: 0 or 1.
    Notes,
    /// Samples of sound.
    Sound,
    /// Intensities in `[0, 1]`.
    Pixels,
    /// Any.
    #[default]
    Numbers,
}

impl TaskSettings {
    /// The steps (from 0) at which memory is put to the test, where they are the same in every sequence:
    /// [`Task::recall_interval`](mnemora_worlds::Task::recall_interval) without the data that a task needs.
    pub(crate) fn recall_interval(&self) -> Option<Range<usize>> {
        let time = self.length + self.recall;
        match self.name {
            TaskName::PerfectRecall
            | TaskName::ParityRecall
            | TaskName::OneShotRecall
            | TaskName::DynamicDependency => Some(self.length..time),
            // The first frame after those to be watched is the cue.
            TaskName::SimilarityCuedRecall => Some(self.length + 1..time),
            _ => None,
        }
    }

    /// The task and its sizes in words.
    pub(crate) fn words(&self) -> String {
        let name = self.name.as_str();
        match self.name.kind() {
            TaskKind::Copy => format!(
                "{name} with {} bits and longest {}",
                self.bits, self.longest
            ),
            TaskKind::Classes => format!(
                "{name} with {} vectors of {} dimensions",
                self.vectors, self.dimensions
            ),
            TaskKind::Programs => format!("{name}: {}", self.programs.words()),
            TaskKind::Frames => format!(
                "{name} with length {} and recall {}",
                self.length, self.recall
            ),
            TaskKind::Recordings | TaskKind::Words => {
                format!("{name} with windows of {}", self.window)
            }
        }
    }
}

impl DataSettings {
    /// What is read of the data.
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
            step: StepSettings::default(),
        }
    }
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            name: TaskName::PerfectRecall,
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

impl TrainingSettings {
    /// The weight of the KL in update `step`, from 1.
    pub fn kl_weight(&self, step: u64) -> f64 {
        match self.kl_warmup {
            0 => 1.0,
            warmup => (step as f64 / warmup as f64).min(1.0),
        }
    }
}

impl Default for TrainingSettings {
    fn default() -> Self {
        Self {
            steps: 10_000,
            batch: 16,
            learning_rate: 1e-3,
            schedule: Schedule::Constant,
            final_learning_rate: 1e-4,
            clip: 10.0,
            kl_warmup: 0,
            segment: 0,
            log_every: 50,
            checkpoint_every: 1_000,
            keep: 2,
            threads: 0,
        }
    }
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self {
            batches: 32,
            batch: 32,
            checkpoint_batches: 4,
            pictures: 6,
            particles: 0,
            unroll_words: 20_000,
        }
    }
}

impl Experiment {
    /// Parses an experiment and its overrides (`key=value`); keys that the text leaves out have
    /// their defaults.
    pub fn parse(text: &str, origin: &str, overrides: &[String]) -> Result<Self, LabError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let message = error.message().replace('\n', " ");
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            LabError::Configuration(format!("{origin}: line {line}: {message}"))
        })?;
        let mut resolved = Self::template()?;
        merge(&mut resolved, table, "")
            .map_err(|problem| LabError::Configuration(format!("{origin}: {problem}")))?;
        for text in overrides {
            apply_override(&mut resolved, text).map_err(LabError::Configuration)?;
        }
        let experiment: Self =
            Value::Table(resolved)
                .try_into()
                .map_err(|error: toml::de::Error| {
                    let message = error.message().replace('\n', " ");
                    LabError::Configuration(format!("{origin}: {message}"))
                })?;
        experiment.validate().map_err(|problem| {
            // What --set said is not the file's fault.
            let said = |text: &String| {
                let key = text.split('=').next().unwrap_or_default().trim();
                problem.starts_with(&format!("{key} "))
            };
            LabError::Configuration(match overrides.iter().any(said) {
                true => problem,
                false => format!("{origin}: {problem}"),
            })
        })?;
        Ok(experiment)
    }

    /// The keys in which `other` differs, with the value here and there.
    pub(crate) fn changes(&self, other: &Self) -> Result<Vec<Change>, LabError> {
        let flat = |experiment: &Self| -> Result<_, LabError> {
            let table = Table::try_from(experiment)
                .map_err(|error| LabError::Configuration(error.to_string()))?;
            let mut values = Vec::new();
            flatten(&table, "", &mut values);
            Ok(values)
        };
        let pairs = flat(self)?.into_iter().zip(flat(other)?);
        let changed = pairs.filter(|(before, after)| before != after);
        let change = |((key, before), (_, after))| Change { key, before, after };
        Ok(changed.map(change).collect())
    }

    /// The first key that `other` has changed and that may not change.
    pub(crate) fn first_change(
        &self,
        other: &Self,
        may_change: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, LabError> {
        let keys = self.changes(other)?.into_iter().map(|change| change.key);
        Ok({ keys }.find(|key| !may_change(key)))
    }

    /// The experiment as TOML, complete.
    pub fn to_toml(&self) -> Result<String, LabError> {
        toml::to_string(self).map_err(|error| LabError::Configuration(error.to_string()))
    }

    pub(crate) fn template() -> Result<Table, LabError> {
        Table::try_from(Self::default()).map_err(|error| LabError::Configuration(error.to_string()))
    }

    /// Steps of a training sequence, of the longest one where lengths differ.
    pub fn time(&self) -> usize {
        match self.task.name.kind() {
            TaskKind::Copy => 2 * self.task.longest + 2,
            TaskKind::Classes => self.task.vectors,
            TaskKind::Programs => self.task.programs.time(),
            TaskKind::Frames => self.task.length + self.task.recall,
            TaskKind::Recordings | TaskKind::Words => self.task.window,
        }
    }

    /// The model in a word: its memory or its name, and how its beliefs are found unless directly.
    pub fn label(&self) -> String {
        let base = match self.model.name {
            ModelName::Gtmm => self.model.memory.as_str(),
            ModelName::Srnn if self.network.srnn.smoothing => "srnn-smoothing",
            other => other.as_str(),
        };
        let rounds = self.filtering.iterations;
        match self.filtering.strategy {
            StrategyName::Direct => base.to_owned(),
            StrategyName::Iterative if self.filtering.online => {
                format!("{base}-avf{rounds}-online")
            }
            StrategyName::Iterative => format!("{base}-avf{rounds}"),
            StrategyName::Gradient => format!("{base}-gradient{rounds}"),
        }
    }

    /// Whether [`label`](Self::label) says what a key holds.
    pub(crate) fn label_says(&self, key: &str) -> bool {
        match key {
            "model.memory" | "filtering.strategy" | "network.srnn.smoothing" => true,
            // The one name that a model and a memory share.
            "model.name" => {
                self.model.name != ModelName::Gtmm || self.model.memory != MemoryName::Vrnn
            }
            "filtering.iterations" => self.filtering.strategy != StrategyName::Direct,
            "filtering.online" => self.filtering.strategy == StrategyName::Iterative,
            _ => false,
        }
    }

    /// The likelihood of observations of which a bin has the given width, 0 where they are
    /// measured without steps; `squashed` where they are intensities.
    pub fn likelihood_config(&self, bin: f64, squashed: bool) -> LikelihoodConfig {
        match self.model.likelihood {
            LikelihoodName::Bernoulli => LikelihoodConfig::Bernoulli,
            LikelihoodName::Gaussian => LikelihoodConfig::Gaussian {
                std: self.model.likelihood_std,
            },
            LikelihoodName::Normal => LikelihoodConfig::Normal { bin, squashed },
        }
    }

    /// As many slots as given, or if that is 0 as many as a sequence has steps.
    fn slots(&self, given: usize) -> usize {
        match given {
            0 => self.time(),
            given => given,
        }
    }

    /// The configuration of the recurrent core for inputs of a width; `None` for a memory that is
    /// none.
    fn core_config(&self, input: usize) -> Option<CoreConfig> {
        let sizes = &self.memory;
        Some(match self.model.memory {
            MemoryName::Lstm => CoreConfig::Lstm {
                input,
                hidden: sizes.lstm.hidden,
            },
            MemoryName::Ntm => CoreConfig::Ntm(NtmConfig {
                input,
                hidden: sizes.ntm.hidden,
                reads: sizes.ntm.reads,
                writes: sizes.ntm.writes,
                width: sizes.ntm.width,
                slots: self.slots(sizes.ntm.slots),
            }),
            MemoryName::Lru => CoreConfig::Lru(LruConfig {
                input,
                hidden: sizes.lru.hidden,
                reads: sizes.lru.reads,
                width: sizes.lru.width,
                slots: match sizes.lru.slots {
                    0 => LRU_SLOTS_PER_STEP * self.time(),
                    given => given,
                },
                nearest: sizes.lru.nearest,
            }),
            MemoryName::Dnc => CoreConfig::Dnc(DncConfig {
                input,
                controller: match (sizes.dnc.controller, sizes.dnc.layers) {
                    (DncControllerName::Lstm, 1) => ControllerKind::Lstm,
                    (DncControllerName::Lstm, layers) => ControllerKind::StackedLstm(layers),
                    (DncControllerName::FeedForward, layers) => ControllerKind::FeedForward(layers),
                },
                hidden: sizes.dnc.hidden,
                reads: sizes.dnc.reads,
                width: sizes.dnc.width,
                slots: self.slots(sizes.dnc.slots),
            }),
            MemoryName::Rmc => {
                let sizes = &sizes.rmc;
                CoreConfig::Rmc(RmcConfig {
                    key_size: match sizes.key_size {
                        0 => sizes.head_size,
                        given => given,
                    },
                    blocks: sizes.blocks,
                    mlp_layers: sizes.mlp_layers,
                    gates: match sizes.gates {
                        GateName::Unit => GateStyle::Unit,
                        GateName::Memory => GateStyle::Memory,
                        GateName::None => GateStyle::None,
                    },
                    output_gate: sizes.output_gate,
                    ..RmcConfig::new(input, sizes.slots, sizes.heads, sizes.head_size)
                })
            }
            MemoryName::StackedLstm => CoreConfig::StackedLstm(StackedLstmConfig {
                input,
                hidden: sizes.stacked_lstm.hidden,
                layers: sizes.stacked_lstm.layers,
            }),
            MemoryName::EntNet => CoreConfig::EntNet(EntNetConfig::new(
                input,
                sizes.ent_net.cells,
                sizes.ent_net.width,
            )),
            MemoryName::Vrnn | MemoryName::Introspection | MemoryName::Hybrid => return None,
        })
    }

    /// The configuration of the core that copies.
    ///
    /// # Errors
    /// The memory is no recurrent core.
    pub fn sequence_config(&self) -> Result<SequenceConfig, LabError> {
        // Two more inputs for the flags.
        let core = self.core_config(self.task.bits + 2);
        Ok(SequenceConfig {
            core: core.ok_or_else(|| LabError::Configuration(self.wrong_memory()))?,
            outputs: self.task.bits,
        })
    }

    /// The configuration of the core that names one of `classes` classes after inputs of a width.
    ///
    /// # Errors
    /// The memory is no recurrent core.
    pub fn classifier_config(
        &self,
        input: usize,
        classes: usize,
    ) -> Result<ClassifierConfig, LabError> {
        let core = self.core_config(input);
        Ok(ClassifierConfig {
            core: core.ok_or_else(|| LabError::Configuration(self.wrong_memory()))?,
            head_layers: self.model.head_layers,
            head_hidden: self.model.head_hidden,
            classes,
        })
    }

    /// The configuration of two cores, one that reads sequences of `symbols` symbols and one that writes
    /// them.
    ///
    /// # Errors
    /// The memory is no recurrent core.
    pub fn encoder_decoder_config(&self, symbols: usize) -> Result<EncoderDecoderConfig, LabError> {
        let core = |input: usize| {
            let core = self.core_config(input);
            core.ok_or_else(|| LabError::Configuration(self.wrong_memory()))
        };
        Ok(EncoderDecoderConfig {
            symbols,
            encoder: core(symbols)?,
            // One more input for the symbol at which it begins.
            decoder: core(symbols + 1)?,
            head_layers: self.model.head_layers,
            head_hidden: self.model.head_hidden,
        })
    }

    /// The model's configuration for frames and conditions of the task.
    ///
    /// # Errors
    /// The memory is none of a temporal VAE.
    pub fn model_config(
        &self,
        frame: FrameShape,
        condition: usize,
        likelihood: LikelihoodConfig,
    ) -> Result<GtmmConfig, LabError> {
        let model = &self.model;
        let visual = match model.visual {
            VisualName::Inception => VisualConfig::Inception,
            VisualName::Dense => VisualConfig::Dense {
                hidden: model.visual_hidden,
                features: model.visual_features,
            },
        };
        let sizes = &self.memory;
        let memory = match (model.memory, self.core_config(model.latent + condition)) {
            (MemoryName::Vrnn, _) => MemoryConfig::Vrnn(VrnnConfig {
                latent: model.latent,
                features: visual.features(model.latent),
                condition,
                hidden: sizes.vrnn.hidden,
            }),
            (MemoryName::Introspection, _) => {
                let sizes = &sizes.introspection;
                MemoryConfig::Introspection(IntrospectionConfig {
                    latent: model.latent,
                    condition,
                    hidden: sizes.hidden,
                    attention: sizes.attention,
                    reads: sizes.reads,
                    slots: self.slots(sizes.slots),
                })
            }
            (MemoryName::Hybrid, _) => {
                let sizes = &sizes.hybrid;
                MemoryConfig::Hybrid(HybridConfig {
                    latent: model.latent,
                    condition,
                    hidden: sizes.hidden,
                    attention: sizes.attention,
                    key: sizes.key,
                    reads: sizes.reads,
                    slots: self.slots(sizes.slots),
                })
            }
            (MemoryName::Ntm | MemoryName::Lru | MemoryName::Dnc | MemoryName::Rmc, Some(core)) => {
                MemoryConfig::Core(core, model.latent)
            }
            _ => return Err(LabError::Configuration(self.wrong_memory())),
        };
        Ok(GtmmConfig {
            frame,
            memory,
            visual,
            prior_hidden: model.prior_hidden,
            posterior_hidden: model.posterior_hidden,
            likelihood,
        })
    }

    /// Says which memories the task can have.
    fn wrong_memory(&self) -> String {
        let names = self.task.name.memories().iter().map(|name| name.as_str());
        let names: Vec<&str> = names.collect();
        format!(
            "model.memory is '{}', for the task {} it must be one of {}",
            self.model.memory.as_str(),
            self.task.name.as_str(),
            names.join(", ")
        )
    }

    /// Ranges that hold for every experiment; the first violation, with the key and what is right.
    fn validate(&self) -> Result<(), String> {
        let training = &self.training;
        let positive = [
            ("task.length", self.task.length),
            ("task.recall", self.task.recall),
            ("task.grid", self.task.grid),
            ("task.bits", self.task.bits),
            ("task.longest", self.task.longest),
            ("task.vectors", self.task.vectors),
            ("task.dimensions", self.task.dimensions),
            ("task.window", self.task.window),
            ("task.side", self.task.side),
            ("task.digits", self.task.digits),
            ("filtering.iterations", self.filtering.iterations),
            ("filtering.samples", self.filtering.samples),
            ("filtering.hidden", self.filtering.hidden),
            ("model.latent", self.model.latent),
            ("model.visual_hidden", self.model.visual_hidden),
            ("model.visual_features", self.model.visual_features),
            ("model.head_hidden", self.model.head_hidden),
            ("training.batch", training.batch),
            ("training.steps", training.steps as usize),
            ("training.log_every", training.log_every as usize),
            (
                "training.checkpoint_every",
                training.checkpoint_every as usize,
            ),
            ("training.keep", training.keep),
            ("evaluation.batches", self.evaluation.batches as usize),
            ("evaluation.batch", self.evaluation.batch),
            (
                "evaluation.checkpoint_batches",
                self.evaluation.checkpoint_batches as usize,
            ),
            ("evaluation.pictures", self.evaluation.pictures),
        ];
        if let Some((key, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{key} is 0, it must be at least 1"));
        }
        let may_be_zero = [
            ("model.prior_hidden", self.model.prior_hidden),
            ("model.posterior_hidden", self.model.posterior_hidden),
            ("model.head_layers", self.model.head_layers),
        ];
        let mut sizes = positive
            .iter()
            .filter(|(key, _)| !key.starts_with("training.") || key.ends_with(".batch"))
            .chain(&may_be_zero);
        if let Some((key, value)) = sizes.find(|(key, value)| *value > largest_size(key)) {
            return Err(format!(
                "{key} is {value}, it must be at most {}",
                largest_size(key)
            ));
        }
        self.task.validate_programs()?;
        self.validate_model()?;
        self.validate_memory()?;
        self.language.validate()?;
        if training.threads > LARGEST_POOL {
            return Err(format!(
                "training.threads is {}, it must be at most {LARGEST_POOL}, or 0 for one a core",
                training.threads
            ));
        }
        self.validate_segment()?;
        for (key, value) in [
            ("training.learning_rate", training.learning_rate),
            ("training.final_learning_rate", training.final_learning_rate),
            ("model.likelihood_std", self.model.likelihood_std),
            ("filtering.rate", self.filtering.rate),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{key} is {value}, it must be a positive number"));
            }
        }
        let admit_at = self.task.admit_at;
        if !(admit_at > 0.0 && admit_at < 1.0) {
            return Err(format!(
                "task.admit_at is {admit_at}, it must be a share between 0 and 1"
            ));
        }
        if !(training.clip.is_finite() && training.clip >= 0.0) {
            return Err(format!(
                "training.clip is {}, it must be a positive number, or 0 for no clipping",
                training.clip
            ));
        }
        Ok(())
    }
}

impl Experiment {
    /// The task takes the model, and the model the task's strategy.
    fn validate_model(&self) -> Result<(), String> {
        let task = self.task.name;
        if !task.models().contains(&self.model.name) {
            return Err(format!(
                "model.name is '{}', for the task {} it must be gtmm; vrnn, srnn and svg are for recorded \
                 sequences, such as jsb-chorales",
                self.model.name.as_str(),
                task.as_str()
            ));
        }
        if self.model.name == ModelName::Gtmm && !task.memories().contains(&self.model.memory) {
            return Err(self.wrong_memory());
        }
        let input = self.model.decoder_input;
        if task != TaskName::Programs && input != DecoderInputName::Probabilities {
            return Err(format!(
                "model.decoder_input is set, but the task {} has no decoder of symbols",
                task.as_str()
            ));
        }
        let strategy = self.filtering.strategy;
        if task.kind().without_latents() && strategy != StrategyName::Direct {
            return Err(format!(
                "filtering.strategy is '{}', it must be direct for the task {}, which has no latents",
                strategy.as_str(),
                task.as_str()
            ));
        }
        if self.network.srnn.smoothing && self.model.name != ModelName::Srnn {
            return Err(format!(
                "network.srnn.smoothing is of the SRNN, but model.name is '{}'",
                self.model.name.as_str()
            ));
        }
        if self.network.srnn.smoothing && strategy != StrategyName::Direct {
            return Err(format!(
                "network.srnn.smoothing is for the model's own posterior, but filtering.strategy is '{}'",
                strategy.as_str()
            ));
        }
        if task.kind() == TaskKind::Frames && self.model.likelihood == LikelihoodName::Normal {
            return Err(format!(
                "model.likelihood is 'normal', for the task {} it must be bernoulli or gaussian",
                task.as_str()
            ));
        }
        let mut tables = Vec::new();
        let table = Table::try_from(&self.network).map_err(|error| error.to_string())?;
        flatten(&table, "network", &mut tables);
        for (key, size) in tables {
            let Some(size) = size.as_integer() else {
                continue;
            };
            if size == 0 {
                return Err(format!("{key} is 0, it must be at least 1"));
            }
            if size > largest_size(&key) as i64 {
                return Err(format!(
                    "{key} is {size}, it must be at most {}",
                    largest_size(&key)
                ));
            }
        }
        Ok(())
    }

    /// Segments are shorter than a sequence, of a task that has them.
    fn validate_segment(&self) -> Result<(), String> {
        let (segment, time) = (self.training.segment, self.time());
        match self.task.name {
            _ if segment > 0 && self.filtering.strategy != StrategyName::Direct => Err(format!(
                "training.segment is {segment}, it must be 0 unless filtering.strategy is direct"
            )),
            _ if segment > 0 && self.task.name.kind() == TaskKind::Recordings => Err(format!(
                "training.segment is {segment}, it must be 0 for recorded sequences: choose a shorter \
                 task.window"
            )),
            name if segment > 0 && name.kind().without_latents() => Err(format!(
                "training.segment is {segment}, it must be 0 for the task {}, which is trained on \
                 whole sequences",
                name.as_str()
            )),
            _ if segment >= time => Err(format!(
                "training.segment is {segment}, but a sequence has {time} steps ({}): it must be less, or \
                 0 for whole sequences",
                self.time_words()
            )),
            _ => Ok(()),
        }
    }

    /// Which keys make the length of a sequence.
    fn time_words(&self) -> String {
        match self.task.name.kind() {
            TaskKind::Recordings | TaskKind::Words => format!("task.window {}", self.task.window),
            TaskKind::Classes => format!("task.vectors {}", self.task.vectors),
            TaskKind::Copy => format!("task.longest {}", self.task.longest),
            TaskKind::Programs => self.task.programs.words(),
            TaskKind::Frames => format!(
                "task.length {} and task.recall {}",
                self.task.length, self.task.recall
            ),
        }
    }

    /// Every size of every memory is in range, and the memory that is used can hold a sequence.
    fn validate_memory(&self) -> Result<(), String> {
        let table = Table::try_from(&self.memory).map_err(|error| error.to_string())?;
        let mut sizes = Vec::new();
        flatten(&table, "memory", &mut sizes);
        for (key, size) in sizes {
            let Some(size) = size.as_integer() else {
                continue;
            };
            if size == 0 && !MAY_BE_ZERO.contains(&key.as_str()) {
                return Err(format!("{key} is 0, it must be at least 1"));
            }
            if size > largest_size(&key) as i64 {
                return Err(format!(
                    "{key} is {size}, it must be at most {}",
                    largest_size(&key)
                ));
            }
        }
        if self.memory.rmc.output_gate && self.memory.rmc.gates == GateName::None {
            return Err(MemoryError::OutputGateWithoutGates.to_string());
        }
        if self.model.name != ModelName::Gtmm {
            return Ok(());
        }
        let time = self.time();
        let (slots, reads) = match self.model.memory {
            MemoryName::Introspection => (self.memory.introspection.slots, None),
            MemoryName::Hybrid => (self.memory.hybrid.slots, None),
            MemoryName::Lru => (self.memory.lru.slots, Some(self.memory.lru.reads)),
            MemoryName::Vrnn
            | MemoryName::Ntm
            | MemoryName::Dnc
            | MemoryName::Lstm
            | MemoryName::Rmc
            | MemoryName::StackedLstm
            | MemoryName::EntNet => return Ok(()),
        };
        let memory = self.model.memory.as_str();
        match reads {
            None if slots != 0 && slots < time => Err(format!(
                "memory.{memory}.slots is {slots}, but a sequence has {time} steps ({}): it must be at \
                 least {time}, or 0 for as many as needed",
                self.time_words()
            )),
            Some(reads) if slots != 0 && slots < reads => Err(format!(
                "memory.{memory}.slots is {slots}, it must be at least memory.{memory}.reads, \
                 which is {reads}"
            )),
            _ => Ok(()),
        }
    }
}

/// Slots of an LRU memory for each step, which its many tied write heads fill (gtmm, section 4.1).
const LRU_SLOTS_PER_STEP: usize = 5;

/// Sizes for which 0 stands for something.
const MAY_BE_ZERO: [&str; 7] = [
    "memory.introspection.slots",
    "memory.ntm.slots",
    "memory.lru.slots",
    "memory.lru.nearest",
    "memory.dnc.slots",
    "memory.hybrid.slots",
    "memory.rmc.key_size",
];

/// Sizes above it are slips of the keyboard.
const LARGEST_SIZE: usize = 65_536;

/// Layers and blocks above it are slips of the keyboard.
const LARGEST_DEPTH: usize = 1_024;

/// The largest that a size may be.
fn largest_size(key: &str) -> usize {
    match key.ends_with("layers") || key.ends_with("blocks") {
        true => LARGEST_DEPTH,
        false => LARGEST_SIZE,
    }
}

/// More threads than any machine has cores for.
const LARGEST_POOL: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(overrides: &[&str]) -> String {
        let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
        Experiment::parse("", "test", &overrides)
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn overrides_reach_nested_keys_and_keep_types() {
        let overrides = [
            "training.steps=7".to_string(),
            "training.learning_rate=1".to_string(),
            "model.memory=vrnn".to_string(),
            "memory.introspection.reads = 2".to_string(),
        ];
        let experiment = Experiment::parse("seed = 3", "test", &overrides).unwrap();
        assert_eq!(experiment.seed, 3);
        assert_eq!(experiment.training.steps, 7);
        assert_eq!(experiment.training.learning_rate, 1.0);
        assert_eq!(experiment.model.memory, MemoryName::Vrnn);
        assert_eq!(experiment.memory.introspection.reads, 2);
    }

    #[test]
    fn every_task_has_its_memories() {
        for task in TaskName::ALL {
            for memory in MemoryName::ALL {
                let overrides = [
                    format!("task.name={}", task.as_str()),
                    format!("model.memory={}", memory.as_str()),
                ];
                let parsed = Experiment::parse("", "test", &overrides);
                assert_eq!(
                    parsed.is_ok(),
                    task.memories().contains(&memory),
                    "{overrides:?}"
                );
            }
        }
        let message = problem(&["task.name=copy", "model.memory=vrnn"]);
        assert!(message.starts_with("model.memory is 'vrnn'"), "{message}");
        assert!(message.contains("lstm, ntm, lru, dnc"), "{message}");
    }

    /// A task that composes images says which, and no other does.
    #[test]
    fn tasks_of_frames_name_their_images() {
        for task in TaskName::ALL {
            let frames = task.kind() == TaskKind::Frames;
            assert_eq!(task.images().is_some(), frames, "{}", task.as_str());
        }
        let of = |images| move |task: &TaskName| task.images() == Some(images);
        let characters = TaskName::ALL.into_iter().filter(of(TaskImages::Characters));
        assert!(characters.eq([TaskName::OneShotRecall]));
    }

    #[test]
    fn toml_round_trip_is_complete() {
        let experiment = Experiment::default();
        let again = Experiment::parse(&experiment.to_toml().unwrap(), "test", &[]).unwrap();
        assert_eq!(again, experiment);
    }

    #[test]
    fn misspelt_keys_name_the_nearest() {
        assert!(problem(&["training.step=3"]).contains("'training.steps'"));
        assert!(problem(&["trainig.batch=3"]).contains("'training.batch'"));
        assert!(problem(&["batch=3"]).contains("batch'"));
        assert!(
            Experiment::parse("[training]\nlearningrate = 1", "x.toml", &[])
                .unwrap_err()
                .to_string()
                .starts_with("x.toml: unknown key 'training.learningrate', did you mean 'training.learning_rate'?")
        );
    }

    #[test]
    fn settings_of_the_rmc_are_checked() {
        let zero = |field| problem(&[&format!("memory.rmc.{field}=0")]);
        for field in ["slots", "heads", "head_size", "blocks", "mlp_layers"] {
            let expected = format!("memory.rmc.{field} is 0, it must be at least 1");
            assert!(zero(field).contains(&expected), "{}", zero(field));
        }
        assert!(problem(&["memory.rmc.heads=-2"]).contains("at least 0"));
        assert!(problem(&["memory.rmc.slots=99999999"]).contains("at most"));
        let message = problem(&["memory.rmc.gates=row"]);
        assert!(message.contains("one of unit, memory, none"), "{message}");
        assert!(problem(&["memory.rmc.output_gate=1"]).contains("true or false"));
        let both = ["memory.rmc.gates=none", "memory.rmc.output_gate=true"];
        assert!(problem(&both).contains("memory.rmc.output_gate is true"));

        let overrides = [
            "model.memory=rmc",
            "memory.rmc.gates=memory",
            "memory.rmc.key_size=5",
            "memory.rmc.output_gate=true",
        ];
        let overrides = overrides.map(str::to_owned);
        let experiment = Experiment::parse("", "test", &overrides).unwrap();
        let expected = RmcConfig {
            key_size: 5,
            gates: GateStyle::Memory,
            output_gate: true,
            ..RmcConfig::new(11, 4, 4, 32)
        };
        assert_eq!(experiment.core_config(11), Some(CoreConfig::Rmc(expected)));
        let default = Experiment::parse("", "test", &overrides[..1]).unwrap();
        let expected = CoreConfig::Rmc(RmcConfig::new(11, 4, 4, 32));
        assert_eq!(default.core_config(11), Some(expected));
    }

    #[test]
    fn wrong_types_and_ranges_are_refused() {
        assert!(problem(&["training.steps=many"]).contains("whole number"));
        assert!(problem(&["training.steps=1.5"]).contains("whole number"));
        assert!(problem(&["training.batch=0"]).contains("at least 1"));
        assert!(problem(&["training.batch=-1"]).contains("at least 0"));
        assert!(problem(&["training.learning_rate=-0.1"]).contains("positive"));
        assert!(problem(&["training.segment=11"]).contains("a sequence has 11 steps"));
        let copy = ["task.name=copy", "model.memory=lstm", "training.segment=5"];
        assert!(problem(&copy).contains("must be 0 for the task copy"));
        let farthest = |setting| problem(&["task.name=nth-farthest", "model.memory=rmc", setting]);
        assert!(farthest("training.segment=5").contains("must be 0 for the task nth-farthest"));
        assert!(
            farthest("filtering.strategy=gradient").contains("direct for the task nth-farthest")
        );
        assert!(farthest("task.vectors=0").contains("task.vectors is 0"));
        assert!(farthest("task.dimensions=0").contains("task.dimensions is 0"));
        assert!(farthest("task.admit_at=1").contains("between 0 and 1"));
        assert!(farthest("task.curriculum=1").contains("true or false"));
        assert!(farthest("model.head_hidden=0").contains("model.head_hidden is 0"));
        assert!(problem(&["training.learning_rate=nan"]).contains("positive"));
        assert!(
            problem(&["model.memory=dns"])
                .contains("one of vrnn, introspection, ntm, lru, dnc, hybrid")
        );
        assert!(problem(&["training"]).contains("key=value"));
        assert!(problem(&["training=3"]).contains("is a table"));
        assert!(problem(&["training.steps.more=3"]).contains("unknown key"));
    }
}
