#!/usr/bin/env bash
# Kills trainings at random moments and resumes them: each must end bit for bit as one that was never touched.
#
# Seven experiments in short forms, KILLS SIGKILLs over all of them (30). After the last kill of each the
# run is resumed to its end; metrics.jsonl, evaluation.json, weights and moments of the last checkpoint are then
# compared with those of an unkilled run, byte by byte. Prints a line a kill, a line a run and a summary; ends with
# status 1 if anything differs.
#
#   cargo build --release --workspace && checks/kill.sh [SEED]
#
# SEED makes the moments the same again, as far as the machine does. MNEMORA is another program to check.
set -euo pipefail
cd "$(dirname "$0")/.."

RANDOM=${1:-$$}
program=${MNEMORA:-target/release/mnemora}
kills=${KILLS:-30}
folder=$(mktemp -d)
living=0
trap '[ "$living" = 0 ] || kill -KILL "$living" 2>> "$folder/log"; rm -rf "$folder"' EXIT
unset MNEMORA_DATA MNEMORA_KERNELS BURN_DEVICE RAYON_NUM_THREADS

all="--set training.log_every=1 --set training.checkpoint_every=5 --set training.threads=1 --set training.keep=2
    --set evaluation.batches=1 --set evaluation.checkpoint_batches=1 --set evaluation.batch=2
    --set evaluation.pictures=1 --set training.batch=2 --set training.steps=150"
# Each a way of its own to draw batches, to keep state and to save it.
experiments=(
    "perfect-recall-small --memory introspection --set task.length=3 --set task.recall=2"
    "mnist-map-small --memory dnc --set memory.dnc.hidden=16"
    "copy --memory ntm --set task.longest=6 --set memory.ntm.hidden=16"
    "learning-to-execute-small --memory lstm --set memory.lstm.hidden=16"
    "jsb-chorales-small --set model.name=srnn --set filtering.strategy=iterative --set task.window=6"
    "books-small --memory rmc --set memory.rmc.head_size=8"
    "mini-pacman-small --memory rmc --set memory.rmc.head_size=8 --set agents.unroll=7"
)

# The time in milliseconds.
now() { echo "$(($(date +%s%N) / 1000000))"; }

# What a run has logged: its rows.
rows() { if [ -f "$1/metrics.jsonl" ]; then wc -l < "$1/metrics.jsonl"; else echo 0; fi; }

# The newest checkpoint of a run.
newest() { find "$1/checkpoints" -maxdepth 1 -name 'step-*' | sort -V | tail -n 1; }

# Starts or resumes the training of $words in $1.
begin() {
    if [ -d "$1" ]; then
        "$program" resume "$1" >> "$folder/log" 2>&1 &
    else
        # shellcheck disable=SC2086
        "$program" train $words $all --out "$1" >> "$folder/log" 2>&1 &
    fi
    living=$!
}

# Waits for it; its status.
wait_for() {
    local status=0
    wait "$living" 2>> "$folder/log" || status=$?
    living=0
    return "$status"
}

failed() {
    echo "FAILED: $1"
    failures=$((failures + 1))
}

failures=0 done_kills=0 alike=0
for index in "${!experiments[@]}"; do
    words=${experiments[$index]}
    name=${words%% *}
    whole=$folder/$index-whole killed=$folder/$index-killed
    start=$(now)
    begin "$whole"
    wait_for || { failed "$name does not train: $(tail -n 1 "$folder/log")"; continue; }
    # A kill falls anywhere in a share of the time that the whole training took, so that the last one too
    # meets a training: all kills of an experiment together wait no longer than it lives.
    share=$((kills / ${#experiments[@]} + (index < kills % ${#experiments[@]})))
    time=$((($(now) - start) / (share + 1)))
    for ((kill = 0; kill < share; kill++)); do
        begin "$killed"
        # Every other one at once or soon, where a run begins and a checkpoint is read.
        moment=$(((RANDOM * 32768 + RANDOM) % time + (kill % 2) * time / 2))
        sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
        if kill -KILL "$living" 2>> "$folder/log"; then met="in training"; else met="after its end"; fi
        wait_for || true
        done_kills=$((done_kills + 1))
        checkpoint=$(newest "$killed" 2>> "$folder/log" || true)
        printf 'kill %2d  %-26s %6d ms  %-13s row %3d  %s\n' "$done_kills" "$name" "$moment" "$met" \
            "$(rows "$killed")" "${checkpoint##*/}"
    done
    begin "$killed"
    wait_for || { failed "$name cannot be resumed: $(tail -n 1 "$folder/log")"; continue; }
    same=yes
    for file in metrics.jsonl evaluation.json "$(newest "$whole" | sed 's|.*/checkpoints|checkpoints|')"/{weights,optimizer}.safetensors; do
        cmp -s "$whole/$file" "$killed/$file" || { same=no; failed "$name: $file differs"; }
    done
    [ "$same" = no ] || alike=$((alike + 1))
    echo "run      $name: $(rows "$killed") rows, bit for bit as never killed: $same"
done
echo "$done_kills kills over ${#experiments[@]} experiments, $alike of ${#experiments[@]} runs bit for bit as never" \
    "killed, $failures failures"
[ "$failures" = 0 ]
