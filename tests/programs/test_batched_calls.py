"""`dl.batched` and `dl.network` as people call them: arguments, results, errors, modes, threads."""

from __future__ import annotations

import dataclasses
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import dolphin as dl
from python_process import CONTEXT


def coin(p):
    return dl.Distribution(torch.stack([1 - p, p]), [0, 1])


def plus(x, y):
    return x + y


@dl.batched
def total(numbers):
    """How many of some coins show heads."""
    return dl.reduce(plus, [coin(p) for p in numbers])


def coins(*rows):
    return [torch.tensor(row) for row in rows]


# -------------------------------------------------------------------------------- shapes of samples


def test_lists_of_different_length():
    result = total(coins([0.5], [0.5, 0.5, 0.5], [0.25, 0.5]))
    assert result.batch_size == 3
    assert result.row(1) == [(0, 0.125), (1, 0.375), (2, 0.375), (3, 0.125)]
    assert result.row(2) == [(0, 0.375), (1, 0.5), (2, 0.125)]


def test_one_sample_and_a_thousand():
    assert total(coins([0.5])).row(0) == [(0, 0.5), (1, 0.5)]
    many = total([torch.full((1 + n % 3,), 0.5) for n in range(1000)])
    assert many.batch_size == 1000
    assert many.row(998) == total(coins([0.5, 0.5, 0.5])).row(0)


def test_hundreds_of_samples_that_wait():
    @dl.batched
    def first(p):
        d = coin(p)
        return d if d.argmax()[0] == 1 else d.map(lambda x: 1 - x)

    before = threading.active_count()
    p = torch.linspace(0.01, 0.99, 400)
    torch.testing.assert_close(first(p).prob_of([1] * 400), torch.maximum(p, 1 - p))
    assert threading.active_count() <= before  # another test's may end meanwhile


def test_no_samples_are_refused():
    with pytest.raises(dl.InputError, match="no samples"):
        total([])
    with pytest.raises(dl.InputError, match="no samples"):
        total(torch.zeros(0, 3))


def test_samples_with_nothing_in_them():
    @dl.batched
    def count(items):
        d = dl.Distribution.certain(0)
        for p in items:
            d = d + coin(p)
        return d

    result = count(coins([], [0.5], []))
    assert [result.row(n) for n in range(3)] == [[(0, 1.0)], [(0, 0.5), (1, 0.5)], [(0, 1.0)]]


def test_trees_by_recursion_and_dictionaries():
    def evaluate(tree):
        if isinstance(tree, dict):
            return evaluate(tree["left"]) + evaluate(tree["right"])
        return coin(torch.tensor(tree))

    trees = [{"left": 0.5, "right": {"left": 0.5, "right": 0.5}}, 0.25]
    result = dl.batched(evaluate)(trees)
    assert result.row(0) == [(0, 0.125), (1, 0.375), (2, 0.375), (3, 0.125)]
    assert result.row(1) == [(0, 0.75), (1, 0.25)]


