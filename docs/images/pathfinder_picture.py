"""Draws pathfinder.png and pathfinder_path.png: run it from the root of the checkout."""

from pathlib import Path

import torch
from matplotlib.figure import Figure

from dolphin.tasks.pathfinder import data, generator, truth
from dolphin.tasks.pathfinder.drawing import draw_one
from dolphin.tasks.pathfinder.task import PathfinderConfig, PathfinderTask

FOLDER = Path(__file__).parent
CACHE = Path("build/pathfinder")


def samples(size: int, dashes: int, count: int, seed: int) -> data.PathBatch:
    """A few images."""
    design = generator.design(size, dashes)
    plans = data.load_plans(design, seed, count, CACHE, workers=1)
    return data.DrawnSamples(design, plans).batch(torch.arange(count))


def draw_samples(path: Path) -> None:
    """Images of the three sizes, and their answers."""
    figure = Figure(figsize=(9.6, 5.3), dpi=130, facecolor="white")
    grid = figure.subplots(3, 6)
    for row, (size, dashes) in zip(grid, ((32, 6), (128, 9), (256, 14)), strict=True):
        batch = samples(size, dashes, 6, seed=11)
        for axes, image, label in zip(row, batch.images[:, 0], batch.labels, strict=True):
            axes.imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.set_title("joined" if label else "apart", fontsize=8, pad=3)
        row[0].set_ylabel(f"{size}×{size}, {dashes} dashes", fontsize=8)
    figure.subplots_adjust(left=0.03, right=0.995, top=0.95, bottom=0.01, wspace=0.05, hspace=0.15)
    figure.savefig(path)


def draw_path(path: Path) -> None:
    """The path that a perfect network believes in."""
    task = PathfinderTask(PathfinderConfig(size=128, dashes=9))
    batch = samples(128, 9, 20, seed=11)
    facts = truth.true_facts(batch, task.config.design(), task.config.side, task.edges)
    outputs = tuple(8.0 * (2 * held.float() - 1) for held in facts)
    row = int(batch.labels.nonzero()[0])
    draw_one(batch.images[row, 0], task.beliefs(outputs, row), path)


if __name__ == "__main__":
    draw_samples(FOLDER / "pathfinder.png")
    draw_path(FOLDER / "pathfinder_path.png")
