//! Readers of foreign data on changed files: each file is read or refused with one line, in bounded time and
//! memory. Each reader runs in a process of its own.
//!
//! | variable | what it sets |
//! | --- | --- |
//! | `MNEMORA_FUZZ_SECONDS` | for how long each reader is tried; half a second without it |
//! | `MNEMORA_FUZZ_START` | a number, to try other files than last time |
//! | `MNEMORA_FUZZ_CASE` | the number of the only file to be tried, from a failure's message |
//!
//! A file that failed once belongs into `corpus/<reader>/`, from where it is tried first.

#![cfg(unix)]

mod data;
mod harness;
mod mutate;
mod runs;

use harness::Reader;

fn readers() -> Vec<Reader> {
    data::READERS.into_iter().chain(runs::READERS).collect()
}

/// What the process of a reader runs; nothing else.
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
