"""Old batches die, caches stay bounded, memory stays flat."""

from __future__ import annotations

import gc
import operator
import os
import tracemalloc
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

import dolphin as dl
from dolphin.symbolic import symbols
from dolphin.symbolic.plans import caches

PROVENANCES = {"damp": dl.DAMP(), "top-3": dl.TopKProofs(k=3)}
each_provenance = pytest.mark.parametrize(
    "provenance", PROVENANCES.values(), ids=PROVENANCES.keys()
)


@pytest.fixture(autouse=True, scope="module")
def only_what_is_new():
    """All that other tests left stays out of the way: the collector takes long to look at it."""
    gc.collect()
    gc.freeze()


class Model(nn.Module):
    """Shared and per-row layouts, sampling, conditions, labels that differ from row to row."""

    def __init__(self, provenance):
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.provenance = provenance
        self.made: list[weakref.ref] = []

    def forward(self, x, labels):
        with dl.using(self.provenance):
            d = dl.Distribution(self.layer(x).softmax(dim=1), range(4))
            e = dl.Distribution(self.layer(-x).softmax(dim=1), range(4))
            total = dl.apply(d, e, lambda a, b: a + b)
            label = dl.Distribution.certain_rows(labels)
            rows = dl.apply(dl.sample(total, 3), label, lambda s, t: s - t)
            near = dl.apply_if(rows, d, lambda s, a: s + a, lambda s, a: abs(s) < 3)
            result = dl.union(near, dl.filter(total, lambda s: s % 2 == 0))
        self.made += [weakref.ref(d) for d in (d, e, total, label, rows, near, result)]
        self.made.append(weakref.ref(dl.get_probs(total)))
        return result.prob_of(labels)


@each_provenance
def test_distributions_die_with_their_step(provenance):
    model = Model(provenance)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(50):
        labels = torch.randint(0, 7, (3,)).tolist()
        loss = -model(torch.randn(3, 3), labels).clamp(min=1e-6).log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss
        if step % 10 == 9:
            gc.collect()
            assert sum(ref() is not None for ref in model.made) == 0
            model.made.clear()


@each_provenance
def test_inputs_die_without_the_garbage_collector(provenance):
    """No reference cycles: a GPU's memory is not freed when Python finds the time."""
    gc.collect()
    gc.disable()
    try:
        probs = torch.rand(4, 5).softmax(dim=1)
        tensor = weakref.ref(probs)
        d = dl.Distribution(probs, range(5), provenance=provenance)
        result = dl.apply(d, d, operator.add)
        refs = [weakref.ref(d), weakref.ref(result)]
        dl.get_probs(result)
        del probs, d, result
        assert [ref() for ref in refs] == [None, None]
        assert tensor() is None
    finally:
        gc.enable()


@each_provenance
def test_closed_over_objects_die(provenance):
    """The cache knows functions by what they close over, without keeping that alive."""

    class Rules:
        def __init__(self, offset):
            self.offset = offset

    refs = []
    for n in range(20):
        rules = Rules(n)
        refs.append(weakref.ref(rules))
        d = dl.Distribution(torch.tensor([0.5, 0.5]), [0, 1], provenance=provenance)
        dl.apply(d, lambda x, rules=rules: x + rules.offset)
    del rules, d
    gc.collect()
    assert sum(ref() is not None for ref in refs) == 0


def test_models_die():
    model = Model(dl.TopKProofs(k=2))
    model(torch.randn(2, 3), [1, 2]).sum().backward()
    ref = weakref.ref(model)
    del model
    gc.collect()
    assert ref() is None


def growth(work, steps: int, warm_up: int) -> int:
    """Bytes of Python memory that `steps` further calls of work(i) leave behind. The warm-up is
    traced too: what then replaces old entries of a cache is no growth."""
    tracemalloc.start()
    try:
        for i in range(warm_up):
            work(i)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for i in range(warm_up, warm_up + steps):
            work(i)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.fixture
def small_caches(monkeypatch):
    """Caches that are full after a hundred entries, so that forgetting begins soon."""
    monkeypatch.setattr(caches.plans, "limit", caches.plans.limit // 40)
    monkeypatch.setattr(symbols._known, "limit", 60)
    monkeypatch.setattr(symbols._given, "limit", symbols._given.limit // 40)
    with dl.settings(max_symbols=400, max_remembered=400):
        yield


def steps_to_fill_the_cache(work) -> int:
    """How many calls it takes until a new plan displaces an old one, and some more."""
    work(0)
    info = dl.cache_info()
    return info.max_plan_weight // info.plan_weight + 50


def resident_megabytes() -> float:
    """Memory of the whole process, tensors included."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("needs /proc")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@each_provenance
def test_steps_with_fresh_numbers(provenance):
    model = Model(provenance)

    def step(i):
        loss = model(torch.randn(2, 3), [i % 7, (3 * i) % 7]).sum()
        model.zero_grad()
        loss.backward()
        model.made.clear()

    assert growth(step, steps=60, warm_up=40) < 60_000


@pytest.mark.usefixtures("small_caches")
def test_steps_with_fresh_symbols_in_rows():
    """Labels and results that never come again: remembered up to a limit, then forgotten."""

    def step(i):
        p = torch.rand(2, 3).softmax(dim=1)
        rows = dl.Distribution.from_rows(
            [([f"{i}-{b}-{c}" for c in range(3)], p[b]) for b in range(2)],
            provenance=dl.TopKProofs(k=2),
        )
        dl.get_probs(dl.apply(rows, rows, lambda a, b: a + b))

    assert growth(step, steps=60, warm_up=100) < 150_000


@pytest.mark.usefixtures("small_caches")
def test_fresh_symbols_in_shared_plans():
    """Plans are forgotten too, once there are many of them."""

    def step(i):
        shared = dl.Distribution(torch.tensor([0.2, 0.3, 0.5]), [(i, c) for c in range(3)])
        dl.get_probs(dl.apply(shared, lambda s: s[0]))

    assert growth(step, steps=100, warm_up=steps_to_fill_the_cache(step)) < 150_000
    info = dl.cache_info()
    assert info.plan_weight <= info.max_plan_weight


def test_large_plans_are_not_hoarded():
    """A plan of a hundred thousand combinations weighs megabytes: their number is no bound."""

    def step(i):
        d = dl.Distribution(torch.full((1, 300), 1 / 300), range(i, i + 300))
        dl.apply(d, d, lambda x, y: 0)

    for i in range(5):
        step(i)
    before = resident_megabytes()
    for i in range(5, 105):
        step(i)
    assert resident_megabytes() - before < 200


@pytest.mark.usefixtures("small_caches")
def test_fresh_functions():
    def step(i):
        d = dl.Distribution(torch.tensor([0.5, 0.5]), [0, 1])
        assert list(dl.apply(d, lambda x: x + i).symbols) == [i, i + 1]

    assert growth(step, steps=100, warm_up=steps_to_fill_the_cache(step)) < 150_000


def test_hundreds_of_steps_with_flat_memory():
    """tracemalloc does not see tensors: the whole process, with a generous margin."""
    model = Model(dl.TopKProofs(k=3))

    def step():
        model(torch.randn(8, 3), [3] * 8).sum().backward()
        model.made.clear()

    for _ in range(60):
        step()
    before = resident_megabytes()
    for _ in range(120):
        step()
    assert resident_megabytes() - before < 6
