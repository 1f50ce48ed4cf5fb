"""A result is as precise as the most precise input of its program, whether it is used or not."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl

SINGLE, DOUBLE = torch.float32, torch.float64


def given(dtype, layout, symbols=("x", "y")):
    probs = torch.tensor([[0.3, 0.7]] * 2, dtype=dtype, requires_grad=True)
    if layout == "shared":
        return dl.Distribution(probs, symbols)
    return dl.Distribution.from_rows([(symbols, row) for row in probs])


@dl.program
def unused(a, b):
    return dl.choose(a)


@dl.program
def on_no_branch(a, b):
    first = dl.choose(a)
    return dl.choose(b) if first == "z" else first


@dl.program(keep=1)
def likeliest(a, b):
    return dl.choose(a)


@dl.program
def always(a, b):
    return "x"


@dl.program
def with_options(a, options):
    return dl.choose(a)


def never(symbol):
    return False


def results(single, double):
    sure = dl.Distribution.certain
    yield dl.where(sure(True, batch=2), single, double)
    yield dl.where(sure(False, batch=2), double, single)
    yield dl.where(sure(True), sure("x"), double)
    yield dl.where([True, True], single, double)
    yield dl.where([True, True], sure("x"), double)
    yield dl.where(dl.filter(single == "x", never), single, double)
    for program in (unused, on_no_branch, likeliest, always):
        yield program(single, double)
        yield program(sure("x", batch=2), double)
    yield with_options(single, {"other": [double]})
    yield with_options(single, (double, object()))  # which can't be identified
    yield dl.union(single, dl.filter(double, never))
    yield dl.apply(single, dl.filter(double, never), lambda x, y: x)
    yield dl.Distribution.stack([single[0], dl.filter(double, never)[1]])


@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("name", ["damp", "dtkp-am", "dtkp-wmc", "exact", "min-max", "boolean"])
def test_an_input_that_is_not_used_decides_the_precision(name, layout):
    with dl.using(name):
        single, double = given(SINGLE, layout), given(DOUBLE, layout)
        for number, result in enumerate(results(single, double)):
            for _ in range(2):  # planned, and from the plan
                assert result.dtype == DOUBLE, number
                assert result.probs(["x", "?"]).dtype == DOUBLE, number
                assert dl.nll_loss(result, ["x", "?"]).dtype == DOUBLE, number
            assert result.batch_size == 2


def test_values_and_gradients_are_those_of_the_input_that_is_used():
    single, double = given(SINGLE, "shared"), given(DOUBLE, "shared")
    result = dl.where(dl.Distribution.certain(True), single, double)
    torch.testing.assert_close(result.probs(), single.probs().double())
    assert unused(single, double).row(0) == single.row(0)
    assert always(single, double).row(1) == [("x", 1.0)]
    assert always(single, double).probs().requires_grad  # a constant loss can be differentiated


def test_an_unused_input_of_another_provenance_is_left_alone():
    other = dl.Distribution([0.3, 0.7], "ab", provenance="exact")
    assert unused(given(SINGLE, "shared"), other).dtype == SINGLE
