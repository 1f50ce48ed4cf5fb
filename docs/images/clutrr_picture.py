"""Draws the pictures of docs/clutrr.md, from the root of the checkout.

    python docs/images/clutrr_picture.py

The stories of clutrr.png are generated, and no network is involved: the reader is 98 % sure of
every relation, and right. The accuracies of clutrr_lengths.png are those that were measured.
"""

import json
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from dolphin_tasks.clutrr.data import NOT_TOLD, Story, StoryBatch
from dolphin_tasks.clutrr.stories import TEST_SENTENCES, TRAIN_SENTENCES, make_story
from dolphin_tasks.clutrr.task import ClutrrConfig, ClutrrTask

FOLDER = Path(__file__).parent
RESULTS = Path("benchmarks/results/training")
LENGTHS = (3, 5, 8)
SURE = 0.98


def draw_stories(path: Path) -> None:
    """One story of each length."""
    rng = random.Random(3)
    told = [make_story(length, TRAIN_SENTENCES + TEST_SENTENCES, rng) for length in LENGTHS]
    batch = StoryBatch.of([Story.of(story) for story in told])
    task = ClutrrTask(ClutrrConfig(encoder="scratch"))
    nothing = len(task.classes) - 1
    read = torch.where(batch.truths == NOT_TOLD, nothing, batch.truths)
    others = (1 - SURE) / nothing
    outputs = ((F.one_hot(read, len(task.classes)) * (SURE - others) + others).log(),)
    answers = task.answers(outputs, batch)
    task.draw(outputs, answers, batch, path)


def draw_lengths(path: Path) -> None:
    """Right answers by chain length: what was read, and with relations given."""
    figure = Figure(figsize=(6.4, 3.2), dpi=130, facecolor="white", layout="constrained")
    axes = figure.subplots()
    for chains, colour in ((3, "#1d6996"), (4, "#e17c05")):
        run = json.loads((RESULTS / f"clutrr-{chains}-seed0.json").read_text())
        for key, style, what in (
            ("accuracy_with_given_relations", ":", ", relations given"),
            ("accuracy_by_group", "-", ""),
        ):
            counts = run[key]
            shares = [100 * each["right"] / each["total"] for each in counts.values()]
            label = f"CLUTRR-{chains}{what}"
            axes.plot(list(counts), shares, style, marker="o", ms=4, color=colour, label=label)
    axes.set(xlabel="chain length", ylabel="answers right, %", ylim=(0, 104))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(path)


if __name__ == "__main__":
    draw_stories(FOLDER / "clutrr.png")
    draw_lengths(FOLDER / "clutrr_lengths.png")
