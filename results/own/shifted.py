"""A table whose level, scale and pace have changed: going on from a run, beside the run as it is and training anew.

    python results/own/shifted.py target/release/mnemora

A weekly wave with an autoregression of 0.8 for 3,000 days. Then the level rises by 4, all is half as large again, and the
autoregression is 0.7: 120 days to train on, and 400 days that follow them to judge, by `mnemora eval --data`. Going on
(`train --from`) and training anew make 150 updates each, at their default rates. Takes half a minute.
"""

import datetime
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

OLD, NEW, LATER = 3_000, 120, 400


def simulated(seed):
    draws = np.random.default_rng(seed)
    x, y = 0.0, []
    for t in range(OLD + NEW + LATER):
        pace, level, scale = (0.8, 10, 1.0) if t < OLD else (0.7, 14, 1.5)
        x = pace * x + draws.normal()
        y.append(level + scale * (2 * math.sin(2 * math.pi * t / 7) + x))
    return y


def main():
    program = sys.argv[1]

    def run(*words):
        ended = subprocess.run([program, *map(str, words)], check=True, capture_output=True)
        return ended.stdout

    print("| seed | run | CRPS, in mean errors of the last value | coverage |\n| --- | --- | --- | --- |")
    for seed in (1, 2, 3):
        y = simulated(seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            first = datetime.date(2000, 1, 1)
            for name, begin, end in [("old", 0, OLD), ("new", OLD, OLD + NEW), ("later", OLD + NEW, OLD + NEW + LATER)]:
                days = (f"{first + datetime.timedelta(days=t)},{y[t]:.6f}\n" for t in range(begin, end))
                (folder / f"{name}.csv").write_text("date,y\n" + "".join(days))
            old, new, later = (folder / f"{name}.csv" for name in ("old", "new", "later"))
            steps = ["--seed", seed, "--set", "training.steps=150"]
            run("train", old, "--seed", seed, "--out", folder / "as-it-is")
            run("train", new, *steps, "--from", folder / "as-it-is", "--out", folder / "going-on")
            run("train", new, *steps, "--out", folder / "anew")
            for name in ("as-it-is", "going-on", "anew"):
                judged = json.loads(run("eval", folder / name, "--data", later, "--json"))
                # The units of a run are the changes in its own training part; the error of the last value is that of all.
                crps = judged["crps"] / judged["random_walk_mase"]
                print(f"| {seed} | {name} | {crps:.3f} | {judged['coverage']:.2f} |", flush=True)


main()
