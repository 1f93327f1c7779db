//! The `mnemora` command line: parses, calls the lab, prints.

mod arguments;
mod commands;
mod signals;

use clap::Parser;
use std::process::ExitCode;

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
