"""Inputs of samples that do the same, kept by place: the same as a loop, without gathering."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl
from dolphin.execution.batching import in_step
from dolphin.inputs import entering
from dolphin.programs import per_sample
from same_as_the_loop import assert_same_as_the_loop

COUNT = in_step._FEWEST + 4
ALGEBRAS = [dl.DAMP(), dl.TopKProofs(k=3), dl.TopKProofs(k=2, wmc="exact"), dl.Exact()]


def add(x, y):
    return (x + y) % 5


def fits(x, y):
    return x <= y + 1


def rows_of(lengths, symbols=4):
    torch.manual_seed(len(lengths))
    return [
        [torch.randn(symbols, dtype=torch.float64, requires_grad=True) for _ in range(length)]
        for length in lengths
    ]


def leaves_of(rows):
    return [leaf for sample in rows for leaf in sample]


def chain(rows):
    """Keeps the likeliest few after every place."""
    total, *more = [dl.Distribution.from_logits(row, range(len(row))) for row in rows]
    for digit in more:
        total = dl.sample(dl.apply_if(total, dl.sample(digit, 3), add, fits), 3)
    return total


def probabilities(rows):
    total, *more = [dl.Distribution(row.softmax(0), range(len(row))) for row in rows]
    for digit in more:
        total = dl.sample(dl.apply(total, digit, add), 3)
    return total


def independent(rows):
    first, *more = [dl.Distribution(row.sigmoid(), range(4), exclusive=False) for row in rows]
    for other in more:
        first = dl.sample(dl.union(first, dl.apply_if(first, other, add, fits)), 3)
    return first


def each(rows):
    """All inputs of a sample at once; each is recorded."""
    logits = torch.stack(rows)[None]
    total, *more = dl.Distribution.each_from_logits(logits, range(logits.shape[2]))
    for digit in more:
        total = dl.sample(dl.apply_if(total, dl.sample(digit, 3), add, fits), 3)
    return total


@pytest.fixture
def places(monkeypatch):
    """How many places the inputs of each run were kept by."""
    seen = []

    def noted(nodes, provenance):
        found = in_step.by_place(nodes, provenance)
        seen.append(len(found))
        return found

    monkeypatch.setattr(entering, "by_place", noted)
    monkeypatch.setattr(per_sample, "by_place", noted)
    return seen


@pytest.mark.parametrize(
    ("algebra", "program", "ragged"),
    [
        (algebra, program, (a + b) % 2 > 0)  # each algebra and each program with both
        for a, algebra in enumerate(ALGEBRAS)
        for b, program in enumerate([chain, probabilities, independent, each])
    ],
)
def test_same_as_the_loop(algebra, program, ragged, places):
    rows = rows_of([3 + ragged * (number % 2) for number in range(COUNT)])
    with dl.using(algebra):
        assert_same_as_the_loop(program, (rows,), leaves_of(rows), 1e-8)
    in_places = 3 + ragged if algebra.spreads else 1
    assert places == [in_places]


def test_inputs_that_are_used_differently_stay_together(places):
    rows = rows_of([3] * COUNT)

    def program(rows, number):
        a, b, c = (dl.Distribution.from_logits(row, range(len(row))) for row in rows)
        first = dl.apply(a, b, add) if number % 3 else dl.apply(a, b, max)
        return dl.sample(dl.apply(first, c, add), 3)

    with dl.using("dtkp-am", k=2):
        assert_same_as_the_loop(program, (rows, list(range(COUNT))), leaves_of(rows), 1e-8)
    assert places == [1]


def test_few_samples_stay_together(places):
    rows = rows_of([3] * 4)
    with dl.using("dtkp-am", k=2):
        assert_same_as_the_loop(chain, (rows,), leaves_of(rows), 1e-8)
    assert places == [1]


def test_an_input_that_is_used_twice():
    """The same facts on both sides: a digit equals itself."""
    rows = rows_of([2] * COUNT)

    def program(rows):
        a, b = (dl.Distribution.from_logits(row, range(len(row))) for row in rows)
        total = dl.sample(dl.apply(a, b, add), 3)
        return dl.apply(dl.sample(dl.apply(total, a, add), 3), a, lambda t, x: (t - 2 * x) % 5)

    for algebra in ALGEBRAS[1:]:
        with dl.using(algebra):
            assert_same_as_the_loop(program, (rows,), leaves_of(rows), 1e-8)


def test_networks(places):
    torch.manual_seed(0)
    net = torch.nn.Linear(5, 4).double()
    read = dl.network(net, range(4))
    images = torch.randn(COUNT, 3, 5, dtype=torch.float64)
    seen = []
    net.register_forward_hook(lambda module, given, out: seen.append(len(given[0])))

    def program(images):
        total, *more = [read(image) for image in images]
        for digit in more:
            total = dl.sample(dl.apply(total, digit, add), 3)
        return total

    with dl.using("dtkp-am", k=2):
        assert_same_as_the_loop(program, (images,), list(net.parameters()), 1e-8)
    assert places == [3]
    assert seen[-1] == 3 * COUNT  # one batch


def test_explanations_name_facts_of_their_own_sample():
    rows = rows_of([3] * COUNT)
    with dl.using("dtkp-am", k=2):
        found = dl.batched(chain)(rows)
        for number in (0, 7, COUNT - 1):
            symbol = found[number].symbols[0]
            alone = chain(rows[number])
            expected, own = alone.explain(symbol, 0), found.explain(symbol, number)
            assert [[f.symbol for f in proof.facts] for proof in own] == [
                [f.symbol for f in proof.facts] for proof in expected
            ]
