"""Pictures of a run and of several runs. Needs matplotlib, part of the extra `train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from dolphin_tasks.pictures import save
from dolphin_tasks.training.evaluation import Evaluation
from dolphin_tasks.training.folder import RunFolder
from dolphin_tasks.training.task import Samples, Task

COLOURS = ("#0969da", "#1a7f37", "#bf3989", "#9a6700", "#8250df", "#cf222e", "#57606a", "#1b7c83")


def draw_run(
    task: Task[Any, Any],
    network: nn.Module,
    samples: Samples[Any],
    found: Evaluation,
    folder: RunFolder,
) -> None:
    """Learning curve, confusions, groups if any, and a sheet of samples, into the run folder."""
    draw_learning_curve(folder.read_metrics(), folder.path / "learning_curve.png")
    if found.perception_accuracy is not None:
        draw_confusions(found.confusions, task.classes, folder.path / "confusion.png")
    if found.groups:
        draw_groups(found.groups, task.group_title, folder.path / "groups.png")
    if len(samples):
        batch = samples.batch(torch.arange(min(100, len(samples))))
        with torch.no_grad():
            network.eval()
            outputs = task.read(network, batch)
            answers = task.answers(outputs, batch)
        task.draw(outputs, answers, batch, folder.path / "samples.png")


def draw_learning_curve(history: Sequence[dict[str, Any]], path: Path) -> None:
    """Loss and accuracies by epoch."""
    figure = Figure(figsize=(7.5, 3.2), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [line["epoch"] for line in history]
    left.plot(epochs, [line["loss"] for line in history], "o-", color=COLOURS[0], ms=3)
    left.set(xlabel="epoch", ylabel="training loss")
    named = {
        "train_accuracy": "training (while learning)",
        "validation_accuracy": "validation",
        "perception_accuracy": "perception (validation)",
    }
    for colour, (key, label) in zip(COLOURS, named.items(), strict=False):
        if any(line[key] is not None for line in history):
            right.plot(
                epochs, [line[key] for line in history], "o-", color=colour, label=label, ms=3
            )
    right.set(xlabel="epoch", ylabel="accuracy", ylim=(-0.02, 1.02))
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    save(figure, path)


def draw_confusions(confusions: Tensor, classes: Sequence[str], path: Path) -> None:
    """Shares of what each class was read as; rows are the true classes."""
    size = 1.6 + 0.36 * len(classes)
    figure = Figure(figsize=(size, size), dpi=150, layout="constrained")
    axes = figure.subplots()
    counts = confusions.double()
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    axes.imshow(shares.sqrt().numpy(), cmap="Blues", vmin=0, vmax=1)
    places = range(len(classes))
    axes.set_xticks(places, classes)
    axes.set_yticks(places, classes)
    axes.set(xlabel="read as", ylabel="really is")
    for row in places:
        for column in places:
            share = float(shares[row, column])
            if share >= 0.005:
                colour = "white" if share > 0.4 else "#1b1f24"
                text = f"{100 * share:.0f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=6.5, color=colour)
    total = counts.diag().sum() / counts.sum().clamp(min=1)
    axes.set_title(f"perception: {total:.2%} right (rows in %)", fontsize=9)
    save(figure, path)


def draw_groups(groups: dict[str, dict[str, int]], title: str, path: Path) -> None:
    """The share of right answers in each group of samples."""
    figure = Figure(figsize=(2.0 + 0.55 * len(groups), 3.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    shares = [100 * counts["right"] / counts["total"] for counts in groups.values()]
    bars = axes.bar(list(groups), shares, color=COLOURS[0], width=0.7)
    axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set(xlabel=title, ylabel="answers right, %", ylim=(0, 108))
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
            axes.plot(epochs, values, "o-", ms=3, label=label, color=colour)
    axes.set(xlabel="epoch", ylabel="validation accuracy", ylim=(-0.02, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    save(figure, path)
