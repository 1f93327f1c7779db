"""Alarms of `mnemora filter --anomalies=0.01` on new rows: clean ones, planted spikes, a change of variance.

    python results/own/alarms.py target/release/mnemora

An autoregression of 0.8 with a weekly wave, 20,000 days to train on with defaults, and 10,000 that follow. The same 10,000 with
20 spikes of five deviations of the noise, and with noise three times as large from row 5,000. One minute.
"""

import datetime
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

TRAINED, NEW, SPIKES = 20_000, 10_000, 20


def simulated(seed, louder_from=None):
    draws = np.random.default_rng(seed)
    x, y = 0.0, []
    for t in range(TRAINED + NEW):
        loud = louder_from is not None and t >= TRAINED + louder_from
        x = 0.8 * x + (3 if loud else 1) * draws.normal()
        y.append(3 * math.sin(2 * math.pi * t / 7) + x)
    return y


def write(path, y, begin, end):
    first = datetime.date(1900, 1, 1)
    days = (f"{first + datetime.timedelta(days=t)},{y[t]:.6f}\n" for t in range(begin, end))
    path.write_text("date,y\n" + "".join(days))


def main():
    program = sys.argv[1]
    print(
        "| seed | alarms in 10,000 clean rows | spikes found of 20 | rows with an alarm in 500 before and after the change "
        "| microseconds a row |\n| --- | --- | --- | --- | --- |"
    )
    for seed in (1, 2, 3):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            clean = simulated(seed)
            write(folder / "past.csv", clean, 0, TRAINED)
            words = [program, "train", str(folder / "past.csv"), "--seed", str(seed), "--out", str(folder / "run")]
            subprocess.run(words, check=True, capture_output=True)

            def alarms(y):
                write(folder / "new.csv", y, TRAINED, TRAINED + NEW)
                words = [program, "filter", str(folder / "run"), "--samples", "0", "--anomalies=0.01"]
                ended = subprocess.run(words, check=True, capture_output=True, text=True, stdin=open(folder / "new.csv"))
                raised = [json.loads(line)["alarm"] for line in ended.stdout.splitlines()]
                return raised, int(re.search(r"median (\d+) micro", ended.stderr).group(1))

            raised, latency = alarms(clean)
            places = [250 + 500 * k for k in range(SPIKES)]
            spiked = list(clean)
            for place in places:
                spiked[TRAINED + place] += 5
            found = alarms(spiked)[0]
            louder = alarms(simulated(seed, louder_from=NEW // 2))[0]
            half = NEW // 2
            print(
                f"| {seed} | {sum(raised)} | {sum(found[place] for place in places)} "
                f"| {sum(louder[half - 500 : half])}, {sum(louder[half : half + 500])} | {latency} |",
                flush=True,
            )


main()
