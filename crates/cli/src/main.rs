//! The `mnemora` command line: parses, calls the lab, prints.

mod arguments;
mod commands;
mod filter;
mod signals;

use clap::Parser;
use mnemora_lab::{CHECKS_VARIABLE, note, set_range_checks};
use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

// Training allocates and frees the same large buffers at every step; the system's allocator gives
// them back to the kernel each time and pays for the page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lets the allocator keep what was freed, too, which it otherwise gives back after some milliseconds.
#[allow(unsafe_code)]
fn keep_freed_memory() {
    /// The allocator's number for the delay in milliseconds; -1 is for ever.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: sets a number of the allocator's, which reads it when it frees memory.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
}

/// Has memories check ranges only where this is asked of the program itself: what cargo runs in the
/// repository finds `tests` in the variable.
fn check_ranges_if_asked() {
    set_range_checks(std::env::var_os(CHECKS_VARIABLE).is_some_and(|value| value == "ranges"));
}

fn main() -> ExitCode {
    keep_freed_memory();
    check_ranges_if_asked();
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

/// Prints help, the version or what is wrong with the words of a command.
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
