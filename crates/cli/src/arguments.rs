//! The command-line arguments.

use clap::{Args, Parser, Subcommand};
use mnemora_lab::{DeviceName, MemoryLimit, Which};
use std::path::PathBuf;

/// Generative temporal models with memory: train, inspect, compare.
#[derive(Debug, Parser)]
#[command(name = "mnemora", version, about, max_term_width = 100)]
#[command(
    after_help = "Results go to standard output, messages to standard error.\n\
    Exit status: 0 success, 1 failure while running, 2 wrong usage or bad input,\n\
    130 or 143 stopped by SIGINT or SIGTERM after saving.\n\n\
    First run: mnemora train perfect-recall-small"
)]
pub struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Memory limit, such as 8GB, or none for no limit; work that is estimated to need more is
    /// refused [default: the memory that is free on the machine and within the control group's limit]
    #[arg(long, value_name = "SIZE", global = true)]
    pub ram: Option<MemoryLimit>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the experiments that come with mnemora
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Explain the keys of an experiment, with their values
    Keys {
        /// A key or a table of keys, such as training or training.batch [default: all]
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
        /// Only keys that this experiment reads, with its values: a name (see `list`) or a TOML file
        #[arg(long, value_name = "EXPERIMENT")]
        of: Option<String>,
        /// Print one JSON object per key
        #[arg(long)]
        json: bool,
    },
    /// Draw sequences of an experiment's task as a picture: what a model is trained on, or episodes of random actions
    Show {
        /// Name of an experiment (see `list`), a TOML file, or a table of your own (.csv, .parquet)
        experiment: String,
        /// PNG to write
        #[arg(long, default_value = "show.png")]
        out: PathBuf,
        #[command(flatten)]
        settings: Settings,
    },
    /// Train an experiment in a new run directory, then evaluate it and write its report
    Train(Train),
    /// Continue a run from its newest checkpoint, bit for bit as if it had never stopped
    Resume {
        /// Directory of the run
        run: PathBuf,
        /// Change a key of training or evaluation: --set training.steps=20000 trains for longer
        #[arg(long = "set", value_name = "KEY=VALUE")]
        overrides: Vec<String>,
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        on: On,
        /// Continue even if the device, the number of threads or MNEMORA_KERNELS has changed. The run is then not
        /// bit for bit the same as one that never stopped; origin.json records the change
        #[arg(long)]
        continue_differently: bool,
        /// Print the evaluation as JSON
        #[arg(long)]
        json: bool,
        /// Open the report in a browser afterwards
        #[arg(long)]
        open: bool,
    },
    /// Evaluate a run's model on held-out sequences; a model of a table also on new rows (--data FILE.csv)
    Eval {
        /// Directory of the run
        run: PathBuf,
        /// Change a key of evaluation, or another that only decides what is measured: --set evaluation.batches=100, --set
        /// scenes.test_variance=[0.1]
        #[arg(long = "set", value_name = "KEY=VALUE")]
        overrides: Vec<String>,
        /// Seed of the held-out sequences and of the noise in the latents [default: the run's seed]
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
        seed: Option<u64>,
        #[command(flatten)]
        checkpoint: Checkpoint,
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        on: On,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Generate sequences after a prompt and draw them below the true ones (or copied strings below their
    /// targets); music and sound are also written as audio files, and texts as text
    Generate {
        /// Directory of the run
        run: PathBuf,
        /// PNG to write [default: RUN/samples/generated.png]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Number of sequences
        #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=64))]
        sequences: u64,
        /// Number of frames or words to generate after the prompt, or of views of a scene to ask for [default: as many as in training]
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        steps: Option<u64>,
        /// Seed of the prompts and samples
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[command(flatten)]
        checkpoint: Checkpoint,
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        on: On,
    },
    /// Filter observations from standard input as they arrive: print the belief, a prediction of the next
    /// observation, and the surprise
    Filter(Filter),
    /// Walk on in the world that a model remembers, from the keyboard or by a script: what it imagines beside
    /// what is there
    Walk(Walk),
    /// Play an environment, or watch the agent of a run play
    Play(Play),
    /// Ask a model of scenes what a held-out scene looks like at other times or from other views: context, truth and
    /// samples as a picture
    Query(Query),
    /// Forecast the steps after a run's table, with bands (--data FILE.csv: after another table; --data -: after CSV from
    /// standard input)
    Forecast(Forecast),
    /// Rewrite a run's report
    Report {
        /// Directory of the run
        run: PathBuf,
        #[command(flatten)]
        checkpoint: Checkpoint,
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        on: On,
        /// Open the report in a browser
        #[arg(long)]
        open: bool,
    },
    /// Copy a trained run for sharing: adds a model card and leaves out what only training needs
    Export {
        /// Directory of the run
        run: PathBuf,
        /// New directory
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Take the copy of the table along that the run keeps; forecasts and filters need it
        #[arg(long)]
        with_data: bool,
        #[command(flatten)]
        checkpoint: Checkpoint,
        #[command(flatten)]
        data: Data,
    },
    /// Compare runs of the same task: curves in one picture and a table, averaged over replicas
    Compare {
        /// Directories of runs, or folders that contain runs; runs that differ only in their seed are
        /// replicas
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// File to write, by its ending: .png or .svg (curves), .csv (all numbers), .tex (the table); can be given
        /// several times
        #[arg(long, value_name = "FILE", default_value = "compare.png")]
        out: Vec<PathBuf>,
        /// Print one JSON object per model instead of a table
        #[arg(long)]
        json: bool,
        /// Instead of comparing, add the numbers of the runs (of any tasks) to an evidence file such as
        /// results/gtmm.jsonl and print its tables. Each number is one JSON object with its command, commit,
        /// machine, data and budget
        #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "json"])]
        claims: Option<PathBuf>,
        /// Join the runs with the rows that the evidence file has of other seeds. Without it the runs take the place
        /// of rows that measure the same
        #[arg(long, requires = "claims")]
        join: bool,
        /// Let the runs take the place of rows of the same task and model even if their settings differ
        #[arg(long, requires = "claims", conflicts_with = "join")]
        replace: bool,
    },
    /// Time kernels, LSTM, convolutions and paper-size training steps against PyTorch, and measure the
    /// machine's limits
    Bench(Bench),
    /// Print a script that completes commands and options in a shell:
    /// mnemora completions bash > ~/.local/share/bash-completion/completions/mnemora
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command
    Man {
        /// Folder to write them to
        #[arg(long, value_name = "DIR", default_value = "man1")]
        out: PathBuf,
    },
}

/// Filter observations as they arrive.
#[derive(Debug, Args)]
#[command(
    after_help = "Input: one line {\"x\": [..]} per observation, or {\"x\": [..], \"c\": [..]} for a model with\n\
    conditions; or a single .npy array [steps, ..], whose bytes count as intensities. Notes are 0 or 1,\n\
    pixels lie in [0, 1], sound samples in [-1, 1], and other numbers have the units of the training data.\n\n\
    Output: one line {\"t\", \"mean\", \"std\", \"prediction\", \"surprise\"} per observation: mean and standard\n\
    deviation of the latents, the predicted next observation, and the free energy of the step in nats.\n\
    For an invalid observation the line is {\"t\", \"error\", \"advanced\"}. The filter still takes a step, with\n\
    the model's own prediction in place of the observation (\"advanced\": true, with mean, std and\n\
    prediction). A line that is not an observation, or that lacks the condition that the model needs,\n\
    is not a step (\"advanced\": false).\n\n\
    A model of a table takes rows with named columns: CSV with a header, or one line {\"column\": value} each.\n\
    Empty fields and null are values that were not observed, and rows that are missing at the table's pace are\n\
    steps of which nothing was. It goes on after the end of the run's table. Output: {\"t\", \"time\", \"surprise\",\n\
    \"columns\", \"next\"}: the free energy of the row and its part by column, in nats and the columns' units; mean,\n\
    standard deviation and quantiles of the row that follows. A column known in advance is given for the row that\n\
    follows: \"next.holiday\". With --anomalies also \"p\", the share of held-out and recent rows that are at least\n\
    as surprising, and \"alarm\". With --adapt the model goes on learning; --state keeps what it learned.\n\n\
    Examples: mnemora filter runs/mine --state mine.state < observations.jsonl > beliefs.jsonl\n\
    mnemora filter runs/chorales --recording 1 --draw chorale.png > beliefs.jsonl\n\
    mnemora filter runs/sensors --anomalies=0.01 --draw alarms.png < new.csv > rows.jsonl"
)]
pub struct Filter {
    /// Directory of the run
    pub run: PathBuf,
    /// File with the filter's state: the filter continues from it if it exists, and writes it at the end
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Number of a held-out recording of the run's data to filter instead of standard input
    #[arg(long, value_name = "N")]
    pub recording: Option<usize>,
    /// Table: the sequence that goes on, if there are several
    #[arg(long, value_name = "NAME")]
    pub sequence: Option<String>,
    /// Table: begin a new sequence instead of going on after the end of the run's table
    #[arg(long)]
    pub fresh: bool,
    /// Table: samples of the row that follows; 0 to leave it out
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub samples: u64,
    /// Table: quantiles of the row that follows, each between 0 and 1
    #[arg(long, value_name = "SHARES", default_value = "0.1,0.5,0.9")]
    pub quantiles: String,
    /// Table: say which rows are too surprising, with this rate of false alarms [default: 0.01]
    #[arg(long, value_name = "RATE", num_args = 0..=1, require_equals = true, default_missing_value = "0.01")]
    pub anomalies: Option<f64>,
    /// Table: go on learning while filtering, with an update of the model every N rows, on windows of the last ones
    /// [default: 16]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub adapt: Option<u64>,
    /// Table: learning rate of those updates
    #[arg(long, value_name = "RATE", default_value_t = 1e-3, requires = "adapt")]
    pub adapt_rate: f64,
    /// Table: milliseconds of those updates for each row, on average; an update that would take more is left out
    #[arg(long, value_name = "MS", default_value_t = 5.0, requires = "adapt")]
    pub adapt_budget: f64,
    /// PNG with the observations, the one-step-ahead predictions and the surprise
    #[arg(long, value_name = "PNG")]
    pub draw: Option<PathBuf>,
    /// Seed of the sampled latents
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten)]
    pub checkpoint: Checkpoint,
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub on: On,
}

