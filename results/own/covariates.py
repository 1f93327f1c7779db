"""Tables whose values cannot be predicted without a covariate or a static feature: the log score of a model trained with it and of one without, beside the true model's.

    python results/own/covariates.py target/release/mnemora

- `known`: y = 2 c + e, with a coin c in {-1, 1} that is known in advance.
- `past`: y = 2 p + e, with the coin p of the step before, which is a column of its own.
- `static`: sequences of 6 steps; at one of them, which is known in advance, y = s + e with the number s of its sequence, uniform in [-10, 10]; at the others y = e.

e is standard normal. The score is the mean of -log p of y over the test part, in nats a step: of the true model by its formula, of the trained one by its free energy, which is at least that. The coin p is modelled, too; its log 2 nats are taken off. "Without" is the best
score without the column, by its formula, and what a model reaches that is trained with `table.leave_out`. Defaults, but for the likelihood (normal) and levels.
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
SEQUENCES, LENGTH = 2000, 6
SETTINGS = ["table.number_likelihood=normal", "table.change=level"]
SEEDS = (1, 2, 3)


def log_normal(x: float) -> float:
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi)


def log_coin(y: float) -> float:
    """Of N(2, 1) and N(-2, 1), half each."""
    return math.log(0.5 * (math.exp(log_normal(y - 2)) + math.exp(log_normal(y + 2))))


def log_range(y: float) -> float:
    """Of a uniform number in [-10, 10] plus a standard normal one."""
    below = [0.5 * math.erfc((side - y) / math.sqrt(2)) for side in (-10, 10)]
    return math.log((below[0] - below[1]) / 20)


def known() -> tuple[str, list]:
    rows, scores = ["c,y"], []
    for _ in range(STEPS):
        c, e = random.choice((-1, 1)), random.gauss(0, 1)
        rows.append(f"{c},{2 * c + e}")
        scores.append((log_normal(e), log_coin(2 * c + e)))
    return "\n".join(rows), scores[-STEPS // 10 :]


def past() -> tuple[str, list]:
    rows, scores, before = ["p,y"], [], 1
    for _ in range(STEPS):
        p, e = random.choice((-1, 1)), random.gauss(0, 1)
        rows.append(f"{(p + 1) // 2},{2 * before + e}")
        scores.append((log_normal(e), log_coin(2 * before + e)))
        before = p
    return "\n".join(rows), scores[-STEPS // 10 :]


def static() -> tuple[str, list]:
    rows, scores = ["sequence,s,now,y"], []
    for sequence in range(SEQUENCES):
        s, when = random.uniform(-10, 10), random.randrange(LENGTH)
        for t in range(LENGTH):
            now, e = int(t == when), random.gauss(0, 1)
            y = s * now + e
            rows.append(f"{sequence},{s},{now},{y}")
            scores.append((log_normal(e), log_range(y) if now else log_normal(y)))
    return "\n".join(rows), scores


SETS = {
    "known": (known, "c", ['table.known=["c"]'], 0.0),
    "past": (past, "p", ['table.binary=["p"]'], math.log(2)),
    "static": (static, "s", ['table.known=["now"]', "table.division=sequence"], 0.0),
}


def trained(table: Path, run: Path, seed: int, settings: list[str]) -> float:
    words = [sys.argv[1], "train", str(table), "--seed", str(seed), "--out", str(run), "--json"]
    for setting in SETTINGS + settings:
        words += ["--set", setting]
    told = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    columns = tomllib.loads((run / "experiment.toml").read_text())["data"]["columns"]
    (deviation,) = [column["deviation"] for column in columns if column["name"] == "y"]
    return told["free_energy"] + math.log(deviation)


def main() -> None:
    random.seed(1)
    print("| table | true model | trained, seeds 1, 2, 3 | without the column, at best | trained without it |\n| --- | --- | --- | --- | --- |")
    for name, (make, column, settings, off) in SETS.items():
        rows, scores = make()
        best, without = [-sum(score[i] for score in scores) / len(scores) for i in (0, 1)]
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "x.csv"
            table.write_text(rows + "\n")
            found = [trained(table, Path(folder) / f"run-{seed}", seed, settings) - off for seed in SEEDS]
            settings = [setting for setting in settings if f'"{column}"' not in setting]
            blind = trained(table, Path(folder) / "blind", 1, settings + [f'table.leave_out=["{column}"]'])
        print(f"| {name} | {best:.3f} | {', '.join(f'{score:.3f}' for score in found)} | {without:.3f} | {blind:.3f} |", flush=True)


main()
