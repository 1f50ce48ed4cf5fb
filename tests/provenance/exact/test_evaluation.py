"""Exact circuits: values and derivatives next to 0 and 1, very small ones, what is remembered."""

from __future__ import annotations

import gc
import itertools
import math
import random
import threading

import pytest
import torch

import dolphin as dl
from dolphin.programs import recursion
from dolphin.provenance import Exact
from dolphin.provenance.exact import compiling, diagrams, sentential
from exact_cases import random_graph, reachable

# ------------------------------------------------------------------------------ values, derivatives


def expected(coins, letters):
    """P(some coin and the letter a, or both coins and not b), over all worlds."""
    total = torch.zeros(coins.shape[0], dtype=torch.float64)
    for x, y, letter in itertools.product((False, True), (False, True), (0, 1, None)):
        if ((x or y) and letter == 0) or (x and y and letter != 1):
            p = [c if held else 1 - c for c, held in zip(coins.unbind(1), (x, y), strict=True)]
            rest = 1 - letters.sum(1)
            total = total + p[0] * p[1] * (rest if letter is None else letters[:, letter])
    return total


def found(coins, letters, compiler, *, logs=False):
    with dl.using(Exact(compiler=compiler)):
        c = dl.Distribution(coins, ["x", "y"], exclusive=False)
        d = dl.Distribution(letters, ["a", "b"])
    some = dl.apply_if(c, d, lambda x, a: True, lambda x, a: a == "a")
    both = dl.apply_if(c, c, lambda x, y: True, lambda x, y: x < y)
    no_b = dl.apply(dl.filter(dl.negate(d), lambda s: s == "b"), lambda s: True)
    result = dl.union(some, dl.apply(both, no_b, lambda x, y: True))
    return (dl.get_logits(result) if logs else dl.get_probs(result))[:, 0]


