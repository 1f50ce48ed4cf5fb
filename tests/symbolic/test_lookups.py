"""Joins by key: every layout of the operands against plain Python, and what they cost."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
import torch

import dolphin as dl
from algebras import NAMES, WITHOUT_GRADIENT, provenance_of
from dolphin.execution import indices
from dolphin.provenance.topk import provenance as topk
from dolphin.provenance.topk import weighing
from dolphin.symbolic import symbols as symbols_module
from dolphin.symbolic.bounded import all_caches

EDGES = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "a"), ("c", "d"), ("b", "b")]
SOURCES = [["a"], ["c", "x", "b"], [], ["b", "a"]]  # of the rows; one is empty, "x" has no edge
ALL_ROWS = [["a", "b", "c", "d"]] * 4
LAYOUTS = ["shared-one", "shared-many", "rows", "one-row"]


def source(edge):
    return edge[0]


def target(edge):
    return edge[1]


def itself(symbol):
    return symbol


def operand(layout, per_row, numbers, provenance):
    """A distribution of independent symbols, and for each row its symbols and probabilities."""
    every = list(dict.fromkeys(itertools.chain.from_iterable(per_row)))
    options = {"exclusive": False, "provenance": provenance}
    if layout == "rows":
        rows = [[(s, numbers[b, every.index(s)]) for s in row] for b, row in enumerate(per_row)]
        given = [([s for s, _ in row], torch.stack([p for _, p in row] or [numbers[0, 0]]))
                 for row in rows]  # fmt: skip
        given = [(names, probs[: len(names)]) for names, probs in given]
        return dl.Distribution.from_rows(given, **options), rows
    if layout == "one-row":
        made = dl.Distribution.from_rows([(every, numbers[0, : len(every)])], **options)
        return made, [list(zip(every, numbers[0], strict=False))] * len(per_row)
    numbers = numbers[:1] if layout == "shared-one" else numbers
    made = dl.Distribution(numbers[:, : len(every)], every, **options)
    return made, [list(zip(every, numbers[min(b, len(numbers) - 1)], strict=False))
                  for b in range(len(per_row))]  # fmt: skip


def added_up(left, right, f, key1, key2):
    """The add-mult answer of one row, by looking at every pair."""
    found = {}
    for (x, p), (y, q) in itertools.product(left, right):
        if key1(x) == key2(y):
            found[f(x, y)] = found.get(f(x, y), 0.0) + p * q
    return {symbol: torch.as_tensor(p).clamp(max=1.0) for symbol, p in found.items()}


def numbers_of(rows, columns):
    made = torch.linspace(0.1, 0.4, rows * columns, dtype=torch.float64).view(rows, columns)
    return made[:, torch.randperm(columns)].requires_grad_()


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_every_layout_equals_looking_at_every_pair(first, second):
    p, q = numbers_of(4, 6), numbers_of(4, 6)
    left, left_rows = operand(first, SOURCES, p, "damp")
    right, right_rows = operand(second, [EDGES[:3], EDGES, EDGES[2:], []], q, "damp")
    joined = dl.apply_if(left, right, lambda _, e: e[1], on=(itself, source))
    mirrored = dl.apply_if(right, left, lambda e, _: e[1], on=(source, itself))
    looked_at = dl.apply_if(right, left, lambda e, _: e[1], lambda e, s: e[0] == s)
    assert [[s for s, _ in mirrored.row(b)] for b in range(mirrored.batch_size)] == [
        [s for s, _ in looked_at.row(b)] for b in range(mirrored.batch_size)
    ]
    batch = joined.batch_size
    assert batch == (1 if {first, second} <= {"shared-one", "one-row"} else 4)
    expected = [
        added_up(a, b, lambda _, e: e[1], itself, source)
        for a, b in zip(left_rows[:batch], right_rows[:batch], strict=True)
    ]
    wanted = sorted(set().union(*expected))
    answers = torch.stack(
        [torch.stack([row.get(s, p.sum() * 0) for s in wanted]) for row in expected]
    )
    weights = torch.rand_like(answers)
    for result in (joined, mirrored):
        probs = dl.get_probs(result, symbols=wanted)
        torch.testing.assert_close(probs, answers)
        got = torch.autograd.grad((probs * weights).sum(), [p, q], retain_graph=True)
        right_ones = torch.autograd.grad((answers * weights).sum(), [p, q], retain_graph=True)
        torch.testing.assert_close(got, right_ones)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("many", [2, 1024])
def test_every_provenance_joins_as_a_condition_does(name, many, monkeypatch):
    """Also where the few tags of many that take part are taken out first."""
    monkeypatch.setattr(indices, "_MANY", many)
    monkeypatch.setattr(topk, "MANY", many)
    monkeypatch.setattr(weighing, "_MANY", many)
    p, q = numbers_of(4, 6), numbers_of(1, 6)
    provenance = provenance_of(name)

    def hops(**how):
        start = operand("rows", SOURCES, p, provenance)[0]
        edges = dl.Distribution(q, EDGES, exclusive=False, provenance=provenance)
        for _ in range(2):
            start = dl.apply_if(start, edges, lambda _, e: e[1], **how)
        return dl.get_probs(start, symbols=["a", "b", "c", "d"])

    joined = hops(on=(itself, source))
    looked_at = dl.apply_if  # the same with a condition, which looks at every pair
    start = operand("rows", SOURCES, p, provenance)[0]
    edges = dl.Distribution(q, EDGES, exclusive=False, provenance=provenance)
    for _ in range(2):
        start = looked_at(start, edges, lambda _, e: e[1], lambda s, e: s == e[0])
    expected = dl.get_probs(start, symbols=["a", "b", "c", "d"])
    torch.testing.assert_close(joined, expected)
    if name not in WITHOUT_GRADIENT:
        weights = torch.rand_like(expected)
        got, right = (torch.autograd.grad((x * weights).sum(), [p, q]) for x in (joined, expected))
        torch.testing.assert_close(got, right)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_three_operands_have_three_equal_keys(layout):
    p, q = numbers_of(4, 6), numbers_of(4, 6)
    left, left_rows = operand(layout, SOURCES, p, "damp")
    right, right_rows = operand("rows", [EDGES] * 4, q, "damp")
    kept = dl.Distribution.certain_rows(["a", "c", "b", "b"])

    def f(x, e, _):
        return x, e[1]

    result = dl.apply_if(left, right, kept, f, on=(itself, source, itself))
    for row, only in enumerate(["a", "c", "b", "b"]):
        mine = [(x, w) for x, w in left_rows[row] if x == only]
        expected = added_up(mine, right_rows[row], lambda x, e: (x, e[1]), itself, source)
        got = dict(result.row(row))
        assert got.keys() == expected.keys()
        assert all(got[s] == pytest.approx(expected[s].item(), abs=1e-5) for s in got)
    again = dl.apply_if(kept, right, left, lambda k, e, x: (x, e[1]), on=(itself, source, itself))
    assert [dict(again.row(b)) for b in range(4)] == [
        pytest.approx(dict(result.row(b))) for b in range(4)
    ]


def test_rows_outside_of_the_mask_are_kept():
    p, q = numbers_of(4, 6), numbers_of(1, 6)
    left, left_rows = operand("rows", SOURCES, p, "damp")
    edges, edge_rows = operand("shared-one", [EDGES] * 4, q, "damp")
    mask = torch.tensor([True, False, True, False])
    result = dl.apply_if(left, edges, lambda _, e: e[1], on=(itself, source), where=mask)
    for row in range(4):
        if mask[row]:
            expected = added_up(left_rows[row], edge_rows[row], lambda _, e: e[1], itself, source)
        else:
            expected = dict(left_rows[row])
        assert dict(result.row(row)) == pytest.approx(
            {s: w.item() for s, w in expected.items()}, abs=1e-5
        )


def test_the_number_of_keys_is_that_of_the_operands():
    d = dl.Distribution([0.5], ["a"])
    with pytest.raises(dl.InputError, match=r"takes 2 key functions \(key1, key2\).*got 3 of them"):
        dl.apply_if(d, d, max, on=(itself, itself, itself))
    with pytest.raises(dl.InputError, match="two distributions or more, got 1"):
        dl.apply_if(d, itself, on=(itself,))


# ------------------------------------------------------------------------------------------- costs


def knowledge(size):
    """Five edges from each of the entities."""
    return tuple((n // 5, (n // 5 + 1 + 11 * (n % 5)) % (size // 5)) for n in range(size))


def hop(kb, starts, key):
    at = dl.Distribution.certain_rows(starts)
    return dl.apply_if(at, kb, lambda _, e: e[1], on=(itself, key))


def test_the_shared_side_is_indexed_once():
    facts, calls = knowledge(2000), []
    probs = torch.full((1, len(facts)), 0.5)

    def key(edge):
        calls.append(edge)
        return edge[0]

    for start in range(20):
        kb = dl.Distribution(probs, facts, exclusive=False)
        assert len(hop(kb, [start, start + 1], key)) > 0
    assert len(calls) == len(facts)
    assert all_caches()["indices of joins"].count() == 1
    dl.cache_clear()
    hop(dl.Distribution(probs, facts, exclusive=False), [0], key)
    assert len(calls) == 2 * len(facts)


def test_a_key_function_that_changes_is_not_remembered():
    facts = knowledge(200)
    kb = dl.Distribution(torch.full((1, 200), 0.5), facts, exclusive=False)
    ends = {"at": 0}
    for at in (0, 1, 0):
        ends["at"] = at
        result = hop(kb, [3], lambda e: e[ends["at"]])
        expected = {e[1] for e in facts if e[at] == 3}
        assert set(result.symbols) == expected


def test_a_join_holds_no_row_for_every_fact():
    """32 rows over 20,000 facts: 640,000 numbers would be 5 MB, the matches are 160."""
    facts = knowledge(20_000)
    probs = torch.full((1, len(facts)), 0.5, requires_grad=True)
    kb = dl.Distribution(probs, facts, exclusive=False)
    hop(kb, list(range(32)), source)
    tracemalloc.start()
    try:
        result = hop(kb, list(range(40, 72)), source)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    result.probs().sum().backward()
    assert (probs.grad != 0).sum() == 160


@pytest.mark.parametrize("make", [tuple, list])
def test_symbols_that_were_read_are_not_read_again(make, monkeypatch):
    facts = make(knowledge(500))
    first = dl.Distribution(torch.full((1, 500), 0.5), facts, exclusive=False)

    def never(members):
        raise AssertionError("symbols were read again")

    monkeypatch.setattr(symbols_module, "_quick_kinds", never)
    again = dl.Distribution(torch.full((1, 500), 0.5), facts, exclusive=False)
    assert again.symbols is first.symbols


def test_a_list_that_changed_is_read_again():
    facts = list(knowledge(500))
    probs = torch.full((1, 500), 0.5)
    first = dl.Distribution(probs, facts, exclusive=False)
    facts[250] = ("other", "fact")
    second = dl.Distribution(probs, facts, exclusive=False)
    assert first.symbols[250] != ("other", "fact") == second.symbols[250]
    facts[250] = (True, 1)
    third = dl.Distribution(probs, facts, exclusive=False)
    facts[250] = (1, 1)
    fourth = dl.Distribution(probs, facts, exclusive=False)
    assert third.symbols[250][0] is True and fourth.symbols[250][0] == 1
    assert fourth.symbols[250][0] is not True


def test_quick_kinds_tell_types_apart():
    for one, other in [((1, 2), (True, 2)), ((1, "a"), (1.0, "a")), ((1,), ((1,),))]:
        a, b = (symbols_module.Symbols.of((each, "z")) for each in (one, other))
        assert a is not b
        assert [type(x) for x in a[0]] == [type(x) for x in one]
        assert [type(x) for x in b[0]] == [type(x) for x in other]
