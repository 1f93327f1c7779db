//! Observations from standard input as they arrive, and how long each of them took.

use mnemora_lab::{LabError, note};
use std::{
    io::{BufRead, Read},
    sync::mpsc::{Receiver, sync_channel},
    time::{Duration, Instant},
};

/// Time between two checks for a signal while no input arrives.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// Lines read ahead.
const AHEAD: usize = 64;
/// The first bytes of a `.npy` file.
pub const NPY: &[u8] = b"\x93NUMPY";
/// Most bytes of a line. A line of two hundred thousand numbers has about two million.
const LONGEST_LINE: u64 = 1 << 28;
/// Most bytes of an array.
const LARGEST_ARRAY: u64 = 1 << 33;
/// The mark that may precede a text in UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines as they arrive, or the whole input at once if it is an array.
pub fn lines_of_standard_input() -> Receiver<Result<Vec<u8>, LabError>> {
    let (sender, receiver) = sync_channel(AHEAD);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let failed = |source| LabError::read("standard input", source);
        loop {
            let mut line = Vec::new();
            let array = input.fill_buf().is_ok_and(|bytes| bytes.starts_with(NPY));
            // One byte beyond the limit shows that the input is too long.
            let most = if array { LARGEST_ARRAY } else { LONGEST_LINE };
            let mut bounded = input.by_ref().take(most + 1);
            let read = match array {
                true => bounded.read_to_end(&mut line),
                false => bounded.read_until(b'\n', &mut line),
            };
            let message = match read {
                Ok(0) => break,
                Ok(length) if length as u64 > most => Err(LabError::Configuration(format!(
                    "standard input: {} of more than {most} bytes",
                    if array { "an array" } else { "a line" }
                ))),
                Ok(_) => Ok(line),
                Err(error) => Err(failed(error)),
            };
            // The receiver is gone: the process is ending.
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The numbers of the closing message.
#[derive(Default)]
pub struct Tally {
    microseconds: Vec<f64>,
    /// Observations that could not be used.
    pub refused: usize,
}

impl Tally {
    /// Does the work of an observation, and notes its time if it succeeds.
    pub fn timed<T, E>(&mut self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let begun = Instant::now();
        let done = work();
        if done.is_ok() {
            self.microseconds.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        done
    }

    /// Says how long observations took.
    pub fn report(mut self) {
        self.microseconds.sort_by(f64::total_cmp);
        let count = self.microseconds.len();
        let refused = match self.refused {
            0 => String::new(),
            refused => format!(", {refused} refused"),
        };
        match self.microseconds.get(count / 2) {
            None => note(format_args!("mnemora: no observation{refused}")),
            Some(median) => note(format_args!(
                "mnemora: {count} observations{refused}; median {median:.0} microseconds each"
            )),
        }
    }
}
