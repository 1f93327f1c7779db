#!/usr/bin/env bash
# Runs every command of README.md and of the guides in docs/, in their order, each page in an empty folder: checks/readme.sh [PROGRAM]
#
# How this differs from the text:
# - A training makes two updates, and scores two batches; `resume` with more steps makes four.
# - `bench` measures one kernel once.
# - What a reader brings along is small: mine.toml, mine.npz and observations.jsonl are those of
#   checks/readme, PHOTOS holds the bundled views, DIR and FOLDER hold chapters of a bundled book, runs/a and
#   runs/folder two trainings.
# - `--device gpu` must be refused by name where the program has no such device; then `cpu` takes its place.
# - A command that builds or tests is not run, but .ci/run must run it: with its options, though the profile
#   may be another.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${1:-$root/target/release/mnemora}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# As it is for a reader who has set nothing.
unset MNEMORA_DATA MNEMORA_KERNELS MNEMORA_CHECKS BURN_DEVICE RAYON_NUM_THREADS

short=(--set training.steps=2 --set training.checkpoint_every=2)
few=(--set evaluation.batches=2 --set evaluation.checkpoint_batches=2)

# The program, in a short form.
mnemora() {
    local words=("$@")
    case " $* " in
        *' --dry-run '*) ;;
        ' train '*) words+=("${short[@]}" "${few[@]}") ;;
        ' resume '*' training.steps='*) words+=(--set training.steps=4) ;;
        ' bench '*) words+=(--rounds 1 --steps 1 --only lstm-step/128) ;;
    esac
    case " $* " in
        *' --device gpu '*)
            if timeout 300 "$program" "${words[@]}" 2> refusal; then
                return 0
            fi
            grep -q gpu refusal || { cat refusal >&2; return 1; }
            words=("${words[@]/#gpu/cpu}")
            ;;
    esac
    timeout 300 "$program" "${words[@]}"
}

# `run` is the program; of what is built and tested, .ci/run must do the same.
cargo() {
    if [ "${*:1:3}" = 'run --release --' ]; then
        mnemora "${@:4}"
        return
    fi
    local word line
    while read -r line; do
        case $line in *cargo\ "$1"\ * | *cargo\ test\ *) ;; *) continue ;; esac
        for word in "${@:2}"; do
            [[ $word = --release || " $line " = *" $word "* ]] || continue 2
        done
        return 0
    done < "$root/.ci/run"
    echo ".ci/run does not do: cargo $*" >&2
    return 1
}

# What a reader brings along.
prepare() {
    cp "$root"/checks/readme/* .
    cp -r "$root/pretrained" .
    cp -r "$root/crates/worlds/data/views" PHOTOS
    mkdir DIR FOLDER runs
    gunzip -c "$root/crates/worlds/data/text/pg11.txt.gz" > FOLDER/alice.txt
    for part in train valid test; do
        cp FOLDER/alice.txt "DIR/wiki.$part.tokens"
    done
    for run in a folder/b; do
        mnemora train perfect-recall-small --out "runs/$run" > said 2>&1 || { cat said >&2; exit 1; }
    done
}

count=0
failed=0
while IFS=$'\t' read -r page line <&3; do
    count=$((count + 1))
    status=0
    # Each page begins in a folder of its own.
    if [ ! -d "$folder/${page//\//-}" ]; then
        mkdir "$folder/${page//\//-}"
        cd "$folder/${page//\//-}"
        prepare
    fi
    # With a shell's own reading of quotes, comments and redirections.
    (eval "${line//target\/release\/mnemora/mnemora}") > out 2> err < /dev/null || status=$?
    if [ "$status" != 0 ]; then
        failed=$((failed + 1))
        echo "$page: this command ends with status $status: $line" >&2
        tail -n 3 err >&2
    fi
done 3< <(cd "$root" && awk '/^```/ { inside = !inside && $0 == "```sh"; next } inside && NF { print FILENAME "\t" $0 }' README.md docs/*.md)

[ "$count" -ge 60 ] || { echo "README.md and docs/ have only $count commands?" >&2; exit 1; }
echo "README.md and docs/: $((count - failed)) of $count commands do what they should, in $SECONDS s"
[ "$failed" = 0 ]
