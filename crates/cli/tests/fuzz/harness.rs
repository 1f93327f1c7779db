//! Runs a reader on mutated files in a separate process with limited memory, and watches it.

use crate::mutate::{Draws, mutated};
use std::{
    env, fs,
    os::unix::process::CommandExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    str::FromStr,
    time::{Duration, Instant},
};

/// How long each reader is tested, in seconds.
const SECONDS: &str = "MNEMORA_FUZZ_SECONDS";
/// The number of the first file, to try other files than last time.
const START: &str = "MNEMORA_FUZZ_START";
/// The number of a single file to try, from a failure.
const CASE: &str = "MNEMORA_FUZZ_CASE";
/// Names the reader, in the process that tests it.
const READER: &str = "MNEMORA_FUZZ_READER";
/// The folder of that process.
const FOLDER: &str = "MNEMORA_FUZZ_FOLDER";

/// The name of the file being tried, and a copy of it, in that folder.
const LABEL: &str = "label";
const INPUT: &str = "input";

/// How long a single file may take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file to mutate.
pub enum Seed {
    /// The whole file is mutated.
    Plain(Vec<u8>),
    /// The content of a file is mutated; the function adds matching checksums and compression, which a mutation of
    /// the whole file would seldom get through.
    Within(Vec<u8>, fn(&[u8]) -> Vec<u8>),
}

impl Seed {
    fn inside(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) | Self::Within(bytes, _) => bytes,
        }
    }

    fn whole(&self, inside: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain(_) => inside.to_vec(),
            Self::Within(_, wrap) => wrap(inside),
        }
    }
}

type Read = Box<dyn FnMut(&Path) -> Result<(), String>>;

/// A reader that is ready to be tested.
pub struct Target {
    /// Files that it accepts.
    pub seeds: Vec<Seed>,
    /// The path of the file that it reads.
    pub file: PathBuf,
    /// Reads that file. The error is the message for the user.
    pub read: Read,
}

/// The name of a reader, its memory limit, and how to set it up in an empty folder.
pub struct Reader {
    pub name: &'static str,
    pub megabytes: usize,
    pub prepare: fn(&Path) -> Target,
}

fn number<N: FromStr>(variable: &str) -> Option<N> {
    let text = env::var(variable).ok()?;
    let number = text.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{variable} = {text:?} is not such a number")))
}

/// The file with number `case`.
fn case_bytes(seeds: &[Seed], case: u64) -> Vec<u8> {
    let mut draws = Draws::new(case);
    let [seed, other] = [(); 2].map(|()| &seeds[draws.below(seeds.len())]);
    let inside = mutated(seed.inside().to_vec(), other.inside(), &mut draws);
    let whole = seed.whole(&inside);
    match (seed, draws.below(4)) {
        (Seed::Within(..), 0) => mutated(whole, other.inside(), &mut draws),
        _ => whole,
    }
}

/// Files that once failed, or are worth a try, for a reader.
fn kept(reader: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(reader);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut kept: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    kept.sort();
    kept
}

