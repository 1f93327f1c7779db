//! The packages of `cargo package` would be complete: no crate compiles in a file from outside its folder, and
//! each crate has the metadata that a registry needs. `checks/package.sh` compiles the packed crates.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The crates of the workspace.
fn crates() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let entries = fs::read_dir(folder).expect("the folder of crates can be listed");
    let mut crates: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .map(|path| path.canonicalize().expect("the crate is there"))
        .collect();
    crates.sort();
    assert_eq!(crates.len(), 9, "{crates:?}");
    crates
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be listed") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => rust_files(&path, files),
            false if path.extension().is_some_and(|kind| kind == "rs") => files.push(path),
            false => {}
        }
    }
}

/// The first string literal after each `include!`, `include_str!` and `include_bytes!`, and whether it is relative to
/// the crate's folder instead of the file's. For a path made by `concat!` this is the folder, or the fixed part of it.
fn inclusions(text: &str) -> Vec<(&str, bool)> {
    const FROM_CRATE: &str = "concat!(env!(\"CARGO_MANIFEST_DIR\"),";
    let calls = ["include!(", "include_str!(", "include_bytes!("];
    let after = calls.iter().flat_map(|call| text.split(call).skip(1));
    let named = after.filter_map(|rest| match rest.trim_start().strip_prefix(FROM_CRATE) {
        Some(rest) => Some((rest.split('"').nth(1)?.trim_start_matches('/'), true)),
        None => Some((rest.split('"').nth(1)?, false)),
    });
    named.collect()
}

#[test]
fn nothing_is_compiled_in_from_outside_its_crate() {
    let mut seen = 0;
    for folder in crates() {
        let mut files = Vec::new();
        for part in ["src", "examples", "benches"] {
            if folder.join(part).is_dir() {
                rust_files(&folder.join(part), &mut files);
            }
        }
        for file in files {
            let text = fs::read_to_string(&file).expect("sources are text");
            for (name, from_crate) in inclusions(&text) {
                let included = match from_crate {
                    true => folder.join(name),
                    false => file.parent().expect("a file lies in a folder").join(name),
                };
                // A name that `concat!` completes ends with the slash of its folder.
                let included = included.canonicalize();
                let included = included
                    .unwrap_or_else(|error| panic!("{} includes {name}: {error}", file.display()));
                assert!(
                    included.starts_with(&folder),
                    "{} includes {name}, which is not in its crate, so a package would lack it",
                    file.display()
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} inclusions were found");
}

#[test]
fn each_crate_has_what_a_registry_asks_for() {
    for folder in crates() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        for key in [
            "description = \"",
            "license.workspace = true",
            "version.workspace = true",
        ] {
            assert!(manifest.contains(key), "{}: {key}", folder.display());
        }
        let own = folder.join("README.md").is_file();
        assert!(
            own || manifest.contains("readme = \"../../README.md\""),
            "{}",
            folder.display()
        );
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(
                folder.join(licence).is_file(),
                "{}: {licence}",
                folder.display()
            );
        }
    }
}
