"""Top-k proofs with many proofs over several operands, against plain enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch

import dolphin as dl

ROWS, SUMS = 2, 2


def numbers(widths: Sequence[int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(widths))
    drawn = (torch.rand(ROWS, w, generator=generator, dtype=torch.float64) for w in widths)
    return [x.softmax(1).requires_grad_() for x in drawn]


def likeliest(xs: list[torch.Tensor], parts: list[int], k: int, row: int, target: int):
    """The k likeliest proofs, as sets of facts (input, symbol), and their probabilities.

    Operand i is input `parts[i]`: an input that appears twice has one symbol.
    """
    choices = itertools.product(*(range(xs[part].shape[1]) for part in parts))
    proofs = {
        frozenset(zip(parts, choice, strict=True))
        for choice in choices
        if sum(choice) % SUMS == target
    }
    apart = [p for p in proofs if len({part for part, _ in p}) == len(p)]
    chances = [torch.stack([xs[part][row, s] for part, s in sorted(p)]).prod() for p in apart]
    order = sorted(range(len(apart)), key=lambda at: -chances[at].item())[:k]
    assert len(apart) > k  # some are dropped
    return [apart[at] for at in order], [chances[at] for at in order]


def agree(found: torch.Tensor, wanted: torch.Tensor, xs: list[torch.Tensor]) -> None:
    torch.testing.assert_close(found, wanted)
    weights = torch.arange(1.0, 1.0 + found.numel(), dtype=found.dtype).view(found.shape)
    for own, other in zip(
        torch.autograd.grad((weights * found).sum(), xs),
        torch.autograd.grad((weights * wanted).sum(), xs),
        strict=True,
    ):
        torch.testing.assert_close(own, other)


def table(entry) -> torch.Tensor:
    return torch.stack(
        [torch.stack([entry(row, target) for target in range(SUMS)]) for row in range(ROWS)]
    )


@pytest.mark.parametrize(("name", "k"), [("dtkp-am", 16), ("dtkp-am", 32)])
@pytest.mark.parametrize(
    ("widths", "parts"),
    [((5, 5, 4), [0, 1, 2]), ((4, 4, 3, 3), [0, 1, 2, 3]), ((5, 5, 4), [0, 1, 0, 2])],
    ids=["three", "four", "one of them twice"],
)
def test_sums_over_the_k_likeliest_proofs(name, k, widths, parts):
    xs = numbers(widths)
    with dl.using(dl.get_provenance(name, k=k)):
        inputs = [dl.Distribution(x, range(x.shape[1])) for x in xs]
        result = dl.apply(*(inputs[part] for part in parts), lambda *s: sum(s) % SUMS)
    agree(
        result.probs(list(range(SUMS))),
        table(lambda row, target: torch.stack(likeliest(xs, parts, k, row, target)[1]).sum()),
        xs,
    )


def test_exact_counts_of_proofs_that_overlap():
    """Over facts that are independent: the worlds in which any of the proofs holds."""
    xs, parts = numbers((4, 3, 3)), [0, 1, 2]
    facts = [(part, s) for part in parts for s in range(xs[part].shape[1])]
    worlds = torch.tensor(list(itertools.product([False, True], repeat=len(facts))))
    with dl.using(dl.get_provenance("dtkp-wmc", k=8)):
        inputs = [dl.Distribution(x, range(x.shape[1]), exclusive=False) for x in xs]
        result = dl.apply(*inputs, lambda *s: sum(s) % SUMS)

    def counted(row: int, target: int) -> torch.Tensor:
        own = torch.cat([x[row] for x in xs])
        chances = torch.where(worlds, own, 1.0 - own).prod(1)
        proofs, _ = likeliest(xs, parts, 8, row, target)
        columns = [[facts.index(fact) for fact in proof] for proof in proofs]
        return chances[torch.stack([worlds[:, c].all(1) for c in columns]).any(0)].sum()

    agree(result.probs(list(range(SUMS))), table(counted), xs)