@pytest.mark.parametrize("compiler", ["auto", "diagrams"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_and_impossible_facts(dtype, compiler):
    """All corners of the cube, and the middle of its edges."""
    points = [p for p in itertools.product((0.0, 0.5, 1.0), repeat=4) if p[2] + p[3] <= 1.0]
    given = torch.tensor(points, dtype=dtype)
    halves = [given[:, :2].clone().requires_grad_(), given[:, 2:].clone().requires_grad_()]
    doubles = [half.detach().double().requires_grad_() for half in halves]
    value, wanted = found(*halves, compiler), expected(*doubles)
    torch.testing.assert_close(value.double(), wanted, atol=1e-7, rtol=0)
    grads = torch.autograd.grad(value.sum(), halves)
    for mine, true in zip(grads, torch.autograd.grad(wanted.sum(), doubles), strict=True):
        torch.testing.assert_close(mine.double(), true, atol=1e-6, rtol=0)


def test_probabilities_and_logits_in_one_program():
    p = torch.rand(3, 2, dtype=torch.float64).requires_grad_()
    z = torch.randn(3, 2, dtype=torch.float64).requires_grad_()
    with dl.using(Exact()):
        c = dl.Distribution(p, ["x", "y"], exclusive=False)
        d = dl.Distribution.from_logits(z, ["a", "b"], exclusive=False)
    value = dl.get_logits(dl.apply(c, dl.negate(d), lambda s, t: True))[:, 0]
    q = z.sigmoid()
    wanted = ((1 - (1 - p).prod(1)) * (1 - q.prod(1))).log()
    torch.testing.assert_close(value, wanted)
    for mine, true in zip(
        torch.autograd.grad(value.sum(), (p, z)),
        torch.autograd.grad(wanted.sum(), (p, z)),
        strict=True,
    ):
        torch.testing.assert_close(mine, true)


def test_logarithms_of_what_plain_numbers_cannot_hold():
    """All of 400 facts of 1/1000, beside one that can't be and one that is likely."""
    logits = torch.full((2, 400), math.log(1e-3 / (1 - 1e-3)), dtype=torch.float64)
    logits.requires_grad_()
    d = dl.Distribution.from_logits(logits, range(400), exclusive=False, provenance=Exact())
    value = dl.get_logits(dl.forall(dl.negate(d), lambda s: False), symbols=[True, False, "never"])
    torch.testing.assert_close(value[:, 0], torch.full((2,), 400 * math.log(1e-3)).double())
    assert (value[:, 1].abs() < 1e-9).all()
    assert (value[:, 2] < -9999).all()
    (grad,) = torch.autograd.grad(value[:, 0].sum(), logits)
    torch.testing.assert_close(grad, torch.full_like(grad, 1 - 1e-3))


def test_in_pieces():
    """A circuit that is too large to keep what was gathered, and to gather a level at once."""
    probs = torch.rand(5, 12, dtype=torch.float64)

    def values():
        p = probs.clone().requires_grad_()
        d = dl.Distribution(p, random_graph(1), exclusive=False, provenance=Exact())
        value = reachable(d, 0, 6)
        return value, torch.autograd.grad(value.sum(), p)[0]

    whole = values()
    with dl.settings(chunk_elements=40):
        for mine, true in zip(values(), whole, strict=True):
            torch.testing.assert_close(mine, true)


# ---------------------------------------------------------------------------------- what is chosen


@pytest.mark.skipif(not sentential.available(), reason="PySDD is not installed")
def test_the_faster_circuit_is_chosen():
    """A balanced tree has the same values, and fewer levels than a row of variables."""
    p = torch.rand(2, 12, dtype=torch.float64)
    found, levels = [], []
    for compiler in ("diagrams", "auto"):
        d = dl.Distribution(
            p, random_graph(2), exclusive=False, provenance=Exact(compiler=compiler)
        )
        found.append(reachable(d, 0, 6))
        levels.append(len(compiling._circuits.values()[-1].levels))
    torch.testing.assert_close(*found)
    assert levels[1] < levels[0]


# ------------------------------------------------------------------------------ whole recursions

BLOCKED: set[tuple[int, int]] = set()


def ways(d, read=None):
    both = dl.union(d, dl.apply(d, lambda e: (e[1], e[0])))
    start = dl.apply(dl.filter(both, lambda e: e[0] == 0), lambda e: e[1])

    def step(found):
        if read is not None:
            read(found)
        ends = (lambda v: v, lambda e: e[0])
        onwards = dl.apply_if(
            found, both, lambda v, e: e[1], lambda v, e: e not in BLOCKED, on=ends
        )
        return dl.union(found, onwards)

    return dl.get_probs(dl.fixpoint(step, start), symbols=range(7))


@pytest.fixture
def rounds(monkeypatch):
    """How many fixpoints were worked out, not remembered."""
    counted = []
    repeated = recursion._repeated
    monkeypatch.setattr(
        recursion, "_repeated", lambda *a, **k: (counted.append(1), repeated(*a, **k))[1]
    )
    return counted


def edges(seed):
    p = torch.rand(2, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return dl.Distribution(p.requires_grad_(), random_graph(3), exclusive=False, provenance=Exact())


def test_a_recursion_is_remembered_as_a_whole(rounds):
    dl.cache_clear()
    for seed in range(3):
        ways(edges(seed))
    assert len(rounds) == 2  # the first run calls functions, the second one none
    fresh = ways(edges(2))
    assert len(rounds) == 2
    dl.cache_clear()
    torch.testing.assert_close(fresh, ways(edges(2)))


def test_what_its_functions_read_counts(rounds):
    dl.cache_clear()
    free = [ways(edges(0)) for _ in range(3)][-1]
    BLOCKED.update(edge for a, b in random_graph(3)[3:] for edge in ((a, b), (b, a)))
    try:
        blocked = [ways(edges(0)) for _ in range(3)]
    finally:
        BLOCKED.clear()
    assert not torch.allclose(free, blocked[0])
    for again in blocked[1:]:
        torch.testing.assert_close(again, blocked[0])
    torch.testing.assert_close(ways(edges(0)), free)


def test_a_recursion_that_reads_numbers_is_not_remembered(rounds):
    dl.cache_clear()
    for _ in range(4):
        ways(edges(0), read=lambda found: found.probs())
    assert len(rounds) == 4


@pytest.mark.parametrize("overlap", [0, 4, 10**6])
@pytest.mark.parametrize("seed", range(6))
def test_many_nodes_joined_at_once_are_the_same_function(monkeypatch, seed, overlap):
    """Against all worlds, and pairs; with no overlap allowed pairs are joined, with any all."""
    chance = random.Random(seed)
    sizes = [chance.randint(2, 4) for _ in range(4)]
    answers = {
        world: chance.randrange(3) for world in itertools.product(*(range(n) for n in sizes))
    }
    probs = [torch.rand(2, n, dtype=torch.float64).softmax(1).requires_grad_() for n in sizes]

    def computed(many):
        monkeypatch.setattr(diagrams, "MANY", many)
        monkeypatch.setattr(diagrams, "OVERLAP", overlap)
        dl.cache_clear()
        exact = Exact(compiler="diagrams")
        inputs = [dl.Distribution(p, range(p.shape[1]), provenance=exact) for p in probs]
        made = dl.apply(*inputs, lambda *world: answers[world])
        shorter = dl.apply(*inputs[1:3], lambda a, b: (a + b) % 3)  # fewer facts: cases overlap
        result = dl.union(made, shorter).probs([0, 1, 2])
        weights = torch.linspace(0.5, 2.0, 6, dtype=torch.float64).view(2, 3)
        return result, torch.autograd.grad((result * weights).sum(), probs)

    wanted = torch.zeros(2, 3, dtype=torch.float64)
    for world, answer in answers.items():
        weight = torch.stack([p[:, c] for p, c in zip(probs, world, strict=True)]).prod(0)
        for symbol in {answer, (world[1] + world[2]) % 3}:
            wanted = wanted + weight[:, None] * (torch.arange(3) == symbol)
    values, gradients = computed(many=1)
    torch.testing.assert_close(values, wanted)
    torch.testing.assert_close(gradients, computed(many=10**9)[1])


@pytest.mark.skipif(not sentential.available(), reason="PySDD is not installed")
def test_a_very_long_row_of_variables_is_left_to_other_diagrams():
    order = [(0, (column,)) for column in range(sentential.LONGEST_ROW + 1)]
    used = {(0, column) for column in range(sentential.LONGEST_ROW + 1)}
    with pytest.raises(diagrams.TooLargeError, match="1,001 variables in a row, more than 1000"):
        sentential.Sentential(order, used, "right")
    sentential.Sentential(order, used, "balanced")


@pytest.mark.skipif(not sentential.available(), reason="PySDD is not installed")
def test_a_long_row_of_variables_has_room_on_the_stack():
    # PySDD recurses along a row: this one overflows a stack of 8 MB, which ends the process.
    count, most = 200, 3

    def at_most() -> int:
        row = sentential.Sentential(
            [(0, (column,)) for column in range(count)], {(0, c) for c in range(count)}, "right"
        )
        manager = row.manager
        ways = [manager.true()] + [manager.false()] * most
        for column in range(count):
            yes, before = row.literal((0, column)), [manager.false(), *ways]
            pairs = zip(before, ways, strict=False)
            ways = [(fewer & yes) | (same & ~yes) for fewer, same in pairs]
        return ways[most].model_count()

    assert sentential.with_room(count, at_most) == math.comb(count, most)


def test_what_fails_on_a_large_stack_fails_where_it_was_called():
    def fails():
        raise diagrams.TooLargeError("is too large")

    before = threading.stack_size()
    with pytest.raises(diagrams.TooLargeError, match="is too large"):
        sentential.with_room(500, fails)
    assert threading.stack_size() == before and gc.isenabled()


@pytest.mark.parametrize("compiler", ["auto", "diagrams", "sdd"])
def test_neighbours_among_many_facts(compiler):
    if compiler == "sdd" and not sentential.available():
        pytest.skip("PySDD is not installed")
    count, p = 150, 0.1
    d = dl.Distribution(
        [p] * count, range(count), exclusive=False, provenance=dl.Exact(compiler=compiler)
    )
    both = dl.apply_if(d, d, lambda a, b: True, lambda a, b: b == a + 1)
    neither = {False: 1.0, True: 0.0}  # by whether the last fact holds, no two neighbours so far
    for _ in range(count):
        neither = {False: (neither[False] + neither[True]) * (1 - p), True: neither[False] * p}
    assert float(both.probs([True])) == pytest.approx(1 - sum(neither.values()), abs=1e-6)
