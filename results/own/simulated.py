"""A simulated table for each likelihood: how near a model trained with defaults comes to the log score of the true model on the test part.

    python results/own/simulated.py target/release/mnemora

Each table is one sequence of 6,000 steps whose next value depends on the last one. The score is the mean of -log p over the last 600 steps, in nats a step: of the true model by its formula, of the trained one by its free energy, which is at least that. Numbers are
densities of the table's own unit.
"""

import json
import math
import random
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

STEPS = 6000


def poisson(mean: float) -> int:
    limit, count, product = math.exp(-mean), 0, random.random()
    while product > limit:
        count += 1
        product *= random.random()
    return count


def log_poisson(n: int, mean: float) -> float:
    return n * math.log(mean) - mean - math.lgamma(n + 1)


def log_negative_binomial(n: int, mean: float, size: float) -> float:
    share = mean / (mean + size)
    return math.lgamma(n + size) - math.lgamma(size) - math.lgamma(n + 1) + size * math.log(1 - share) + n * math.log(share)


def log_student(z: float, freedom: float) -> float:
    return math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi) - (freedom + 1) / 2 * math.log1p(z * z / freedom)


CHAIN = {"dry": (0.7, 0.2, 0.1), "rain": (0.3, 0.5, 0.2), "snow": (0.2, 0.2, 0.6)}


def student(freedom: float) -> float:
    return random.gauss(0, 1) / math.sqrt(random.gammavariate(freedom / 2, 2) / freedom)


def normal_step(y: float) -> tuple[float, float]:
    e = random.gauss(0, 1)
    return 0.8 * y + e, -0.5 * e * e - 0.5 * math.log(2 * math.pi)


def student_step(y: float) -> tuple[float, float]:
    e = student(4)
    return 0.5 * y + e, log_student(e, 4)


def poisson_step(n: int) -> tuple[int, float]:
    mean = 2 + 0.6 * n
    now = poisson(mean)
    return now, log_poisson(now, mean)


def negative_binomial_step(n: int) -> tuple[int, float]:
    mean = 3 + 0.5 * n
    now = poisson(random.gammavariate(2, mean / 2))
    return now, log_negative_binomial(now, mean, 2)


def bernoulli_step(on: int) -> tuple[int, float]:
    share = 0.8 if on else 0.3
    now = int(random.random() < share)
    return now, math.log(share if now else 1 - share)


def categorical_step(name: str) -> tuple[str, float]:
    now = random.choices(list(CHAIN), CHAIN[name])[0]
    return now, math.log(CHAIN[name][list(CHAIN).index(now)])


SETS = {
    "normal": (normal_step, 0.0, ["table.number_likelihood=normal"]),
    "student-t": (student_step, 0.0, []),
    "poisson": (poisson_step, 5, ["table.count_likelihood=poisson"]),
    "negative-binomial": (negative_binomial_step, 6, []),
    "bernoulli": (bernoulli_step, 0, []),
    "categorical": (categorical_step, "dry", []),
}


def main() -> None:
    random.seed(1)
    print("| likelihood | true model | trained | worse by |\n| --- | --- | --- | --- |")
    for name, (step, value, settings) in SETS.items():
        with tempfile.TemporaryDirectory() as folder:
            table, run = Path(folder) / "x.csv", Path(folder) / "run"
            scores, rows = [], []
            for _ in range(STEPS):
                value, score = step(value)
                rows.append(str(value))
                scores.append(score)
            table.write_text("y\n" + "\n".join(rows) + "\n")
            words = [sys.argv[1], "train", str(table), "--out", str(run), "--json", "--set", "table.change=level"]
            for setting in settings:
                words += ["--set", setting]
            told = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
            column = tomllib.loads((run / "experiment.toml").read_text())["data"]["columns"][0]
            assert column["likelihood"] == name, column
            density = math.log(column["deviation"]) if name in ("normal", "student-t") else 0.0
            true = -sum(scores[-STEPS // 10 :]) / (STEPS // 10)
            trained = told["free_energy"] + density
            print(f"| {name} | {true:.4f} | {trained:.4f} | {100 * (trained - true) / true:.1f}% |", flush=True)


main()
