"""The HTML page of `dolphin report`: a single file with all pictures, to share."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch

import dolphin as dl
from dolphin_tasks.training.commands import trained
from dolphin_tasks.training.processes import Processes

_LOOKED_AT = 200  # test samples among which right and wrong ones are chosen
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; padding: 0.25rem 0.7rem; white-space: nowrap; }
td { border-bottom: 1px solid #8884; }
img { max-width: 100%; background: white; border-radius: 4px; }
pre { background: #8881; padding: 0.6rem; overflow-x: auto; border-left: 4px solid #8886; }
pre.right { border-color: #1a7f37; } pre.wrong { border-color: #cf222e; }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e6e6e6; } }
"""
PICTURES = {
    "learning_curve.png": "Learning curve",
    "confusion.png": "Confusion matrix (rows: true classes)",
    "groups.png": "Accuracy by group",
    "samples.png": "Samples",
}


@dataclass(frozen=True)
class Shown:
    """One sample: what it was, whether the answer is right, and why."""

    number: int
    right: bool
    lines: tuple[str, ...]


@torch.no_grad()
def chosen_samples(run: Path, count: int) -> list[Shown]:
    """Some right and some wrong answers to test samples, each with the reasons for it."""
    task, network = trained(run, Processes("cpu"))
    network.eval()
    samples = task.data().test
    index = torch.arange(min(_LOOKED_AT, len(samples)))
    if not len(index):
        return []
    batch = samples.batch(index)
    marks = task.right(task.answers(task.read(network, batch), batch), batch)
    wrong = [n for n, right in enumerate(marks) if not right][:count]
    right = [n for n, right in enumerate(marks) if right][:count]
    return [_shown(task, network, samples, number, marks[number]) for number in [*wrong, *right]]


def _shown(task: Any, network: torch.nn.Module, samples: Any, number: int, right: bool) -> Shown:
    batch = samples.batch(torch.tensor([number]))
    outputs = task.read(network, batch)
    reasons = task.reasons(outputs, task.answers(outputs, batch)[0])
    lines = [*task.describe(outputs, batch), *reasons]
    with contextlib.suppress(AttributeError):  # of tasks whose labels are not one result per row
        lines.insert(0, f"label: {task.targets(batch)[0]}")
    return Shown(number, right, tuple(lines))


def report_page(rows: Sequence[Sequence[str]], runs: Sequence[Path], examples: int) -> str:
    """The page: a table of all runs, then each run with its pictures and samples."""
    head, *lines = rows
    parts = ["<h1>Runs</h1>", _table(head, lines)]
    for run in runs:
        parts.append(f"<h2>{escape(run.name)}</h2>")
        for name, title in PICTURES.items():
            if (run / name).is_file():
                parts += [f"<h3>{escape(title)}</h3>", _picture(run / name, title)]
        if examples:
            parts += _samples(run, examples)
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'  # none, instead of a request for one
        f"<title>Runs</title><style>{_STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


def _samples(run: Path, count: int) -> list[str]:
    try:
        samples = chosen_samples(run, count)
    except (dl.DolphinError, OSError) as error:  # a report of what is there is still a report
        return [f"<p>No samples: {escape(str(error))}</p>"]
    parts = []
    for verdict, right in (("wrong", False), ("right", True)):
        shown = [sample for sample in samples if sample.right is right]
        parts += [f"<h3>{verdict.capitalize()} answers</h3>"] if shown else []
        for sample in shown:
            text = escape("\n".join([f"test sample {sample.number}", *sample.lines]))
            parts.append(f'<pre class="{verdict}">{text}</pre>')
    return parts


def _picture(path: Path, title: str) -> str:
    content = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(title)}" src="data:image/png;base64,{content}">'


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(cells, "td") for cells in lines) + "</table>"