/// Walk on in a remembered world.
#[derive(Debug, Args)]
#[command(
    after_help = "The model first memorises a walk of its own; from then on it sees nothing, and your actions decide.\n\
    In a terminal: keys. Otherwise standard input: lines of letters, one step each, one line of output a step.\n\n\
    Examples: mnemora walk pretrained/image-navigation\n\
    mnemora walk runs/mine --image photo.jpg --script steps.txt --out walk.gif"
)]
pub struct Walk {
    /// Directory of the run
    pub run: PathBuf,
    /// File with a letter for each step, instead of the keyboard
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// PNG or JPEG to walk in, instead of a held-out picture
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// GIF of the walk to write
    #[arg(long, value_name = "GIF")]
    pub out: Option<PathBuf>,
    /// Seed of the picture, of the walk that is memorised, and of the samples
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten)]
    pub checkpoint: Checkpoint,
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub on: On,
}

/// Play an environment, or watch an agent.
#[derive(Debug, Args)]
#[command(
    after_help = "In a terminal: keys; an agent goes on by itself, and q leaves. Otherwise an agent plays one episode, and a person's\n\
    actions come from standard input: lines of letters, one line of output a step. `mnemora list` names the\n\
    environments.\n\n\
    Examples: mnemora play mini-pacman\n\
    mnemora play box-world --set viewport=0 --seed 3\n\
    mnemora play runs/maze --out episode.gif"
)]
pub struct Play {
    /// Name of an environment, or directory of an agent's run
    #[arg(value_name = "ENVIRONMENT|RUN")]
    pub what: String,
    /// Change a setting of the environment: --set viewport=0 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// File with a letter for each step, instead of the keyboard; after the end of an episode any letter begins the next
    /// one
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// GIF of the episode to write
    #[arg(long, value_name = "GIF")]
    pub out: Option<PathBuf>,
    /// Seed of the episodes, and of an agent's actions
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Checkpoint to use: last, best (by return) or a number of updates; usual is the best of a training with
    /// training.patience, otherwise the last
    #[arg(long, default_value = "usual", value_name = "WHICH")]
    pub checkpoint: Which,
    #[command(flatten)]
    pub on: On,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Layout {
    /// A header, and a line for each value
    Csv,
    /// An object for each value, one a line
    Json,
}

/// Forecast what follows.
#[derive(Debug, Args)]
#[command(
    after_help = "The forecast follows the end of the run's table, or of another one with the same columns (--data). Samples of the\n\
    model give the mean and the quantiles of each value; for a category its probability.\n\n\
    Examples: mnemora forecast runs/my --steps 24 --draw forecast.png\n\
    mnemora forecast runs/my --data now.csv --quantiles 0.05,0.5,0.95 --format json"
)]
pub struct Forecast {
    /// Directory of the run
    pub run: PathBuf,
    /// Steps to forecast
    #[arg(long, value_name = "H", default_value_t = 24, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub steps: u64,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 1000, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub samples: u64,
    /// Quantiles to print, each between 0 and 1
    #[arg(long, value_name = "SHARES", default_value = "0.1,0.5,0.9")]
    pub quantiles: String,
    /// CSV file of the steps ahead, for columns that are known in advance (table.known)
    #[arg(long, value_name = "FILE")]
    pub future: Option<PathBuf>,
    /// State that `mnemora filter --state` wrote, to forecast from instead of the end of the table
    #[arg(long, value_name = "FILE", conflicts_with_all = ["future", "data"])]
    pub state: Option<PathBuf>,
    /// The sequence that the state belongs to, if there are several
    #[arg(long, value_name = "NAME", requires = "state")]
    pub sequence: Option<String>,
    /// How to print
    #[arg(long, default_value = "csv")]
    pub format: Layout,
    /// File to write the numbers to, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// PNG to draw: the past, and the forecast with its bands
    #[arg(long, value_name = "PNG")]
    pub draw: Option<PathBuf>,
    /// Seed of the samples
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Checkpoint to use: best (on the validation part), last or a number of updates; usual is the best of a training with
    /// training.patience, otherwise the last
    #[arg(long, default_value = "usual", value_name = "WHICH")]
    pub checkpoint: Which,
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub on: On,
}

