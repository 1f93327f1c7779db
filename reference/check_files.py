"""Opens a finished run directory with other people's readers: TensorBoard for the event file, safetensors for the weights.

    python check_files.py RUN

Prints what it finds. Exit status 1, with one line per fault on standard error, when something is missing, unreadable, not finite, or when the
scalars of the event file and of `metrics.jsonl` disagree.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

REQUIRED_SCALARS = ("bound",)

Scalars = dict[str, dict[int, float]]  # tag -> step -> value; a step written twice counts with its last value


def read_metrics(path: Path) -> Scalars:
    metrics: Scalars = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        step = row.pop("step")
        for key, value in row.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                metrics.setdefault(key, {})[step] = float(value)
    return metrics


def read_events(run: Path) -> tuple[Scalars, list[str]]:
    """Scalars of every event file below `run`, and what is wrong with them."""
    files = sorted(run.rglob("events.out.tfevents.*"))
    if not files:
        return {}, [f"{run}: no event file (events.out.tfevents.*)"]
    scalars: Scalars = {}
    for directory in sorted({file.parent for file in files}):
        accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            events = accumulator.Scalars(tag)
            print(f"{directory}: scalar {tag}: {len(events)} events")
            scalars.setdefault(tag, {}).update({event.step: event.value for event in events})
    return scalars, [] if scalars else [f"{run}: {len(files)} event files, but no scalars in them"]


def compare_scalars(events: Scalars, metrics: Scalars) -> list[str]:
    wrong = []
    for tag in REQUIRED_SCALARS:
        wrong += [f"{source}: no scalar {tag!r}" for source, found in (("event file", events), ("metrics.jsonl", metrics)) if tag not in found]
    for tag in sorted(events.keys() & metrics.keys()):
        in_events, in_metrics = events[tag], metrics[tag]
        if lonely := sorted(in_events.keys() ^ in_metrics.keys()):
            wrong.append(f"{tag}: steps in only one of event file and metrics.jsonl: {lonely[:10]}")
        for step in sorted(in_events.keys() & in_metrics.keys()):
            if not np.isclose(in_events[step], in_metrics[step], rtol=1e-6, atol=1e-7):
                wrong.append(f"{tag} at step {step}: {in_events[step]} in the event file, {in_metrics[step]} in metrics.jsonl")
    return wrong


def check_weights(path: Path) -> list[str]:
    wrong, parameters = [], 0
    try:
        with safe_open(path, framework="numpy") as tensors:
            for name in sorted(tensors.keys()):
                values = tensors.get_tensor(name)
                parameters += values.size
                print(f"{path}: {name} {list(values.shape)} {values.dtype}")
                if not np.isfinite(values).all():
                    wrong.append(f"{path}: {name} is not finite")
    except (SafetensorError, OSError) as error:
        return [f"{path}: {error}"]
    print(f"{path}: {parameters:,} numbers in all")
    if parameters == 0:
        wrong.append(f"{path}: holds no numbers")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory, as `mnemora train` leaves it")
    run = parser.parse_args().run

    events, wrong = read_events(run)
    metrics_file = run / "metrics.jsonl"
    try:
        metrics = read_metrics(metrics_file)
    except (OSError, ValueError, KeyError) as error:
        wrong.append(f"{metrics_file}: {error!r}")
    else:
        wrong += compare_scalars(events, metrics)

    weights = sorted((run / "checkpoints").glob("*/*.safetensors"))
    if not weights:
        wrong.append(f"{run / 'checkpoints'}: no */*.safetensors")
    for path in weights:
        wrong += check_weights(path)

    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
