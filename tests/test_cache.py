"""User functions run once for each new combination of symbols; caches are bounded."""

from __future__ import annotations

import itertools

import pytest
import torch

import dolphin as dl


def dist(symbols=(0, 1, 2), provenance=None):
    symbols = list(symbols)
    probs = torch.rand(2, len(symbols)).softmax(dim=1)
    return dl.Distribution(probs, symbols, provenance=provenance)


class Ticks:
    """Counts calls where no fingerprint can see it: a `count` iterator is just some object."""

    def __init__(self):
        self.count = itertools.count()

    def __int__(self):
        return int(repr(self.count).removeprefix("count(").removesuffix(")"))


@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=2)], ids=["damp", "top-k"])
def test_once_for_each_combination(layout, provenance):
    ticks = Ticks()
    tick = ticks.count

    def add(x, y):
        next(tick)
        return x + y

    for _ in range(5):
        p, q = torch.rand(2, 4, 3).softmax(dim=-1)
        if layout == "shared":
            d = dl.Distribution(p, range(3), provenance=provenance)
            e = dl.Distribution(q, range(3), provenance=provenance)
        else:
            d, e = (
                dl.Distribution.from_rows([([0, 1, 2], row) for row in x], provenance=provenance)
                for x in (p, q)
            )
        dl.apply(d, e, add)
        assert int(ticks) == 9


def test_only_new_combinations_run():
    """Per-row symbols come and go; a combination that was seen before is not run again."""
    ticks = Ticks()
    tick = ticks.count

    def double(x):
        next(tick)
        return 2 * x

    def apply_to(*rows):
        pairs = [(list(row), torch.full((len(row),), 1 / len(row))) for row in rows]
        return dl.apply(dl.Distribution.from_rows(pairs), double)

    apply_to([1, 2], [2, 3])
    assert int(ticks) == 3
    apply_to([3, 1], [4, 1])
    assert int(ticks) == 4
    apply_to([1], [2])
    assert int(ticks) == 4


class Model(torch.nn.Module):
    """Everything is written inside `forward`, as people do."""

    def __init__(self, tick):
        super().__init__()
        self.tick = tick
        self.layer = torch.nn.Linear(4, 10)
        self.modulus = 10

    def forward(self, x):
        tick = self.tick
        digits = range(10)

        def carry(a, b):
            next(tick)
            return (a + b) // self.modulus

        d = dl.Distribution.from_logits(self.layer(x), digits)
        e = dl.Distribution.from_logits(self.layer(-x), digits)
        total = dl.apply(d, e, lambda a, b: next(tick) * 0 + a + b)
        even = dl.filter(total, lambda s: (next(tick) or True) and s % 2 == 0)
        ordered = dl.apply_if(
            d, e, lambda a, b: (a, b), lambda a, b: (next(tick) or True) and a < b
        )
        return dl.get_probs(dl.apply(d, e, carry)), dl.get_probs(even), dl.get_probs(ordered)


def test_functions_inside_forward_are_remembered():
    ticks = Ticks()
    model = Model(ticks.count)
    model(torch.randn(3, 4))
    first = int(ticks)
    assert first == 100 + 19 + 100 + 100
    for _ in range(4):
        model(torch.randn(3, 4))
    assert int(ticks) == first


def test_another_batch_size_is_no_new_combination():
    ticks = Ticks()
    model = Model(ticks.count)
    model(torch.randn(3, 4))
    first = int(ticks)
    model(torch.randn(7, 4))
    model(torch.randn(1, 4))
    assert int(ticks) == first


def test_join_keys_run_once_for_each_symbol():
    ticks = Ticks()
    tick = ticks.count
    n = 300

    def key(x):
        next(tick)
        return x

    d, e = dist(range(n)), dist(range(n))
    joined = dl.apply_if(d, e, lambda x, y: x + y, on=(key, key))
    assert len(joined) == n
    assert int(ticks) <= 2 * n


def test_uncached_functions_run_every_time():
    ticks = Ticks()
    tick = ticks.count

    def identity(x):
        next(tick)
        return x

    for steps in range(1, 4):
        dl.apply(dist(), identity, cache=False)
        assert int(ticks) == 3 * steps
    dl.apply(dist(), identity)
    dl.apply(dist(), identity)
    assert int(ticks) == 12


def test_cache_info_and_clear():
    ticks = Ticks()
    tick = ticks.count

    def identity(x):
        next(tick)
        return x

    dl.apply(dist(), identity)
    dl.apply(dist(), identity)
    assert int(ticks) == 3
    info = str(dl.cache_info())
    assert info
    assert any(character.isdigit() for character in info)
    dl.cache_clear()
    assert str(dl.cache_info()) != info
    dl.apply(dist(), identity)
    assert int(ticks) == 6


def test_caches_are_bounded():
    """Ten thousand different functions and symbols: what is remembered does not grow for ever."""
    with dl.settings(max_remembered=500, max_symbols=500):
        for n in range(3000):
            d = dl.Distribution(torch.tensor([0.5, 0.5]), [n, n + 1])
            assert list(dl.apply(d, lambda x, n=n: x - n).symbols) == [0, 1]
    info = dl.cache_info()
    for name, value in numbers_in(info):
        assert value < 5000, name
    assert info.plan_weight <= info.max_plan_weight


def numbers_in(info, prefix=""):
    """(name, number) of the entries that cache_info() counts; no limits, weights, hits, misses."""
    if hasattr(info, "_asdict"):
        info = info._asdict()
    elif hasattr(info, "__dict__") and not isinstance(info, dict):
        info = vars(info)
    if isinstance(info, dict):
        for key, value in info.items():
            yield from numbers_in(value, f"{prefix}.{key}")
    elif isinstance(info, int) and not any(w in prefix for w in ("max", "weight", "hits", "miss")):
        yield prefix, info


def test_a_cached_function_that_raised_is_tried_again():
    fails = [True]
    d = dist()

    def fragile(x):
        if fails[0]:
            raise ValueError("not yet")
        return x

    with pytest.raises(dl.DolphinError):
        dl.apply(d, fragile)
    fails[0] = False
    assert list(dl.apply(d, fragile).symbols) == [0, 1, 2]