/// Ask what a scene looks like.
#[derive(Debug, Args)]
#[command(
    after_help = "Frames of stories and views are counted from 1. A list has numbers and ranges: 1,2,12 or 1-6,12.\n\
    Stories can be asked for moments between their frames: --at 5.5. Scenes that a camera circles can be\n\
    asked for a walk: --at around, or around:8 for 8 of its views.\n\n\
    The latents of a sample depend on --seed and its number alone. So each sample of a consistent model is\n\
    one scene, however often and from wherever it is asked for.\n\n\
    Examples: mnemora query runs/reaction --context 1-6 --at all --samples 5\n\
    mnemora query runs/reaction --context 1,12 --at 2-11\n\
    mnemora query runs/prism --context 1,5,9,13 --at around --out prism.gif\n\
    mnemora query runs/prism --beside runs/prism-gqn --context 1,5,9,13 --at around"
)]
pub struct Query {
    /// Directory of the run
    pub run: PathBuf,
    /// Another run of the same task that answers, too, in the same pictures (repeatable)
    #[arg(long, value_name = "RUN")]
    pub beside: Vec<PathBuf>,
    /// Frames or views that the model sees: a list, or none
    #[arg(long, value_name = "FRAMES", allow_hyphen_values = true)]
    pub context: String,
    /// Times or views to ask for: a list, all, or around
    #[arg(long, value_name = "TIMES|VIEWS", allow_hyphen_values = true)]
    pub at: String,
    /// Number of the held-out scene
    #[arg(long, value_name = "K", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub scene: u64,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub samples: u64,
    /// Seed of the held-out scenes and of the samples
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// PNG to write; or GIF that goes through what is asked for, with the PNG next to it [default:
    /// RUN/samples/query.png]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub checkpoint: Checkpoint,
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub on: On,
}

