"""mnemora's training step beside PyTorch's, in alternating rounds on the same machine.

    python compare.py target/release/mnemora [--rounds 5] [--steps 10] [--json]
    python compare.py --peer-only

Each round runs `mnemora bench --json --steps K` as a process of its own and then K training steps of `pytorch_gtmm` in this one, so that a
change in the machine's load meets both. A round gives one median per side; the result is the median over rounds. Both sides get the same
number of threads.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

import torch

from pytorch_gtmm import Trainer, perfect_recall, time_steps

WORK = "train-step/introspection-paper"
BATCH = 10
WARM_UP_STEPS = 3
BUSY_LOAD = 0.5


class BenchError(Exception):
    """The mnemora side gave no usable measurement; the message is one line for the user."""


def our_round(binary: Path, steps: int, threads: int) -> float:
    """Median milliseconds per training step as `mnemora bench` reports it."""
    environment = os.environ | {"RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    command = [str(binary), "bench", "--json", "--steps", str(steps)]
    try:
        output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        rows = [json.loads(line) for line in output.splitlines() if line.strip()]
        measured = [float(row["ours_ms"]) for row in rows if row["work"] == WORK]
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{' '.join(command)}: not the expected JSON lines with `work` and `ours_ms` ({error!r})") from error
    if not measured:
        raise BenchError(f"{' '.join(command)}: no row for {WORK}")
    return statistics.median(measured)


def our_version(binary: Path) -> str:
    try:
        return subprocess.run([str(binary), "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(str(error)) from error


def median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def compare(binary: Path | None, rounds: int, steps: int, threads: int) -> dict[str, object]:
    """One row of the result; the mnemora side is null without a `binary`."""
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(f"the machine is busy (load {load:.1f}): these timings will mean little", file=sys.stderr)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    observations = perfect_recall(BATCH)
    trainer = Trainer(slots=observations.shape[0])
    time_steps(trainer, observations, WARM_UP_STEPS)

    ours, peer = [], []
    for index in range(rounds):
        if binary is not None:
            ours.append(our_round(binary, steps, threads))
            print(f"round {index + 1} of {rounds}: mnemora {ours[-1]:.1f} ms", file=sys.stderr)
        peer.append(statistics.median(time_steps(trainer, observations, steps)))
        print(f"round {index + 1} of {rounds}: PyTorch {peer[-1]:.1f} ms", file=sys.stderr)

    ours_ms, peer_ms = median(ours), median(peer)
    return {
        "work": WORK,
        "ours_ms": ours_ms,
        "peer_ms": peer_ms,
        "ratio": ours_ms / peer_ms if ours_ms else None,
        "ours_rounds_ms": ours,
        "peer_rounds_ms": peer,
        "rounds": rounds,
        "steps": steps,
        "threads": threads,
        "load_before": load,
        "mnemora": our_version(binary) if binary is not None else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def print_table(row: dict[str, object]) -> None:
    ours = f"{row['ours_ms']:.1f}" if row["ours_ms"] is not None else "-"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] is not None else "-"
    print("| work | mnemora ms | PyTorch ms | ratio |")
    print("| --- | --- | --- | --- |")
    print(f"| {row['work']} | {ours} | {row['peer_ms']:.1f} | {ratio} |")
    print(f"\nratio: mnemora / PyTorch, below 1 mnemora is faster; {row['threads']} threads; {row['mnemora'] or 'mnemora not run'}, PyTorch {row['torch']}")


def positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path, nargs="?", help="the mnemora binary")
    parser.add_argument("--peer-only", action="store_true", help="time PyTorch alone")
    parser.add_argument("--rounds", type=positive, default=5, help="alternating rounds (default 5)")
    parser.add_argument("--steps", type=positive, default=10, help="training steps per side and round (default 10)")
    parser.add_argument("--threads", type=positive, default=2, help="threads for each side (default 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per row instead of a table")
    arguments = parser.parse_args()
    if (arguments.binary is None) != arguments.peer_only:
        parser.error("give either the mnemora binary or --peer-only")

    try:
        row = compare(arguments.binary, arguments.rounds, arguments.steps, arguments.threads)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(row))
    else:
        print_table(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
