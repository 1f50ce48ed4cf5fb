"""Random programs that choose, against the enumeration of all executions."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch

import dolphin as dl
from executions import every_execution

SYMBOLS = range(3)


# -- random programs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Body:
    """A piece of a program: what it does, and with what."""

    kind: str
    number: int = 0
    parts: tuple[Body, ...] = ()


def random_body(rng: random.Random, depth: int, inputs: int, subs: bool) -> Body:
    kinds = ["return", "if", "if", "loop", "draw", "try", *(["sub", "sub"] if subs else [])]
    kind = rng.choice(kinds) if depth else "return"
    if kind == "return":
        return Body(kind, rng.randrange(6))
    parts = tuple(random_body(rng, depth - 1, inputs, subs) for _ in range(2))
    if kind == "sub":
        parts = (random_body(rng, 1, inputs, False), *parts)
    return Body(kind, rng.randrange(inputs), parts)


def run_body(body: Body, state: int, choose, draw, call, weights) -> int:
    """The program itself: plain control flow. What choosing means is up to the caller."""
    go = run_body, (choose, draw, call, weights)

    def further(part: Body, state: int) -> int:
        return go[0](part, state, *go[1])

    match body.kind:
        case "return":
            return (state + body.number) % 4 if body.number < 4 else body.number
        case "if":
            if choose(body.number) == state % 3:
                return further(body.parts[0], state)
            return further(body.parts[1], state + 1)
        case "loop":
            while choose(body.number) > state and state < 2:
                state += 1
            return further(body.parts[state % 2], state)
        case "draw":
            state += draw({0: weights[body.number, 0], 1: 1 - weights[body.number, 0]})
            return further(body.parts[state % 2], state)
        case "try":
            try:
                if choose(body.number):
                    raise KeyError(state)
                state += 1
            except Exception:
                state += 2
            finally:
                state += 1
            return further(body.parts[0], state)
        case "sub":
            found = call(body.parts[0], state)
            return further(body.parts[1 + found % 2], state + found)
    raise AssertionError(body.kind)


class Case:
    def __init__(self, seed: int, *, subs: bool) -> None:
        rng = random.Random(seed)
        self.batch = rng.choice([1, 2])
        self.rows = rng.random() < 0.4
        self.inputs = [self._numbers(rng, self.batch, 3) for _ in range(rng.choice([1, 2, 3]))]
        self.weights = self._numbers(rng, len(self.inputs), 1)
        self.body = random_body(rng, rng.choice([1, 2, 3]), len(self.inputs), subs)

    @staticmethod
    def _numbers(rng: random.Random, rows: int, columns: int) -> torch.Tensor:
        raw = torch.tensor([[rng.random() + 0.1 for _ in range(columns)] for _ in range(rows)])
        slack = rng.choice([0.0, 0.5]) if columns > 1 else 0.5
        return (raw.double() / (raw.double().sum(1, keepdim=True) + slack)).requires_grad_()

    @property
    def leaves(self) -> list[torch.Tensor]:
        return [*self.inputs, self.weights]

    def distributions(self, provenance) -> list[dl.Distribution]:
        made = []
        for place, numbers in enumerate(self.inputs):
            if self.rows and place == 0:
                rows = [(SYMBOLS[: 3 - r], row[: 3 - r]) for r, row in enumerate(numbers.unbind())]
                made.append(dl.Distribution.from_rows(rows, provenance=provenance))
            else:
                made.append(dl.Distribution(numbers, SYMBOLS, provenance=provenance))
        return made

    def with_dolphin(self, provenance, **options) -> dl.Distribution:
        weights = self.weights

        @dl.program(**options)
        def go(body, state, inputs):
            return run_body(
                body,
                state,
                lambda number: dl.choose(inputs[number]),
                lambda outcomes: dl.choose(dl.weighted(outcomes)),
                lambda part, now: dl.choose(go(part, now, inputs)),
                weights,
            )

        return go(self.body, 0, self.distributions(provenance))

    def by_hand(self, row: int) -> dict:
        def run(pick):
            drawn = iter(range(1000))

            def choose(number):
                own = self.inputs[number][row]
                options = list(enumerate(own.unbind()))
                if self.rows and number == 0:
                    options = options[: 3 - row]
                return pick(("input", number), options)

            def draw(outcomes):
                return pick(("draw", next(drawn)), list(outcomes.items()))

            def call(part, state):
                return run_body(part, state, choose, draw, call, self.weights)

            return run_body(self.body, 0, choose, draw, call, self.weights)

        return every_execution(run)


def same(case: Case, provenance, **options) -> None:
    result = case.with_dolphin(provenance, **options)
    answers = [case.by_hand(row) for row in range(case.batch)]
    symbols = sorted({symbol for answer in answers for symbol in answer})
    assert set(symbols) <= set(result.symbols)
    probs = result.probs(symbols)
    rows = [
        torch.stack([torch.as_tensor(a.get(s, 0.0), dtype=torch.float64) for s in symbols])
        for a in answers
    ]
    expected = torch.stack(rows).expand(probs.shape) if len(rows) == 1 else torch.stack(rows)
    if len(probs) < len(expected):  # nothing in it differs from row to row
        probs = probs.expand(expected.shape)
    torch.testing.assert_close(probs.double(), expected, atol=1e-6, rtol=1e-6)
    goal = torch.linspace(0.5, 1.5, probs.numel(), dtype=torch.float64).view_as(probs)
    found, wanted = (
        torch.autograd.grad((p * goal).sum(), case.leaves, allow_unused=True)
        if p.requires_grad
        else [None] * len(case.leaves)
        for p in (probs, expected)
    )
    for a, b, leaf in zip(found, wanted, case.leaves, strict=True):
        a, b = (torch.zeros_like(leaf) if g is None else g for g in (a, b))
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("part", range(4))
def test_random_programs_under_damp(part):
    for seed in range(75 * part, 75 * part + 75):
        same(Case(seed, subs=False), "damp")


@pytest.mark.parametrize("provenance", ["exact", dl.TopKProofs(200), "damp"])
def test_random_programs_of_every_provenance(provenance):
    for seed in range(2000, 2040):
        same(Case(seed, subs=False), provenance)


@pytest.mark.parametrize("part", range(2))
def test_random_programs_with_programs_inside_are_exact(part):
    for seed in range(3000 + 40 * part, 3040 + 40 * part):
        same(Case(seed, subs=True), "exact")


@pytest.mark.parametrize("provenance", ["damp", dl.TopKProofs(200), "exact"])
def test_keeping_all_executions_keeps_the_result(provenance):
    for seed in range(4000, 4015):
        same(Case(seed, subs=False), provenance, keep=10_000)
