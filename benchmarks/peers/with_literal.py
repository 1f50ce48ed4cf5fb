"""The paper's definitions of top-k proofs, evaluated literally: dense tags, nothing remembered.

`tests/support/literal.py` is the evaluator; the programs are those of Dolphin's side, and both grow
paths by `union(edges, extend(paths))` until there are no new pairs: extending and keeping
`union(paths, ...)` would count shorter paths again in every round.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ours
import torch
from measuring import Case, Learner, Peer, Step, digit_sums, edge_probabilities, grid, main
from torch import Tensor, nn

import dolphin as dl

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from literal import Literal  # pyright: ignore[reportMissingImports]

SIDE = 4
EDGES = [edge for a, b in grid(SIDE) for edge in ((a, b), (b, a))]


def literal_sum(k: int) -> Callable[[], Step]:
    """The probability of a row's sum."""

    def step(inputs: tuple[Sequence[Tensor], list[int]]) -> Tensor:
        probs, truth = inputs
        operations = Literal(k)
        digits = [operations.distribution(p, range(10)) for p in probs]
        total = digits[0]
        for digit in digits[1:]:
            total = operations.apply(total, digit, ours.add)
        everything = operations.get_probs(total)
        at = torch.tensor([total.symbols.index(each) for each in truth])
        return everything[torch.arange(len(truth)), at]

    return lambda: step


def closure(operations: Any, edges: Any) -> Any:
    """All paths, grown at their ends until there are no new pairs of vertices."""
    on = (lambda path: path[1], lambda edge: edge[0])
    paths = edges
    while True:
        longer = operations.apply_if(paths, edges, lambda p, e: (p[0], e[1]), on=on)
        grown = operations.union(edges, longer)
        if len(grown.symbols) == len(paths.symbols):
            return grown
        paths = grown


def literal_paths(k: int) -> Callable[[], Step]:
    """The probability of a way from the first to the last vertex."""

    def step(probs: Tensor) -> Tensor:
        operations = Literal(k)
        paths = closure(operations, operations.distribution(probs, EDGES, exclusive=False))
        return operations.get_probs(paths)[:, paths.symbols.index((0, SIDE * SIDE - 1))]

    return lambda: step


def paths(k: int) -> Callable[[], Step]:
    """The same with Dolphin."""

    def step(probs: Tensor) -> Tensor:
        algebra = dl.TopKProofs(k=k)
        edges = dl.Distribution(probs, EDGES, exclusive=False, provenance=algebra)
        return closure(dl, edges).prob_of([(0, SIDE * SIDE - 1)] * len(probs))

    return lambda: step


def sum_of_two(network: nn.Module) -> Learner:
    """Adam on the likelihood of the sums; ten proofs are all that a sum of two digits has."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    total = literal_sum(10)()

    def learn(images: Tensor, truth: list[int]) -> None:
        probs = network(images.flatten(0, 1)).softmax(-1).view(-1, 2, 10).unbind(1)
        found = total((probs, truth))
        optimizer.zero_grad()
        assert found is not None
        (-found.clamp_min(1e-12).log().mean()).backward()
        optimizer.step()

    return learn


if __name__ == "__main__":
    cases = [
        Case(
            "sum-5, k = 3",
            lambda generator: digit_sums(64, 5, generator),
            literal_sum(3),
            ours.sums("dtkp-am", k=3),
            5,
        ),
        Case(
            f"paths on a {SIDE}×{SIDE} grid, k = 1, B = 8",
            lambda generator: edge_probabilities(8, len(EDGES), generator),
            literal_paths(1),
            paths(1),
            2,
        ),
    ]
    main(Peer("the paper's definitions, literally", ["numpy"], cases, sum_of_two))
