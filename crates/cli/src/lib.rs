//! The `mnemora` command line: parses arguments, calls the lab and prints results.
//!
//! A program with its own families gets the same commands: its `main` passes them to [`run`].

mod arguments;
mod bench;
mod commands;
mod course;
mod error;
mod filter;
mod forecast;
mod keys;
mod list;
mod output;
mod play;
mod query;
mod rows;
mod screen;
mod signals;
mod standard_input;
mod walk;

use clap::Parser;
use mnemora_lab::{CHECKS_VARIABLE, Family, add_families, note, set_range_checks};
use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

// Training allocates and frees the same large buffers at every step. The system's allocator returns
// them to the kernel each time and pays for the page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes the allocator keep freed memory, which it would otherwise return to the system after some milliseconds.
#[allow(unsafe_code)]
fn keep_freed_memory() {
    /// The allocator's option for the delay in milliseconds; -1 means never.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: sets an option, which the allocator reads when it frees memory.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
}

/// Switches range checks of memories on if the variable asks for them. Programs that cargo runs in the
/// repository find `tests` there, which does not.
fn check_ranges_if_asked() {
    set_range_checks(std::env::var_os(CHECKS_VARIABLE).is_some_and(|value| value == "ranges"));
}

/// The whole program: parses its command line, runs the command and returns the exit code. `families` are
/// the program's own, in addition to the built-in ones.
///
/// # Panics
/// If a name in one of these families is already taken: see [`add_families`].
pub fn run(families: &[&'static dyn Family]) -> ExitCode {
    keep_freed_memory();
    check_ranges_if_asked();
    add_families(families);
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(message) => return usage(&message),
    };
    if let Some(limit) = arguments.ram {
        mnemora_lab::limit_memory(limit);
    }
    match commands::run(arguments.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            note(format_args!("mnemora: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Prints help, the version, or the problem with the arguments.
fn usage(message: &clap::Error) -> ExitCode {
    let printed = message.print().and_then(|()| std::io::stdout().flush());
    match printed {
        Err(problem) if !message.use_stderr() && problem.kind() != ErrorKind::BrokenPipe => {
            note(format_args!(
                "mnemora: cannot write standard output: {problem}"
            ));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2)),
    }
}
