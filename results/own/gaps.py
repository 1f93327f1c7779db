"""A linear-Gaussian state with a fifth of its rows missing: the filter's surprise beside the exact Kalman filter's.

    python results/own/gaps.py target/release/mnemora [STEPS]

x_t = 0.9 x_{t-1} + N(0, 1), y_t = 10 + x_t + N(0, 0.25). STEPS (100,000) are trained on, the 4,000 that
follow are filtered. Takes three minutes for each of three seeds.
"""

import datetime
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

TRAINED = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
NEW, MISSING = 4_000, 0.2
SETTINGS = [
    "training.batch=64",
    "training.patience=60",
    "table.window=128",
    "table.dropped=0",
    "table.number_likelihood=normal",
]


def simulated(seed):
    draws = np.random.default_rng(seed)
    x, y = 0.0, []
    for _ in range(TRAINED + NEW):
        x = 0.9 * x + draws.normal()
        y.append(10 + x + 0.5 * draws.normal())
    return y, draws.random(TRAINED + NEW) >= MISSING


def kalman(y, observed):
    """Mean of -log p over the observed new steps."""
    mean, variance, scores = 0.0, 1 / (1 - 0.81), []
    for t, value in enumerate(y):
        if t > 0:
            mean, variance = 0.9 * mean, 0.81 * variance + 1
        if observed[t]:
            total, error = variance + 0.25, value - 10 - mean
            if t >= TRAINED:
                scores.append(0.5 * (math.log(2 * math.pi * total) + error**2 / total))
            gain = variance / total
            mean, variance = mean + gain * error, variance * (1 - gain)
    return float(np.mean(scores))


def write(path, y, observed, steps):
    first = datetime.date(1800, 1, 1)
    days = (f"{first + datetime.timedelta(days=t)},{y[t]:.6f}\n" for t in steps if observed[t])
    path.write_text("date,y\n" + "".join(days))


def main():
    program = sys.argv[1]
    print("| seed | rows filtered | Kalman filter | trained | worse by |\n| --- | --- | --- | --- | --- |")
    for seed in (1, 2, 3):
        y, observed = simulated(seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write(folder / "past.csv", y, observed, range(TRAINED))
            write(folder / "new.csv", y, observed, range(TRAINED, TRAINED + NEW))
            words = [program, "train", str(folder / "past.csv"), "--seed", str(seed), "--out", str(folder / "run")]
            for setting in SETTINGS:
                words += ["--set", setting]
            subprocess.run(words, check=True, capture_output=True)
            words = [program, "filter", str(folder / "run"), "--samples", "0"]
            ended = subprocess.run(words, check=True, capture_output=True, stdin=open(folder / "new.csv"))
        surprise = [json.loads(line)["surprise"] for line in ended.stdout.splitlines()]
        exact, found = kalman(y, observed), float(np.mean(surprise))
        print(f"| {seed} | {len(surprise)} | {exact:.4f} | {found:.4f} | {100 * (found / exact - 1):.2f}% |", flush=True)


main()
