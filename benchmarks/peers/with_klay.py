"""KLay and PySDD: a formula is compiled once by PySDD, and KLay evaluates it for a batch.

The formula is that there is a way from one corner of a grid to the other. PySDD compiles it by the
same recursion that Dolphin's program has; Dolphin runs its whole program at every step, and KLay
only evaluates. With edges in the order of their vertices, a right-linear vtree makes the smallest
circuit of those that PySDD offers by name (4×4: 280 nodes, compiled in 0.1 s; balanced: 34 s).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import klay  # pyright: ignore[reportMissingImports]
import ours
import torch
from measuring import Case, Peer, Step, edge_probabilities, grid, main
from pysdd.sdd import SddManager, Vtree  # pyright: ignore[reportMissingImports]
from torch import Tensor


def compiled(side: int) -> tuple[Any, Any]:
    """The manager and the formula that the last vertex can be reached from the first."""
    edges = grid(side)
    manager = SddManager(vtree=Vtree(var_count=len(edges), vtree_type="right"))
    ways = [(a, b, manager.literal(n + 1)) for n, (a, b) in enumerate(edges)]
    ways += [(b, a, way) for a, b, way in ways]
    reached = {vertex: manager.false() for vertex in range(side * side)} | {0: manager.true()}
    while True:
        grown = dict(reached)
        for a, b, way in ways:
            grown[b] = grown[b] | (reached[a] & way)
        if all(grown[vertex] == reached[vertex] for vertex in reached):
            return manager, grown[side * side - 1]
        reached = grown


def layers(side: int) -> Callable[[], Step]:
    """The circuit in logarithms, as KLay's documentation recommends."""

    def made() -> Step:
        _, formula = compiled(side)
        circuit = klay.Circuit()
        circuit.add_sdd(formula)
        module = circuit.to_torch_module(semiring="log", compile=False)

        def step(probs: Tensor) -> Tensor:
            return module(probs.log(), torch.log1p(-probs)).reshape(-1).exp()

        return step

    return made


def compiled_anew(side: int) -> Callable[[], Step]:
    """Compiling and evaluating."""

    def step(probs: Tensor) -> Tensor | None:
        evaluate = layers(side)()
        return evaluate(probs)

    return lambda: step


def case(side: int) -> Case:
    """Evaluation for a batch."""
    edges = grid(side)
    return Case(
        f"exact, {side}×{side} grid, B = 64",
        lambda generator: edge_probabilities(64, len(edges), generator),
        layers(side),
        ours.reached(edges, "exact", side * side - 1),
        20,
    )


def first_case(side: int) -> Case:
    """One row, from nothing to the answer and its gradients: what compiling costs."""
    edges = grid(side)
    return Case(
        f"exact, {side}×{side} grid, one row, nothing remembered",
        lambda generator: edge_probabilities(1, len(edges), generator),
        compiled_anew(side),
        ours.from_nothing(ours.reached(edges, "exact", side * side - 1)),
        5,
    )


if __name__ == "__main__":
    packages = ["klaycircuits", "PySDD", "numpy"]
    main(Peer("KLay with PySDD", packages, [case(3), case(4), first_case(3), first_case(4)]))
