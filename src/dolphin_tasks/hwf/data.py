"""Samples of HWF: images of a formula's symbols in order, and its value.

Real ink and the official formulas are read from a folder `hwf` (`symbols.npz`, `expr_*.json`);
without them digits come from MNIST, or are drawn, and operators are drawn. A *strict* split makes
training formulas from training ink only; the *shared* split lets both sides use all ink, and is for
comparison with published figures only.

The official formulas have the digits 1 to 9 and no 0; so do generated ones, unless 0 is included.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin_tasks.digits import find_digits
from dolphin_tasks.fetch import BROKEN_ARRAYS, DataError, parse_json
from dolphin_tasks.hwf.program import SYMBOLS, value
from dolphin_tasks.strokes import NAMES, draw_symbols
from dolphin_tasks.training.noise import Noise
from dolphin_tasks.training.task import Data

SIZE = 45
SIZES = {7: (10_000, 2_000), 15: (24_000, 6_000), 19: (32_000, 8_000)}
"""Training and test formulas by greatest length, as in the paper."""
OTHER_SIZES = (24_000, 6_000)
VALIDATION = 1_000
BENDS = 4
"""Images are bent by a square field of this many random shifts along each side."""
NOISE = 7 + 2 * BENDS**2
OPERATORS = {"+": 10, "-": 11, "*": 12, "/": 13}


@dataclass(frozen=True)
class Ink:
    """Images (n, 45, 45) uint8 with ink 255 on 0, class numbers (n,), and which are for testing."""

    images: Tensor
    labels: np.ndarray
    test: np.ndarray
    source: str


@dataclass(frozen=True)
class FormulaBatch:
    """Images of all symbols of all formulas one after the other, and where each formula ends."""

    images: Tensor  # (symbols of all rows, 1, 45, 45) in [0, 1]
    classes: Tensor  # (symbols of all rows,)
    lengths: Tensor  # (B,)
    values: list[float]


class Formulas:
    """Formulas as lists of places in the ink."""

    def __init__(self, ink: Ink, formulas: Sequence[Sequence[int]], augment: bool = False) -> None:
        self.ink, self.augment = ink, augment
        self.lengths = torch.tensor([len(formula) for formula in formulas], dtype=torch.int64)
        self.starts = self.lengths.cumsum(0) - self.lengths
        self.places = torch.tensor([place for formula in formulas for place in formula])
        self.values = [value([SYMBOLS[c] for c in ink.labels[list(f)]]) for f in formulas]

    def __len__(self) -> int:
        return len(self.lengths)

    def reads(self, index: Tensor) -> int:
        """Symbols of these formulas."""
        return int(self.lengths[index].sum())

    def batch(self, index: Tensor, noise: Noise | None = None) -> FormulaBatch:
        """These formulas; moved, turned and slanted a little if there is noise and that is on."""
        lengths = self.lengths[index]
        within = torch.arange(int(lengths.sum())) - (lengths.cumsum(0) - lengths).repeat_interleave(
            lengths
        )
        places = self.places[self.starts[index].repeat_interleave(lengths) + within]
        images = self.ink.images[places].float().div_(255).unsqueeze(1)
        if noise is not None and self.augment:
            images = shake(images, noise.uniform(NOISE))
        classes = torch.from_numpy(self.ink.labels[places.numpy()])
        return FormulaBatch(images, classes, lengths, [self.values[i] for i in index.tolist()])


def shake(images: Tensor, noise: Tensor) -> Tensor:
    """Turn, slant, scale, move and bend images a little, and write a third with a thicker pen.

    `noise` (n, NOISE) in [0, 1): what a hand might have done otherwise.
    """
    few, bends = (2 * noise - 1).split([7, NOISE - 7], dim=1)
    angle, slant, wide, high, right, down, pen = few.unbind(1)
    thick = F.max_pool2d(images, 3, stride=1, padding=1)
    images = torch.where((pen < -1 / 3).view(-1, 1, 1, 1), thick, images)
    angle, slant = 0.15 * angle, 0.25 * slant
    across, along = 1.03 + 0.12 * wide, 1.03 + 0.12 * high
    cos, sin = angle.cos(), angle.sin()
    rows = [
        torch.stack([across * cos, along * (slant - sin), 0.04 * right], 1),
        torch.stack([across * sin, along * cos, 0.04 * down], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    coarse = 0.12 * bends.reshape(-1, 2, BENDS, BENDS)
    bent = F.interpolate(coarse, images.shape[2:], mode="bicubic", align_corners=True)
    return F.grid_sample(images, grid + bent.permute(0, 2, 3, 1), align_corners=False)


# -- where ink and formulas come from --------------------------------------------------------------


def find_folder(data_dir: Path | None) -> Path | None:
    """The folder with the real data, or None."""
    if data_dir is not None:
        for folder in (data_dir / "hwf", data_dir):
            if (folder / "symbols.npz").is_file():
                return folder
        raise DataError(f"{data_dir} holds no symbols.npz, the ink of HWF.")
    shared = os.environ.get("DOLPHIN_DATA")
    if shared and (Path(shared) / "hwf" / "symbols.npz").is_file():
        return Path(shared) / "hwf"
    return None


def read_ink(folder: Path) -> Ink:
    """The real ink."""
    path = folder / "symbols.npz"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            images, labels, split = (arrays[name] for name in ("images", "labels", "split"))
    except BROKEN_ARRAYS as error:
        raise DataError(f"{path} is truncated, damaged or something else ({error}).") from None
    fits = (
        images.dtype == np.uint8
        and labels.dtype.kind in "iu"
        and labels.ndim == 1
        and images.shape == (len(labels), SIZE, SIZE)
        and split.shape == labels.shape
        and np.isin(labels, np.arange(len(SYMBOLS))).all()
    )
    if not fits:
        raise DataError(f"{path} does not hold 45x45 images of the 14 symbols of HWF.")
    ink = torch.from_numpy(255 - images)
    return Ink(ink, labels.astype(np.int64), split == 1, f"real ink of HWF in {folder}")


def make_ink(data_dir: Path | None, download: bool) -> Ink:
    """MNIST digits (drawn ones where there is no MNIST) and drawn operators."""
    mnist = find_digits(data_dir, download)
    digits = torch.cat([mnist.train_images[:12_000], mnist.test_images[:3_000]])
    labels = torch.cat([mnist.train_labels[:12_000], mnist.test_labels[:3_000]])
    train = min(12_000, len(mnist.train_labels))
    large = F.interpolate(digits[:, None].float(), (SIZE, SIZE), mode="bilinear")[:, 0]
    operators = torch.arange(10, len(NAMES)).repeat(1_000)
    drawn = draw_symbols(operators, SIZE, seed=1)
    test = torch.cat(
        [
            torch.arange(len(labels)) >= train,
            torch.arange(len(operators)) >= len(operators) * 4 // 5,
        ]
    )
    return Ink(
        torch.cat([large.to(torch.uint8), drawn]),
        torch.cat([labels, operators]).numpy(),
        test.numpy(),
        f"NOT the real HWF, which was not found: digits of MNIST from {mnist.source}, and drawn "
        "operators",
    )


def read_formulas(folder: Path, split: Literal["train", "test"], symbols: int) -> list[list[int]]:
    """The official formulas, as places in the ink."""
    path = folder / f"expr_{split}.json"
    try:
        formulas = [list(map(int, line["images"])) for line in parse_json(path.read_text())]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is missing, truncated or something else ({error}).") from None
    if any(not 0 <= place < symbols for formula in formulas for place in formula):
        raise DataError(f"{path} names images that symbols.npz doesn't have.")
    return formulas


# -- samples ---------------------------------------------------------------------------------------


def make_classes(
    count: int, longest: int, rng: np.random.Generator, lowest: int = 1
) -> list[list[int]]:
    """Random formulas as class numbers, with the digits `lowest`...9.

    60 % of them have the greatest length, 20 % the next shorter one.

    >>> make_classes(1, 3, np.random.default_rng(0))
    [[5, 11, 3]]
    """
    lengths = list(range(longest, 0, -2))
    weights = np.array([6.0, 2.0] + [2.0 / max(1, len(lengths) - 2)] * (len(lengths) - 2))
    weights = weights[: len(lengths)] / weights[: len(lengths)].sum()
    return [
        [int(rng.integers(*((10, 14) if place % 2 else (lowest, 10)))) for place in range(length)]
        for length in rng.choice(lengths, count, p=weights)
    ]


def draw_from(
    ink: Ink, classes: Sequence[Sequence[int]], usable: np.ndarray, seed: int
) -> list[list[int]]:
    """Formulas with these classes, each symbol drawn from the usable ink of its class."""
    rng = np.random.default_rng(seed)
    choices = np.flatnonzero(usable)
    choices = choices[np.argsort(ink.labels[choices], kind="stable")]
    counts = np.bincount(ink.labels[choices], minlength=len(SYMBOLS))
    wanted = np.array([c for formula in classes for c in formula], dtype=np.int64)
    if not counts[wanted].all():
        missing = SYMBOLS[int(wanted[counts[wanted] == 0][0])]
        raise DataError(
            f"there is no ink for the symbol {missing!r} on one side of the split of {ink.source}."
        )
    places = choices[(counts.cumsum() - counts)[wanted] + rng.integers(counts[wanted])]
    ends = np.cumsum([len(formula) for formula in classes])
    return [part.tolist() for part in np.split(places, ends[:-1])]


def load(
    longest: int,
    split: Literal["strict", "shared"],
    data_dir: Path | None = None,
    download: bool = True,
    augment: bool = False,
    seed: int = 0,
    lowest: int = 1,
) -> Data[FormulaBatch]:
    """Formulas of odd length up to `longest`.

    For length 7 and digits from 1 on these are the official ones, otherwise they are generated.
    Validation formulas are made from training ink that no training formula uses.
    """
    folder = find_folder(data_dir)
    ink = make_ink(data_dir, download) if folder is None else read_ink(folder)
    rng = np.random.default_rng([seed, longest])
    official = folder is not None and longest == 7 and lowest == 1
    everything = np.ones(len(ink.labels), dtype=bool)
    held = ~ink.test & (rng.random(len(ink.labels)) < 0.1)
    if official:
        assert folder is not None
        train = read_formulas(folder, "train", len(ink.labels))
        test = read_formulas(folder, "test", len(ink.labels))
        held = ~ink.test
        held[[place for formula in train for place in formula]] = False
        rng.shuffle(train)
        rng.shuffle(test)
        if split == "shared":
            train, test = (
                draw_from(ink, [ink.labels[f].tolist() for f in formulas], everything, seed + n)
                for n, formulas in enumerate((train, test))
            )
    else:
        counts = SIZES.get(longest, OTHER_SIZES)
        shared = split == "shared"
        usable = (everything if shared else ~ink.test & ~held, everything if shared else ink.test)
        train, test = (
            draw_from(ink, make_classes(count, longest, rng, lowest), allowed, seed + n)
            for n, (count, allowed) in enumerate(zip(counts, usable, strict=True))
        )
    validation = draw_from(ink, make_classes(VALIDATION, longest, rng, lowest), held, seed + 2)
    kind = "official" if official else "generated"
    return Data(
        Formulas(ink, train, augment),
        Formulas(ink, validation),
        Formulas(ink, test),
        f"{ink.source}; {kind} formulas of length up to {longest}, digits {lowest} to 9, "
        f"{split} split",
    )
