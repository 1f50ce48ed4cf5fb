"""What else a program for one sample may do: chance, questions, conditions, programs, processes."""

from __future__ import annotations

import random
import time

import pytest
import torch

import dolphin as dl
from same_as_the_loop import assert_same_as_the_loop

ALGEBRAS = ["damp", "dtkp-am", "exact", "noisy-or"]


def rows_of(seed, sizes=(2, 3, 1, 4)):
    torch.manual_seed(seed)
    return [torch.randn(n, 3, dtype=torch.float64, requires_grad=True) for n in sizes]


@pytest.mark.parametrize("algebra", ALGEBRAS)
def test_chance_inside(algebra):
    weights = torch.rand(3, 3, dtype=torch.float64).softmax(1).requires_grad_()

    def drunk(rows):
        state = dl.Distribution.from_logits(rows[0], range(3))
        for row in rows[1:]:
            state = state.map(lambda s: dl.weighted({t: weights[s, t] for t in range(3)}))
            state = dl.apply(state, dl.Distribution.from_logits(row, range(3)), max)
        return state

    rows = rows_of(0)
    with dl.using(algebra):
        assert_same_as_the_loop(drunk, (rows,), [*rows, weights], 1e-8)


def test_the_rounds_of_a_fixpoint_repeat_their_draws():
    """Drawing anew in every round, the recursion would never come to an end."""

    def step(s):
        return dl.weighted({(s + 1) % 3: 0.5, s: 0.25})

    def walked(row):
        start = dl.Distribution.from_logits(row, range(3)).map(step)  # the same one, outside
        return dl.fixpoint(lambda d: dl.union(d, d.map(step)), start, max_iterations=10)

    leaf = rows_of(2)[1]
    with dl.using("exact"):
        assert_same_as_the_loop(walked, (list(leaf),), [leaf], 1e-8)


@pytest.mark.parametrize("algebra", ALGEBRAS)
@pytest.mark.parametrize(
    "question",
    [
        lambda d: dl.exists(d, lambda s: s > 0),
        lambda d: dl.count(d, lambda s: s != 1),
        lambda d: dl.maximum(d).map(str),
        lambda d: dl.condition(d, dl.apply(d, lambda s: s > 0)),
        lambda d: dl.where(dl.apply(d, lambda s: s > 0), d, 0),
    ],
    ids=["exists", "count", "maximum", "condition", "where"],
)
def test_questions_conditions_and_branches_inside(algebra, question):
    def asked(rows):
        each = [dl.Distribution.from_logits(row, range(3)) for row in rows]
        return question(dl.reduce(lambda x, y: max(x, y), each))

    rows = rows_of(1)
    with dl.using(algebra):
        assert_same_as_the_loop(asked, (rows,), rows, 1e-8)


@dl.program
def trip(weather, bus):
    if dl.choose(weather) == 0:
        return "bike"
    return "bus" if dl.choose(bus) else "walk"


@pytest.mark.parametrize("algebra", ALGEBRAS)
def test_a_program_inside(algebra):
    def day(rows):
        each = [dl.Distribution.from_logits(row, range(3)) for row in rows]
        return trip(each[0], each[-1])

    rows = rows_of(2)
    with dl.using(algebra):
        assert_same_as_the_loop(day, (rows,), rows, 1e-8)


def test_a_batched_program_inside_a_program():
    double = dl.batched(lambda row: dl.Distribution(row, [0, 1]).map(lambda x: 2 * x))

    @dl.program
    def outer(numbers):
        return dl.choose(double(numbers)) + 1

    numbers = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    found = outer(numbers)
    assert found.row(0) == [(1, 0.25), (3, 0.75)]
    assert found.row(1) == [(1, 0.5), (3, 0.5)]


STEPS = [
    lambda state, first, second: state.map(lambda x: 2 - x),
    lambda state, first, second: dl.apply(state, first, lambda x, y: (x + y) % 3),
    lambda state, first, second: dl.apply(state, second, max),
    lambda state, first, second: state.filter(lambda x: x != 1),
    lambda state, first, second: dl.apply_if(state, second, lambda x, y: x, lambda x, y: x <= y),
    lambda state, first, second: dl.where(state.map(lambda x: x > 1), second, state),
]


def test_random_programs_of_one_sample_against_enumeration():
    """Hundreds of small programs, each a sample of its own, against all of their worlds."""
    choice = random.Random(0)
    numbers = torch.rand(600, 2, 3, dtype=torch.float64).softmax(-1)
    plans = [[choice.randrange(6) for _ in range(choice.randint(1, 4))] for _ in numbers]

    @dl.batched
    def program(steps, probs):
        first, second = (dl.Distribution(row, range(3)) for row in probs)
        state = first
        for step in steps:
            state = STEPS[step](state, first, second)
        return state

    def world(steps, a, b):
        x = a
        for step in steps:
            if step in (3, 4) and (x == 1 if step == 3 else x > b):
                return None
            x = (2 - x, (x + a) % 3, max(x, b), x, x, b if x > 1 else x)[step]
        return x

    with dl.using("exact"):
        found = program(plans, numbers).probs(range(3))
    expected = torch.zeros_like(found)
    for row, (steps, probs) in enumerate(zip(plans, numbers.tolist(), strict=True)):
        for a in range(3):
            for b in range(3):
                value = world(steps, a, b)
                if value is not None:
                    expected[row, value] += probs[0][a] * probs[1][b]
    torch.testing.assert_close(found, expected)


def test_a_sample_that_fails_late_is_named_with_its_cause():
    def fails(row):
        d = dl.Distribution(row, [0, 1])
        if float(d.prob_of([1])[0].detach()) > 0.8:
            time.sleep(0.01)
            raise KeyError("gone")
        return d

    with pytest.raises(dl.DolphinError, match=r"sample 2: KeyError: 'gone'") as caught:
        dl.batched(fails)(torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.1, 0.9]]))
    assert isinstance(caught.value.__cause__, KeyError)
