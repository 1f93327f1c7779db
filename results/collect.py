"""Collects finished runs into results/<paper>.jsonl and prints the table made from it.

    python3 results/collect.py results/gtmm.jsonl runs/small/*

Runs that differ only in their seed are replicas: one object a measured value, the mean over
replicas with its standard error. Objects of the same setting and model are replaced, others stay.
Numbers of different data are never set side by side: where the fingerprints of one setting differ,
here or in another file of the folder, nothing is written. Standard library only.
"""

import json
import re
import shlex
import statistics
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

CLAIMS = [
    # claim, unit, where it is in evaluation.json, decimals in the table
    ("free energy", "nats per step", ("recordings", "free_energy"), 3),
    ("free energy of recordings", "nats per step, mean over recordings", ("recordings", "free_energy_of_recordings"), 3),
    ("KL a step", "nats per step", ("recordings", "kl"), 3),
    ("at the prior", "nats per step", ("energy_by_round", 0), 3),
    ("after the last round", "nats per step", ("energy_by_round", -1), 3),
    ("importance-weighted", "nats per step", ("recordings", "importance_weighted"), 3),
    ("particle filter", "nats per step", ("recordings", "particle_filter"), 3),
    ("bound", "nats per sequence", ("bound",), 1),
    ("bit error", "share of answered bits", ("bit_error",), 4),
    ("accuracy", "share of right answers", ("accuracy",), 3),
    ("whole answers", "share of answers without an error", ("answer_accuracy",), 3),
    ("perplexity", "exp of nats per word", ("perplexity",), 2),
    ("KL unpredictable", "nats per frame", ("kl_unpredictable",), 2),
    ("KL predictable", "nats per frame", ("kl_predictable",), 2),
    ("KL ratio", "", ("kl_ratio",), 3),
    ("KL of the last frame", "nats", ("kl_last",), 2),
    ("generated nearest", "share of frames", ("generated_recall", "nearest"), 3),
    ("error to the remembered", "mean square", ("generated_recall", "error_remembered"), 4),
    ("right digit", "share of frames", ("generated_digits", "accuracy"), 3),
    ("map coherence", "share of returns", ("map_coherence",), 3),
]


MODELS = ["rmc", "lstm", "stacked-lstm", "ent-net", "vrnn", "srnn", "svg", "introspection", "ntm", "lru", "dnc", "hybrid"]
# Keys that came after the first runs; absent, they meant this.
LATER = {
    "training": {"segment": 0},
    "task": {"window": 25, "side": 64, "colour": False, "digits": 2},
    "model": {"name": "gtmm"},
    "evaluation": {"particles": 0},
}


def label(experiment: dict, command: str) -> str:
    """The memory or the model, how beliefs are found (`Experiment::label`, and what the inference network sees and does to means), which slots are read, and what the command sets of a rate, the inference network's
    size or that of the RMC's heads."""
    label = model_label(experiment)
    for key, name in (("training.learning_rate", "rate"), ("filtering.hidden", "units"), ("memory.rmc.head_size", "head")):
        if found := re.search(rf"{re.escape(key)}=(\S+)", command):
            label += f"-{name}-{found[1]}"
    return label


def setting(experiment: dict) -> str:
    """The experiment; of vectors other than the paper's also how many and of how many dimensions; of programs their
    family and, where it matters, how many operations they have."""
    task = experiment["task"]
    if experiment["name"] == "nth-farthest" and (task["vectors"], task["dimensions"]) != (8, 16):
        return f"{experiment['name']}, {task['vectors']} of {task['dimensions']} dimensions"
    if task["name"] != "programs":
        return experiment["name"]
    programs = task["programs"]
    strings = programs["family"] in ("copy", "reverse", "double")
    return f"{experiment['name']}, {programs['family']}" + ("" if strings else f", nesting {programs['nesting']}")


def place(label: str) -> tuple[int, str]:
    """Where a label stands in a table."""
    known = (index for index, model in enumerate(MODELS) if f"{label}-".startswith(f"{model}-"))
    return next(known), label


def model_label(experiment: dict) -> str:
    model = experiment["model"]
    base = model["memory"] if model["name"] == "gtmm" else model["name"]
    if base == "srnn" and experiment.get("network", {}).get("srnn", {}).get("smoothing", False):
        base += "-smoothing"
    nearest = experiment["memory"].get("lru", {}).get("nearest", 0)
    if base == "lru" and nearest:
        base += f"-nearest{nearest}"
    filtering = experiment.get("filtering", {"strategy": "direct"})
    match filtering["strategy"]:
        case "iterative":
            # Before there was a choice the network learned after each time step.
            kinds = {"online": filtering.get("online", True), "observe": filtering["observe"], "normalised": filtering["normalise_mean"]}
            return f"{base}-avf{filtering['iterations']}" + "".join(f"-{kind}" for kind, chosen in kinds.items() if chosen)
        case "gradient":
            return f"{base}-gradient{filtering['iterations']}"
        case _:
            return base


