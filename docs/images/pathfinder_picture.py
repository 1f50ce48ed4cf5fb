"""Draws the pictures of docs/pathfinder.md, from the root of the checkout.

    python docs/images/pathfinder_picture.py [RUN]

With a trained run of size 128 also the path that its network believes in.
"""

import json
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from PIL import Image

from dolphin_tasks.cli import main
from dolphin_tasks.pathfinder import data, generator

FOLDER = Path(__file__).parent
CACHE = Path("build/pathfinder")
RESULTS = Path("benchmarks/results/training")
COLOURS = {32: "#1d6996", 128: "#e17c05", 256: "#0f8554"}
STYLES = {6: "-", 9: "--", 14: "-."}


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
            axes.set_title("joined" if label else "apart", fontsize=11, pad=3)
        row[0].set_ylabel(f"{size}×{size}, {dashes} dashes", fontsize=11)
    figure.subplots_adjust(left=0.03, right=0.995, top=0.95, bottom=0.01, wspace=0.05, hspace=0.15)
    figure.savefig(path)


def draw_learning(path: Path) -> None:
    """Right answers against samples seen, of every run that is kept."""
    figure = Figure(figsize=(7.2, 3.4), dpi=130, facecolor="white", layout="constrained")
    axes = figure.subplots()
    named: set[str] = set()
    for run in (json.loads(file.read_text()) for file in sorted(RESULTS.glob("pathfinder-*.json"))):
        config = run["config"]
        size, dashes, balanced = config["size"], config["dashes"], config["balance"] != "none"
        label = f"{size}×{size}, {dashes} dashes" + (", distances balanced" if balanced else "")
        seen = [epoch["samples_seen"] for epoch in run["history"]]
        right = [100 * epoch["validation_accuracy"] for epoch in run["history"]]
        style = ":" if balanced else STYLES[dashes]
        shown = None if label in named else label  # a longer run of the same kind
        axes.plot(seen, right, style, marker="o", ms=4, color=COLOURS[size], label=shown)
        named.add(label)
    axes.axhline(50, color="#999999", lw=0.8)
    axes.set(xlabel="samples seen", ylabel="right answers, validation (%)", ylim=(45, 101))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.12))
    figure.savefig(path)


def draw_path(run: str, path: Path) -> None:
    """The path that a trained network believes in, in an image that it has not seen."""
    batch = samples(128, 6, 20, seed=11)
    row = int(batch.labels.nonzero()[0])
    given = CACHE / "given.png"
    Image.fromarray((batch.images[row, 0] * 255).byte().numpy()).save(given)
    main(["predict", run, str(given), "--picture", str(path)])


if __name__ == "__main__":
    draw_samples(FOLDER / "pathfinder.png")
    draw_learning(FOLDER / "pathfinder_learning.png")
    if len(sys.argv) > 1:
        draw_path(sys.argv[1], FOLDER / "pathfinder_path.png")
