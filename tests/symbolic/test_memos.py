"""Remembered results: arrays that behave like the dictionary they stand for."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dolphin.symbolic.memos import MISSING, Memo


@pytest.mark.parametrize("arity", [1, 2, 3, 5])
@pytest.mark.parametrize("top", [3, 1000, 2**31 - 1])
def test_like_a_dictionary(arity, top):
    top = min(top, 100_000) if arity == 1 else top
    random = np.random.default_rng(arity)
    memo, expected = Memo(arity), {}
    for size in (0, 1, 5, 200, 3000, 10):
        columns = [random.integers(0, top, size) for _ in range(arity)]
        combinations = list(zip(*(column.tolist() for column in columns), strict=True))
        found = memo.find(columns).tolist()
        assert found == [expected.get(combination, MISSING) for combination in combinations]
        distinct = list(dict.fromkeys(combinations))
        new = [np.array(column, dtype=np.int64) for column in zip(*distinct, strict=True)]
        results = random.integers(-1, top, len(distinct))
        if distinct:
            added = memo.add(new, results)
            assert added == sum(combination not in expected for combination in distinct)
        for combination, result in zip(distinct, results.tolist(), strict=True):
            expected.setdefault(combination, result)
        assert len(memo) == len(expected)


def test_keys_that_collide():
    """Neighbours, multiples of large powers of two, and places that wrap round."""
    memo = Memo(2)
    lefts = np.repeat(np.arange(64) << 20, 64)
    rights = np.tile(np.arange(64) << 24, 64)
    memo.add([lefts, rights], np.arange(len(lefts)))
    assert memo.find([lefts, rights]).tolist() == list(range(len(lefts)))
    assert (memo.find([lefts + 1, rights]) == MISSING).all()


def test_a_grid_is_given_up_and_made_again():
    memo, expected = Memo(2), {}
    random = np.random.default_rng(0)
    for few, many in ((20, 20), (20, 3000), (150, 150)):
        pairs = {(int(a) % few, int(a * few) % many) for a in random.integers(0, 10**6, 2000)}
        if few == 150:
            pairs = {(a, b) for a in range(few) for b in range(many)}
        new = [pair for pair in sorted(pairs) if pair not in expected]
        expected |= {pair: 7 * place for place, pair in enumerate(new, len(expected))}
        results = np.array([expected[pair] for pair in new])
        memo.add([np.array(column) for column in zip(*new, strict=True)], results)
        known = [np.array(column) for column in zip(*expected, strict=True)]
        assert memo.find(known).tolist() == list(expected.values())
        assert (memo.find([known[0], known[1] + 10**5]) == MISSING).all()
        assert (memo.find([known[0] + 10**5, known[1]]) == MISSING).all()


def test_threads():
    memo = Memo(3)
    columns = [np.arange(5000) % 7, np.arange(5000), np.arange(5000) // 3]
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(30):
            some = [column[random.integers(0, 5000, 300)] for column in columns]
            found = memo.find(some)
            wrong.extend(found[(found != MISSING) & (found != some[1])])
            distinct = np.unique(some[1])
            memo.add([column[distinct] for column in columns], distinct)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("arity", [1, 2, 3])
def test_results_are_looked_up_again_only_if_there_are_more_by_now(arity):
    memo = Memo(arity)
    one, other = ([np.array([n])] * arity for n in (3, 4))
    assert memo.add(one, np.array([70]), since=0) == 1
    both = [np.concatenate(pair) for pair in zip(one, other, strict=True)]
    assert memo.add(both, np.array([71, 80]), since=0) == 1  # somebody else was faster with 3
    assert memo.find(both).tolist() == [70, 80]
    assert len(memo) == 2
