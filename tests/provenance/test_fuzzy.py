"""Fuzzy logics and the algebras for debugging: slopes, limits of families, numbers, gradients."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin.errors import InputError
from dolphin.execution.indices import Contraction
from dolphin.provenance import (
    Boolean,
    Counting,
    Frank,
    Godel,
    Hamacher,
    Lukasiewicz,
    MaxProduct,
    NilpotentMinimum,
    NoisyOr,
    SchweizerSklar,
    StableProduct,
    Yager,
    plain_or,
)

TNORMS = [
    Hamacher(), NilpotentMinimum(), Yager(1), Yager(2), Yager(6), SchweizerSklar(1),
    SchweizerSklar(0.5), SchweizerSklar(0), SchweizerSklar(-1), SchweizerSklar(-5), Frank(0.1),
    Frank(1), Frank(50),
]  # fmt: skip


def square(steps: int = 21) -> tuple[torch.Tensor, torch.Tensor]:
    """A grid over [0, 1]², off its symmetric places."""
    line = torch.linspace(0, 1, steps, dtype=torch.float64)
    a, b = torch.meshgrid(line, line, indexing="ij")
    return a, b


@pytest.mark.parametrize("logic", TNORMS, ids=repr)
def test_slopes_are_derivatives(logic):
    """Of ⊗ and of ⊕, by differences, wherever both are smooth."""
    a, b = (x * 0.9 + 0.0371 for x in square())
    a = a + 0.0113
    step = 1e-6
    for function in (logic.mul, lambda x, y: logic.add(torch.stack([x, y]), 0)):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        grads = torch.autograd.grad(function(x, y).sum(), (x, y))
        for place, grad in enumerate(grads):
            up = function(a + step * (place == 0), b + step * (place == 1))
            down = function(a - step * (place == 0), b - step * (place == 1))
            torch.testing.assert_close(grad, (up - down) / (2 * step), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("logic", TNORMS, ids=repr)
def test_slopes_at_the_border_are_finite_and_at_most_one(logic):
    a, b = square(5)
    for dtype in (torch.float32, torch.float64):
        slope = logic.slope(a.to(dtype), b.to(dtype))
        assert torch.isfinite(slope).all()
        assert (slope >= 0).all()
        assert (slope <= 1 + 1e-6).all()


@pytest.mark.parametrize("logic", [*TNORMS, Godel(), Lukasiewicz()], ids=repr)
def test_a_t_norm_lies_between_the_smallest_and_the_minimum(logic):
    a, b = square()
    found = logic.mul(a, b)
    assert (found <= torch.minimum(a, b) + 1e-12).all()
    torch.testing.assert_close(logic.mul(a, torch.ones_like(a)), a)
    joined = logic.add(torch.stack([a, b]), 0)
    assert (joined >= torch.maximum(a, b) - 1e-12).all()
    torch.testing.assert_close(1 - logic.mul(1 - a, 1 - b), joined, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("logic", "limit", "tolerance"),
    [
        (Yager(1), Lukasiewicz(), 1e-9),
        (SchweizerSklar(1), Lukasiewicz(), 1e-9),
        (SchweizerSklar(-1), Hamacher(), 1e-9),
        (SchweizerSklar(0), Frank(1), 1e-9),
        (SchweizerSklar(1e-5), SchweizerSklar(0), 1e-4),
        (SchweizerSklar(-1e-5), SchweizerSklar(0), 1e-4),
        (Frank(1.0001), Frank(1), 1e-4),
        (Yager(200), Godel(), 0.01),
        (SchweizerSklar(-200), Godel(), 0.01),
        (Frank(0.001), Godel(), 0.11),
        (Frank(1000), Lukasiewicz(), 0.11),
    ],
    ids=repr,
)
def test_families_meet_at_their_limits(logic, limit, tolerance):
    a, b = square()
    torch.testing.assert_close(logic.mul(a, b), limit.mul(a, b), rtol=0, atol=tolerance)
    both = torch.stack([a, b])
    torch.testing.assert_close(logic.add(both, 0), limit.add(both, 0), rtol=0, atol=tolerance)


@pytest.mark.parametrize("logic", [*TNORMS, Godel(), Lukasiewicz(), StableProduct()], ids=repr)
@pytest.mark.parametrize("depth", [1, 2, 3, 7, 16])
def test_long_disjunctions_equal_pairs(logic, depth):
    """⊕ along a dimension, in log-many steps, is the ⊕ of pairs (up to ε if stable)."""
    values = torch.rand(depth, 5, dtype=torch.float64)
    expected = values[0]
    for value in values[1:]:
        expected = logic.add(torch.stack([expected, value]), 0)
    tolerance = 1e-3 if isinstance(logic, StableProduct) else 1e-9
    torch.testing.assert_close(logic.add(values, 0), expected, rtol=0, atol=tolerance)


# ------------------------------------------------------------------------------- noisy-or in logs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1e-30, 1e-9, 1e-4, 0.3, 0.999])
def test_noisy_or_of_any_size(p, dtype):
    """1 - (1 - p)^n for n = 1000, with relative precision however small p is."""
    logs = torch.full((1000, 1), math.log(p), dtype=dtype, requires_grad=True)
    found = NoisyOr().add(logs, 0)
    expected = math.log(-math.expm1(1000 * math.log1p(-p)))
    assert found.item() == pytest.approx(expected, rel=1e-5, abs=1e-4)
    (grad,) = torch.autograd.grad(found.sum(), logs)
    slope = p * math.exp(999 * math.log1p(-p)) / math.exp(expected)
    torch.testing.assert_close(grad, torch.full_like(grad, slope), rtol=1e-3, atol=1e-7)


def test_noisy_or_below_every_float():
    """Products of e^-200 have no value in float32; their noisy-or still has a logarithm."""
    logs = torch.full((4, 1), -200.0, requires_grad=True)
    found = NoisyOr().add(logs, 0)
    assert found.item() == pytest.approx(-200 + math.log(4), rel=1e-6)
    found.sum().backward()
    torch.testing.assert_close(logs.grad, torch.full((4, 1), 0.25))


def test_noisy_or_gradients_at_zero_and_one():
    """d(⊕)/da is the product of the (1 - b) of the others, also where a or b is 0 or 1."""
    p = torch.tensor([[0.0, 0.5, 1.0], [0.0, 0.0, 0.5], [1.0, 1.0, 0.5]], requires_grad=True)
    d = [dl.Distribution(p[:, i : i + 1], ["x"], provenance=NoisyOr()) for i in range(3)]
    dl.get_probs(dl.union(*d)).sum().backward()
    expected = torch.tensor([[0.0, 0.0, 0.5], [0.5, 0.5, 1.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(p.grad, expected)


# -------------------------------------------------------------------------------------- gradients


def gradient(provenance, values) -> list[float]:
    """d(x1·x2 ∨ x3)/dx."""
    p = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    x = [dl.Distribution(p[i : i + 1], ["x"], provenance=provenance) for i in range(3)]
    dl.get_probs(dl.union(dl.apply(x[0], x[1], lambda a, b: a), x[2])).sum().backward()
    return [round(g, 6) for g in p.grad.tolist()]


@pytest.mark.parametrize(
    ("provenance", "values", "expected"),
    [
        (Godel(), [0.3, 0.8, 0.2], [1, 0, 0]),
        (Godel(), [0.3, 0.3, 0.2], [0.5, 0.5, 0]),
        (Godel(), [0.3, 0.8, 0.3], [0.5, 0, 0.5]),
        (MaxProduct(), [0.5, 0.8, 0.2], [0.8, 0.5, 0]),
        (MaxProduct(), [0.5, 0.4, 0.2], [0.2, 0.25, 0.5]),
        (NoisyOr(), [0.5, 0.8, 0.2], [0.64, 0.4, 0.6]),
        (Lukasiewicz(), [0.5, 0.8, 0.2], [1, 1, 1]),
        (Lukasiewicz(), [0.5, 0.3, 0.2], [0, 0, 1]),
        (Lukasiewicz(), [0.9, 0.9, 0.9], [0, 0, 0]),
        (NilpotentMinimum(), [0.5, 0.8, 0.2], [1, 0, 0]),
        (NilpotentMinimum(), [0.5, 0.3, 0.2], [0, 0, 1]),
    ],
    ids=str,
)
def test_gradients_are_what_the_classes_say(provenance, values, expected):
    assert gradient(provenance, values) == pytest.approx(expected)


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
def test_stable_product_never_loses_its_gradient(values):
    assert all(g > 0 for g in gradient(StableProduct(epsilon=1e-2), values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_stable_product_keeps_small_sums(dtype):
    """A difference to 1 would round them away, and `sample` choose another symbol."""
    x = torch.tensor([[1e-10, 3e-10], [2e-10, 0.7]], dtype=dtype, requires_grad=True)
    stable = dl.get_provenance("stable-product", epsilon=0.0)
    d = dl.Distribution(x, [0, 1], exclusive=False, provenance=stable)
    either = d.map(lambda s: "either").prob_of(["either"] * 2)
    torch.testing.assert_close(either, torch.tensor([4e-10, 0.7], dtype=dtype), atol=0, rtol=1e-6)
    (grad,) = torch.autograd.grad(either.sum(), x)
    torch.testing.assert_close(grad, torch.tensor([[1.0, 1.0], [0.3, 1.0]], dtype=dtype))


def test_stable_product_doesnt_see_padding():
    """Groups of one and of three symbols: the lone one is left as it is."""
    d = dl.Distribution([0.1, 0.2, 0.3, 0.4], range(4), provenance=StableProduct(epsilon=0.1))
    found = dict(dl.apply(d, lambda x: x == 0).row(0))
    assert found[True] == pytest.approx(0.1)
    assert found[False] == pytest.approx(1 - (1 - 0.18) * (1 - 0.27) * (1 - 0.36))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Yager(p=0.5), lambda: Yager(p="2"), lambda: SchweizerSklar(p=2),
        lambda: SchweizerSklar(p=-math.inf), lambda: Frank(s=0), lambda: Frank(s=1e9),
        lambda: StableProduct(epsilon=1.0), lambda: StableProduct(epsilon=-0.1),
        lambda: dl.get_provenance("yager", q=3),
    ],
)  # fmt: skip
def test_wrong_parameters(make):
    with pytest.raises(InputError):
        make()


# -------------------------------------------------------------------------------------- debugging


def test_boolean_says_what_can_be_derived():
    d = dl.Distribution(torch.tensor([[0.0, 1e-20, 0.9]]), [0, 1, 2], provenance=Boolean())
    total = dl.apply(d, d, lambda x, y: x * y)
    assert dict(total.row(0)) == {0: 0.0, 1: 1.0, 2: 1.0, 4: 1.0}
    assert dict(dl.negate(total).row(0)) == {0: 1.0, 1: 0.0, 2: 0.0, 4: 0.0}


def test_counting_counts_exactly_up_to_two_to_the_53():
    d = dl.Distribution([0.5, 0.5], [0, 1], provenance=Counting())
    count = dl.apply(d, lambda x: "any")
    for power in range(1, 53):
        count = dl.apply(count, d, lambda a, b: "any")
        assert dl.get_probs(count).item() == 2 ** (power + 1)


def test_counting_never_becomes_nan():
    d = dl.Distribution([0.5] * 4 + [0.0], range(5), exclusive=False, provenance=Counting())
    count = dl.apply(d, lambda x: x == 4)
    for _ in range(12):
        count = dl.apply(count, count, lambda a, b: a)
    values = dl.get_probs(count, symbols=[False, True])
    assert values[0, 0] == torch.finfo(torch.float64).max
    assert values[0, 1] == 0


@pytest.mark.parametrize("provenance", [Godel(), MaxProduct(), Boolean()], ids=repr)
def test_cyclic_programs_settle(provenance):
    """Idempotent sums: a fixpoint goes on until the values are those of the best path."""
    edges = [(0, 1), (1, 2), (2, 0), (0, 2), (2, 3)]
    p = [0.9, 0.9, 0.5, 0.2, 0.8]
    d = dl.Distribution(p, edges, exclusive=False, provenance=provenance)

    def step(paths):
        ends = (lambda x: x[1], lambda y: y[0])
        return dl.union(paths, dl.apply_if(paths, d, lambda x, y: (x[0], y[1]), on=ends))

    found = dl.fixpoint(step, d).prob_of([(0, 3)]).item()
    expected = {"min-max": 0.8, "viterbi": 0.9 * 0.9 * 0.8, "boolean": 1.0}[provenance.name]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("provenance", [dl.get_provenance("viterbi"), dl.TopKProofs(k=2)], ids=repr)
def test_a_fixpoint_settles_whatever_the_order_of_a_row_s_symbols(provenance):
    """A step may list the symbols of a row in another order every time, and here it does."""
    rounds = itertools.count()
    rows = [([(0, 1), (1, 2)], [0.9, 0.5]), ([(1, 2), (0, 2), (0, 1)], [0.5, 0.2, 0.9])]
    edges = dl.Distribution.from_rows(rows, exclusive=False, provenance=provenance)

    def step(paths):
        longer = dl.apply_if(
            paths, edges, lambda p, e: (p[0], e[1]), on=(lambda p: p[1], lambda e: e[0])
        )
        parts = (longer, edges)
        return dl.union(*(parts if next(rounds) % 2 else parts[::-1]))

    found = dl.fixpoint(step, edges, max_iterations=6)
    assert found.prob_of([(0, 2), (0, 2)]).tolist() == pytest.approx(
        [0.45, 0.45 if provenance.name == "viterbi" else 0.65]
    )
    assert found.prob_of([(1, 0), (0, 1)]).tolist() == pytest.approx([0.0, 0.9])


@pytest.mark.parametrize("chunk", [10**6, 16], ids=["at once", "in chunks"])
def test_the_best_product_is_the_maximum_of_products(chunk, monkeypatch):
    """Its own way against plain torch: groups of different sizes, ties, gradients."""
    viterbi = dl.get_provenance("viterbi")
    probs = [torch.rand(4, n, dtype=torch.float64).softmax(1) for n in (5, 4)]
    probs[0][0, 1] = probs[0][0, 2]  # 1 · 2 and 2 · 1 are as likely in this row
    probs[1][0, 1] = probs[1][0, 2]
    found = []
    for own in (True, False):
        if not own:
            monkeypatch.delattr(MaxProduct, "contract")
        leaves = [p.clone().requires_grad_() for p in probs]
        x, y = (dl.Distribution(p, range(p.shape[1]), provenance=viterbi) for p in leaves)
        with dl.settings(chunk_elements=chunk):
            logits = dl.get_logits(dl.apply(x, y, lambda a, b: a * b))
            (logits * torch.arange(1.0, logits.shape[1] + 1)).sum().backward()
        found.append((logits, *(leaf.grad for leaf in leaves)))
    torch.testing.assert_close(found[0], found[1])


def _both_precisions(probs, indices, group_of, groups):
    """Value and gradient of a noisy-or contraction, of float32 and of float64 numbers."""
    found = []
    for dtype in (torch.float32, torch.float64):
        given = [torch.tensor(p, dtype=dtype).log().clamp(min=-69.0) for p in probs]
        given = [logs.requires_grad_() for logs in given]
        plan = Contraction(indices, group_of, groups)
        out = NoisyOr().contract(given, plan)
        weights = torch.arange(1.0, 1 + out.numel(), dtype=dtype).view_as(out)
        grads = torch.autograd.grad((out.clamp(min=-60) * weights).sum(), given)
        found.append([out.double(), *(grad.double() for grad in grads)])
    return found


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-12, 0.0])
def test_noisy_or_in_plain_numbers_is_that_of_logarithms(scale):
    generator = np.random.default_rng(0)
    left, right = generator.uniform(size=(2, 6, 3)) * scale
    left[0, 0] = right[0, 0] = 1.0  # certain, alone and beside others
    left[1, :] = 1.0
    pairs = np.array(list(itertools.product(range(6), repeat=2)))
    group_of = generator.integers(0, 7, len(pairs))
    group_of[0] = 7  # a group of one combination
    plain, logs = _both_precisions([left, right], list(pairs.T), group_of, 9)
    for one, other in zip(plain, logs, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=1e-6)


def test_noisy_or_in_plain_numbers_counts_one_minus_the_product():
    probs = torch.tensor([[0.2], [0.5], [0.9]], requires_grad=True)
    plan = Contraction([np.arange(3)], np.zeros(3, dtype=np.int64), 1)
    out = NoisyOr().contract([probs.log()], plan).exp()
    assert out.item() == pytest.approx(1 - 0.8 * 0.5 * 0.1)
    (grad,) = torch.autograd.grad(out.sum(), probs, create_graph=True)
    assert grad[:, 0].tolist() == pytest.approx([0.5 * 0.1, 0.8 * 0.1, 0.8 * 0.5])
    (second,) = torch.autograd.grad(grad[0].sum(), probs)
    assert second[:, 0].tolist() == pytest.approx([0.0, -0.1, -0.5], abs=1e-6)


def _reached(edges, flat):
    """Which nodes lie at the end of paths from 0, by the number of steps (ties included)."""
    links = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (3, 0)]
    if flat:
        rows = [(links, row) for row in edges]
        made = dl.Distribution.from_rows(rows, exclusive=False, provenance="viterbi")
    else:
        made = dl.Distribution(edges, links, exclusive=False, provenance="viterbi")
    found = start = dl.Distribution.certain(0, batch=len(edges))
    for _ in range(4):
        further = dl.apply_if(found, made, lambda _, e: e[1], on=(lambda n: n, lambda e: e[0]))
        found = dl.union(start, further)
    return found


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("asked", [[3], [1, 2, 3]])
def test_few_gradients_are_those_of_all(monkeypatch, flat, asked):
    """Where few results have a gradient only theirs is computed: the same, shared at a tie."""
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(9, 6, generator=generator, dtype=torch.float64)
    probs[:2, :4] = 0.5  # two best paths to 3
    grads = []
    for few in (0, math.inf):
        monkeypatch.setattr("dolphin.provenance.max_product._FEW_OF", few)
        edges = probs.clone().requires_grad_()
        wanted = _reached(edges, flat).probs(asked)
        (wanted[:7] * torch.arange(1, 8)[:, None]).sum().backward()
        grads.append(edges.grad)
    torch.testing.assert_close(*grads, rtol=1e-14, atol=0)
    if asked == [3]:
        assert grads[0][0, :4].tolist() == [0.25] * 4
        assert grads[0][7:].abs().sum() == 0.0


def test_gradients_of_sums_in_parts_are_those_of_sums_at_once(monkeypatch):
    """A sum that is computed in parts computes its products again for the backward pass."""
    generator = torch.Generator().manual_seed(0)
    given = [torch.rand(4, n, generator=generator).softmax(1) for n in (7, 9)]
    again, grads, odds = [], [], plain_or._odds
    monkeypatch.setattr(plain_or, "_odds", lambda *a: again.append(a) or odds(*a))
    for in_cache in (1 << 18, 1):
        assert not again
        monkeypatch.setattr("dolphin.provenance.logarithms._IN_CACHE", in_cache)
        inputs = [numbers.clone().requires_grad_() for numbers in given]
        a, b = (dl.Distribution(p, range(p.shape[1]), provenance=NoisyOr()) for p in inputs)
        dl.bce_loss(dl.apply(a, b, lambda x, y: x * y % 5), [0, 1, 2, 3]).backward()
        grads.append([numbers.grad for numbers in inputs])
    assert again
    torch.testing.assert_close(*grads, rtol=0, atol=0)
