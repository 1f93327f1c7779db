//! What the command line says.

use clap::{Args, Parser, Subcommand};
use mnemora_lab::{DeviceName, MemoryLimit, Which};
use std::path::PathBuf;

/// Generative temporal models with memory: train, look, compare.
#[derive(Debug, Parser)]
#[command(name = "mnemora", version, about, max_term_width = 100)]
#[command(
    after_help = "Results go to standard output, messages to standard error.\n\
    Exit status: 0 done, 1 failed while running, 2 wrong use or bad input,\n\
    130 or 143 stopped by SIGINT or SIGTERM after saving.\n\n\
    First run: mnemora train perfect-recall-small"
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Memory that may be taken, such as 8GB, or none for no limit; what is estimated to take more is
    /// refused [default: what is free on the machine and left to the control group]
    #[arg(long, value_name = "SIZE", global = true)]
    pub ram: Option<MemoryLimit>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the experiments that come with mnemora
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Draw training sequences of an experiment's task
    Show {
        /// Name of an experiment (see `list`) or a TOML file
        experiment: String,
        /// PNG to write
        #[arg(long, default_value = "show.png")]
        out: PathBuf,
        #[command(flatten)]
        settings: Settings,
    },
    /// Train an experiment in a new run directory, then evaluate it and write its report
    Train(Train),
    /// Go on with a run from its newest checkpoint, bit for bit as if never stopped
    Resume {
        /// Directory of the run
        run: PathBuf,
        /// Change a key of training or evaluation: --set training.steps=20000 prolongs
        #[arg(long = "set", value_name = "KEY=VALUE")]
        overrides: Vec<String>,
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        on: On,
        /// Go on although the device, the number of threads or MNEMORA_KERNELS is another one than before, so
        /// that the run is not bit for bit one that was never stopped; origin.json records it
        #[arg(long)]
        continue_differently: bool,
        /// Print the evaluation as JSON
        #[arg(long)]
        json: bool,
    },
    /// Evaluate a run's model on held-out sequences
    Eval {
        /// Directory of the run
        run: PathBuf,
        /// Change a key of evaluation: --set evaluation.batches=100
        #[arg(long = "set", value_name = "KEY=VALUE")]
        overrides: Vec<String>,
        /// Seed of the held-out sequences and of the noise that latents are drawn with [default: the run's]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
        seed: Option<u64>,
        /// Which checkpoint: last, best (by held-out bound, or accuracy where there is one) or a number of updates
        #[arg(long, default_value = "last", value_name = "WHICH")]
        checkpoint: Which,
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        on: On,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Draw sequences generated after a prompt under the truth, or strings copied under their targets;
    /// music and sound also as files to listen to, texts as text
    Generate {
        /// Directory of the run
        run: PathBuf,
        /// PNG to write [default: RUN/samples/generated.png]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Sequences to draw
        #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=64))]
        sequences: u64,
        /// Frames, or words, to generate after the prompt [default: as many as in training]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
        steps: Option<u64>,
        /// Seed of prompts and samples
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Which checkpoint: last, best (by held-out bound, or accuracy where there is one) or a number of updates
        #[arg(long, default_value = "last", value_name = "WHICH")]
        checkpoint: Which,
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        on: On,
    },
    /// Filter observations from standard input as they come: belief, expectation of the next one,
    /// surprise
    Filter(Filter),
    /// Write a run's report again
    Report {
        /// Directory of the run
        run: PathBuf,
        /// Which checkpoint: last, best (by held-out bound, or accuracy where there is one) or a number of updates
        #[arg(long, default_value = "last", value_name = "WHICH")]
        checkpoint: Which,
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        on: On,
    },
    /// Copy a trained run without what only training needs, with a card, to give away
    Export {
        /// Directory of the run
        run: PathBuf,
        /// New directory
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Which checkpoint: last, best (by held-out bound, or accuracy where there is one) or a number of updates
        #[arg(long, default_value = "last", value_name = "WHICH")]
        checkpoint: Which,
        #[command(flatten)]
        data: Data,
    },
    /// Compare runs of one task: curves in one picture and a table, replicas averaged
    Compare {
        /// Directories of runs, or folders with runs below them; runs that differ only in their seed
        /// are replicas
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// PNG to write
        #[arg(long, default_value = "compare.png")]
        out: PathBuf,
        /// Print one JSON object a model instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Time kernels, LSTM, convolutions and paper-size training steps beside PyTorch, and the
    /// machine's limits
    Bench(Bench),
}

/// Filter observations as they come.
#[derive(Debug, Args)]
#[command(
    after_help = "In: a line {\"x\": [..]} an observation, {\"x\": [..], \"c\": [..]} for a model with\n\
    conditions; or one .npy array [steps, ..], bytes taken as intensities. Notes are 0 or 1,\n\
    pixels in [0, 1], samples of sound in [-1, 1], other numbers as in training.\n\n\
    Out: a line {\"t\", \"mean\", \"std\", \"prediction\", \"surprise\"} an observation: mean and standard\n\
    deviation of the latents, the next observation as expected, the step's free energy in nats.\n\
    An observation that is refused gets {\"t\", \"error\", \"advanced\"}: time goes on, with the model's own\n\
    prediction in its place (\"advanced\": true, with mean, std and prediction). A line that is no\n\
    observation, or one without the condition that the model needs, is no step (false).\n\n\
    Examples: mnemora filter runs/mine --state mine.state < observations.jsonl > beliefs.jsonl\n\
    mnemora filter runs/chorales --recording 1 --draw chorale.png > beliefs.jsonl"
)]
pub struct Filter {
    /// Directory of the run
    pub run: PathBuf,
    /// File of the filter's state: it goes on from there if the file exists, and writes it in the end
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Filter a held-out recording of the run's data, by its number, instead of standard input
    #[arg(long, value_name = "N")]
    pub recording: Option<usize>,
    /// PNG of what came, what was expected and how surprising it was
    #[arg(long, value_name = "PNG")]
    pub draw: Option<PathBuf>,
    /// Seed of the latents that are drawn on the way
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Which checkpoint: last, best (by held-out bound, or accuracy where there is one) or a number of updates
    #[arg(long, default_value = "last", value_name = "WHICH")]
    pub checkpoint: Which,
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub on: On,
}