@pytest.mark.parametrize("provenance", ["damp", "dtkp-am", "exact", "min-max"])
def test_fixpoints_that_end_at_different_times(provenance):
    def reach(edges, probs):
        facts = dl.Distribution(probs, edges, exclusive=False, provenance=provenance)
        ends = (lambda p: p[1], lambda e: e[0])

        def grow(paths):
            longer = dl.apply_if(paths, facts, lambda p, e: (p[0], e[1]), on=ends)
            return dl.union(facts, longer)

        return dl.fixpoint(grow, facts)

    graphs = [[(0, 1)], [(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (1, 0)], [(0, 1), (1, 2)]]
    if provenance == "damp":
        graphs.pop(2)
    probs = [torch.linspace(0.4, 0.8, len(edges), dtype=torch.float64) for edges in graphs]
    expected = dl.Distribution.stack([reach(*each) for each in zip(graphs, probs, strict=True)])
    found = dl.batched(reach)(graphs, probs)
    symbols = sorted(expected.symbols)
    torch.testing.assert_close(found.probs(symbols), expected.probs(symbols))


def test_a_loop_that_ends_when_a_result_says_so():
    @dl.batched
    def until_sure(p):
        d, rounds = coin(p), 0
        while float(d.detach().prob_of([1])[0]) < 0.9:
            d = dl.apply(d, coin(p), max)
            rounds += 1
        return rounds, d

    p = torch.tensor([0.95, 0.5, 0.2], requires_grad=True)
    rounds, result = until_sure(p)
    assert rounds == [0, 3, 10]
    sure = result.prob_of([1, 1, 1])
    torch.testing.assert_close(sure, 1 - (1 - p) ** torch.tensor([1.0, 4.0, 11.0]))
    sure.sum().backward()
    expected = torch.tensor([1.0, 4 * 0.5**3, 11 * 0.8**10])
    torch.testing.assert_close(p.grad, expected)


# ------------------------------------------------------------------------------------- arguments


def test_tensors_distributions_and_several_arguments():
    @dl.batched
    def both(d, p):
        return dl.apply(d, coin(p), lambda x, y: (x, y))

    given = dl.Distribution([[0.5, 0.5], [0.2, 0.8]], "ab")
    result = both(given, torch.tensor([0.1, 0.5]))
    assert result.row(1) == [(("a", 0), 0.1), (("a", 1), 0.1), (("b", 0), 0.4), (("b", 1), 0.4)]
    assert both(p=torch.tensor([0.1]), d=given[0]).batch_size == 1


def test_rows_of_a_distribution_stay_the_same_facts():
    d = dl.Distribution([[0.5, 0.5], [0.2, 0.8]], "ab", provenance="exact")
    same = dl.batched(lambda row: row == row)(d)
    assert same.row(0) == [(True, 1.0), (False, 0.0)]
    outside = dl.apply(
        dl.batched(lambda row: row.map(str.upper))(d), d, lambda x, y: x.lower() == y
    )
    assert outside.row(1) == [(True, 1.0), (False, 0.0)]


def test_keyword_only_arguments_are_shared_and_defaults_work():
    @dl.batched
    def scaled(p, factor=3, *, offset):
        return coin(p).map(lambda x: factor * x + offset)

    assert scaled(torch.tensor([0.5, 0.5]), offset=7).symbols == (7, 10)
    assert scaled(torch.tensor([0.5, 0.5]), [1, 2], offset=0).row(1) == [(0, 0.5), (2, 0.5)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: total(), "missing a required argument"),
        (lambda: total(3), "one entry per sample"),
        (lambda: total("abc"), "one entry per sample"),
        (lambda: total({"a": 1}), "one entry per sample"),
        (lambda: total(x for x in "ab"), "one entry per sample"),
        (lambda: dl.batched(lambda a, b: a)([1, 2], [1]), "2 of a, 1 of b"),
        (lambda: dl.batched(3), "expected a function"),
    ],
)
def test_calls_that_cannot_be_meant(call, message):
    with pytest.raises(dl.DolphinError, match=message):
        call()


# --------------------------------------------------------------------------------------- results


class Pair(NamedTuple):
    d: dl.Distribution
    number: int


@dataclasses.dataclass(frozen=True)
class Answer:
    d: dl.Distribution
    parts: dict


def test_structures_come_back_batched():
    @dl.batched
    def all_of(p):
        d = coin(p)
        return Pair(d, 7), {"twice": d + d, "p": p}, [Answer(d, {"x": (p, "s")})], None

    pair, table, answers, nothing = all_of(torch.tensor([0.5, 0.25]))
    assert isinstance(pair, Pair)
    assert pair.d.batch_size == 2
    assert pair.number == [7, 7]
    assert table["twice"].symbols == (0, 1, 2)
    assert table["p"].tolist() == [0.5, 0.25]
    assert isinstance(answers[0], Answer)
    assert answers[0].parts["x"][0].shape == (2,)
    assert answers[0].parts["x"][1] == ["s", "s"]
    assert nothing == [None, None]


