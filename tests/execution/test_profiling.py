"""`dolphin.profile`: what it counts, and that it changes nothing else."""

from __future__ import annotations

import math
import threading

import pytest
import torch

import dolphin as dl


def coin(batch: int = 1) -> dl.Distribution:
    return dl.Distribution(torch.full((batch, 2), 0.5), [0, 1])


def entries(seen) -> dict:
    return {(entry.operation, entry.function): entry for entry in seen.entries}


def add(x, y):
    return x + y


def is_even(x):
    return x % 2 == 0


@pytest.fixture(autouse=True)
def nothing_remembered():
    dl.cache_clear()


def test_counts_calls_combinations_and_function_calls():
    d = coin(batch=4)
    with dl.profile() as seen:
        for _ in range(3):
            total = dl.apply(d, d, add)
        dl.filter(total, is_even)
    found = entries(seen)
    assert set(found) == {("apply", "add"), ("filter", "is_even")}
    sums = found["apply", "add"]
    assert (sums.calls, sums.combinations, sums.function_calls) == (3, 12, 4)
    assert found["filter", "is_even"].combinations == 2
    assert found["filter", "is_even"].function_calls == 3
    assert (seen.total.calls, seen.total.function_calls) == (4, 7)


def test_remembered_results_are_not_calls():
    dl.apply(coin(), coin(), add)
    with dl.profile() as seen:
        dl.apply(coin(), coin(), add)
    assert seen.total.function_calls == 0
    with dl.profile() as seen:
        dl.apply(coin(), coin(), add, cache=False)
    assert seen.total.function_calls == 4


def test_joins_count_what_they_combine():
    d = dl.Distribution(torch.full((1, 10), 0.1), range(10))
    with dl.profile() as seen:
        dl.apply_if(d, d, add, on=(lambda x: x, lambda y: y))
    (entry,) = seen.entries
    assert entry.combinations == 10
    assert entry.function_calls == 10 + 10 + 10  # both keys, then the function


def test_rows_with_symbols_of_their_own():
    d = dl.Distribution.certain_rows([1, 2, 2])
    with dl.profile() as seen:
        dl.apply(coin(batch=3), d, add)
    assert seen.total.combinations == 6
    assert seen.total.function_calls == 4  # (0, 1), (1, 1), (0, 2), (1, 2)


def test_all_operations_appear():
    d = dl.Distribution(torch.full((2, 4), 0.25), range(4))
    with dl.profile() as seen:
        other = dl.apply_if(d, d, add, lambda x, y: x < y)
        dl.union(d, other)
        dl.sample(d, 2)
        dl.negate(d)
        dl.get_probs(d)
        dl.get_logits(d)
        dl.nll_loss(d, [0, 1])
        dl.bce_loss(d, [0, 1])
        d.prob_of([0, 1])
        d.argmax()
    names = {entry.operation for entry in seen.entries}
    assert names == {
        "apply_if", "union", "sample", "negate", "get_probs", "get_logits", "nll_loss", "bce_loss",
        "prob_of", "argmax",
    }  # fmt: skip


@pytest.mark.parametrize("per_row", [False, True])
def test_calls_of_match_are_calls_of_functions(per_row):
    d = dl.Distribution(torch.full((2, 4), 0.25), range(4))
    d = dl.sample(d, 3) if per_row else d
    with dl.profile() as seen:
        d.prob_of([0, 1], match=math.isclose)
    assert seen.total.function_calls == (6 if per_row else 8)


def test_methods_and_operators_are_operations_too():
    with dl.profile() as seen:
        (coin() + coin()).map(is_even)
    assert set(entries(seen)) == {("apply", "add"), ("apply", "is_even")}


def test_times_add_up():
    d = dl.Distribution(torch.full((8, 20), 0.05), range(20))
    with dl.profile() as seen:
        dl.get_probs(dl.apply(d, d, add))
    for entry in (*seen.entries, seen.total):
        parts = (entry.function_seconds, entry.tag_seconds, entry.other_seconds)
        assert all(part >= 0 for part in parts)
        assert sum(parts) == pytest.approx(entry.seconds)
    assert entries(seen)["apply", "add"].function_seconds > 0
    assert entries(seen)["get_probs", ""].tag_seconds > 0
    slowest_first = [entry.seconds for entry in seen.entries]
    assert slowest_first == sorted(slowest_first, reverse=True)


def test_lambdas_are_known_by_their_line():
    with dl.profile() as seen:
        dl.apply(coin(), lambda x: x)
    (entry,) = seen.entries
    assert entry.function.startswith("lambda at test_profiling.py:")


def test_nested_profiles_see_their_own_block_only():
    with dl.profile() as outer:
        dl.apply(coin(), is_even)
        with dl.profile() as inner:
            dl.apply(coin(), coin(), add)
        dl.apply(coin(), is_even)
    assert set(entries(inner)) == {("apply", "add")}
    assert set(entries(outer)) == {("apply", "is_even")}


def test_nothing_is_recorded_outside_of_the_block():
    with dl.profile() as seen:
        pass
    dl.apply(coin(), is_even)
    assert seen.entries == ()
    assert seen.total.calls == 0


def test_other_threads_are_not_part_of_it():
    with dl.profile() as seen:
        thread = threading.Thread(target=lambda: dl.apply(coin(), is_even))
        thread.start()
        thread.join()
    assert seen.entries == ()


def test_an_error_leaves_the_profile_usable():
    def fails(x):
        raise ValueError("no")

    with dl.profile() as seen:
        with pytest.raises(dl.DolphinError):
            dl.apply(coin(), fails)
        dl.apply(coin(), coin(), add)
    assert {entry.function for entry in seen.entries} == {
        "fails",
        "add",
    }
    assert dl.apply(coin(), is_even).symbols == (True, False)


@pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=2)], ids=repr)
def test_results_and_gradients_are_the_same(provenance):
    probs = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], requires_grad=True)

    def run():
        d = dl.Distribution(probs, range(3), provenance=provenance)
        found = dl.get_probs(dl.sample(dl.apply(d, d, add), 3), symbols=range(5))
        return found, torch.autograd.grad(found.pow(2).sum(), probs)[0]

    plain = run()
    with dl.profile():
        profiled = run()
    for one, other in zip(plain, profiled, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_printed_table():
    with dl.profile() as seen:
        dl.apply(coin(), coin(), add)
        dl.get_probs(coin())
    lines = str(seen).splitlines()
    assert " ".join(lines[0].split()) == (
        "operation function calls combinations f calls f ms plan ms tag ms ms"
    )
    assert lines[-1].startswith("total")
    assert any(line.startswith("apply") and " add " in line for line in lines)
    assert "2 calls of 2 operations" in repr(seen)
