"""Which symbols a sample keeps."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl
from dolphin.execution import selecting


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
