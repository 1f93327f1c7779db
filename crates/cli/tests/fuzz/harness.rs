//! Runs a reader on changed files in a process of its own, whose memory is bounded, and watches it.

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

/// For how long each reader is tried, in seconds.
const SECONDS: &str = "MNEMORA_FUZZ_SECONDS";
/// Which file comes first, to try others than last time.
const START: &str = "MNEMORA_FUZZ_START";
/// The number of the only file to be tried: that of a failure.
const CASE: &str = "MNEMORA_FUZZ_CASE";
/// Names the reader, in the process that tries it.
const READER: &str = "MNEMORA_FUZZ_READER";
/// The folder of that process.
const FOLDER: &str = "MNEMORA_FUZZ_FOLDER";

/// Which file is being tried, and a copy of it, in that folder.
const LABEL: &str = "label";
const INPUT: &str = "input";

/// How long a single file may take, also on a machine that is busy with other work.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file to begin with.
pub enum Seed {
    /// As it is.
    Plain(Vec<u8>),
    /// What is inside of a file that the function makes, which fits checksums and compression to it: a change
    /// of the whole file would seldom come through these.
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

/// A reader ready to be tried.
pub struct Target {
    /// Files that it accepts.
    pub seeds: Vec<Seed>,
    /// Where the file lies that it reads.
    pub file: PathBuf,
    /// Reads that file. The error is what a user would be told.
    pub read: Read,
}

/// A reader by name, what it may take in memory, and how it is made ready in an empty folder.
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

/// The file that `case` stands for.
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

/// Files that were found to fail, or to be worth a try, by the name of their reader.
fn kept(reader: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(reader);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut kept: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    kept.sort();
    kept
}

/// In the process of its own: tries one file after the other, and ends badly at the first failure.
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
            assert!(!must_be_accepted, "a sound file was refused: {problem}");
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

/// Tries a reader in a process of its own.
///
/// # Panics
/// The reader panics, aborts, takes more memory than it may, or too long; the file is kept.
pub fn fuzz(reader: &Reader) {
    if env::var_os(READER).is_some() {
        return;
    }
    // In memory where there is such a folder: a file is written for each try.
    let memory = tempfile::Builder::new().tempdir_in("/dev/shm");
    let folder = memory.or_else(|_| tempfile::tempdir());
    let folder = folder.expect("a temporary folder is made");
    fs::create_dir(folder.path().join("data")).expect("a folder is made");
    let output = |name: &str| {
        let file = fs::File::create(folder.path().join(name));
        Stdio::from(file.expect("a file is made"))
    };
    // Where the shell cannot bound the memory, the rest is tested all the same.
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
        // With what it starts itself, to be ended together.
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
