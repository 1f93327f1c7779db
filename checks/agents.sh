#!/usr/bin/env bash
# Agents whose actors act on threads, starved: eight actors, a learner and two busy loops share one core. The training
# must go on all the time, and at the end every unroll that was made must have been learned from or left.
#
#   checks/agents.sh [SECONDS] [PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
program=$(realpath "${2:-target/release/mnemora}")
# Longest time without an update, in seconds.
patience=30

run=$(mktemp -d)
others=()
cleanup() {
    # The training may have ended.
    kill "${others[@]}" 2> "$run/kill" || true
    rm -rf "$run"
}
trap cleanup EXIT

one_core=()
if command -v taskset > "$run/taskset"; then
    one_core=(taskset -c 0)
else
    echo "skipped: the limit to one core; there is no taskset"
fi
for _ in 1 2; do
    "${one_core[@]}" bash -c 'while :; do :; done' &
    others+=($!)
done
"${one_core[@]}" "$program" train t-maze-small --out "$run/run" \
    --set agents.mode=asynchronous --set agents.actors=8 \
    --set training.steps=1000000000 --set training.log_every=1 --set training.checkpoint_every=1000 \
    2> "$run/said" > "$run/printed" &
training=$!
others+=($training)

updates() { wc -l < "$run/run/metrics.jsonl" 2> "$run/missing" || echo 0; }
fail() {
    echo "$1" >&2
    tail -n 5 "$run/said" >&2
    exit 1
}

start=$SECONDS last=0 since=$SECONDS longest=0
while ((SECONDS - start < seconds)); do
    sleep 1
    kill -0 "$training" 2> "$run/kill" || fail "the training ended by itself"
    now=$(updates)
    if ((now > last)); then
        last=$now since=$SECONDS
    fi
    waited=$((SECONDS - since))
    ((waited <= longest)) || longest=$waited
    ((waited <= patience)) || fail "no update for $patience seconds after $last updates"
done
kill -INT "$training"
wait "$training" || (($? == 130)) || fail "it did not end as an interrupted training does"

line=$(grep '^unrolls: ' "$run/said") || fail "it does not say what became of the unrolls"
read -r made learned left < <(sed -E 's/[^0-9]+/ /g' <<< "$line")
((made == learned + left)) || fail "unrolls are missing: $line"
((learned > 0)) || fail "nothing was learned: $line"
lag=$(sed -E 's/.*"lag":([0-9]+).*/\1/' "$run/run/metrics.jsonl" | sort -n | tail -n 1)
echo "$seconds seconds, $line; largest lag $lag updates, longest wait for an update $longest s"
