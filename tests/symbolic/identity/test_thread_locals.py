"""Programs for one sample that read a value of the caller's thread."""

from __future__ import annotations

import contextvars
import threading

import pytest

import dolphin as dl

OWN = threading.local()
OWN.k = 1
VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


def helper():
    return OWN.k


class Rules:
    def __init__(self):
        self.own = threading.local()
        self.own.k = 1

    def read(self):
        return self.own.k

    def shifted(self, d):
        k = self.read()
        return d.map(lambda x: x + k)


class Called(Rules):
    def __call__(self, d):
        return self.shifted(d)


def by_name(d):
    k = OWN.k
    return d.map(lambda x: x + k)


def as_a_whole(d):
    k = getattr(OWN, "k", 0)
    return d.map(lambda x: x + k)


def by_a_helper(d):
    k = [helper() for _ in range(1)][0]  # noqa: RUF015 (a comprehension is code of its own)
    return d.map(lambda x: x + k)


def closing_over(own):
    def shifted(d):
        k = own.k
        return d.map(lambda x: x + k)

    return shifted


REFUSED = {
    "OWN.k": (by_name, by_a_helper),
    "OWN": (as_a_whole,),
    "self.own.k": (Rules().shifted, Called()),
    "own.k": (closing_over(OWN),),
}
CASES = [(name, program) for name, programs in REFUSED.items() for program in programs]


@pytest.mark.parametrize(("name", "program"), CASES)
def test_the_callers_thread_local_is_refused(name, program):
    d = dl.Distribution([[0.5, 0.5]], [0, 1])
    assert program(d).symbols == (1, 2)  # one sample, in the caller's thread
    with pytest.raises(dl.FunctionError, match=f"reads `{name}`, a threading.local"):
        dl.batched(program)(d)


def lazily(d):
    if not hasattr(OWN, "lazy"):
        OWN.lazy = 3
    k = OWN.lazy
    return d.map(lambda x: x + k)


def in_context(d):
    k = VARIABLE.get()
    return d.map(lambda x: x + k)


def test_what_a_sample_assigns_itself_and_context_variables_are_not():
    d = dl.Distribution([[0.5, 0.5], [0.1, 0.9]], [0, 1])
    assert dl.batched(lazily)(d).symbols == (3, 4)
    token = VARIABLE.set(5)
    assert dl.batched(in_context)(d).symbols == (5, 6)
    VARIABLE.reset(token)
