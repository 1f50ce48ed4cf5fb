"""Operations that are recorded as before: only if they are the same."""

from __future__ import annotations

import types

import pytest
import torch

import dolphin as dl
from same_as_the_loop import assert_same_as_the_loop

LIMIT = 0
TABLE = {0: 0, 1: 1, 2: 2}
COUNT = 6


def below(symbol):
    return symbol < LIMIT


def looked_up(symbol):
    return TABLE[symbol]


@pytest.fixture(autouse=True)
def names_as_they_were(monkeypatch):
    monkeypatch.setitem(globals(), "LIMIT", 0)
    monkeypatch.setitem(globals(), "TABLE", {0: 0, 1: 1, 2: 2})


def rows():
    torch.manual_seed(0)
    return [torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(COUNT)]


def three(row):
    return dl.Distribution.from_logits(row, (0, 1, 2))


def test_names_of_the_module_that_change_between_samples():
    given = rows()

    def program(row, number):
        global LIMIT
        LIMIT = number % 3
        TABLE[1] = number
        return dl.apply(three(row).map(below), three(row).map(looked_up), lambda x, y: (x, y))

    assert_same_as_the_loop(program, (given, list(range(COUNT))), given, 1e-8)


@pytest.mark.parametrize("change", ["name", "container", "closure"])
def test_names_that_change_before_a_function_runs_are_refused(change):
    """Symbols depend on numbers, so functions run after all samples have requested them."""

    def program(row, number):
        global LIMIT
        if change == "container":
            TABLE[1] = number
        else:
            LIMIT = number
        shift = 1
        closure = lambda s: below(s + shift)  # noqa: E731
        function = {"name": below, "container": looked_up, "closure": closure}[change]
        return dl.sample(three(row), 2).map(function)

    with pytest.raises(dl.InputError, match=r"sample 0: apply: what .* reads was changed after"):
        dl.batched(program)(rows(), list(range(COUNT)))


def test_names_that_change_before_the_call_are_fine():
    given = rows()
    for limit in range(3):
        globals()["LIMIT"] = limit
        assert_same_as_the_loop(
            lambda row: dl.sample(three(row), 2).map(below), (given,), given, 1e-8
        )


def test_closures_and_defaults_that_differ_between_samples():
    given = rows()

    def program(row, number):
        d = dl.sample(three(row), 2)
        closed = d.map(lambda s: s + number)
        default = d.map(lambda s, n=number: s * n)
        return dl.apply(closed, default, lambda x, y: (x, y))

    assert_same_as_the_loop(program, (given, list(range(COUNT))), given, 1e-8)


def test_functions_without_an_identity_that_differ_between_samples():
    """Each is gone before the next one is made, perhaps in the same place of the memory."""
    given = rows()

    def program(row, number):
        return dl.sample(three(row), 2).map(lambda s: getattr(s, "real") + 10 * number)  # noqa: B009

    assert_same_as_the_loop(program, (given, list(range(COUNT))), given, 1e-8)


def test_three_keys_that_run_later():
    given = rows()

    def program(row):
        each = [dl.sample(three(row), 2) for _ in range(3)]
        keys = (lambda x: x % 2, lambda y: y % 2, lambda z: (z + 1) % 2)
        return dl.apply_if(*each, lambda x, y, z: (x, y, z), on=keys)

    assert_same_as_the_loop(program, (given,), given, 1e-8)


def test_the_same_code_with_other_names():
    """Functions of two modules that were made from one code object."""
    code = (lambda s: s + SHIFT).__code__  # noqa: F821
    made = [types.FunctionType(code, {"SHIFT": shift}) for shift in range(COUNT)]
    given = rows()
    for few in (False, True):

        def program(row, function, few=few):
            d = dl.sample(three(row), 2) if few else three(row)
            return d.map(function)

        assert_same_as_the_loop(program, (given, made), given, 1e-8)


def test_a_function_whose_code_is_replaced():
    def shifted(s):
        return s + 1

    codes = [(lambda s: s + 1).__code__, (lambda s: s + 2).__code__]
    given = rows()

    def program(row, number):
        shifted.__code__ = codes[number % 2]
        return three(row).map(shifted)

    assert_same_as_the_loop(program, (given, list(range(COUNT))), given, 1e-8)


def test_functions_of_the_interpreter():
    given = rows()

    def program(row, number):
        d = dl.sample(three(row), 2)
        return dl.apply(d, three(row), max if number % 2 else min)

    assert_same_as_the_loop(program, (given, list(range(COUNT))), given, 1e-8)


def test_what_was_refused_is_refused_again():
    """After calls that look alike and were fine."""
    given = rows()
    wrong = [
        (lambda d: dl.sample(d, True), "k must be a positive integer"),
        (lambda d: dl.sample(d, 1.0), "k must be a positive integer"),
        (lambda d: dl.sample(d, 1, ["top"]), "method must be"),
        (lambda d: dl.sample(d, 1, "top", 3), "generator must be"),
        (lambda d: dl.apply(d, below, d), "argument 2 must be a Distribution"),
        (lambda d: dl.apply(d, d, below), "does not take 2 arguments"),
        (lambda d: d.map(below, cache="no"), "cache= must be True or False"),
        (lambda d: d.map([0]), "expected a function"),
    ]
    for call, message in wrong:

        def program(row, number, call=call):
            d = three(row)
            dl.sample(d, 1), dl.sample(d, 1, "top"), d.map(below), dl.apply(d, d, max)
            return call(d) if number == COUNT - 1 else d

        with pytest.raises(dl.InputError, match=f"sample {COUNT - 1}: .*{message}"):
            dl.batched(program)(given, list(range(COUNT)))


def test_modes_are_kept_apart():
    given = rows()

    def program(row, number):
        with torch.set_grad_enabled(number % 2 == 0):
            return dl.sample(three(row).map(lambda s: s % 2), 1)

    result = dl.batched(program)(given, list(range(COUNT)))
    result.log_probs().sum().backward()
    assert [row.grad is not None and bool(row.grad.abs().sum() > 0) for row in given] == [
        number % 2 == 0 for number in range(COUNT)
    ]


def test_symbols_of_samples_in_tuples_of_their_own():
    given = rows()

    def program(row, number):
        return dl.Distribution.from_logits(row, tuple(range(number, number + 3))).map(
            lambda s: s % 4
        )

    assert_same_as_the_loop(program, (given, list(range(COUNT))), given, 1e-8)


def test_clearing_the_caches_changes_no_function():
    """Another thread may do so while operations wait: what their functions read is the same."""

    @dl.batched
    def one(probs):
        d = dl.sample(dl.Distribution(probs, [0, 1, 2]), 2)
        d = d.map(lambda s: dl.weighted({s: 0.5, s + 1: 0.25}))
        dl.cache_clear()
        return d

    probs = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    found = one(list(probs))
    torch.testing.assert_close(
        found.probs([0, 1, 2, 3]),
        torch.tensor([[0.25, 0.275, 0.075, 0.0], [0.0, 0.1, 0.4, 0.175]]),
    )
