"""Questions about the symbols of a row, against possible worlds."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F

import dolphin as dl
import oracles
import questions
from dolphin.provenance.registry import names_with_negation
from questions import answers_of, ask, even, weight

NAMES = ["exists", "forall", "count", "total", "maximum", "minimum"]
SYMBOLS = (1, 2, 3, 6)
ROWS = [
    ((1, 2, 3, 6), (0.1, 0.25, 0.125, 0.5)),
    ((), ()),
    ((2, 4), (0.25, 0.75)),
    ((3,), (0.0,)),
    ((6,), (1.0,)),
    ((5, 1, 3), (0.5, 0.25, 0.125)),
]


def fractions(probs):
    return [Fraction(p) for p in probs]


def assert_rows(result, expected, tolerance=1e-9):
    """Row by row: the symbols with a probability, and their probabilities."""
    for row, answers in enumerate(expected):
        given = dict(result.row(row))
        assert set(answers) <= set(given), (row, answers, given)
        for symbol, p in given.items():
            assert math.isclose(
                p, float(answers.get(symbol, 0)), rel_tol=1e-5, abs_tol=max(tolerance, 1e-12)
            ), (row, symbol, p, answers)


def ragged(provenance, exclusive):
    rows = [(symbols, torch.tensor(probs, dtype=torch.float64)) for symbols, probs in ROWS]
    return dl.Distribution.from_rows(rows, exclusive=exclusive, provenance=provenance)


def shared(provenance, exclusive):
    probs = [ROWS[0][1], (0.0, 0.0, 0.0, 0.0), (0.5, 0.25, 0.0, 0.125)]
    given = torch.tensor(probs, dtype=torch.float64)
    return dl.Distribution(given, SYMBOLS, exclusive=exclusive, provenance=provenance), probs


def many_proofs(name):
    return dl.get_provenance(name, k=6) if name == "dtkp-wmc" else dl.get_provenance(name)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("provenance", ["damp", "noisy-or", "exact", "dtkp-wmc"])
@pytest.mark.parametrize("name", NAMES)
def test_ragged_and_empty_rows_against_possible_worlds(name, provenance, exclusive):
    result = ask(dl, name, ragged(many_proofs(provenance), exclusive))
    weigh = questions.exclusive if exclusive else questions.independent
    expected = [
        weigh(symbols, fractions(probs), lambda held: answers_of(held)[name])
        for symbols, probs in ROWS
    ]
    assert_rows(result, expected, 1e-6)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("provenance", ["damp", "noisy-or", "exact", "dtkp-wmc"])
@pytest.mark.parametrize("name", NAMES)
def test_shared_symbols_against_possible_worlds(name, provenance, exclusive):
    d, probs = shared(many_proofs(provenance), exclusive)
    weigh = questions.exclusive if exclusive else questions.independent
    expected = [
        weigh(SYMBOLS, fractions(row), lambda held: answers_of(held)[name]) for row in probs
    ]
    assert_rows(ask(dl, name, d), expected, 1e-6)


@pytest.mark.parametrize("provenance", names_with_negation())
@pytest.mark.parametrize("name", NAMES)
def test_certain_facts_have_certain_answers_under_every_provenance(name, provenance):
    """Where every fact is true or false all algebras agree; so they do in rows without symbols."""
    rows = [((1, 2, 3), (1.0, 0.0, 1.0)), ((), ()), ((4,), (1.0,)), ((2, 4), (0.0, 0.0))]
    algebra = dl.get_provenance(provenance)
    if provenance == "stable-product":
        algebra = dl.get_provenance(provenance, epsilon=0.0)
    given = [(symbols, torch.tensor(probs)) for symbols, probs in rows]
    d = dl.Distribution.from_rows(given, exclusive=False, provenance=algebra)
    expected = []
    for symbols, probs in rows:
        held = [symbol for symbol, p in zip(symbols, probs, strict=True) if p]
        expected.append({answers_of(held)[name]: 1})
    assert_rows(ask(dl, name, d), expected, 1e-6)


def shared_program(ops, a, b):
    """Two symbols that depend on each other, one that doesn't, one that always holds."""
    either = ops.apply(a, b, lambda x, y: 2 * x + y)
    return ops.union(either, ops.apply(a, lambda x: 4 + x), ops.apply(b, lambda y: 6 if y else 1))


