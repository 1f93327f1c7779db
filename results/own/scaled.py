"""Held-out CRPS of two real tables as they are, and with all values times 1,000 and shifted: python results/own/scaled.py PROGRAM

Trained with defaults, but by changes, `electricity` by those over a week: growth, which `auto` may choose, is another one after
a shift. The units of a CRPS are the table's own changes, so both should be the same. A minute and a half.
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

SHIFTS = {"co2": 12_345.0, "electricity": 1e7}
CHANGE = {"co2": "change", "electricity": "season-change"}


def main():
    program, here = sys.argv[1], pathlib.Path(__file__).parent
    print("| table | seed | as it is | times 1,000 and shifted |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, shift in SHIFTS.items():
            header, *rows = csv.reader((here / f"{name}.csv").open())
            scaled = folder / f"{name}.csv"
            with scaled.open("w") as file:
                writer = csv.writer(file)
                writer.writerow(header)
                writer.writerows([row[0], *(v and repr(1000 * float(v) + shift) for v in row[1:])] for row in rows)
            for seed in (1, 2, 3):
                crps = []
                for table in (here / f"{name}.csv", scaled):
                    out = folder / f"run-{name}-{seed}-{len(crps)}"
                    words = [program, "train", table, "--seed", seed, "--out", out, "--json", "--set", f"table.change={CHANGE[name]}"]
                    ended = subprocess.run([str(word) for word in words], check=True, capture_output=True)
                    crps.append(json.loads(ended.stdout)["crps"])
                print(f"| {name} | {seed} | {crps[0]:.12f} | {crps[1]:.12f} |", flush=True)


main()
