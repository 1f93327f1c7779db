//! Fuzzing of readers with mutated files: each file is read or refused with one line, in bounded time and
//! memory. Each reader runs in its own process.
//!
//! | variable | what it sets |
//! | --- | --- |
//! | `MNEMORA_FUZZ_SECONDS` | how long each reader is tested; half a second by default |
//! | `MNEMORA_FUZZ_START` | a number, to try other files than last time |
//! | `MNEMORA_FUZZ_CASE` | the number of a single file to try, from the message of a failure |
//!
//! Put a file that failed once into `corpus/<reader>/`; the files there are tried first.

#![cfg(unix)]

mod data;
mod harness;
mod mutate;
mod runs;

use harness::Reader;

fn readers() -> Vec<Reader> {
    data::READERS.into_iter().chain(runs::READERS).collect()
}

/// The only test that runs in the process of a reader.
#[test]
fn child() {
    harness::child(&readers());
}

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                let readers = readers();
                let reader = readers.iter().find(|reader| reader.name == stringify!($name));
                harness::fuzz(reader.expect("the reader is listed"));
            }
        )*
    };
}

tests![
    idx_images,
    idx_labels,
    npy,
    npz,
    npz_clips,
    csv,
    index_csv,
    wav,
    sphere,
    timit,
    midi,
    mat,
    music_json,
    music_json_gz,
    gif,
    png_frames,
    jpeg_frames,
    kth_list,
    running_text,
    tokens_gz,
    vocabulary,
    omniglot_zip,
    omniglot_png,
    transforms,
    poses_csv,
    gqn_records,
    experiment_toml,
    overrides,
    weights,
    checkpoint_state,
    checkpoint_sums,
    metrics,
    evaluation,
    origin,
    filter_lines,
    filter_array,
    filter_state,
];

#[test]
fn every_reader_is_tested() {
    let readers = readers();
    let names: Vec<&str> = readers.iter().map(|reader| reader.name).collect();
    assert_eq!(names, TESTED);
}
