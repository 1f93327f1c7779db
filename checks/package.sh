#!/usr/bin/env bash
# What `cargo package` would publish is complete: the packed crates, unpacked and patched to one
# another, compile without the repository around them. After clippy only these crates are left to check.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
packed=$target/package
unpacked=$packed/unpacked
most=$((10 * 1024 * 1024))
rm -rf "$packed"
mkdir -p "$unpacked"
if ! cargo package --workspace --exclude own-memory --no-verify --offline --allow-dirty --target-dir "$target" \
    > "$packed/log" 2>&1; then
    cat "$packed/log" >&2
    exit 1
fi

for crate in "$packed"/*.crate; do
    size=$(stat -c %s "$crate")
    echo "$(basename "$crate"): $size bytes"
    if [ "$size" -gt "$most" ]; then
        echo "$(basename "$crate") is larger than $most bytes" >&2
        tar -tvzf "$crate" | sort -n -k 3 | tail -n 5 >&2
        exit 1
    fi
    # With the time of now: the times in a packed crate are always the same, so cargo would take an earlier one for it.
    tar -xzmf "$crate" -C "$unpacked"
done

{
    echo '[workspace]'
    echo 'resolver = "3"'
    echo 'members = ["*-*"]'
    echo '[profile.release]'
    echo 'debug = 0'
    echo '[patch.crates-io]'
    for folder in "$unpacked"/*/; do
        name=$(basename "$folder")
        echo "${name%-*} = { path = \"$name\" }"
    done
} > "$unpacked/Cargo.toml"
cp Cargo.lock "$unpacked"
cargo check --release --workspace --all-targets --offline --locked --target-dir "$target" \
    --manifest-path "$unpacked/Cargo.toml"
