"""Pictures of a run and of several runs. Needs matplotlib, part of the extra `train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from dolphin_tasks.pictures import save
from dolphin_tasks.training.evaluation import Evaluation
from dolphin_tasks.training.folder import RunFolder
from dolphin_tasks.training.task import Samples, Task

COLOURS = ("#0969da", "#1a7f37", "#bf3989", "#9a6700", "#8250df", "#cf222e", "#57606a", "#1b7c83")
STYLES = ("-", "--", ":")
"""Lines of the first runs, and of those that come after all colours are taken."""


def draw_run(
    task: Task[Any, Any],
    network: nn.Module,
    samples: Samples[Any],
    result: Evaluation,
    folder: RunFolder,
    chosen: int | None = None,
) -> None:
    """Learning curve, confusions, groups if any, and a sheet of samples, into the run folder."""
    draw_learning_curve(folder.read_metrics(), folder.path / "learning_curve.png", chosen)
    if result.perception_accuracy is not None:
        draw_confusions(result.confusions, task.classes, folder.path / "confusion.png")
    if result.groups:
        draw_groups(result.groups, task.group_title, folder.path / "groups.png")
    if len(samples):
        batch = samples.batch(torch.arange(min(100, len(samples))))
        with torch.no_grad():
            network.eval()
            outputs = task.read(network, batch)
            answers = task.answers(outputs, batch)
        task.draw(outputs, answers, batch, folder.path / "samples.png")


STEEP = 30
"""Losses that fall by more than this factor are drawn on a logarithmic axis."""


def draw_learning_curve(
    history: Sequence[dict[str, Any]], path: Path, chosen: int | None = None
) -> None:
    """Loss and accuracies by epoch, and a line at the epoch that was chosen."""
    figure = Figure(figsize=(7.5, 3.6), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [line["epoch"] for line in history]
    losses = [line["loss"] for line in history]
    left.plot(epochs, losses, "o-", color=COLOURS[0], ms=3)
    wide = min(losses, default=0) > 0 and max(losses) > STEEP * min(losses)
    left.set(xlabel="epoch", ylabel="training loss", yscale="log" if wide else "linear")
    named = {
        "train_accuracy": "training (during the epoch)",
        "validation_accuracy": "validation",
        "perception_accuracy": "perception (validation)",
    }
    for colour, (key, label) in zip(COLOURS, named.items(), strict=False):
        values = [line.get(key) for line in history]
        if any(value is not None for value in values):
            shares = [float("nan") if value is None else value for value in values]
            right.plot(epochs, shares, "o-", color=colour, label=label, ms=3)
    right.set(xlabel="epoch", ylabel="accuracy")
    scale_accuracy(right)
    for axes in (left, right):
        if chosen is not None:
            axes.axvline(chosen, color=COLOURS[6], ls=":", lw=1, label="chosen epoch", zorder=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    handles, labels = right.get_legend_handles_labels()
    if handles:  # below the axes: it hides nothing there
        figure.legend(
            handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8
        )
    save(figure, path)


TICKS = (0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1)
FINEST = 0.003
"""Accuracies closer to 1 than this look the same."""


def scale_accuracy(axes: Any) -> None:
    """An axis from 0 to 100 % that shows the last percents as large as the first half."""

    def forward(share: Any) -> Any:
        return -np.log10(1 + FINEST - np.clip(share, 0, 1))

    def backward(place: Any) -> Any:
        return 1 + FINEST - 10.0 ** -np.asarray(place)

    axes.set_yscale("function", functions=(forward, backward))
    axes.set_ylim(0, 1)
    axes.set_yticks(TICKS, [f"{100 * tick:g} %" for tick in TICKS])
    axes.minorticks_off()


def draw_confusions(confusions: Tensor, classes: Sequence[str], path: Path) -> None:
    """Shares of what each class was read as; rows are the true classes.

    Classes that never occur have no row. Columns are in the order of the rows, so that what is
    right is on the diagonal; classes that were only read come after them.
    """
    counts = confusions.double()
    rows, read = (counts.sum(axis).nonzero().flatten().tolist() for axis in (1, 0))
    columns = [*rows, *(column for column in read if column not in rows)]
    shares = (counts / counts.sum(1, keepdim=True).clamp(min=1))[rows][:, columns]
    longest = max(len(classes[column]) for column in columns)
    room = 1.0 + 0.07 * longest
    size = (max(3.6, room + 0.36 * len(columns)), room + 0.5 + 0.36 * len(rows))
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.imshow(shares.sqrt().numpy(), cmap="Blues", vmin=0, vmax=1)
    names = list(classes)
    axes.set_xticks(range(len(columns)), [names[column] for column in columns])
    axes.set_yticks(range(len(rows)), [names[row] for row in rows])
    axes.tick_params(axis="x", labelrotation=90 if longest > 2 else 0)
    axes.set(xlabel="predicted", ylabel="true")
    for row, column in (shares >= 0.005).nonzero().tolist():
        share = float(shares[row, column])
        colour = "white" if share > 0.4 else "#1b1f24"
        text = f"{100 * share:.0f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=6.5, color=colour)
    total = counts.diag().sum() / counts.sum().clamp(min=1)
    figure.suptitle(f"perception: {total:.2%} right\n(rows in %)", fontsize=9)
    save(figure, path)


def draw_groups(groups: dict[str, dict[str, int]], title: str, path: Path) -> None:
    """The share of right answers in each group of samples."""
    figure = Figure(figsize=(2.0 + 0.55 * len(groups), 3.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    shares = [100 * counts["right"] / counts["total"] for counts in groups.values()]
    bars = axes.bar(list(groups), shares, color=COLOURS[0], width=0.7)
    axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set(xlabel=title, ylabel="accuracy, %", ylim=(0, 108))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="y", alpha=0.25)
    save(figure, path)


def draw_comparison(runs: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Validation accuracy by epoch of several runs."""
    figure = Figure(figsize=(7.5, 4.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    for place, (label, history) in enumerate(runs.items()):
        key = "validation_accuracy"
        points = [(line["epoch"], line[key]) for line in history if line[key] is not None]
        if points:
            epochs, values = zip(*points, strict=True)
            colour = COLOURS[place % len(COLOURS)]
            style = STYLES[place // len(COLOURS) % len(STYLES)]
            axes.plot(epochs, values, "o", ls=style, ms=3, label=label, color=colour)
    axes.set(xlabel="epoch", ylabel="validation accuracy")
    scale_accuracy(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save(figure, path)
