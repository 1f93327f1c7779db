//! The `mnemora` command line: parses, calls the lab, prints.

mod arguments;
mod commands;
mod signals;

use clap::Parser;
use std::process::ExitCode;

// Training allocates and frees the same large buffers at every step; the system's allocator gives
// them back to the kernel each time and pays for the page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    match commands::run(arguments.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("mnemora: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
