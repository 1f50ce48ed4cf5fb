"""A hundred ways to change what a function reads behind its back: the second answer is right.

The tricks are in tests/support/hidden_state.py. Whether a function is remembered doesn't matter
here; that its result is what Python would say does.
"""

from __future__ import annotations

import os
import sys
import weakref

import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin.symbolic.identity.functions import identify
from hidden_state import TRICKS, Box


def test_settings_of_libraries_are_not_remembered():
    for f in (lambda s: (s, np.geterr()), lambda s: (s, torch.get_default_dtype())):
        assert "settings" in identify(f).reason


def answers(f, symbols=(0, 1)):
    return list(dict.fromkeys(f(s) for s in symbols))


STATEFUL = {
    "appended and read", "alias of a log", "global statement", "toggled global", "toggled item",
    "toggled in a helper", "assigns what it reads", "setattr", "iterator", "counter object",
    "nonlocal_counter", "file",
}  # fmt: skip


@pytest.fixture(autouse=True)
def tidy():
    import decimal

    with decimal.localcontext():
        yield
    sys.modules.pop("m_of_trick", None)
    os.environ.pop("DOLPHIN_TRICK", None)


@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("name", [name for name in TRICKS if name not in STATEFUL])
def test_the_second_answer_is_right(name, layout):
    def run(f):
        if layout == "shared":
            return list(dl.Distribution([0.5, 0.5], [0, 1]).map(f).symbols)
        return list(dl.Distribution.from_rows([([0, 1], [0.5, 0.5])]).map(f).symbols)

    f, change = TRICKS[name]()
    assert run(f) == run(f) == answers(f)
    change()
    assert run(f) == answers(f), "stale"
    assert run(f) == answers(f), "stale"


@pytest.mark.parametrize("name", sorted(STATEFUL - {"file"}))
def test_functions_that_change_what_they_read_run_every_time(name):
    """What a call answers depends on the calls before: the same calls on two copies agree."""
    (f, change), (g, change_too) = TRICKS[name](), TRICKS[name]()
    for symbols in ([0, 1], [1, 0], [1, 2], [0, 1]):
        d = dl.Distribution([0.5, 0.5], symbols)
        assert list(d.map(f).symbols) == answers(g, symbols)
    change()
    change_too()
    assert list(dl.Distribution([0.5, 0.5], [0, 1]).map(f).symbols) == answers(g)


def test_a_file_is_read_again():
    f, _ = TRICKS["file"]()
    d = dl.Distribution([0.5, 0.5], [0, 5])
    assert [d.map(f).symbols for _ in range(2)] == [(1, 5), (2, 5)]


def test_a_weak_reference_keeps_nothing_alive():
    box = Box()
    gone = weakref.ref(box)

    def run(box):
        dl.Distribution([0.5, 0.5], [0, 1]).map(lambda s: s + box.k)

    run(box)
    del box
    assert gone() is None