def test_plain_values_are_a_list():
    assert dl.batched(lambda p: coin(p).argmax())(torch.tensor([0.9, 0.1])) == [[1], [0]]
    assert dl.batched(len)([[1], [], [1, 2]]) == [1, 0, 2]


@pytest.mark.parametrize(
    ("odd", "described"),
    [
        (None, "None"), (3.5, "3.5"), ((), "a tuple of 0"), (torch.zeros(2), "shape"), ({}, "keys"),
    ],
)  # fmt: skip
def test_different_kinds_of_results_are_refused(odd, described):
    program = dl.batched(lambda n: odd if n == 2 else dl.Distribution.certain(n))
    with pytest.raises(dl.MismatchError, match=rf"sample 0 .*sample 2 .*{described}"):
        program([0, 1, 2, 3])


def test_tensors_of_different_shape_and_ragged_structures_are_refused():
    with pytest.raises(dl.MismatchError, match=r"sample 0 .*\(1,\), sample 1 .*\(2,\)"):
        dl.batched(lambda n: torch.zeros(n))([1, 2])
    with pytest.raises(dl.MismatchError, match=r"result\['x'\]: sample 0 .*list of 1, sample 1"):
        dl.batched(lambda n: {"x": [torch.zeros(1)] * n})([1, 2])


# ---------------------------------------------------------------------------------------- errors


def test_an_exception_names_the_sample_and_keeps_its_cause():
    @dl.batched
    def program(n):
        d = dl.Distribution(torch.tensor([0.5, 0.5]), [n, n + 1])
        if d.argmax()[0] == 3:
            raise KeyError("lost")
        return d

    with pytest.raises(dl.FunctionError, match="sample 3: KeyError: 'lost'") as raised:
        program([0, 1, 2, 3, 4])
    assert isinstance(raised.value.__cause__, KeyError)
    assert program([0, 1]).batch_size == 2


def test_an_error_of_a_user_function_is_raised_where_it_is_written():
    @dl.batched
    def program(p, n):
        d = coin(p).map(lambda x: x - n)
        try:
            return d.map(lambda x: 6 // x)
        except dl.FunctionError:
            return d

    result = program(torch.full((3,), 0.5), [1, 2, 3])
    assert [result[n].symbols for n in range(3)] == [(-1, 0), (-3, -6), (-2, -3)]


def test_errors_after_sampling_are_found_by_sample():
    @dl.batched
    def program(row, n):
        d = dl.sample(dl.Distribution(row, [0, 1, 2]), 2)
        return d.map(lambda x: 6 // (x - n))

    rows = torch.tensor([[0.1, 0.2, 0.7]]).expand(4, 3)
    with pytest.raises(dl.FunctionError, match=r"sample 2: .*ZeroDivisionError") as raised:
        program(rows, [7, 8, 1, 9])
    assert isinstance(raised.value.__cause__, dl.FunctionError)


def test_bad_numbers_are_found_by_sample():
    rows = torch.tensor([[0.5, 0.5], [0.5, 0.9], [0.1, 0.1]])
    with pytest.raises(dl.InputError, match=r"sample 1: .*add up to 1\.4"):
        dl.batched(lambda row: dl.Distribution(row, "ab"))(rows)


def test_parked_samples_end_when_another_one_fails():
    ended = []

    @dl.batched
    def program(n):
        d = dl.Distribution(torch.tensor([0.5, 0.5]), [n, n + 1])
        try:
            d.argmax()
            if n == 0:
                raise ValueError("no")
            d.map(lambda x: x + 1).argmax()
        finally:
            ended.append(n)
        return d

    before = threading.active_count()
    with pytest.raises(dl.FunctionError, match="sample 0"):
        program(list(range(5)))
    assert sorted(ended) == [0, 1, 2, 3, 4]
    assert threading.active_count() <= before  # another test's may end meanwhile


def test_numbers_must_not_change_before_they_are_read():
    @dl.batched
    def program(p):
        numbers = torch.stack([p, 1 - p])
        d = dl.Distribution(numbers, "ab")
        numbers.zero_()
        return d

    with pytest.raises(dl.InputError, match="modified in place"):
        program(torch.tensor([0.5, 0.4]))


def test_what_a_function_closes_over_counts_when_it_is_written():
    @dl.batched
    def program(row):
        d, seen = dl.sample(dl.Distribution(row, [0, 1, 2]), 2), []
        for n in range(3):
            seen.append(n)
            d = d.map(lambda x: x + n)  # noqa: B023
            d = d.map(lambda x: x + len(seen))
        return d

    rows = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]])
    assert [row.symbols for row in program(rows).rows()] == [(10, 11), (9, 10)]


