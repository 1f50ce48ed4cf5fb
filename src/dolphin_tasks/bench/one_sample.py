"""Programs for one sample, with control flow or chance, and other ways to write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.formulas import Formula
from dolphin_tasks.bench.program import Inputs, Other, Program, class_scores
from dolphin_tasks.bench.sums import Sum
from dolphin_tasks.digits import digit_distributions
from dolphin_tasks.hwf.program import calculate_one, readings, same
from dolphin_tasks.mnist import digit_network

OPERATIONS = {
    "+": lambda x, y: (x + y) % 10,
    "-": lambda x, y: (x - y) % 10,
    "*": lambda x, y: x * y % 10,
    "max": max,
}
Tree = tuple[str, Any, Any] | None
"""An operation on two trees; None: a leaf, which is a digit."""


def evaluate_tree(tree: Tree, leaves: Any) -> Any:
    """The value of a tree, from distributions over its leaves in order."""
    if tree is None:
        return next(leaves)
    operation, left, right = tree
    return dl.apply(
        evaluate_tree(left, leaves), evaluate_tree(right, leaves), OPERATIONS[operation]
    )


def tree_value(tree: Tree, scores: Tensor) -> dl.Distribution:
    """The value of one tree, from scores of its leaves (leaves, 10)."""
    return evaluate_tree(tree, (dl.Distribution.from_logits(s, range(10)) for s in scores))


@dataclass(frozen=True)
class Trees(Program):
    """Expression trees of 5 to 25 leaves, all of different shapes."""

    def network(self) -> nn.Module:
        return digit_network()

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows * 15, 1, 28, 28)

    def draw(self, rows: int, inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, Any]:
        trees, values = [], []
        digits = torch.randint(10, (rows, 25), generator=generator)
        for row in digits.tolist():
            size = int(torch.randint(5, 26, (), generator=generator))
            trees.append(_random_tree(size, generator))
            values.append(_plain_value(trees[-1], iter(row[:size])))
        return class_scores(digits, 10, inputs, generator), (trees, values)

    def loss(self, scores: Tensor, labels: Any) -> Tensor:
        trees, values = labels
        return dl.nll_loss(dl.batched(tree_value)(trees, _leaves(trees, scores)), values)

    def others(self) -> tuple[Other, ...]:
        return (Other("loop", self._loop, at_least=5.0),)

    def _loop(self, scores: Tensor, labels: Any) -> Tensor:
        trees, values = labels
        pairs = zip(trees, _leaves(trees, scores), strict=True)
        return dl.nll_loss(dl.Distribution.stack([tree_value(*pair) for pair in pairs]), values)


def _leaves(trees: list[Tree], scores: Tensor) -> list[Tensor]:
    return [own[: _size(tree)] for tree, own in zip(trees, scores.unbind(0), strict=True)]


def _size(tree: Tree) -> int:
    return 1 if tree is None else _size(tree[1]) + _size(tree[2])


def _random_tree(leaves: int, generator: torch.Generator) -> Tree:
    if leaves == 1:
        return None
    left = int(torch.randint(1, leaves, (), generator=generator))
    operation = list(OPERATIONS)[int(torch.randint(4, (), generator=generator))]
    return (operation, _random_tree(left, generator), _random_tree(leaves - left, generator))


def _plain_value(tree: Tree, digits: Any) -> int:
    if tree is None:
        return next(digits)
    left = _plain_value(tree[1], digits)
    return OPERATIONS[tree[0]](left, _plain_value(tree[2], digits))


@dataclass(frozen=True)
class OneFormula(Formula):
    """Formulas of `length` symbols, by a program for one of them."""

    def loss(self, scores: Tensor, labels: list[float]) -> Tensor:
        return dl.bce_loss(dl.batched(_formula_value)(scores), labels, match=same)

    def others(self) -> tuple[Other, ...]:
        by_hand = Formula(self.length).loss
        return (Other("by hand", by_hand, at_least=0.5), Other("loop", self._loop, at_least=5.0))

    def _loop(self, scores: Tensor, labels: list[float]) -> Tensor:
        each = [_formula_value(own) for own in scores.unbind(0)]
        return dl.bce_loss(dl.Distribution.stack(each), labels, match=same)


def _formula_value(scores: Tensor) -> dl.Distribution:
    return calculate_one(readings(scores[None]))


@dl.program
def add(total: dl.Distribution, digit: dl.Distribution) -> Any:
    """A sum and one more digit."""
    return dl.choose(total) + dl.choose(digit)


@dataclass(frozen=True)
class SumProgram(Sum):
    """The sum of N digits, by a program for two numbers."""

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        total, *digits = digit_distributions(scores)
        for digit in digits:
            total = add(total, digit)
        return dl.nll_loss(total, labels)

    def others(self) -> tuple[Other, ...]:
        return (Other("apply", self._applied, at_least=1 / 1.2),)

    def _applied(self, scores: Tensor, labels: Tensor) -> Tensor:
        total, *digits = digit_distributions(scores)
        for digit in digits:
            total = dl.apply(total, digit, lambda x, y: x + y)
        return dl.nll_loss(total, labels)


STATES, SIGHTS = 5, 4


@dl.program
def change(state: dl.Distribution, matrix: Tensor) -> Any:
    """The state of the next day."""
    today = dl.choose(state)
    return dl.choose(dl.weighted({next_: matrix[today, next_] for next_ in range(STATES)}))


@dataclass(frozen=True)
class HiddenMarkov(Program):
    """The likelihood of a sequence of observations; states change by a learnt matrix."""

    steps: int

    def network(self) -> nn.Module:
        return digit_network()

    def pictures(self, rows: int) -> Tensor:
        return torch.rand(rows * self.steps, 1, 28, 28)

    def draw(self, rows: int, inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, None]:
        truth = torch.randint(SIGHTS, (rows, self.steps), generator=generator)
        return class_scores(truth, SIGHTS + STATES, inputs, generator), None

    def loss(self, scores: Tensor, labels: None) -> Tensor:
        return self._likelihood(scores, change)

    def others(self) -> tuple[Other, ...]:
        return (Other("apply", lambda scores, _: self._likelihood(scores, _mapped), 1 / 1.2),)

    def _likelihood(self, scores: Tensor, step: Any) -> Tensor:
        matrix = scores[0, :STATES, SIGHTS:].softmax(1)
        shown = scores[0, STATES : 2 * STATES, :SIGHTS].softmax(1)
        state: Any = dl.Distribution.certain(0)
        for sights in scores[..., :SIGHTS].unbind(1):
            sight = dl.Distribution.from_logits(sights, range(SIGHTS))
            state = dl.apply(step(state, matrix), sight, lambda s, o: dl.weighted({s: shown[s, o]}))
        return -state.map(lambda s: "seen").log_probs(["seen"]).mean()


def _mapped(state: dl.Distribution, matrix: Tensor) -> dl.Distribution:
    return state.map(lambda s: dl.weighted({next_: matrix[s, next_] for next_ in range(STATES)}))
