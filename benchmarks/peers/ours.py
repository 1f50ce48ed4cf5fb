"""Dolphin's side of all cases: the programs as one would write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from measuring import Learner, Peer, Step, main
from torch import Tensor, nn

import dolphin as dl


def add(x: int, y: int) -> int:
    """One digit more."""
    return x + y


def sums(provenance: Any, **options: Any) -> Callable[[], Step]:
    """The probability of a row's sum, from the probabilities of its digits."""
    algebra = dl.get_provenance(provenance, **options)

    def step(inputs: tuple[Sequence[Tensor], list[int]]) -> Tensor:
        probs, truth = inputs
        digits = [dl.Distribution(p, range(10), provenance=algebra) for p in probs]
        return dl.reduce(add, digits).prob_of(truth)

    return lambda: step


def reached(edges: Sequence[tuple[int, int]], provenance: Any, end: int) -> Callable[[], Step]:
    """The probability that a way leads from vertex 0 to `end`."""

    def step(probs: Tensor) -> Tensor:
        ways = dl.Distribution(probs, edges, exclusive=False, provenance=provenance)
        there = ways.map(lambda way: way)
        back = ways.map(lambda way: (way[1], way[0]))
        both = dl.union(there, back)
        start = dl.Distribution.certain(0)

        def grow(found: dl.Distribution) -> dl.Distribution:
            on = (lambda vertex: vertex, lambda way: way[0])
            return dl.union(start, dl.apply_if(found, both, lambda _, way: way[1], on=on))

        return dl.fixpoint(grow, start).prob_of([end] * len(probs))

    return lambda: step


def from_nothing(program: Callable[[], Step]) -> Callable[[], Step]:
    """A program with empty caches."""
    step = program()

    def anew(inputs: Any) -> Tensor | None:
        dl.cache_clear()
        return step(inputs)

    return lambda: anew


def sum_of_two(network: nn.Module) -> Learner:
    """Adam on the likelihood of the sums."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def learn(images: Tensor, truth: list[int]) -> None:
        scores = network(images.flatten(0, 1)).view(-1, 2, 10)
        first, second = (dl.Distribution.from_logits(s, range(10)) for s in scores.unbind(1))
        loss = dl.nll_loss(dl.apply(first, second, add), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return learn


def whole_step(learner: Callable[[nn.Module], Learner]) -> Callable[[], Step]:
    """A learning step with a network of its own."""
    from dolphin_tasks.mnist import digit_network

    def made() -> Step:
        torch.manual_seed(0)
        learn = learner(digit_network())
        return lambda inputs: learn(*inputs)

    return made


if __name__ == "__main__":
    main(Peer("Dolphin", ["numpy"], learner=sum_of_two))
