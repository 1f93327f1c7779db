//! Records the commit that the program is built from.

use std::{path::Path, process::Command};

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    // Without locks: with them, `git status` may rewrite the index, and this script would run again.
    let status = ["status", "--porcelain", "--untracked-files=no"];
    let changed = git(&[&["--no-optional-locks"], &status[..]].concat())
        .is_some_and(|changes| !changes.is_empty());
    let commit = match commit {
        None => "unknown".to_owned(),
        Some(commit) if changed => format!("{commit}-changed"),
        Some(commit) => commit,
    };
    println!("cargo:rustc-env=MNEMORA_COMMIT={commit}");
    // Without these lines, a build script runs again whenever a file of its package changes.
    println!("cargo:rerun-if-changed=src");
    for file in ["HEAD", "index"] {
        let path = Path::new("../../.git").join(file);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
}
