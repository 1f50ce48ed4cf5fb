"""Pictures of what a model read and computed. Needs matplotlib, the extra `plot`."""

from pathlib import Path

from torch import Tensor

INK, FRAME, RIGHT, WRONG = "#1b1f24", "#d0d7de", "#1a7f37", "#cf222e"


def pick_rows(right: Tensor, count: int) -> list[int]:
    """The first rows, the last of them replaced by a wrong one if there is one further on.

    >>> import torch
    >>> pick_rows(torch.tensor([True, True, True, True, False, True]), 3)
    [0, 1, 4]
    """
    rows = list(range(min(count, len(right))))
    wrong = (~right).nonzero().flatten().tolist()
    if wrong and wrong[0] not in rows:
        rows[-1] = wrong[0]
    return rows


def draw_sums(
    images: Tensor, digits: Tensor, sums: Tensor, true_digits: Tensor, path: Path, count: int = 5
) -> None:
    """Draw rows of images, what was read under each, and the sum; red is what is wrong.

    Args:
        images: (rows, n, 1, 28, 28) in [0, 1].
        digits: (rows, n), the digits read.
        sums: (rows,), the sums predicted.
        true_digits: (rows, n), the digits that are on the images.
        path: the PNG to write; its folder is made.
        count: how many rows to draw. A wrong row is among them if there is any.
    """
    from matplotlib.figure import Figure

    n = images.shape[1]
    targets = true_digits.sum(1)
    rows = pick_rows(sums == targets, count)
    figure = Figure(figsize=(1.1 * n + 1.7, 1.35 * len(rows)), dpi=150, facecolor="white")
    ratios = [1.0] * n + [1.45]
    for axes, row in zip(
        figure.subplots(len(rows), n + 1, squeeze=False, width_ratios=ratios), rows, strict=True
    ):
        for place in range(n):
            read, true = int(digits[row, place]), int(true_digits[row, place])
            axes[place].imshow(images[row, place, 0].numpy(), cmap="gray_r", vmin=0, vmax=1)
            axes[place].set(xticks=[], yticks=[])
            axes[place].spines[:].set_color(FRAME if read == true else WRONG)
            axes[place].set_xlabel(str(read), fontsize=14, color=INK if read == true else WRONG)
            if place:
                axes[place].set_ylabel(
                    "+", fontsize=14, color=INK, rotation=0, va="center", labelpad=9
                )
        predicted, target = int(sums[row]), int(targets[row])
        color = RIGHT if predicted == target else WRONG
        note = "right" if predicted == target else f"wrong: it is {target}"
        axes[n].axis("off")
        axes[n].text(0.0, 0.5, f"= {predicted}", fontsize=24, va="center", color=color)
        axes[n].text(0.01, 0.14, note, fontsize=10, va="center", color=color)
    figure.subplots_adjust(left=0, right=1, top=1, bottom=0, wspace=0.25, hspace=0.36)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", pad_inches=0.12)
