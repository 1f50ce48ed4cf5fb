"""Keep the results of runs as JSON, and print the table of docs/benchmarks.md.

    python benchmarks/collect.py runs/*

Each run folder with a `results.json` becomes `benchmarks/results/training/NAME.json`: the results
and every epoch. The table is made of all files in there, whenever they were measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from dolphin.tasks.catalogue import find_task
from dolphin.training.folder import RunFolder

KEPT = Path(__file__).parent / "results" / "training"
TOLD = {"n", "length", "size", "train_chains", "train_size", "epochs", "seed"}  # in any case
ELSEWHERE = {"out", "resume", "data_dir", "download", "device", "threads"}  # change no result


def keep(run: Path) -> None:
    """Copy what a run found, without the folders of the machine that it ran on."""
    folder = RunFolder(run)
    results = folder.read_json("results.json")
    results["config"] = {k: v for k, v in results["config"].items() if k not in ELSEWHERE}
    results["history"] = folder.read_metrics()
    (KEPT / f"{run.name}.json").write_text(json.dumps(results, indent=1) + "\n")


def command(results: dict[str, Any]) -> str:
    """The options that differ from their defaults, after `dolphin train`."""
    fields = dataclasses.fields(find_task(results["task"]).config_class)
    parts = [results["task"]]
    for field in fields:
        value = results["config"].get(field.name)
        flag = field.name.replace("_", "-")
        usual = value == field.default and field.name not in TOLD
        if field.name in ELSEWHERE or usual or value is None:
            continue
        if isinstance(value, bool):
            parts.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            parts.append(f"--{flag} {value}")
    return " ".join(parts)


def row(results: dict[str, Any]) -> str:
    """One line of the table."""
    perception = results["perception_accuracy"]
    cells = (
        f"`{command(results)}`",
        f"{results['test_accuracy']:.2%} of {results['test_samples']:,}",
        "" if perception is None else f"{perception:.2%}",
        f"{results['train_seconds'] / 60:.1f}",
        f"{results['symbolic_share']:.1%}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Keep the runs that are named, and print all that are kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path, help="run folders")
    for run in parser.parse_args().runs:
        keep(run)
    heads = ("command, after `dolphin train`", "answers right", "perception", "minutes", "symbolic")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for path in sorted(KEPT.glob("*.json")):
        print(row(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
