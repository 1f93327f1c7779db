#!/usr/bin/env bash
# Short trainings of each family, whose report pages are opened in a browser and checked: nothing scrolls sideways, all text is
# legible at a phone's width, light and dark, with scripts and without, and axe finds nothing serious.
#
#   checks/pages.sh [PROGRAM [SCREENSHOTS]]
#
# With a folder SCREENSHOTS it keeps a picture of each page there. Needs Chromium, Node.js and npm, which fetches two
# packages into a temporary folder; skipped where one is missing.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${1:-$root/target/release/mnemora}")
screenshots=
if [ -n "${2:-}" ]; then
    mkdir -p "$2"
    screenshots=$(realpath "$2")
fi

browser=
for name in chromium chromium-browser google-chrome; do
    if [ -z "$browser" ]; then
        browser=$(command -v "$name" || true)
    fi
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -z "$browser" ] || ! command -v node > "$folder/node" || ! command -v npm > "$folder/npm"; then
    echo "skipped: the report pages; there is no Chromium, no Node.js or no npm"
    exit 0
fi
cd "$folder"
echo '{ "private": true }' > package.json
if ! npm install --no-audit --no-fund playwright-core@1.65.1 axe-core@4.14.1 > install.log 2>&1; then
    echo "skipped: the report pages; npm could not install playwright-core and axe-core"
    exit 0
fi

# A training of four updates, and its report.
train() {
    local name=$1
    shift
    "$program" train "$@" --out "runs/$name" --set training.steps=4 --set training.checkpoint_every=1 \
        --set training.log_every=1 --set evaluation.batches=2 --set evaluation.checkpoint_batches=1 \
        > "$name.log" 2>&1 || { cat "$name.log" >&2; exit 1; }
}
train frames perfect-recall-small
train map mnist-map-small
train music jsb-chorales-small
train speech speech-small
train video video-small
train numbers "$root/checks/readme/mine.toml" --data "$root/checks/readme/mine.npz"
train copy copy
train classes nth-farthest-small
train programs memorization-small
train words books-small
train walks image-navigation-small
train scenes prism
train stories colour-reaction-small
train agents t-maze-small
train games mini-pacman-small
train table "$root/results/own/fertility.csv"
# One that was stopped on its way.
stopped=0
timeout --signal TERM 6 "$program" train t-maze-small --out runs/stopped --set training.steps=1000000 \
    --set training.checkpoint_every=5 > stopped.log 2>&1 || stopped=$?
[ "$stopped" = 124 ] || { cat stopped.log >&2; exit 1; }

cp "$root/checks/pages/look.mjs" .
node look.mjs "$browser" "$screenshots" runs/*/report.html
echo "the report pages took $SECONDS s"
