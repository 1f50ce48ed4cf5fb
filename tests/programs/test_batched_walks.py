"""Random programs for one sample with chance, choices, questions, conditions and recursion."""

from __future__ import annotations

import random

import pytest
import torch

import dolphin as dl
from same_as_the_loop import assert_same_as_the_loop
from walks import talk


def samples(seed, count=4):
    choice = random.Random(seed)
    torch.manual_seed(seed)
    return [
        [
            torch.randn(choice.choice([2, 3]), dtype=torch.float64, requires_grad=True)
            for _ in range(choice.randint(1, 3))
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", ["damp", "dtkp-am", "dtkp-wmc", "exact", "viterbi"])
def test_random_programs_in_the_whole_language(name):
    for seed in range(4):
        rows = samples(seed)
        leaves = [leaf for sample in rows for leaf in sample]
        with dl.using(name):
            seeds = [10 * seed + number for number in range(4)]
            assert_same_as_the_loop(talk, (seeds, rows), leaves, 1e-7)


def test_conditions_on_independent_facts_inside():
    """Under algebras of numbers they ask which symbols of an input exclude each other."""

    def program(p):
        d = dl.Distribution(p, "abc", exclusive=[(0, 1), (2,)])
        return dl.condition(d, dl.exists(d, lambda s: s != "b"))

    numbers = [torch.tensor([0.2, 0.3, 0.6]), torch.tensor([0.5, 0.1, 0.2])]
    each = [program(p.requires_grad_()) for p in numbers]
    found = dl.batched(program)(numbers)
    expected = torch.cat([own.probs(list("abc")) for own in each])
    torch.testing.assert_close(found.probs(list("abc")), expected)


def test_a_filter_that_keeps_everything_is_its_operand():
    def program(p):
        d = dl.Distribution(p, "abc", exclusive=[(0, 1), (2,)])
        kept = dl.filter(d, lambda s: s in "abc")
        return dl.condition(kept, dl.exists(d, lambda s: s == "a"))

    p = torch.tensor([0.2, 0.3, 0.6], requires_grad=True)
    expected = torch.tensor([[1.0, 0.0, 0.6]])  # a and b exclude each other
    torch.testing.assert_close(program(p).probs(list("abc")), expected)
    torch.testing.assert_close(dl.batched(program)([p]).probs(list("abc")), expected)


def test_conditions_on_what_is_certainly_not_so():
    """Under min-max its tag is infinite."""
    p = torch.tensor([0.75, 0.25], requires_grad=True)
    with dl.using("min-max"):
        many = dl.count(dl.Distribution(p, [0, 1]))
        found = dl.condition(many, dl.exists(many, lambda n: n > 0))
    assert found.probs([0, 1, 2]).isfinite().all()