/// Time kernels and training steps against PyTorch.
#[derive(Debug, Args)]
pub struct Bench {
    /// A Python interpreter with PyTorch, or none to time mnemora alone
    #[arg(long, default_value = "python3", value_name = "PYTHON")]
    pub peer: String,
    /// Alternating rounds; the medians over rounds are compared
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// Repetitions per round, for mnemora and for PyTorch
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub steps: u64,
    /// Only benchmarks whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    pub only: Option<String>,
    /// Threads, for mnemora and for PyTorch [default: RAYON_NUM_THREADS, else 2]
    #[arg(long, default_value_t = 2, hide_default_value = true,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: u64,
    /// Also time PyTorch with torch.compile (compiling takes minutes)
    #[arg(long)]
    pub compiled: bool,
    /// Instead, time one step of each memory alone, at 100, 1,000 and 10,000 slots (needs 12 GB)
    #[arg(long, conflicts_with_all = ["peer", "rounds", "only", "compiled", "threads"])]
    pub slots: bool,
    /// Instead, time variational filtering of sequences of 20 to 500 steps
    #[arg(long, conflicts_with_all = ["slots", "length", "peer", "rounds", "only", "compiled", "threads"])]
    pub inference: bool,
    /// Instead, time making the batches of a small experiment of each task, and the updates that use them
    #[arg(long, conflicts_with_all = ["inference", "slots", "length", "peer", "rounds", "only", "compiled", "threads"])]
    pub batches: bool,
    /// Instead, time a training step of small models and measure its memory, on sequences of 25 to 1,000
    /// steps, whole and in segments
    #[arg(long, conflicts_with_all = ["slots", "peer", "rounds", "only", "compiled", "threads"])]
    pub length: bool,
    /// PNG of the measurements of --length
    #[arg(long, value_name = "PNG", requires = "length")]
    pub out: Option<PathBuf>,
    /// One measurement of --length, in this process
    #[arg(long, value_name = "MEMORY,TIME,SEGMENT", hide = true, conflicts_with_all = ["slots", "length"])]
    pub one_length: Option<String>,
    /// Print one JSON object per row
    #[arg(long)]
    pub json: bool,
}