INPUTS = [
    oracles.Input((0, 1), (Fraction(1, 4), Fraction(1, 2))),
    oracles.Input((0, 1), (Fraction(1, 8), Fraction(5, 8)), exclusive=False),
]


@pytest.mark.parametrize("provenance", ["exact", "dtkp-wmc"])
@pytest.mark.parametrize("name", NAMES)
def test_programs_whose_symbols_share_facts(name, provenance):
    algebra = many_proofs(provenance)
    given = [
        dl.Distribution(
            [float(p) for p in each.probs], each.symbols, exclusive=each.exclusive,
            provenance=algebra,
        )
        for each in INPUTS
    ]  # fmt: skip
    result = ask(dl, name, shared_program(dl, *given))
    expected = questions.by_worlds(shared_program, INPUTS, lambda held: answers_of(held)[name])
    assert_rows(result, [expected], 1e-6)


@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("name", NAMES)
def test_one_answer_per_group_in_every_row(name, layout):
    """Every row has every key, those that it has no symbol for included."""
    if layout == "shared":
        d, probs = shared("exact", False)
        rows = [(SYMBOLS, row) for row in probs]
    else:
        d, rows = ragged("exact", False), ROWS
    keys = {symbol // 4 for symbols, _ in rows for symbol in symbols}
    expected = []
    for symbols, probs in rows:
        answers = {}
        for key in keys:
            chosen = [(s, p) for s, p in zip(symbols, probs, strict=True) if s // 4 == key]
            found = questions.independent(
                [s for s, _ in chosen],
                fractions(p for _, p in chosen),
                lambda held: answers_of(held)[name],
            )
            answers |= {(key, answer): p for answer, p in found.items()}
        expected.append(answers)
    assert_rows(ask(dl, name, d, by=lambda symbol: symbol // 4), expected, 1e-6)


def test_predicates_choose_what_counts():
    d, probs = shared("damp", False)
    for question, answer in (
        (dl.exists(d, even), lambda held: any(map(even, held))),
        (dl.count(d, even), lambda held: sum(map(even, held))),
    ):
        expected = [questions.independent(SYMBOLS, fractions(row), answer) for row in probs]
        assert_rows(question, expected)
    assert dl.count(d, even).symbols == (0, 1, 2)


@pytest.mark.parametrize("provenance", ["damp", "exact"])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_enumeration(name, provenance):
    probs = torch.tensor([[0.2, 0.7, 0.4]], dtype=torch.float64, requires_grad=True)
    symbols = (1, 2, 4)
    d = dl.Distribution(probs, symbols, exclusive=False, provenance=provenance)
    result = ask(dl, name, d)
    answers = result.symbols
    weights = torch.arange(1.0, 1 + len(answers), dtype=torch.float64)
    (found,) = torch.autograd.grad((result.probs() * weights).sum(), probs)
    for column in range(3):
        slopes = torch.zeros(len(answers), dtype=torch.float64)
        for sign, value in ((1, 1), (-1, 0)):  # multilinear: P(.|1) - P(.|0)
            row = fractions(probs[0].tolist())
            row[column] = Fraction(value)
            ends = questions.independent(symbols, row, lambda held: answers_of(held)[name])
            slopes += sign * torch.tensor(
                [float(ends.get(a, 0)) for a in answers], dtype=torch.float64
            )
        assert math.isclose(found[0, column], (slopes * weights).sum(), abs_tol=1e-9)


def test_a_row_without_candidates_costs_nothing_and_others_learn():
    logits = torch.tensor([0.3, -0.4], requires_grad=True)
    d = dl.Distribution.from_rows(
        [((), torch.zeros(0)), (("a", "b"), logits)], exclusive=False, logits=True
    )
    losses = dl.nll_loss(dl.exists(d), [False, True], reduction="none")
    losses.sum().backward()
    assert losses[0] == 0.0
    expected = -(1 - (1 - torch.sigmoid(logits.detach())).prod()).log()
    torch.testing.assert_close(losses[1].detach(), expected)
    assert logits.grad is not None and (logits.grad < 0).all()


def test_answers_are_complete():
    """True and False, 0 .. n, None: also where they can't be so."""
    d = dl.Distribution([0.5, 0.5], "ab")
    assert dl.exists(d, lambda s: s == "z").row(0) == [(True, 0.0), (False, 1.0)]
    assert [s for s, _ in dl.count(d).row(0)] == [0, 1, 2]
    assert dl.count(d).row(0)[2] == (2, 0.0)
    assert set(dl.maximum(d).symbols) == {"a", "b", None}
    nothing = dl.filter(d, lambda s: s == "z")
    assert dl.exists(nothing).row(0) == [(True, 0.0), (False, 1.0)]
    assert dl.forall(nothing, even).row(0) == [(True, 1.0), (False, 0.0)]
    assert dl.count(nothing).row(0) == [(0, 1.0)]
    assert dl.total(nothing, len).row(0) == [(0, 1.0)]
    assert dl.minimum(nothing).row(0) == [(None, 1.0)]
    assert dl.count(nothing, by=len).symbols == ()


def test_certain_distributions_can_be_asked():
    d = dl.Distribution.certain_rows([3, 4])
    assert dl.exists(d, even).probs([True]).tolist() == [[0.0], [1.0]]
    assert dl.maximum(dl.Distribution.certain(5)).row(0) == [(5, 1.0), (None, 0.0)]


def test_values_that_add_nothing_and_symbols_that_are_none():
    d = dl.Distribution([0.5, 0.5], [0, 3], exclusive=False)
    assert dl.total(d).row(0) == [(0, 0.5), (3, 0.5)]
    d = dl.Distribution([0.5, 0.25], [None, 3], exclusive=False)
    assert dict(dl.maximum(d, lambda s: s or 0).row(0)) == {3: 0.25, None: 0.75}


def test_methods_are_the_functions():
    d, _ = shared("exact", False)
    for name in NAMES:
        method = ask(type("Methods", (), {n: getattr(dl.Distribution, n) for n in NAMES}), name, d)
        torch.testing.assert_close(method.probs(), ask(dl, name, d).probs())
        grouped = getattr(d, name)(even, by=weight)
        assert {key for key, _ in grouped.symbols} == {0, 1, 2}


def test_counts_of_many_facts():
    """2^40 worlds: the polynomial of counts, with coefficients made one fact at a time."""
    probs = torch.linspace(0.05, 0.95, 40, dtype=torch.float64, requires_grad=True)
    for provenance in ("damp", "exact"):
        d = dl.Distribution(probs, range(40), exclusive=False, provenance=provenance)
        counts = dl.count(d).probs()[0]
        expected = torch.ones(1, dtype=torch.float64)
        for p in probs:
            expected = F.pad(expected * (1 - p), (0, 1)) + F.pad(expected * p, (1, 0))
        torch.testing.assert_close(counts, expected)
        found = torch.autograd.grad(counts[20], probs, retain_graph=True)[0]
        torch.testing.assert_close(found, torch.autograd.grad(expected[20], probs)[0])


def test_unlikely_answers_keep_their_value():
    logs = torch.full((1, 3), -60.0)
    d = dl.Distribution.from_log_probs(logs, "abc", exclusive=False)
    some = dl.exists(d).log_probs([True])
    torch.testing.assert_close(some, logs[:, :1] + math.log(3))


def test_what_cannot_be_asked():
    d = dl.Distribution([0.5], "a", provenance="counting")
    with pytest.raises(dl.UnsupportedError, match=r"exists: Counting.*exact"):
        dl.exists(d)
    d = dl.Distribution([0.5, 0.2], [1, "a"], exclusive=False)
    with pytest.raises(dl.FunctionError, match=r"maximum: symbols can't be compared.*key="):
        dl.maximum(d)
    with pytest.raises(dl.InputError, match="forall: predicate must be a function of one symbol"):
        dl.forall(d, None)
    with pytest.raises(dl.InputError, match="does not take 1 argument"):
        dl.count(d, lambda a, b: True)
    for question in (dl.exists, dl.forall):
        with pytest.raises(dl.FunctionError, match=r"the condition .* returned 3"):
            question(d, lambda symbol: 3)
    wide = dl.Distribution([0.5] * 40, range(40), exclusive=False)
    with pytest.raises(dl.SizeError, match="total: "):
        dl.total(wide, lambda symbol: 2**symbol)
