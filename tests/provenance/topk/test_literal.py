"""Top-k proofs against the paper's definitions, evaluated densely (`literal.py`).

Small k on purpose: proofs are dropped at every step, so the two have to drop the same ones.
Probabilities are drawn without ties, because among equally likely proofs either choice is right.
"""

from __future__ import annotations

import pytest
import torch

import compare
import dolphin as dl
from literal import Literal
from programs import BY_NAME, PROGRAMS, Edge

PROGRAMS_TO_TRY = [p for p in PROGRAMS if not p.negates and p.name != "nothing_left"]


def random_probs(program, batch: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    probs = []
    for shape in program.shapes:
        draw = torch.rand(batch, len(shape.symbols), generator=generator, dtype=torch.float64)
        if shape.exclusive is True:
            draw = draw / draw.sum(dim=1, keepdim=True)
        elif shape.exclusive is not False:
            draw = draw / 2
        probs.append(draw.requires_grad_())
    return probs


def literally(program, probs, k, **options):
    ops = Literal(k, **options)
    inputs = [
        ops.distribution(p, shape.symbols, shape.exclusive)
        for p, shape in zip(probs, program.shapes, strict=True)
    ]
    return ops, program(ops, *inputs)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("program", PROGRAMS_TO_TRY, ids=lambda p: p.name)
def test_same_probabilities_and_gradients(program, k):
    probs = random_probs(program, batch=6, seed=k)
    ops, dense = literally(program, probs, k)
    expected = ops.get_probs(dense)
    result = compare.evaluate(program, probs, dl.TopKProofs(k=k))
    assert compare.same_symbols(list(result.symbols), dense.symbols)
    found = dl.get_probs(result)
    torch.testing.assert_close(found, expected)

    settled = (expected.detach() < 1 - 1e-6).to(expected.dtype)
    weights = settled * torch.linspace(-1, 2, expected.numel()).view_as(expected)
    wanted = torch.autograd.grad((weights * expected).sum(), probs, allow_unused=True)
    got = torch.autograd.grad((weights * found).sum(), probs, allow_unused=True)
    for w, g, p in zip(wanted, got, probs, strict=True):
        none = torch.zeros_like(p)
        torch.testing.assert_close(none if g is None else g, none if w is None else w)


@pytest.mark.parametrize("name", ["sum_in_a_chain", "largest", "three_symbol_formula", "parity"])
def test_the_pure_table_is_enough_without_shared_facts(name):
    """Contradiction, duplicates and absorption only exist where facts are shared."""
    program = BY_NAME[name]
    probs = random_probs(program, batch=4, seed=1)
    ops, dense = literally(program, probs, 3, strict_paper=True)
    result = compare.evaluate(program, probs, dl.TopKProofs(k=3))
    torch.testing.assert_close(dl.get_probs(result), ops.get_probs(dense))


def test_the_pure_table_keeps_contradictions():
    """Why the table alone is not enough: x ≠ y for one distribution twice would be possible."""
    program = BY_NAME["equals_itself"]
    probs = random_probs(program, batch=2, seed=0)
    ops, dense = literally(program, probs, 5, strict_paper=True)
    assert (ops.get_probs(dense, [False]) > 0).all()
    result = compare.evaluate(program, probs, dl.TopKProofs(k=5))
    assert (dl.get_probs(result, symbols=[False]) == 0).all()


def concatenate(formula: tuple, symbol: tuple) -> tuple:
    """The paper's partial evaluation: × and ÷ are reduced as soon as both sides are there."""
    formula = formula + symbol
    if len(formula) % 2 and len(formula) > 2 and formula[-2] in "*/":
        left, sign, right = float(formula[-3]), formula[-2], float(formula[-1])
        value = left * right if sign == "*" else (left / right if right else float("nan"))
        formula = (*formula[:-3], str(value))
    return formula


def finish(formula: tuple) -> float:
    value = float(formula[0])
    for sign, operand in zip(formula[1::2], formula[2::2], strict=True):
        value += float(operand) if sign == "+" else -float(operand)
    return value


def formula_program(ops, symbols, sample):
    operands = [
        ops.filter(s, lambda x: x[0].isdigit())
        if place % 2 == 0
        else ops.filter(s, lambda x: not x[0].isdigit())
        for place, s in enumerate(symbols)
    ]
    result = operands[0]
    for operand in operands[1:]:
        result = ops.apply(sample(result), operand, concatenate)
    return ops.apply(sample(result), finish)


@pytest.mark.parametrize("length", [3, 5])
def test_sampled_formulas(length):
    """Each row of a sampled program is what the definitions give for its own sampled symbols."""
    vocabulary = [(c,) for c in "0123456789+-*/"]
    logits = 3 * torch.randn(length, 5, len(vocabulary), dtype=torch.float64)
    probs = logits.softmax(dim=-1).requires_grad_()

    ops = Literal(k=3)
    dense = formula_program(
        ops,
        [ops.distribution(p, vocabulary) for p in probs],
        lambda d: ops.sample(d, 7, per_row=True),
    )
    with dl.using(dl.TopKProofs(k=3)):
        result = formula_program(
            dl, [dl.Distribution(p, vocabulary) for p in probs], lambda d: dl.sample(d, 7)
        )
    expected = ops.get_probs(dense)
    found = dl.get_probs(result, symbols=dense.symbols)
    torch.testing.assert_close(found, expected)
    (wanted,) = torch.autograd.grad(expected.pow(2).sum(), probs)
    (got,) = torch.autograd.grad(found.pow(2).sum(), probs)
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("k", [1, 2])
def test_paths_on_a_grid(k):
    """Closure over the independent edges of a 3×3 grid."""
    nodes = [(r, c) for r in range(3) for c in range(3)]
    edges = [Edge(a, b) for a in nodes for b in nodes if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    probs = torch.rand(3, len(edges), dtype=torch.float64).requires_grad_()

    def closure(ops, start):
        paths = start
        for _ in range(3):
            longer = ops.apply_if(
                paths, start, lambda p, q: Edge(p.x, q.y), on=(lambda p: p.y, lambda q: q.x)
            )
            paths = ops.union(paths, longer)
        return paths

    ops = Literal(k)
    dense = closure(ops, ops.distribution(probs, edges, exclusive=False))
    result = closure(
        dl, dl.Distribution(probs, edges, exclusive=False, provenance=dl.TopKProofs(k=k))
    )
    assert list(result.symbols) == dense.symbols
    torch.testing.assert_close(dl.get_probs(result), ops.get_probs(dense))
