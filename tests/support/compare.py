"""The bridge between the exact answers of `oracles.py` and distributions of tensors."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction

import torch
from hypothesis import strategies as st
from torch import Tensor

import dolphin as dl
from oracles import Answer, Input, key_of
from programs import Program, Shape

PRIMES = [n for n in range(11, 200) if all(n % d for d in range(2, n))]
PARTS = 16  # probabilities are multiples of 1/16: ties, zeros and ones are frequent, floats exact


@st.composite
def probabilities(draw: st.DrawFn, shape: Shape) -> Input:
    """An input of this shape; exclusive groups add up to at most 1, often to exactly 1."""
    blank = Input(shape.symbols, (Fraction(0),) * len(shape.symbols), shape.exclusive)
    probs = [Fraction(0)] * len(shape.symbols)
    for group in blank.groups:
        left = PARTS
        for place, column in enumerate(group):
            last = place == len(group) - 1 and len(group) > 1
            part = left if last and draw(st.booleans()) else draw(st.integers(0, left))
            probs[column] = Fraction(part, PARTS)
            left -= part
    return Input(shape.symbols, tuple(probs), shape.exclusive)


def batches(program: Program, size: int = 3) -> st.SearchStrategy[list[list[Input]]]:
    """Rows of inputs for a program: rows[b][i] is input i of row b."""
    row = st.tuples(*(probabilities(shape) for shape in program.shapes)).map(list)
    return st.lists(row, min_size=size, max_size=size)


def even_rows(program: Program, size: int = 2) -> list[list[Input]]:
    """Rows without any coincidence: positive probabilities, and no two products of them alike.

    Every probability of a row has a prime of its own in its numerator."""
    rows = []
    for b in range(size):
        primes = iter(PRIMES[3 * b :])
        row = []
        for shape in program.shapes:
            numerators = [next(primes) for _ in shape.symbols]
            total = sum(numerators) + 5
            probs = tuple(Fraction(n, total) for n in numerators)
            row.append(Input(shape.symbols, probs, shape.exclusive))
        rows.append(row)
    return rows


def tensors(rows: Sequence[Sequence[Input]], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """One (batch, symbols) leaf for each input, with gradients."""
    return [
        torch.tensor(
            [[float(p) for p in source.probs] for source in column], dtype=dtype
        ).requires_grad_()
        for column in zip(*rows, strict=True)
    ]


def distributions(
    program: Program, probs: Sequence[Tensor], provenance: object
) -> list[dl.Distribution]:
    """The inputs of a program, from one tensor each."""
    return [
        dl.Distribution(
            p,
            list(shape.symbols),
            exclusive=shape.exclusive
            if isinstance(shape.exclusive, bool)
            else [list(group) for group in shape.exclusive],
            provenance=provenance,
        )
        for p, shape in zip(probs, program.shapes, strict=True)
    ]


def evaluate(program: Program, probs: Sequence[Tensor], provenance: object) -> dl.Distribution:
    return program(dl, *distributions(program, probs, provenance))


def same_symbols(found: Sequence[Hashable], expected: Sequence[Hashable]) -> bool:
    return [key_of(s) for s in found] == [key_of(s) for s in expected]


def assert_answers(
    result: dl.Distribution,
    inputs: Sequence[Tensor],
    answers: Sequence[dict[Hashable, Answer]],
    tolerance: float = 1e-9,
) -> None:
    """Row b must be `answers[b]`: symbols in order, values and gradients.

    Gradients are those with respect to every input, wherever they are settled."""
    symbols = list(answers[0])
    assert same_symbols(list(result.symbols), symbols)
    if not symbols:
        return
    probs = dl.get_probs(result, symbols=symbols)
    values = [[float(answer.value) for answer in row.values()] for row in answers]
    torch.testing.assert_close(
        probs.detach(), torch.tensor(values, dtype=probs.dtype), rtol=tolerance, atol=tolerance
    )
    assert_gradients(probs, inputs, answers, tolerance)


def assert_gradients(
    probs: Tensor,
    inputs: Sequence[Tensor],
    answers: Sequence[dict[Hashable, Answer]],
    tolerance: float,
) -> None:
    """One backward pass of a sum with irregular weights stands for all entries at once."""
    sizes = [tensor.shape[1] for tensor in inputs]
    weights = torch.zeros(probs.shape, dtype=probs.dtype)
    expected = [torch.zeros(tensor.shape, dtype=torch.float64) for tensor in inputs]
    for b, row in enumerate(answers):
        for column, answer in enumerate(row.values()):
            if not answer.smooth:
                continue
            weight = math.sin(1.0 + 3 * b + 7 * column)
            weights[b, column] = weight
            gradient = torch.tensor([float(g) for g in answer.gradient], dtype=torch.float64)
            for target, part in zip(expected, gradient.split(sizes), strict=True):
                target[b] += weight * part
    found = torch.autograd.grad((weights * probs).sum(), inputs, allow_unused=True)
    for gradient, target, tensor in zip(found, expected, inputs, strict=True):
        gradient = torch.zeros_like(tensor) if gradient is None else gradient
        assert torch.isfinite(gradient).all()
        torch.testing.assert_close(
            gradient, target.to(gradient.dtype), rtol=tolerance * 10, atol=tolerance * 10
        )
