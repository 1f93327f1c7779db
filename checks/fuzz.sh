#!/usr/bin/env bash
# Tries every reader of foreign data on changed files, sixty seconds each, other files every time:
#
#     checks/fuzz.sh [SECONDS] [START]
#
# A line a reader says how many files were tried. A failure names the file, and the command that tries it
# alone; START repeats a whole run.
set -euo pipefail
cd "$(dirname "$0")/.."

export MNEMORA_FUZZ_SECONDS=${1:-60}
export MNEMORA_FUZZ_START=${2:-$(date +%s)}
echo "fuzz: $MNEMORA_FUZZ_SECONDS seconds a reader, start $MNEMORA_FUZZ_START"
cargo test --release --workspace --test fuzz -- --nocapture --test-threads="$(nproc)" 2>&1 |
    grep -E --line-buffered ' files, |^test result|panicked|, case |, seed '
