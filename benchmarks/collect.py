"""Keep the results of runs as JSON, and put all that is kept into the tables of docs/benchmarks.md.

    python benchmarks/collect.py runs/*

Each run folder with a `results.json` becomes `benchmarks/results/training/NAME.json`: the results
and every epoch. One table is made of all files in there, whenever they were measured, the other one
of `benchmarks/results/bench.json`, which `dolphin bench --json` writes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dolphin_tasks.catalogue import find_task
from dolphin_tasks.training.folder import RunFolder

HERE = Path(__file__).parent
KEPT, SPEED = HERE / "results" / "training", HERE / "results" / "bench.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"
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


def table_of_runs() -> str:
    """Every run that is kept."""
    heads = ("command, after `dolphin train`", "answers right", "perception", "minutes", "symbolic")
    return _table(
        heads, [_run(json.loads(path.read_text())) for path in sorted(KEPT.glob("*.json"))]
    )


def _run(results: dict[str, Any]) -> Sequence[str]:
    perception = results["perception_accuracy"]
    return (
        f"`{command(results)}`",
        f"{results['test_accuracy']:.2%} of {results['test_samples']:,}",
        "" if perception is None else f"{perception:.2%}",
        f"{results['train_seconds'] / 60:.1f}",
        f"{results['symbolic_share']:.1%}",
    )


def table_of_speed() -> str:
    """The last benchmark that is kept."""
    heads = (
        "program", "provenance", "B", "network ms", "symbolic ms", "ratio", "target", "peak MB",
        "user calls in a later step",
    )  # fmt: skip
    return _table(heads, [_program(measured) for measured in json.loads(SPEED.read_text())])


def _program(measured: dict[str, Any]) -> Sequence[str]:
    proofs = "" if measured["k"] is None else f", k = {measured['k']}"
    symbolic, ratio = measured["forward_s"] + measured["backward_s"], measured["ratio"]
    return (
        measured["name"],
        f"{measured['provenance']}{proofs}",
        f"{measured['batch']}",
        f"{measured['neural_s'] * 1e3:.0f}",
        f"{symbolic * 1e3:.1f}",
        f"{ratio:.4f}" if ratio < 0.1 else f"{ratio:.3f}",
        "" if measured["target"] is None else f"{measured['target']:g}",
        f"{measured['peak_mb']:.0f}",
        f"{measured['udf_calls_later']:,}",
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def replaced(page: str, table: str) -> str:
    """A page with this table instead of the one with the same heads."""
    before, found, after = page.partition(table.splitlines()[0] + "\n")
    if not found:
        raise SystemExit(f"there is no table with the heads {table.splitlines()[0]}")
    lines = after.split("\n")
    end = next(number for number, line in enumerate(lines) if not line.startswith("|"))
    return before + table + "\n" + "\n".join(lines[end:])


def main() -> None:
    """Keep the runs that are named, and bring the page up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path, help="run folders")
    for run in parser.parse_args().runs:
        keep(run)
    page = PAGE.read_text()
    for table in (table_of_runs(), table_of_speed()):
        page = replaced(page, table)
    PAGE.write_text(page)
    print(f"{len(list(KEPT.glob('*.json')))} runs in {PAGE.name}")


if __name__ == "__main__":
    main()