def read_run(directory: Path) -> dict:
    experiment = tomllib.loads((directory / "experiment.toml").read_text())
    evaluation = json.loads((directory / "evaluation.json").read_text())
    origin = json.loads((directory / "origin.json").read_text())
    state = json.loads((directory / "checkpoints" / f"step-{evaluation['step']}" / "state.json").read_text())
    for table, keys in LATER.items():
        for key, value in keys.items():
            experiment[table].setdefault(key, value)
    # Follows from the data, and is not in the first runs.
    experiment["data"].pop("step", None)
    if experiment["model"]["name"] == "gtmm" and experiment.get("filtering", {}).get("strategy") in (None, "direct"):
        # Sizes and settings that such a model does not read.
        for table in ("network", "filtering"):
            experiment.pop(table, None)
    seed = experiment.pop("seed")
    return {"experiment": experiment, "evaluation": evaluation, "origin": origin, "seconds": state["elapsed_seconds"], "seed": seed}


def pick(value: dict | list, path: tuple) -> float | None:
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError):
            return None
    return value


def command(run: dict) -> str:
    """The command of a run, without the directory and the seed; of paths to data only the last name, which is
    the same on every machine."""
    words = shlex.split(run["origin"]["command"])
    for place, word in enumerate(words):
        if place > 0 and words[place - 1] == "--data":
            words[place] = Path(word).name
        elif word.startswith("MNEMORA_DATA="):
            words[place] = f"MNEMORA_DATA={Path(word.partition('=')[2]).name}"
    for option in ("--out", "--seed"):
        if option in words:
            place = words.index(option)
            del words[place : place + 2]
    return re.sub(r" --set seed=\d+", "", " ".join(words))


def fingerprints(rows: list[dict]) -> dict[str, set[str]]:
    """The data of each setting."""
    found = defaultdict(set)
    for row in rows:
        if "setting" in row and "data" in row:
            found[row["setting"]].add(row["data"].rpartition("sha256 ")[2])
    return found


def rows_of(replicas: list[dict]) -> list[dict]:
    replicas = sorted(replicas, key=lambda run: run["seed"])
    first = replicas[0]
    experiment, origin = first["experiment"], first["origin"]
    seeds = [run["seed"] for run in replicas]
    commits = sorted({run["origin"]["commit"] for run in replicas})
    common = {
        "setting": setting(experiment),
        "model": label(experiment, origin["command"]),
        "seeds": seeds,
        "command": f"{command(first)}, seeds {seeds}",
        "commit": ", ".join(commits),
        "machine": origin["machine"],
        "parameters": origin["parameters"],
        "data": f"{re.sub(r'[^ ]*/', '', origin['data'])}, sha256 {experiment['data']['fingerprint'][:12]}",
        "budget": {
            "steps": first["evaluation"]["step"],
            "seconds": [round(run["seconds"]) for run in replicas],
            "threads": origin.get("threads") or experiment["training"]["threads"],
            "held_out_sequences": first["evaluation"]["sequences"],
        },
    }
    rows = []
    for claim, unit, path, _ in CLAIMS:
        values = [pick(run["evaluation"], path) for run in replicas]
        if None in values:
            continue
        spread = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
        rows.append({"claim": claim, **common, "value": statistics.fmean(values), "stderr": spread, "unit": unit, "replicas": values})
    return rows


def table(rows: list[dict]) -> str:
    """One table a setting; numbers that no model of it has are left out."""
    settings = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        settings[row["setting"]][row["model"]][row["claim"]] = row
    lines = []
    for setting, models in settings.items():
        present = [(claim, decimals) for claim, _, _, decimals in CLAIMS if any(claim in claims for claims in models.values())]
        lines.append(f"\n### {setting}\n")
        lines.append("| model | parameters | seeds | updates | " + " | ".join(claim for claim, _ in present) + " |")
        lines.append("| --- " * (4 + len(present)) + "|")
        for model, claims in sorted(models.items(), key=lambda item: place(item[0])):
            any_row = next(iter(claims.values()))
            cells = [model, f"{any_row['parameters']:,}", ", ".join(map(str, any_row["seeds"])), f"{any_row['budget']['steps']:,}"]
            for claim, decimals in present:
                row = claims.get(claim)
                cell = "-" if row is None else f"{row['value']:.{decimals}f}"
                cells.append(cell if row is None or row["stderr"] is None else f"{cell} ± {row['stderr']:.{decimals}f}")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    target, directories = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    groups = defaultdict(list)
    for directory in directories:
        if not (directory / "evaluation.json").exists():
            print(f"{directory}: not evaluated yet, left out", file=sys.stderr)
            continue
        run = read_run(directory)
        groups[json.dumps(run["experiment"], sort_keys=True)].append(run)
    fresh = [row for replicas in groups.values() for row in rows_of(replicas)]
    replaced = {(row["setting"], row["model"]) for row in fresh}
    kept = []
    if target.exists():
        kept = [row for row in map(json.loads, target.read_text().splitlines()) if (row["setting"], row["model"]) not in replaced]
    rows = kept + fresh
    others = [path for path in target.parent.glob("*.jsonl") if path.name != target.name]
    beside = [json.loads(line) for path in others for line in path.read_text().splitlines()]
    mixed = {setting: data for setting, data in fingerprints(rows + beside).items() if len(data) > 1}
    if mixed:
        for setting, data in mixed.items():
            print(f"{setting}: numbers of different data ({', '.join(sorted(data))}) cannot be compared; nothing was written", file=sys.stderr)
        return 2
    target.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
