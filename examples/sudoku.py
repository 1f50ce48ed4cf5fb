"""Learn to read the digits of 4×4 Sudokus from labels that only say which boards are valid.

The program computes the exact probability that sixteen uncertain digits form a valid board. After
training it is queried in reverse: which valid board is the likeliest?

    python examples/sudoku.py --epochs 6 --picture sudoku.png
"""

import argparse
from pathlib import Path

import torch

import dolphin as dl
from dolphin_tasks import digits
from dolphin_tasks.sudoku import data, drawing, model, validity

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--boards", type=int, default=2000)
parser.add_argument("--picture", type=Path, default=Path("sudoku.png"))
args = parser.parse_args()
torch.manual_seed(0)


def valid(cells: list[dl.Distribution[int]]) -> dl.Distribution[bool]:
    """Whether a board is a Sudoku: four cells make a row, two rows a band, two bands the board."""
    rows = [
        dl.apply_if(*cells[i : i + 4], lambda *row: row, lambda *row: len(set(row)) == 4)
        for i in (0, 4, 8, 12)
    ]
    bands = [
        dl.apply_if(
            rows[i], rows[i + 1],
            lambda upper, lower: tuple(frozenset(pair) for pair in zip(upper, lower, strict=True)),
            lambda upper, lower: not {*upper[:2]} & {*lower[:2]},  # no digit twice in a box
        )
        for i in (0, 2)
    ]  # fmt: skip
    boards = dl.apply_if(
        *bands,
        lambda top, bottom: True,
        lambda top, bottom: all(not a & b for a, b in zip(top, bottom, strict=True)),  # columns
    )
    return dl.exists(boards)  # True and False


def read(batch: data.BoardBatch) -> list[dl.Distribution[int]]:
    """One distribution over digits for each cell."""
    return dl.Distribution.each_from_logits(model.read_cells(network, batch), [1, 2, 3, 4])


pools = data.pools(digits.find_digits(None, download=True))
train = data.validity_boards(args.boards, pools[0], seed=0)
network = model.cell_network(4)
optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
for epoch in range(args.epochs):
    losses = []
    for index in torch.randperm(len(train)).split(32):
        batch = train.batch(index)
        losses.append(dl.nll_loss(valid(read(batch)), batch.valid))
        optimiser.zero_grad()
        losses[-1].backward()
        optimiser.step()
    print(f"epoch {epoch + 1}/{args.epochs}  loss {torch.stack(losses).mean():.3f}")

batch = data.validity_boards(200, pools[2], seed=1).batch(torch.arange(200))
with torch.no_grad(), dl.using("exact"):
    cells = read(batch)
    answers = valid(cells).argmax()
    likeliest = torch.tensor(dl.most_likely(cells, valid(cells), [True] * 200))
names = validity.naming(likeliest[::2].flatten() - 1, batch.digits[::2].flatten() - 1)
solved = names[likeliest - 1] + 1  # labels can't tell what digits are called
marks = [answer == label for answer, label in zip(answers, batch.valid, strict=True)]
found = (solved == batch.digits).all(1)[::2]  # of the valid ones: every second board
print(f"{sum(marks) / 2:.1f}% of boards classified right, {found.sum()}% of valid ones read right")
repaired = ["; repair in red" if board else "" for board in (solved != batch.digits).any(1)]
notes = ["valid" if a else f"invalid{more}" for a, more in zip(answers, repaired, strict=True)]
notes = [note if mark else f"{note} (wrong)" for note, mark in zip(notes, marks, strict=True)]
drawing.draw_boards(batch, solved, batch.digits, notes, marks, args.picture)
