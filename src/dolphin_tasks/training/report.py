"""`dolphin report RUN…`: several runs as one table, one figure and one page."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from dolphin_tasks.fetch import atomic_write
from dolphin_tasks.training.commands import parse
from dolphin_tasks.training.display import Display
from dolphin_tasks.training.folder import Number, RunError, RunFolder
from dolphin_tasks.training.page import report_page
from dolphin_tasks.training.plots import draw_comparison

SHARE = (*Number, type(None))
RESULTS = {
    "task": str, "config": dict, "epochs": int, "train_seconds": Number, "test_accuracy": Number,
    "perception_accuracy": SHARE, "validation_accuracy": SHARE, "symbolic_share": SHARE,
}  # fmt: skip
"""What a report needs of every `results.json`."""
COLUMNS = (
    "run", "seeds", "epochs", "test", "perception", "validation", "seconds", "symbolic",
)  # fmt: skip


@dataclass(frozen=True)
class ReportOptions:
    """Several runs as a table (report.md), a figure (.png) and a page (.html).

    The page has learning curves, confusions of perception, and explained answers.

    Runs that differ only in seed, epochs or machine: mean ± standard deviation.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Folders of finished runs; others are skipped and named."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """Folder for the report (default: the folder of the first run)."""
    examples: int = 2
    """How many wrong and how many right answers of each run the page shows; 0 reads no data."""


def report(arguments: list[str]) -> int:
    """Read the runs, print the table, write all files."""
    options = parse(ReportOptions, "report", arguments)
    if not options.runs:
        raise RunError("report needs at least one run folder: dolphin report runs/*")
    display = Display()
    groups: dict[str, list[dict[str, Any]]] = {}
    histories: dict[str, list[dict[str, Any]]] = {}
    finished: list[Path] = []
    for path in options.runs:
        folder = RunFolder(path)
        if not (path / "results.json").is_file():
            if not os.path.lexists(path):
                raise RunError(f"{path}: there is no such run folder.")
            if path.is_dir():
                display.line(f"skipped: {path} has no results yet")
            continue
        results = folder.read_fields("results.json", RESULTS)
        groups.setdefault(_key(results), []).append(results)
        histories[path.name] = folder.read_metrics()
        finished.append(path)
    if not groups:
        raise RunError("none of these is a finished run: they have no results.json.")
    lines = [_line(label, results) for label, results in groups.items()]
    table = to_markdown(lines)
    out = options.out or options.runs[0].parent
    with atomic_write(out / "report.md") as stream:
        stream.write(table.encode())
    draw_comparison(histories, out / "report.png")
    page = report_page([COLUMNS, *lines], finished, options.examples)
    with atomic_write(out / "report.html") as stream:
        stream.write(page.encode())
    display.line(table)
    names = (out / f"report.{kind}" for kind in ("md", "png", "html"))
    display.line(f"written: {', '.join(map(str, names))}")
    return 0


def _key(results: dict[str, Any]) -> str:
    """The task and the options that are not the default, without seed, epochs and machine."""
    from dolphin_tasks.catalogue import find_task

    task = find_task(results["task"])
    usual = task.config_class().as_json()
    hidden = {"seed", "out", "resume", "device", "threads", "data_dir", "download", "epochs"}
    shown = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in results["config"].items()
        if name not in hidden and (usual.get(name) != value or name in ("n", "length"))
    ]
    return " ".join([results["task"], *shown])


def _line(label: str, results: Sequence[dict[str, Any]]) -> list[str]:
    def share(name: str) -> str:
        values = [100 * r[name] for r in results if r[name] is not None]
        if not values:
            return "–"
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.2f}{spread} %"

    seconds = statistics.mean(r["train_seconds"] for r in results)
    epochs = "/".join(sorted({str(r["epochs"]) for r in results}))
    seeds = ", ".join(str(r["config"].get("seed", "?")) for r in results)
    accuracies = [share(f"{name}_accuracy") for name in ("test", "perception", "validation")]
    return [label, seeds, epochs, *accuracies, f"{seconds:.0f}", share("symbolic_share")]


def to_markdown(lines: Sequence[Sequence[str]]) -> str:
    """The table as Markdown.

    >>> print(to_markdown([["sum", "0", "3", "96 %", "99 %", "95 %", "40", "1 %"]]).splitlines()[2])
    | sum | 0 | 3 | 96 % | 99 % | 95 % | 40 | 1 % |
    """
    rows = [COLUMNS, ["---"] * len(COLUMNS), *lines]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)
