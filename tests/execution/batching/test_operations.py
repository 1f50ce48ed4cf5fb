"""Programs for one sample, batched: the same as a loop over the samples and `stack`."""

from __future__ import annotations

import random

import pytest
import torch

import dolphin as dl
from dolphin.provenance import provenance_names
from dolphin.provenance.registry import names_with_negation
from same_as_the_loop import assert_same_as_the_loop


def add(x, y):
    return (x + y) % 5


def times(x, y):
    return (x * y) % 5


class Walk:
    """A random program: what it does depends on the sample, and on what results say."""

    def __init__(self, seed, rows, *, negates, steps, numbers=True):
        self.choice = random.Random(seed)
        self.pool = [self.given(row) for row in rows]
        self.negates, self.steps, self.numbers = negates, steps, numbers

    def given(self, row):
        symbols = range(len(row))
        if self.choice.random() < 0.3:
            symbols = [2 * s for s in symbols]
        if self.choice.random() < 0.3:
            return dl.Distribution(row.sigmoid(), symbols, exclusive=False)
        if self.choice.random() < 0.3:
            return dl.Distribution.from_rows([(list(symbols), row)], logits=True)
        return dl.Distribution.from_logits(row, symbols)

    def any(self):
        return self.choice.choice(self.pool)

    def step(self):
        a, b, n = self.any(), self.any(), self.choice.randrange(5)
        match self.choice.randrange(13):
            case 0:
                return dl.apply(a, b, add)
            case 1:
                return dl.apply(a, b, times)
            case 2:
                return dl.apply_if(a, b, add, lambda x, y: x <= y)
            case 3:
                return dl.apply_if(a, b, lambda x, y: x, on=(lambda x: x % 3, lambda y: y % 3))
            case 4:
                return a.map(lambda x: (x + n) % 5)  # n changes before this runs
            case 5:
                return dl.filter(a, lambda x: x != n)
            case 6:
                return dl.union(a, b)
            case 7:
                return dl.sample(a, 1 + n % 3)
            case 8:
                return a + n
            case 9:
                return dl.negate(a) if self.negates else dl.union(a, b, self.any())
            case 10:
                return dl.apply(a, dl.Distribution.certain(n), b, lambda x, m, y: (x * m + y) % 5)
            case 11:
                return dl.reduce(add, [a, b, self.any()])
            case _:
                return self.look(a, b)

    def look(self, a, b):
        if not self.numbers or not len(a):
            return dl.union(a, b)
        kind = self.choice.randrange(4)
        if kind == 0:
            return a if a.argmax()[0] < 3 else b
        if kind == 1:
            return a if float(a.detach().prob_of([1])[0]) > 0.3 else dl.union(a, b)
        if kind == 2:
            return a if a.top(1)[0][0][0] < 2 else a.map(lambda x: x + 1)
        return a.filter(lambda x: x in b.symbols)

    def run(self):
        for _ in range(self.choice.randint(1, self.steps)):
            self.pool.append(self.step())
            if len(self.pool[-1]) > 8:
                self.pool[-1] = dl.sample(self.pool[-1], 4)
        return dl.union(self.pool[-1], self.any())


def walk(seed, rows, *, negates=False, steps=6, numbers=True):
    return Walk(seed, rows, negates=negates, steps=steps, numbers=numbers).run()


def samples(count, seed, dtype, most=3):
    choice = random.Random(seed)
    torch.manual_seed(seed)
    sizes = [choice.randint(1, most) for _ in range(count)]
    return [
        [torch.randn(choice.choice([2, 3]), dtype=dtype, requires_grad=True) for _ in range(size)]
        for size in sizes
    ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("name", provenance_names()[:20])
def test_random_programs_under_every_provenance(name, dtype):
    negates = name in names_with_negation()
    for seed in range(1 if name == "exact" or dtype == torch.float32 else 2):
        rows = samples(5, seed, dtype)
        leaves = [leaf for sample in rows for leaf in sample]
        seeds = [100 * seed + number for number in range(5)]
        with dl.using(name):
            assert_same_as_the_loop(
                walk, (seeds, rows), leaves, 1e-8 if dtype == torch.float64 else 2e-4,
                negates=negates, steps=4,
            )  # fmt: skip


@pytest.mark.parametrize("numbers", [True, False], ids=["looks at numbers", "doesn't"])
@pytest.mark.parametrize(
    "provenance",
    [dl.DAMP(), dl.TopKProofs(k=2), dl.TopKProofs(k=3, wmc="exact"), dl.get_provenance("viterbi")],
    ids=["damp", "top-2", "wmc-3", "viterbi"],
)
def test_longer_random_programs(provenance, numbers):
    for seed in range(2):
        rows = samples(6, seed, torch.float64, most=5)
        leaves = [leaf for sample in rows for leaf in sample]
        seeds = [1000 * seed + number for number in range(6)]
        with dl.using(provenance):
            assert_same_as_the_loop(
                walk, (seeds, rows), leaves, 1e-8, negates=True, steps=12, numbers=numbers
            )


@pytest.mark.parametrize("name", ["damp", "viterbi", "dtkp-am", "exact"])
def test_symbols_that_are_read_belong_to_their_own_sample(name):
    """Rows that have the same symbols in another order, read before they are used."""
    rows = [torch.tensor([0.9, 0.1], dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def program(row, first):
        drawn = dl.Distribution(row, [first, 1 - first]).map(
            lambda s: dl.weighted({s: 0.5, s + 2: 0.25})
        )
        even = drawn.map(lambda s: s % 2 == 0)
        assert set(even.symbols) == {True, False}
        return dl.union(even.filter(lambda e: e).map(str), dl.where(even, "yes", "no"))

    with dl.using(name):
        assert_same_as_the_loop(program, (rows, [0, 1, 0]), rows, 1e-8)


@pytest.mark.parametrize("count", [1, 2])
def test_questions_to_what_a_batched_program_returns(count):
    """Symbols of its results exclude each other where those of a sample do."""
    rows = [torch.tensor([0.7, 0.2], dtype=torch.float64, requires_grad=True)] * count

    def parity(row):
        return dl.Distribution(row, [3, 1]).map(lambda s: s % 3)

    with dl.using("damp"):
        found = dl.exists(dl.batched(parity)(rows))
    torch.testing.assert_close(
        found.prob_of([True] * count).detach().double(), torch.tensor([0.9] * count).double()
    )
