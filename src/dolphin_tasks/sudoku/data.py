"""Boards of MNIST digits: 4×4 boards that are valid or spoilt, and 9×9 puzzles.

The images of the three splits are disjoint. Within a split each image of a digit is used once
before any is used twice.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dolphin_tasks.digits import shift
from dolphin_tasks.mnist import Mnist
from dolphin_tasks.sudoku.boards import Board, is_valid, random_board, random_puzzle, symmetry
from dolphin_tasks.training.noise import Noise

GIVENS = (31, 42)
"""Fewest and most digits of a 9×9 puzzle."""
COPIES = 30
"""How many puzzles are made from one by the symmetries of Sudoku: searching is what takes time."""


@dataclass(frozen=True)
class BoardBatch:
    """Boards, and the images in their cells.

    Training sees the images, where they are, and the label: `valid`, or the digits of cells that
    have no image.
    """

    images: Tensor
    """(all images, 1, 28, 28) in [0, 1], board after board."""
    given: Tensor
    """(B, cells), True for a cell with an image."""
    digits: Tensor
    """(B, cells), what is in each cell of the complete board."""

    @property
    def valid(self) -> list[bool]:
        """Which boards obey the rules."""
        return [is_valid(board) for board in self.digits.tolist()]


class Boards:
    """Boards with images dealt into their given cells."""

    def __init__(
        self, boards: Sequence[Board], given: Tensor, images: Tensor, labels: Tensor, seed: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.digits, self.given, self.images = torch.tensor(boards), given, images
        self.picks = torch.full(self.digits.shape, -1)
        for digit in range(1, int(self.digits.max()) + 1):
            pool = (labels == digit).nonzero().flatten()
            cells = given & (self.digits == digit)
            wanted = int(cells.sum())
            rounds = [
                pool[torch.randperm(len(pool), generator=generator)]
                for _ in range(-(-wanted // len(pool)))
            ]
            self.picks[cells] = torch.cat([pool[:0], *rounds])[:wanted]

    def __len__(self) -> int:
        return len(self.digits)

    def reads(self, index: Tensor) -> int:
        """Images of these boards."""
        return int(self.given[index].sum())

    def batch(self, index: Tensor, noise: Noise | None = None) -> BoardBatch:
        """These boards; while training images are shifted by up to a pixel."""
        given = self.given[index]
        images = self.images[self.picks[index][given]]
        if noise is not None:
            images = shift(images, noise.uniform(2), most=1)
        return BoardBatch(images.float().div(255).unsqueeze(1), given, self.digits[index])


def pools(mnist: Mnist, held: int = 6000) -> tuple[tuple[Tensor, Tensor], ...]:
    """Images and labels to train, validate and test on; the last training images are held out."""
    cut = len(mnist.train_labels) - min(held, len(mnist.train_labels) // 4)
    return (
        (mnist.train_images[:cut], mnist.train_labels[:cut]),
        (mnist.train_images[cut:], mnist.train_labels[cut:]),
        (mnist.test_images, mnist.test_labels),
    )


def validity_boards(count: int, pool: tuple[Tensor, Tensor], seed: int) -> Boards:
    """4×4 boards, every second one spoilt."""
    rng = random.Random(seed)
    boards = []
    for number in range(count):
        board = random_board(4, rng)
        boards.append(spoilt(board, rng) if number % 2 else board)
    given = torch.ones(count, 16, dtype=torch.bool)
    return Boards(boards, given, *pool, seed)


def spoilt(board: Board, rng: random.Random, chance: float = 0.5) -> Board:
    """An invalid board: digits of `board` replaced or exchanged, further ones with this chance.

    >>> board = random_board(4, random.Random(0))
    >>> is_valid(spoilt(board, random.Random(0)))
    False
    """
    cells = list(board)
    while True:
        one, other = rng.sample(range(len(cells)), 2)
        if rng.random() < 0.5:
            cells[one], cells[other] = cells[other], cells[one]
        else:
            cells[one] = rng.choice([d for d in set(board) if d != cells[one]])
        if not is_valid(cells) and rng.random() >= chance:
            return tuple(cells)


def puzzles(count: int, pool: tuple[Tensor, Tensor], seed: int) -> Boards:
    """9×9 puzzles with one solution each; images show their given digits."""
    rng = random.Random(seed)
    boards: list[Board] = []
    given: list[list[bool]] = []
    while len(boards) < count:
        board = random_board(9, rng)
        puzzle = random_puzzle(board, rng.randint(*GIVENS), rng)
        if puzzle is None:
            continue
        for _ in range(min(COPIES, count - len(boards))):
            cells, digits = symmetry(9, rng)
            boards.append(tuple(digits[board[cell]] for cell in cells))
            given.append([puzzle[cell] > 0 for cell in cells])
    return Boards(boards, torch.tensor(given), *pool, seed)