/// Runs in the separate process: tries one file after the other, and fails at the first failure.
pub fn child(readers: &[Reader]) {
    let Ok(name) = env::var(READER) else {
        return;
    };
    let reader = readers.iter().find(|reader| reader.name == name);
    let reader = reader.expect("the reader is one of the list");
    let folder = PathBuf::from(env::var_os(FOLDER).expect("the folder is named"));
    let data = folder.join("data");
    let Target {
        seeds,
        file,
        mut read,
    } = (reader.prepare)(&data);
    let mut attempt = |label: &str, bytes: &[u8], must_be_accepted: bool| {
        fs::write(folder.join(LABEL), label).expect("a file is written");
        fs::write(folder.join(INPUT), bytes).expect("a file is written");
        fs::write(&file, bytes).expect("a file is written");
        let result = catch_unwind(AssertUnwindSafe(|| read(&file)));
        let result = result.unwrap_or_else(|_| panic!("the reader panicked"));
        if let Err(problem) = &result {
            assert!(
                !problem.contains('\n'),
                "an error of several lines: {problem:?}"
            );
            assert!(!problem.is_empty(), "an empty error");
            assert!(!must_be_accepted, "a valid file was refused: {problem}");
        }
        result.is_ok()
    };
    for (place, seed) in seeds.iter().enumerate() {
        attempt(&format!("seed {place}"), &seed.whole(seed.inside()), true);
    }
    for path in kept(reader.name) {
        let bytes = fs::read(&path).expect("the corpus can be read");
        attempt(&path.display().to_string(), &bytes, false);
    }
    let only: Option<u64> = number(CASE);
    let first = only.unwrap_or_else(|| number::<u64>(START).unwrap_or(0) << 32);
    let seconds = Duration::from_secs_f64(number(SECONDS).unwrap_or(0.5));
    let begun = Instant::now();
    let (mut cases, mut accepted) = (0u64, 0u64);
    while cases == 0 || only.is_none() && begun.elapsed() < seconds {
        let case = first + cases;
        let bytes = case_bytes(&seeds, case);
        accepted += u64::from(attempt(&format!("case {case}"), &bytes, false));
        cases += 1;
    }
    println!("MNEMORA_FUZZ {cases} files, {accepted} of them accepted");
}

/// Tests a reader in a separate process.
///
/// # Panics
/// The reader panics, aborts, or takes too much memory or time; the file is kept.
pub fn fuzz(reader: &Reader) {
    if env::var_os(READER).is_some() {
        return;
    }
    // In memory if there is such a folder, since a file is written for each try.
    let memory = tempfile::Builder::new().tempdir_in("/dev/shm");
    let folder = memory.or_else(|_| tempfile::tempdir());
    let folder = folder.expect("a temporary folder is made");
    fs::create_dir(folder.path().join("data")).expect("a folder is made");
    let output = |name: &str| {
        let file = fs::File::create(folder.path().join(name));
        Stdio::from(file.expect("a file is made"))
    };
    // If the shell cannot limit the memory, everything else is still tested.
    let bound = format!(
        "ulimit -v {} 2>/dev/null; exec \"$0\" \"$@\"",
        reader.megabytes << 10
    );
    let mut process = Command::new("sh")
        .args(["-c", &bound])
        .arg(env::current_exe().expect("the test knows its program"))
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(READER, reader.name)
        .env(FOLDER, folder.path())
        .env_remove("MNEMORA_DATA")
        .env("RAYON_NUM_THREADS", "1")
        .env("RUST_BACKTRACE", "0")
        .stdout(output("stdout"))
        .stderr(output("stderr"))
        // In a process group with its children, to end them together.
        .process_group(0)
        .spawn()
        .expect("a process is started");
    let text = |name: &str| {
        let bytes = fs::read(folder.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (mut last, mut since) = (String::new(), Instant::now());
    let ended = loop {
        if let Some(status) = process.try_wait().expect("it can be waited for") {
            break Some(status);
        }
        let now = text(LABEL);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > PATIENCE {
            let group = format!("-{}", process.id());
            let ended = Command::new("kill").args(["-KILL", "--", &group]).status();
            ended.expect("it can be ended");
            process.wait().expect("it can be waited for");
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let stdout = text("stdout");
    let said = stdout
        .lines()
        .find_map(|line| line.split_once("MNEMORA_FUZZ "));
    if let (Some(status), Some((_, said))) = (ended, said)
        && status.success()
    {
        println!("{}: {said}", reader.name);
        return;
    }
    let case = text(LABEL);
    let name = case.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}-{name}", reader.name));
    let copied = fs::copy(folder.path().join(INPUT), &kept);
    panic!(
        "{}, {case}: {}; the file is {}; `{CASE}={} cargo test --release --workspace --test fuzz {}` tries it \
         alone; it said: {}",
        reader.name,
        match ended {
            None => format!("no end after {PATIENCE:?}"),
            Some(status) => status.to_string(),
        },
        match copied {
            Ok(_) => kept.display().to_string(),
            _ => "lost".to_owned(),
        },
        case.trim_start_matches("case "),
        reader.name,
        text("stderr")
            .lines()
            .chain(stdout.lines())
            .collect::<Vec<_>>()
            .join(" | "),
    );
}
