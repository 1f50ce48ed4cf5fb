"""A network trained on formulas, tried on operators and digits from other collections.

    python benchmarks/transfer.py runs/hwf --data ../data

Operators are the test pictures of `operators/mdas_symbols_v1.zip` (28x28), digits the first test
images of MNIST, without digits that the run's formulas don't hold (0, unless it was trained with
`--digits 0-9`). They go the way of pictures that a user gives to `dolphin predict`.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from dolphin_tasks.hwf import data, model
from dolphin_tasks.mnist import load_mnist
from dolphin_tasks.scan import cut, fit, thin
from dolphin_tasks.training import checkpoint
from dolphin_tasks.training.folder import RunFolder

OPERATORS = {
    "addition_plus": "+",
    "subtraction_minus": "-",
    "multiplication_cross": "*",
    "division_obelus": "/",
}
DIGITS = 2000


def operators(archive: Path, folder: str) -> Iterator[Tensor]:
    """The ink of one kind of test pictures."""
    with zipfile.ZipFile(archive) as content:
        for name in content.namelist():
            if f"/test/{folder}/" in name and name.endswith(".png"):
                picture = Image.open(io.BytesIO(content.read(name))).convert("L")
                ink = torch.from_numpy(np.array(picture)).float() / 255
                yield 1 - ink if ink[0].median() > 0.5 else ink


def as_formula_ink(ink: Tensor) -> Tensor:
    """One symbol as `dolphin predict` reads it: cut out, scaled, with the finest pen."""
    rows = (ink > 0.3).any(1).nonzero().flatten()
    columns = (ink > 0.3).any(0).nonzero().flatten()
    whole = ink[int(rows[0]) : int(rows[-1]) + 1, int(columns[0]) : int(columns[-1]) + 1]
    parts = cut(ink)
    return thin(fit(parts[0] if len(parts) == 1 else whole, data.SIZE, data.SIZE))


def read(network: nn.Module, symbols: list[Tensor]) -> Tensor:
    """(n, 14) scores."""
    with torch.no_grad():
        return network(torch.stack([as_formula_ink(ink) for ink in symbols])[:, None])


def main() -> None:
    """Print the share that is read right, of each operator and of digits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="folder of a run of `dolphin train hwf`")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with operators/ and mnist/"
    )
    args = parser.parse_args()
    network = model.better_network().eval()
    best = args.run / "best.pt"
    checkpoint.load_weights(network, checkpoint.load(best, "hwf")["network"], best)
    for folder, sign in OPERATORS.items():
        ink = list(operators(args.data / "operators" / "mdas_symbols_v1.zip", folder))
        found = read(network, ink)[:, 10:].argmax(1)
        right = int((found == data.OPERATORS[sign] - 10).sum())
        print(f"{sign}: {right} of {len(ink)}")
    mnist = load_mnist(args.data / "mnist")
    lowest = int(RunFolder(args.run).read_json("config.json")["config"]["digits"][0])
    known = (mnist.test_labels >= lowest).nonzero().flatten()[:DIGITS]
    images = [image.float() / 255 for image in mnist.test_images[known]]
    found = read(network, images)[:, lowest:10].argmax(1) + lowest
    right = int((found == mnist.test_labels[known]).sum())
    print(f"digits of MNIST from {lowest} on: {right} of {len(known)}")


if __name__ == "__main__":
    main()