# -------------------------------------------------------------------------------------- networks


def test_settings_and_provenance_of_the_caller_are_those_of_the_samples():
    with dl.using("dtkp-am", k=2), dl.settings(max_combinations=3):
        assert total(coins([0.5])).provenance == dl.TopKProofs(k=2)
        with pytest.raises(dl.SizeError, match="sample 1"):
            total(coins([0.5], [0.5, 0.5]))


def test_threads():
    def work(n):
        return [total(coins([0.5] * (1 + (n + i) % 4), [0.5])).row(0) for i in range(10)]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [work(n) for n in range(8)]


class Totals(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, item):
        return total(coins([0.5] * (item + 1), [0.25])).probs([0, 1])


def test_in_a_worker_of_a_data_loader():
    # Not forked: torch's threads don't survive in a copy of this process, which then may hang.
    loader = DataLoader(
        Totals(), batch_size=None, num_workers=1, multiprocessing_context=CONTEXT, timeout=120
    )
    found = torch.stack(list(loader))
    torch.testing.assert_close(found, torch.stack([Totals()[n] for n in range(4)]))


def test_a_batched_program_inside_another():
    @dl.batched
    def outer(groups):
        inner = total(groups)
        return dl.reduce(plus, inner.rows())

    result = outer([coins([0.5], [0.5, 0.5]), coins([0.5])])
    assert result.row(0) == [(0, 0.125), (1, 0.375), (2, 0.375), (3, 0.125)]
    with pytest.raises(dl.FunctionError, match=r"sample 1: .*sample 0: ZeroDivisionError"):
        dl.batched(lambda n: dl.batched(lambda m: 1 // m)([n, n]))([1, 0])


def test_a_profile_shows_how_well_it_batched():
    with dl.profile() as seen:
        total([torch.full((4,), 0.5)] * 16)
    assert seen.batched["Distribution"] == (64, 1)
    assert seen.batched["combine"] == (48, 2)
    assert "batched: 64 x Distribution ran as 1" in str(seen)


def test_a_second_step_runs_no_function_again():
    def step():
        with dl.profile() as seen:
            total([torch.rand(1 + n) for n in range(8)])
        return seen.total.function_calls

    assert step() > 0
    assert step() == 0


def test_nothing_is_left_behind():
    refs = []

    @dl.batched
    def program(p):
        d = coin(p)
        d.argmax()
        refs.append(weakref.ref(d))
        return d + d

    result = program(torch.rand(5, requires_grad=True))
    del result
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_a_filter_that_keeps_all_symbols_costs_nothing():
    @dl.batched
    def program(p):
        kept = dl.filter(coin(p), lambda x: x < 2)
        return kept.map(lambda x: x + 1)

    with dl.profile() as seen:
        result = program(torch.tensor([0.25, 0.5]))
    assert result.row(0) == [(1, 0.75), (2, 0.25)]
    assert seen.batched["combine"] == (2, 1)  # the map only
