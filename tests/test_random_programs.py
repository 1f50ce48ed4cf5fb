"""Programs that nobody thought of: random operations on random inputs, in random layouts.

The larger part of the language is tried in `test_fuzzing.py`; this has other oracles.
Values and gradients are compared with the exact answers of `oracles.py`, with ties, zeros and ones
among the probabilities, and for small k with the dense evaluator of `literal.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
import torch

import compare
import dolphin as dl
import oracles
from literal import Literal
from programs import Program, Shape

ROWS = 2
UNARY = [lambda x: x % 2, lambda x: (x + 1) % 4, lambda x: x * x % 5, lambda x: 0, lambda x: x]
BINARY = [
    lambda x, y: (x + y) % 4,
    lambda x, y: x * y % 4,
    max,
    lambda x, y: int(x == y),
    lambda x, y: x,
    lambda x, y: x + y,
]
CONDITIONS = [lambda x, y: x <= y, lambda x, y: x != y, lambda x, y: (x + y) % 2 == 0]
KEYS = [lambda x: x % 2, lambda x: x, lambda x: x // 2]
PREDICATES = [lambda x: x < 3, lambda x: x % 2 == 0]
OPERATIONS = ["map", "apply", "apply", "apply_if", "join", "filter", "union", "unions", "three"]


@dataclass(frozen=True)
class Step:
    """One operation on earlier results, which are numbered through."""

    operation: str
    operands: tuple[int, int, int]
    pick: int
    mask: tuple[bool, ...]

    def run(self, ops: Any, values: list, row: int | None) -> Any:
        a, b, c = (values[i] for i in self.operands)
        binary = BINARY[self.pick % len(BINARY)]
        match self.operation:
            case "map":
                return ops.apply(a, UNARY[self.pick % len(UNARY)])
            case "apply":
                return ops.apply(a, b, binary)
            case "three":
                return ops.apply(a, b, c, lambda x, y, z: (x + y * z) % 4)
            case "apply_if":
                return ops.apply_if(a, b, binary, CONDITIONS[self.pick % len(CONDITIONS)])
            case "join":
                keys = KEYS[self.pick % 3], KEYS[self.pick // 3 % 3]
                return ops.apply_if(a, b, binary, on=keys)
            case "filter":
                return ops.filter(a, PREDICATES[self.pick % len(PREDICATES)])
            case "union":
                return ops.union(a, b)
            case "unions":
                return ops.union(a, b, c)
            case "negate":
                return ops.negate(a)
            case "where" if row is None:
                return ops.apply(a, b, binary, where=torch.tensor(self.mask))
            case "where":
                return ops.apply(a, b, binary) if self.mask[row] else a
        raise AssertionError(self.operation)


def random_program(rng: random.Random, operations: list[str]) -> Program:
    """`row` selects the rows of `where=` masks for evaluators that see one row at a time."""
    shapes = []
    for _ in range(rng.randint(1, 3)):
        size = rng.randint(1, 4)
        symbols = tuple(rng.sample(range(5), size))
        groups = ((0,), tuple(range(1, size))) if size > 1 else True
        shapes.append(Shape(symbols[:3], False) if rng.random() < 0.3 else
                      Shape(symbols, rng.choice([True, True, groups])))  # fmt: skip
    steps = []
    for number in range(rng.randint(1, 4)):
        known = len(shapes) + number
        operands = tuple(rng.randrange(known) for _ in range(3))
        mask = tuple(rng.random() < 0.5 for _ in range(ROWS))
        steps.append(Step(rng.choice(operations), operands, rng.randrange(100), mask))

    def run(ops, *inputs, row=None):
        values = list(inputs)
        for step in steps:
            values.append(step.run(ops, values, row))
        return values[-1]

    return Program("random", run, tuple(shapes))


def in_row(program: Program, row: int) -> Callable:
    return lambda ops, *inputs: program.run(ops, *inputs, row=row)


def random_input(rng: random.Random, shape: Shape) -> oracles.Input:
    probs = [Fraction(0)] * len(shape.symbols)
    for group in oracles.Input(shape.symbols, tuple(probs), shape.exclusive).groups:
        left = 16
        for column in group:
            part = rng.randint(0, left) if rng.random() < 0.8 else left
            probs[column] = Fraction(part, 16)
            left -= part
    return oracles.Input(shape.symbols, tuple(probs), shape.exclusive)


def in_random_layouts(rng, program, probs, provenance) -> list[dl.Distribution]:
    inputs = []
    for p, shape in zip(probs, program.shapes, strict=True):
        exclusive = shape.exclusive
        exclusive = exclusive if isinstance(exclusive, bool) else [list(g) for g in exclusive]
        options = {"exclusive": exclusive, "provenance": provenance}
        symbols = list(shape.symbols)
        match rng.choice(["shared", "rows", "stack"]):
            case "shared":
                inputs.append(dl.Distribution(p, symbols, **options))
            case "rows":
                inputs.append(dl.Distribution.from_rows([(symbols, r) for r in p], **options))
            case "stack":
                parts = [dl.Distribution(r, symbols, **options) for r in p]
                inputs.append(dl.Distribution.stack(parts))
    return inputs


def assert_rows(result: dl.Distribution, probs: list, answers: list[dict]) -> None:
    """Like compare.assert_answers, where rows may have different symbols."""
    symbols = list(dict.fromkeys(symbol for row in answers for symbol in row))
    if not symbols:
        assert len(result) == 0
        return
    nothing = oracles.Answer(Fraction(0), [Fraction(0)] * sum(p.shape[1] for p in probs))
    answers = [{symbol: row.get(symbol, nothing) for symbol in symbols} for row in answers]
    found = dl.get_probs(result, symbols=symbols)
    values = [[float(answer.value) for answer in row.values()] for row in answers]
    expected = torch.tensor(values, dtype=found.dtype)
    torch.testing.assert_close(found.detach(), expected, rtol=1e-9, atol=1e-9)
    if found.requires_grad:
        compare.assert_gradients(found, probs, answers, 1e-9)


def check(seed: int, operations: list[str]) -> None:
    rng = random.Random(seed)
    program = random_program(rng, operations)
    rows = [[random_input(rng, shape) for shape in program.shapes] for _ in range(ROWS)]
    probs = compare.tensors(rows)
    each = [(in_row(program, b), row) for b, row in enumerate(rows)]
    k = max(oracles.most_proofs(run, row) for run, row in each)
    for provenance, oracle in (
        (dl.TopKProofs(k=k), oracles.proofs_add_mult),
        (dl.TopKProofs(k=k + 2), oracles.proofs_add_mult),
        (dl.DAMP(), oracles.add_mult),
    ):
        answers = [oracle(run, row) for run, row in each]
        shared = compare.distributions(program, probs, provenance)
        assert_rows(program(dl, *shared), probs, answers)
        mixed = in_random_layouts(rng, program, probs, provenance)
        assert_rows(program(dl, *mixed), probs, answers)


@pytest.mark.parametrize("seed", range(40))
def test_random_program(seed):
    check(seed, [*OPERATIONS, "where"])


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_random_program_with_negation(seed):
    check(seed, [*OPERATIONS, "negate", "negate"])


@pytest.mark.parametrize("seed", range(2000, 2020))
def test_random_program_with_negation_in_some_rows(seed):
    """A symbol that a row does not have is not there to be negated, whatever the layout."""
    check(seed, ["apply", "map", "where", "negate", "negate"])


@pytest.mark.parametrize("seed", range(3000, 3030))
def test_random_program_with_few_proofs(seed):
    """k below the number of proofs: the same ones are dropped as by the definitions."""
    rng = random.Random(seed)
    program = random_program(rng, OPERATIONS)
    k = rng.choice([1, 2, 3])
    probs = []
    for shape in program.shapes:
        draw = torch.rand(3, len(shape.symbols), dtype=torch.float64)
        if shape.exclusive is not False:
            draw = draw / draw.sum(dim=1, keepdim=True)
        probs.append(draw.requires_grad_())
    ops = Literal(k)
    dense = program(
        ops,
        *(
            ops.distribution(p, shape.symbols, shape.exclusive)
            for p, shape in zip(probs, program.shapes, strict=True)
        ),
    )
    if not dense.symbols:
        return
    expected = ops.get_probs(dense)
    for inputs in (
        compare.distributions(program, probs, dl.TopKProofs(k=k)),
        in_random_layouts(rng, program, probs, dl.TopKProofs(k=k)),
    ):
        found = dl.get_probs(program(dl, *inputs), symbols=dense.symbols)
        torch.testing.assert_close(found, expected)
