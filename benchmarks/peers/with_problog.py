"""ProbLog: exact inference, one query at a time, without gradients.

Both sides answer one row from nothing: ProbLog grounds, compiles and evaluates the program; Dolphin
runs with empty caches.
"""

from __future__ import annotations

from collections.abc import Callable

import ours
import torch
from measuring import Case, Peer, Step, edge_probabilities, grid, main
from problog import get_evaluatable  # pyright: ignore[reportMissingImports]
from problog.program import PrologString  # pyright: ignore[reportMissingImports]
from torch import Tensor

RULES = """
way(X, Y) :- edge(X, Y).
way(X, Y) :- edge(Y, X).
reached(0).
reached(Y) :- reached(X), way(X, Y).
query(reached({end})).
"""


def reached(side: int) -> Callable[[], Step]:
    """The probability that the last vertex can be reached from the first."""

    def step(probs: Tensor) -> Tensor:
        given = zip(grid(side), probs[0].tolist(), strict=True)
        facts = "\n".join(f"{p:.9f}::edge({a}, {b})." for (a, b), p in given)
        program = PrologString(facts + RULES.format(end=side * side - 1))
        (answer,) = get_evaluatable("sdd").create_from(program).evaluate().values()
        return torch.tensor([answer], requires_grad=True)

    return lambda: step


def case(side: int, steps: int) -> Case:
    """One row, from nothing to the answer."""
    return Case(
        f"exact, {side}×{side} grid, one row, nothing remembered",
        lambda generator: edge_probabilities(1, len(grid(side)), generator),
        reached(side),
        ours.from_nothing(ours.reached(grid(side), "exact", side * side - 1)),
        steps,
    )


if __name__ == "__main__":
    main(Peer("ProbLog", ["problog", "PySDD", "numpy"], [case(2, 10), case(3, 5)]))
