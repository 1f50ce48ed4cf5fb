"""Draws docs/images/sum.png: one test row on its way from pixels to a distribution over sums.

    python docs/images/sum_picture.py

Trains the network of examples/sum_mnist.py for one epoch, so that there is still some doubt to see,
and picks a row whose sum is right although one of its digits is not clear-cut.
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from torch import Tensor

import dolphin as dl
from dolphin_tasks.mnist import digit_network, load_mnist

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "examples"))

import sum_mnist  # noqa: E402 (the examples are programs, not a package)

INK, BAR, BEST, FRAME = "#1b1f24", "#9ec5fe", "#0a58ca", "#d0d7de"
N = 4


def doubtful_row(rows: sum_mnist.Rows, digits: Tensor, sums: Tensor) -> int:
    """The right row in which the likeliest reading of one digit is nearest to 60 %."""
    certain = digits.max(2).values.min(1).values
    right = (sums.argmax(1) == rows.sums) & (digits.argmax(2) == rows.digits).all(1)
    return int((certain - 0.6).abs().masked_fill(~right, 9).argmin())


def draw(images: Tensor, digits: Tensor, sums: Tensor, path: Path) -> None:
    """Draw one row: images (N, 28, 28), digits (N, 10), sums (9N + 1,)."""
    figure = Figure(figsize=(11, 3.1), dpi=160, facecolor="white")
    grid = figure.add_gridspec(
        2, N + 2, width_ratios=[1] * N + [0.45, 2.9], height_ratios=[1, 0.8], hspace=0.18
    )
    for i in range(N):
        picture = figure.add_subplot(grid[0, i])
        picture.imshow(images[i].numpy(), cmap="gray_r")
        picture.set(xticks=[], yticks=[])
        picture.spines[:].set_color(FRAME)
        bars(figure.add_subplot(grid[1, i]), digits[i], range(0, 10, 3), height=1.0)
    total = figure.add_subplot(grid[:, N + 1])
    best, second = sums.topk(2).indices.tolist()
    bars(total, sums, range(0, len(sums), 6), height=float(sums[best]))
    for symbol, side, align in ((best, 1, "left"), (second, -1, "right")):
        share = f"{symbol}: {sums[symbol]:.0%}"
        place = {"ha": align, "va": "top", "fontsize": 13, "color": BEST}
        total.text(symbol + side, float(sums[symbol]), share, **place)
    total.set_title("P(sum), the only thing with a label", fontsize=11, color=INK)
    label = {"fontsize": 11, "color": INK, "rotation": 90, "va": "center", "ha": "center"}
    figure.text(0.012, 0.72, "images", **label)
    figure.text(0.012, 0.27, "P(digit)", **label)
    arrow = FancyArrowPatch((0.605, 0.25), (0.645, 0.25), arrowstyle="-|>", mutation_scale=22)
    arrow.set(color=BEST, transform=figure.transFigure, figure=figure)
    figure.add_artist(arrow)
    figure.text(0.624, 0.33, "x + y", fontsize=12, color=BEST, ha="center", family="monospace")
    figure.subplots_adjust(left=0.03, right=0.99, top=0.92, bottom=0.09)
    figure.savefig(path)


def bars(axes, probs: Tensor, ticks: range, height: float) -> None:  # noqa: ANN001 (matplotlib's axes)
    """A bar for each symbol, the likeliest in a stronger colour; the plot is `height` high."""
    colors = [BEST if i == int(probs.argmax()) else BAR for i in range(len(probs))]
    axes.bar(range(len(probs)), probs.tolist(), color=colors, width=0.8)
    axes.set(ylim=(0, 1.02 * height), yticks=[], xticks=list(ticks))
    axes.tick_params(colors=INK, labelsize=9, length=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FRAME)


def main() -> None:
    """Train, pick a row, draw it."""
    torch.manual_seed(0)
    mnist = load_mnist()
    rows = sum_mnist.make_rows(mnist.train_images, mnist.train_labels, N, None)
    test = sum_mnist.make_rows(mnist.test_images, mnist.test_labels, N, None)
    network = digit_network()
    network.to(memory_format=torch.channels_last)
    sum_mnist.train(network, rows, epochs=1, batch=64)
    network.eval()
    with torch.no_grad():
        seen = sum_mnist.read(network, test.images)
        digits = torch.stack([dl.get_probs(place, symbols=range(10)) for place in seen], 1)
        sums = dl.get_probs(sum_mnist.add(seen), symbols=range(9 * N + 1))
    row = doubtful_row(test, digits, sums)
    draw(test.images[row, :, 0], digits[row], sums[row], HERE / "sum.png")


if __name__ == "__main__":
    main()
