"""User functions run once for each new combination of symbols; caches are bounded."""

from __future__ import annotations

import sys

import pytest
import torch

import dolphin as dl


def dist(symbols=(0, 1, 2), provenance=None):
    symbols = list(symbols)
    probs = torch.rand(2, len(symbols)).softmax(dim=1)
    return dl.Distribution(probs, symbols, provenance=provenance)


class Calls:
    """Counts, from outside, the calls of functions that were written inside `place`.

    The functions themselves stay pure: one that counted its own calls would be another function
    after every call, and rightly so.
    """

    def __init__(self, place):
        self.place = f"{place.__qualname__}.<locals>."
        self.number = 0

    def __enter__(self):
        sys.setprofile(self._note)
        return self

    def __exit__(self, *details):
        sys.setprofile(None)

    def _note(self, frame, event, argument):
        if event == "call" and frame.f_code.co_qualname.startswith(self.place):
            self.number += 1


@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=2)], ids=["damp", "top-k"])
def test_once_for_each_combination(layout, provenance):
    def make_inputs():
        for p in torch.rand(2, 4, 3).softmax(dim=-1):
            if layout == "shared":
                yield dl.Distribution(p, range(3), provenance=provenance)
            else:
                rows = [([0, 1, 2], row) for row in p]
                yield dl.Distribution.from_rows(rows, provenance=provenance)

    for expected in (9, 0, 0, 0):
        inputs = list(make_inputs())
        with Calls(test_once_for_each_combination) as calls:
            dl.apply(*inputs, lambda x, y: x + y)
        assert calls.number == expected


def test_only_new_combinations_run():
    """Per-row symbols come and go; a combination that was seen before is not run again."""

    def double(x):
        return 2 * x

    def calls_for(*rows):
        pairs = [(list(row), torch.full((len(row),), 1 / len(row))) for row in rows]
        d = dl.Distribution.from_rows(pairs)
        with Calls(test_only_new_combinations_run) as calls:
            dl.apply(d, double)
        return calls.number

    assert calls_for([1, 2], [2, 3]) == 3
    assert calls_for([3, 1], [4, 1]) == 1
    assert calls_for([1], [2]) == 0


class Model(torch.nn.Module):
    """Everything is written inside `forward`, as people do."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 10)
        self.modulus = 10

    def forward(self, x):
        digits = range(10)

        def carry(a, b):
            return (a + b) // self.modulus

        d = dl.Distribution.from_logits(self.layer(x), digits)
        e = dl.Distribution.from_logits(self.layer(-x), digits)
        total = dl.apply(d, e, lambda a, b: a + b)
        even = dl.filter(total, lambda s: s % 2 == 0)
        ordered = dl.apply_if(d, e, lambda a, b: (a, b), lambda a, b: a < b)
        joined = dl.apply_if(d, e, lambda a, b: a * b, on=(lambda a: a % 5, lambda b: b // 2))
        return tuple(map(dl.get_probs, (dl.apply(d, e, carry), even, ordered, joined)))


def test_functions_inside_forward_are_remembered():
    model = Model()
    with Calls(Model.forward) as calls:
        model(torch.randn(3, 4))
    sums, evens, conditions, pairs, keys, products, carries = 100, 19, 100, 45, 20, 20, 100
    assert calls.number == sums + evens + conditions + pairs + keys + products + carries
    with Calls(Model.forward) as calls:
        for batch in (3, 3, 7, 1):  # another batch size is no new combination
            model(torch.randn(batch, 4))
    assert calls.number == 0


def test_remembered_for_every_instance_that_agrees():
    """Two models of one class with the same settings may share, and must not get mixed up."""
    one, two = Model(), Model()
    two.modulus = 5
    carries = [model(torch.randn(1, 4))[0].shape[1] for model in (one, two, one, two)]
    assert carries == [2, 4, 2, 4]


def test_join_keys_run_once_for_each_symbol():
    n = 300

    def key(x):
        return x

    d, e = dist(range(n)), dist(range(n))
    with Calls(test_join_keys_run_once_for_each_symbol) as calls:
        joined = dl.apply_if(d, e, max, on=(key, key))
    assert len(joined) == n
    assert calls.number <= 2 * n


def test_uncached_functions_run_every_time():
    d = dist()
    for options, expected in (
        ({"cache": False}, 3),
        ({"cache": False}, 3),
        ({}, 3),
        ({}, 0),
        ({"cache": False}, 3),
    ):
        with Calls(test_uncached_functions_run_every_time) as calls:
            dl.apply(d, lambda x: x, **options)
        assert calls.number == expected


def test_cache_info_and_clear():
    d = dist()
    for clear, expected in ((False, 3), (False, 0), (True, 3), (False, 0)):
        before = dl.cache_info()
        if clear:
            dl.cache_clear()
            assert dl.cache_info() != before
            assert dl.cache_info().plans == dl.cache_info().remembered == 0
        with Calls(test_cache_info_and_clear) as calls:
            dl.apply(d, lambda x: x)
        assert calls.number == expected
        assert dl.cache_info().plans == 1


def test_caches_are_bounded():
    """Thousands of different functions and symbols: what is remembered does not grow for ever."""
    with dl.settings(max_remembered=500, max_symbols=500):
        for n in range(1500):
            d = dl.Distribution(torch.tensor([0.5, 0.5]), [n, n + 1])
            assert list(dl.apply(d, lambda x, n=n: x - n).symbols) == [0, 1]
    info = dl.cache_info()
    for name, value in numbers_in(info):
        assert value < 2500, name
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
