"""Which form of a column `table.change=auto` finds in simulated tables, and how well the model foresees it.

    python results/own/forms.py target/release/mnemora

Five tables of one column each, trained with defaults: a daily one with a level for each weekday (a cycle that the calendar
tells of), an hourly one with a level for each of the 168 hours of a week (sharper than the calendar's waves), a monthly one
that grows, with a season, and days of an autoregression and of a random walk. The CRPS is that of `mnemora eval`, beside the
best of the five simple forecasts. Takes three minutes.
"""

import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import numpy as np

SIMPLE = {
    "random_walk": "random walk",
    "season_before": "season before",
    "season_change": "season and change",
    "autoregression": "autoregression",
    "of_changes": "autoregression of changes",
}


def autoregression(draws, steps, weight, deviation):
    x, all_of_it = 0.0, []
    for noise in draws.normal(size=steps):
        x = weight * x + deviation * noise
        all_of_it.append(x)
    return np.array(all_of_it)


def weekdays(draws):
    level = np.array([0, 1, 2, 2, 1, -3, -4])
    return 50 + np.resize(level, 900) + autoregression(draws, 900, 0.7, 1.0)


def hours(draws):
    level, steps = draws.normal(size=168), 14 * 168
    wave = 2 * np.sin(2 * np.pi * np.arange(168) / 24)
    return 20 + np.resize(3 * (level + wave), steps) + autoregression(draws, steps, 0.95, 0.2)


def growing(draws):
    season, growth = draws.normal(size=12) * 0.12, 0.008 + 0.03 * draws.normal(size=300)
    return np.exp(4 + np.cumsum(growth) + np.resize(season, 300))


TABLES = {
    "weekdays": (weekdays, datetime.timedelta(days=1)),
    "hours": (hours, datetime.timedelta(hours=1)),
    "growing": (growing, None),
    "level": (lambda draws: 50 + autoregression(draws, 900, 0.9, 1.0), datetime.timedelta(days=1)),
    "walk": (lambda draws: 50 + np.cumsum(draws.normal(size=900)), datetime.timedelta(days=1)),
}


def time_of(step, apart):
    if apart is None:
        return f"{1990 + step // 12}-{step % 12 + 1:02}-01"
    return str(datetime.datetime(2021, 1, 4) + step * apart)


def main():
    program = sys.argv[1]
    print("| table | seed | modelled | CRPS | best of the simple forecasts | coverage |\n| --- | --- | --- | --- | --- | --- |")
    for name, (simulated, apart) in TABLES.items():
        for seed in (1, 2, 3):
            values = simulated(np.random.default_rng(seed))
            with tempfile.TemporaryDirectory() as folder:
                table, run = pathlib.Path(folder) / f"{name}.csv", pathlib.Path(folder) / "run"
                rows = (f"{time_of(step, apart)},{value:.6f}\n" for step, value in enumerate(values))
                table.write_text("time,y\n" + "".join(rows))
                words = [program, "train", table, "--seed", str(seed), "--out", run]
                subprocess.run(words, check=True, capture_output=True)
                column = tomllib.loads((run / "experiment.toml").read_text())["data"]["columns"][0]
                judged = json.loads((run / "evaluation.json").read_text())
            form = column["form"] + (f" over {column['season']}" if column["season"] else "")
            key = min((key for key in SIMPLE if key in judged), key=judged.get)
            best = f"{judged[key]:.3f}, {SIMPLE[key]}"
            print(f"| {name} | {seed} | {form} | {judged['crps']:.3f} | {best} | {judged['coverage']:.2f} |", flush=True)


main()
