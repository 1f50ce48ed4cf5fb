"""Recursions over per-row symbols under top-k proofs, in one loop."""

from __future__ import annotations

import random

import torch

import dolphin as dl
from dolphin.provenance.topk import row_recursion


def paths_of(rows, logits, k):
    """All pairs of nodes that are connected, each row with its own edges."""
    given = [(edges, logits[row, : len(edges)]) for row, edges in enumerate(rows)]
    edges = dl.Distribution.from_rows(
        given, exclusive=False, logits=True, provenance=dl.TopKProofs(k)
    )
    ends = (lambda path: path[1], lambda edge: edge[0])

    def step(paths):
        return dl.union(edges, dl.apply_if(paths, edges, lambda p, e: (p[0], e[1]), on=ends))

    return dl.fixpoint(step, edges)


def test_candidates_that_are_compared_as_a_whole_come_in_pieces(monkeypatch):
    """Where one proof contains another; with less memory than all candidates take at once."""
    draw = random.Random(3)
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    rows = [draw.sample(pairs, draw.randint(9, 12)) for _ in range(6)]
    logits = torch.randn(6, 12, dtype=torch.float64, requires_grad=True)
    cut = row_recursion._Search._pieces
    results = []
    for most in (10**6, 10):
        pieces = []

        def with_less(*given, most=most, pieces=pieces):
            with monkeypatch.context() as inside:
                inside.setattr(row_recursion, "chunk_elements", lambda: most)
                pieces.append(cut(*given))
            return pieces[-1]

        monkeypatch.setattr(row_recursion._Search, "_pieces", with_less)
        for _ in range(2):  # the second time in one loop
            found = paths_of(rows, logits, 3).probs(pairs)
        results.append((found, torch.autograd.grad(found.square().sum(), logits)[0]))
        assert max(map(len, pieces)) == 1 if most > 10 else max(map(len, pieces)) > 3
    torch.testing.assert_close(results[0], results[1])