/// Time works beside PyTorch.
#[derive(Debug, Args)]
pub struct Bench {
    /// A Python that has PyTorch, or none to time mnemora alone
    #[arg(long, default_value = "python3", value_name = "PYTHON")]
    pub peer: String,
    /// Alternating rounds; medians of rounds are compared
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// Repetitions a side and round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub steps: u64,
    /// Only works whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    pub only: Option<String>,
    /// Threads of both sides [default: RAYON_NUM_THREADS, else 2]
    #[arg(long, default_value_t = 2, hide_default_value = true,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: u64,
    /// Time PyTorch under torch.compile too (minutes of compiling)
    #[arg(long)]
    pub compiled: bool,
    /// Time a step of each memory alone, at 100, 1,000 and 10,000 slots, instead (needs 12 GB)
    #[arg(long, conflicts_with_all = ["peer", "rounds", "only", "compiled", "threads"])]
    pub slots: bool,
    /// Time variational filtering of sequences of 20 to 500 steps instead
    #[arg(long, conflicts_with_all = ["slots", "length", "peer", "rounds", "only", "compiled", "threads"])]
    pub inference: bool,
    /// Time the batches of a small experiment of each task, and the updates that use them up, instead
    #[arg(long, conflicts_with_all = ["inference", "slots", "length", "peer", "rounds", "only", "compiled", "threads"])]
    pub batches: bool,
    /// Time a training step of small models, and measure its memory, on sequences of 25 to 1,000
    /// steps, whole and by segments, instead
    #[arg(long, conflicts_with_all = ["slots", "peer", "rounds", "only", "compiled", "threads"])]
    pub length: bool,
    /// PNG of what --length measures
    #[arg(long, value_name = "PNG", requires = "length")]
    pub out: Option<PathBuf>,
    /// One measurement of --length, in this process
    #[arg(long, value_name = "MEMORY,TIME,SEGMENT", hide = true, conflicts_with_all = ["slots", "length"])]
    pub one_length: Option<String>,
    /// Print one JSON object a row
    #[arg(long)]
    pub json: bool,
}

/// Train an experiment.
#[derive(Debug, Args)]
pub struct Train {
    /// Name of an experiment (see `list`) or a TOML file
    pub experiment: String,
    /// New directory for the run [default: runs/EXPERIMENT-MEMORY-seedN, with what --set changes in between]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
    /// Train under so many seeds, from the experiment's on, each in a run below --out [default:
    /// runs/EXPERIMENT-MEMORY, with what --set changes]. Called again it goes on; processes that are given the same
    /// directory share the work
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub replicas: Option<u64>,
    #[command(flatten)]
    pub on: On,
    /// Say what would be trained, with parameter counts and the memory it takes, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Print the evaluation as JSON
    #[arg(long)]
    pub json: bool,
}

/// Settings of an experiment.
#[derive(Debug, Args)]
pub struct Settings {
    /// Change a key that the experiment reads: --set training.batch=32 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// The memory: short for --set model.memory=NAME
    #[arg(long, value_name = "NAME")]
    pub memory: Option<String>,
    /// The seed: short for --set seed=N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub data: Data,
}

/// What tensors are on.
#[derive(Debug, Args)]
pub struct On {
    /// Device: cpu; gpu, cuda, vulkan or wgpu if built in [default: BURN_DEVICE, else a GPU if one
    /// is built in and there, else cpu]
    #[arg(long, value_name = "NAME")]
    pub device: Option<DeviceName>,
}

/// Where the data are.
#[derive(Debug, Args)]
pub struct Data {
    /// Folder of the data; else MNEMORA_DATA, else what comes with mnemora
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

impl Settings {
    /// All overrides, the short forms last.
    pub fn all(&self) -> Vec<String> {
        let mut overrides = self.overrides.clone();
        overrides.extend(
            self.memory
                .iter()
                .map(|name| format!("model.memory={name}")),
        );
        overrides.extend(self.seed.iter().map(|seed| format!("seed={seed}")));
        overrides
    }
}
