"""Questions about inputs with exclusive groups, against all possible worlds in plain Python."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import dolphin as dl

SYMBOLS = [5, 2, 9, 4, 7]
PROBS = [[0.5, 0.25, 0.375, 0.5, 0.125], [1.0, 0.0, 0.25, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0, 0.75]]
GROUPS = [[0, 3], [1, 2, 4]]
OTHERS = [[[0, 3], [1, 2, 4]], [[0, 1], [2, 3]], [[0, 2], [3], [1, 4]]]
PROBS_OF_OTHERS = [PROBS[0], [0.5, 0.5, 0.25, 0.75, 0.5], [0.5, 0.25, 0.5, 0.0, 0.75]]
NUMBERS = ["damp", "noisy-or"]
ASKED = {
    "exists": (lambda d, **by: dl.exists(d, odd, **by), lambda held: any(map(odd, held))),
    "forall": (lambda d, **by: dl.forall(d, odd, **by), lambda held: all(map(odd, held))),
    "count": (dl.count, len),
    "total": (lambda d, **by: dl.total(d, rest, **by), lambda held: sum(map(rest, held))),
    "maximum": (dl.maximum, lambda held: max(held, default=None)),
    "minimum": (
        lambda d, **by: dl.minimum(d, key=rest, **by),
        lambda held: min(held, key=rest, default=None),
    ),
}


def odd(symbol):
    return symbol % 2 == 1


def rest(symbol):
    return symbol % 3


def worlds(probs, groups):
    """Which symbols hold together, and how likely that is."""
    named = {column for group in groups for column in group}
    groups = [*groups, *([column] for column in range(len(probs)) if column not in named)]
    options = [
        [*((column, probs[column]) for column in group), (None, 1 - sum(probs[c] for c in group))]
        for group in groups
    ]
    for world in itertools.product(*options):
        columns = sorted(column for column, _ in world if column is not None)
        yield [SYMBOLS[column] for column in columns], math.prod(p for _, p in world)


def expected(probs, groups, answer, by=None):
    found = {}
    for held, p in worlds(probs, groups):
        for key in [None] if by is None else dict.fromkeys(map(by, SYMBOLS)):
            own = held if by is None else [symbol for symbol in held if by(symbol) == key]
            result = answer(own) if by is None else (key, answer(own))
            found[result] = found.get(result, 0.0) + p
    return found


def assert_answers(d, probs, groups, name, by=None):
    ask, answer = ASKED[name]
    result = ask(d) if by is None else ask(d, by=by)
    for row, (own, those) in enumerate(zip(probs, groups, strict=True)):
        wanted, given = expected(own, those, answer, by), dict(result.row(row))
        assert {s for s, p in wanted.items() if p > 0} <= set(given)
        for symbol, p in given.items():
            assert p == pytest.approx(wanted.get(symbol, 0.0), abs=1e-9), (row, symbol)


def double(rows):
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


def inputs(provenance):
    """The same groups in every row, and other groups in each, in all layouts."""
    with dl.using(provenance):
        same = dl.Distribution(double(PROBS), SYMBOLS, exclusive=GROUPS)
        each = [
            dl.Distribution(double([probs]), SYMBOLS, exclusive=groups)
            for probs, groups in zip(PROBS_OF_OTHERS, OTHERS, strict=True)
        ]
        rows = [(SYMBOLS, double(probs)) for probs in PROBS_OF_OTHERS]
        others = dl.Distribution.from_rows(rows, exclusive=OTHERS)
        yield from ((same, PROBS, [GROUPS] * 3), (same[[2, 0]], [PROBS[2], PROBS[0]], [GROUPS] * 2))
        for d in (others, dl.Distribution.stack(each), dl.Distribution.stack(others.rows())):
            yield d, PROBS_OF_OTHERS, OTHERS


@pytest.mark.parametrize("by", [None, odd])
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("provenance", [*NUMBERS, "exact"])
def test_symbols_of_a_group_exclude_each_other(provenance, name, by):
    for d, probs, groups in inputs(provenance):
        assert_answers(d, probs, groups, name, by)


@pytest.mark.parametrize("provenance", NUMBERS)
def test_sampled_symbols_keep_their_groups(provenance):
    d = dl.Distribution(double(PROBS[:1]), SYMBOLS, exclusive=GROUPS, provenance=provenance)
    assert dict(dl.count(dl.sample(d, 3)).row(0)) == pytest.approx(
        {0: 0.0, 1: 0.625, 2: 0.375, 3: 0.0}  # 5 and 4, one of which holds, and 9
    )


@pytest.mark.parametrize("provenance", NUMBERS)
def test_samples_of_a_batched_program_keep_their_groups(provenance):
    def how_many(row, k):
        return dl.count(dl.sample(dl.Distribution(row, SYMBOLS, exclusive=GROUPS), k))

    rows, ks = list(double(PROBS)), [3, 4, 3]
    with dl.using(provenance):
        loop = dl.Distribution.stack([how_many(row, k) for row, k in zip(rows, ks, strict=True)])
        together = dl.batched(how_many)(rows, ks)
    symbols = list(loop.symbols)
    torch.testing.assert_close(together.probs(symbols), loop.probs(symbols))


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("provenance", NUMBERS)
def test_gradients_are_those_of_exact(provenance, name):
    ask, _ = ASKED[name]
    grads = []
    for algebra in (provenance, "exact"):
        probs = double([[0.4, 0.2, 0.3, 0.5, 0.1]])
        answer = ask(dl.Distribution(probs, SYMBOLS, exclusive=GROUPS, provenance=algebra))
        wanted = [s for s, p in answer.row(0) if p > 0]
        weights = torch.arange(1.0, len(wanted) + 1, dtype=torch.float64)
        order = sorted(wanted, key=str)
        (answer.probs(order) * weights).sum().backward()
        grads.append(probs.grad)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("provenance", NUMBERS)
def test_none_of_a_nearly_certain_group_is_precise(provenance):
    logits = torch.tensor([[0.0, 40.0, 20.0, 0.0, -5.0]], requires_grad=True)
    groups = [[0, 1, 2], [3, 4]]
    d = dl.Distribution.from_logits(logits, SYMBOLS, exclusive=groups, provenance=provenance)
    none = dl.exists(d, lambda symbol: symbol in (2, 4)).log_probs([False])[0, 0]
    wanted = -20.0 + math.log1p(math.exp(-20.0)) - math.log1p(math.exp(5.0))
    assert none.item() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("provenance", ["viterbi", "min-max", "lukasiewicz"])
def test_one_group_beside_independent_symbols_is_one_event(provenance):
    """As in an exclusive input: "none of the group" is the negation of "one of it"."""
    with dl.using(provenance):
        d = dl.Distribution([0.5, 0.25, 0.5, 0.75], list("abcd"), exclusive=[[0, 1]])
        group = dl.exists(dl.Distribution([0.5, 0.25], list("ab")))
        others = [dl.exists(dl.Distribution([p], [s])) for p, s in ((0.5, "c"), (0.75, "d"))]
        wanted = dl.apply(group, *others, lambda *holds: any(holds))
        asked = dl.exists(d)
    torch.testing.assert_close(asked.probs([False]), wanted.probs([False]))


@pytest.mark.parametrize("provenance", ["exact", "dtkp-wmc"])
def test_a_condition_leaves_groups_exclusive(provenance):
    for d, probs, groups in inputs(provenance):
        given = dl.condition(d, dl.exists(d, odd))
        both = dl.apply(given, given, lambda one, other: (one, other))
        for row, (own, those) in enumerate(zip(probs, groups, strict=True)):
            fitting = [(held, p) for held, p in worlds(own, those) if any(map(odd, held))]
            whole = sum(p for _, p in fitting)
            for column, (symbol, p) in enumerate(given.row(row)):
                wanted = sum(q for held, q in fitting if symbol in held) / whole
                assert p == pytest.approx(wanted, abs=1e-6), (row, symbol)
                beside = next((group for group in those if column in group), [column])
                for other in (SYMBOLS[c] for c in beside if c != column):
                    assert dict(both.row(row))[symbol, other] < 1e-6


def test_a_condition_leaves_groups_exclusive_where_tags_are_numbers():
    probs = double([[0.4, 0.2, 0.3, 0.5, 0.1]])
    d = dl.Distribution(probs, SYMBOLS, exclusive=GROUPS, provenance="damp")
    counts = dl.count(dl.condition(d, dl.exists(d, odd)))
    assert counts.probs([3, 4, 5]).tolist() == [[0.0, 0.0, 0.0]]


def test_a_trace_knows_the_groups():
    def program(d):
        return dl.maximum(d)

    traced = dl.trace(program, SYMBOLS, exclusive=GROUPS, provenance="damp")
    probs = double(PROBS)
    wanted = program(dl.Distribution(probs, SYMBOLS, exclusive=GROUPS, provenance="damp"))
    torch.testing.assert_close(traced(probs).exp(), wanted.probs(list(traced.symbols)))


def test_results_are_in_the_order_of_their_symbols_not_of_their_groups():
    probs = torch.tensor([[0.42, 0.67, 0.22]], dtype=torch.float64)
    for groups in ([[1], [0, 2]], [[0, 2], [1]]):
        d = dl.Distribution(probs, [0, 2, 3], exclusive=groups, provenance="damp")
        assert dl.total(d).symbols == (0, 2, 3, 5)