/// Train an experiment.
#[derive(Debug, Args)]
pub struct Train {
    /// Name of an experiment (see `list`), a TOML file, or a table of your own (.csv, .parquet)
    pub experiment: String,
    /// New directory for the run [default: runs/EXPERIMENT-MEMORY-seedN, with the --set changes before -seedN]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
    /// Train N seeds, starting at the experiment's seed, each as a run in --out [default: runs/EXPERIMENT-MEMORY,
    /// with the --set changes]. The same command continues a stopped training; processes with the same
    /// directory share the work
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub replicas: Option<u64>,
    /// Start with the newest weights of this run instead of random ones. Its model must have the same arrays; a memory may have
    /// another number of slots. With --set training.steps=0 they are evaluated as they are: train rooms --weights runs/walking
    #[arg(long, value_name = "RUN", conflicts_with = "replicas")]
    pub weights: Option<PathBuf>,
    /// Go on with a table: EXPERIMENT is a CSV or Parquet file with the columns of this run's, whose model and best weights it starts
    /// with, at a tenth of its learning rate
    #[arg(long, value_name = "RUN", conflicts_with_all = ["weights", "replicas", "data"])]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub on: On,
    /// Print what would be trained, with parameter counts and the memory needed, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Print the evaluation as JSON
    #[arg(long)]
    pub json: bool,
    /// Open the report in a browser afterwards
    #[arg(long, conflicts_with_all = ["dry_run", "replicas"])]
    pub open: bool,
}

/// Settings of an experiment.
#[derive(Debug, Args)]
pub struct Settings {
    /// Change a setting that the experiment reads: --set training.batch=32 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// The memory: short for --set model.memory=NAME
    #[arg(long, value_name = "NAME")]
    pub memory: Option<String>,
    /// The seed: short for --set seed=N
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub data: Data,
}

/// The checkpoint.
#[derive(Debug, Args)]
pub struct Checkpoint {
    /// Checkpoint to use: last, best (by held-out bound, or by accuracy if the task has one) or a number of updates; usual
    /// is the best of a training with training.patience, otherwise the last
    #[arg(long = "checkpoint", default_value = "usual", value_name = "WHICH")]
    pub which: Which,
}

/// The device.
#[derive(Debug, Args)]
pub struct On {
    /// Device: cpu, or gpu, cuda, vulkan or wgpu if built in [default: BURN_DEVICE, otherwise a GPU if
    /// support is built in and one is present, otherwise cpu]
    #[arg(long, value_name = "NAME")]
    pub device: Option<DeviceName>,
}

/// Location of the data.
#[derive(Debug, Args)]
pub struct Data {
    /// Folder or file of the data [default: MNEMORA_DATA, otherwise the data that comes with mnemora]
    #[arg(long, value_name = "PATH")]
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
