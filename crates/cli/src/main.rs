//! The `mnemora` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    mnemora_cli::run(&[])
}
