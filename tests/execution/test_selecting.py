"""Which symbols a sample keeps, and what rows keep that an operation leaves alone."""

from __future__ import annotations

import random

import pytest
import torch

import dolphin as dl
from dolphin.execution import run, selecting


@pytest.mark.parametrize("narrow", [0, 128], ids=["on the device", "on the host"])
@pytest.mark.parametrize("per_row", [False, True], ids=["shared", "per row"])
def test_the_likeliest_are_kept(narrow, per_row, monkeypatch):
    """Short rows keep all they have, others nothing that can't be."""
    monkeypatch.setattr(selecting, "_NARROW", narrow)
    rows = [[0.1, 0.4, 0.2, 0.3], [0.0, 0.6, 0.0, 0.4], [0.25, 0.0, 0.5, 0.25]]
    d = dl.Distribution.from_logits(torch.tensor(rows, dtype=torch.float64).log(), "abcd")
    if per_row:
        d = dl.Distribution.from_rows([("abcd", rows[0]), ("bd", [0.6, 0.4]), ("xy", [0.0, 1.0])])
    kept = [[s for s, _ in dl.sample(d, 3).row(row)] for row in range(3)]
    last = ["y", "x"] if per_row else ["c", "a", "d"]
    assert [set(symbols) for symbols in kept] == [{"b", "d", "c"}, {"b", "d"}, set(last)]


def test_of_equal_ones_the_first_are_kept():
    d = dl.Distribution(torch.full((2, 7), 1 / 7), "abcdefg", provenance="dtkp-am")
    assert dl.sample(d, 3).symbols == ("a", "b", "c")


def _kept_by_hand(row, k):
    """Places of the k likeliest symbols of a row; of equal ones the first."""
    return sorted(sorted(range(len(row)), key=lambda place: -row[place])[:k])


@pytest.mark.parametrize("seed", range(20))
def test_ties_and_short_rows(seed):
    draw = random.Random(seed)
    k, width = draw.randint(1, 4), 6
    rows = [
        [draw.choice([0.0, 0.125, 0.125, 0.25, 0.5]) for _ in range(draw.randint(1, width))]
        for _ in range(5)
    ]
    given = [(range(len(row)), row) for row in [*rows, [0.5] * width]]
    d = dl.Distribution.from_rows(given, exclusive=False, provenance="dtkp-am")
    kept = dl.sample(d, k)
    for place, (_, row) in enumerate(given):
        assert sorted(symbol for symbol, _ in kept.row(place)) == _kept_by_hand(row, k)


def _folded(rows, lengths, provenance, last):
    """Sums of the first numbers of each row, two kept at each step; a `where=` per step."""
    total = dl.sample(dl.Distribution(rows[0], range(4), provenance=provenance), 3)
    for place in range(1, len(rows)):
        number = dl.sample(dl.Distribution(rows[place], range(4), provenance=provenance), 3)
        operands = {
            "two": (total, number),
            "certain": (total, number, dl.Distribution.certain(1, batch=len(lengths))),
            "again": (total, number, number),
            "itself": (total, total),
        }[last]
        where = lengths > place
        total = dl.apply(*operands, lambda *numbers: sum(numbers) % 11, where=where)
        total = dl.sample(total, 4)
    return total


@pytest.mark.parametrize("last", ["two", "certain", "again", "itself"])
@pytest.mark.parametrize(
    "provenance", [dl.TopKProofs(1), dl.TopKProofs(3), dl.TopKProofs(3, wmc="exact")], ids=repr
)
def test_rows_left_alone_are_part_of_the_contraction(provenance, last, monkeypatch):
    """The same as each row by itself, with as many steps as it has, gradients included."""
    monkeypatch.setattr(run, "where_rows", None)  # not needed
    torch.manual_seed(0)
    numbers = torch.rand(4, 6, 4, dtype=torch.float64).softmax(-1).requires_grad_()
    lengths = torch.tensor([4, 1, 2, 3, 1, 2])
    result = _folded(numbers, lengths, provenance, last)
    for row, length in enumerate(lengths.tolist()):
        alone = _folded(numbers[:length, row : row + 1], lengths[row : row + 1], provenance, last)
        found, wanted = dict(result.row(row)), dict(alone.row(0))
        assert found.keys() == wanted.keys()
        assert found == pytest.approx(wanted, abs=1e-12)
        symbols = [symbol for symbol, _ in alone.row(0)]
        weights = torch.arange(1.0, 1 + len(symbols), dtype=torch.float64)
        gradients = [
            torch.autograd.grad(d.probs(symbols)[at] @ weights, numbers, retain_graph=True)[0]
            for d, at in ((result, row), (alone, 0))
        ]
        torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)
