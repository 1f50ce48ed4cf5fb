"""Exact inference: what is remembered between steps and threads, and what is not."""

from __future__ import annotations

import gc
import operator
import threading
import weakref

import pytest
import torch

import dolphin as dl
from dolphin.execution.tagged import tagged_of
from dolphin.provenance import Exact
from dolphin.provenance.exact import compiling, formulas
from exact_cases import random_graph, step


def test_a_later_step_compiles_nothing(monkeypatch):
    """Neither new formulas nor a new circuit, although inputs and numbers are all new."""
    first = step(torch.rand(4, 12, dtype=torch.float64))
    table = formulas.tables.current()
    size = len(table)

    def fail(*arguments):
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiling, "_compile", fail)
    monkeypatch.setattr(compiling, "same", fail)
    probs = torch.rand(4, 12, dtype=torch.float64)
    again = step(probs)
    assert formulas.tables.current() is table
    assert len(table) == size
    monkeypatch.undo()
    formulas.tables.clear()
    torch.testing.assert_close(again, step(probs))
    assert not torch.allclose(again, first)


def test_nothing_remembers_the_inputs():
    probs = torch.rand(4, 12, dtype=torch.float64)
    d = dl.Distribution(probs, random_graph(3), exclusive=False, provenance=Exact())
    facts = weakref.ref(tagged_of(d).tags.inputs[0])
    found = dl.negate(dl.apply(d, d, lambda a, b: (a[0], b[1])))
    dl.get_probs(found)
    del d, found
    gc.collect()
    assert facts() is None


def test_a_full_table_is_replaced_and_tables_mix(monkeypatch):
    old = dl.Distribution([0.5, 0.5], [0, 1], provenance=Exact())
    twice = dl.apply(old, old, operator.add)
    monkeypatch.setattr(formulas.tables, "_table", formulas.FormulaTable())
    new = dl.Distribution([0.25, 0.75], [0, 1], provenance=Exact())
    assert tagged_of(new).tags.table is not tagged_of(old).tags.table
    both = dl.apply(new, twice, operator.add)
    assert dict(both.row(0)) == pytest.approx({0: 0.125, 2: 0.125, 1: 0.375, 3: 0.375})
    tight = formulas.FormulaTable(limit=40)
    monkeypatch.setattr(formulas.tables, "_table", tight)
    for _ in range(4):
        d = dl.Distribution(torch.full((1, 8), 0.5), range(8), exclusive=False, provenance=Exact())
        dl.apply(d, d, lambda a, b: a // 4)
    assert formulas.tables.current() is not tight


def test_two_threads_compile_the_same():
    probs = torch.rand(4, 12, dtype=torch.float64)
    formulas.tables.clear()
    compiling.clear()
    found = []
    threads = [threading.Thread(target=lambda: found.append(step(probs))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(torch.equal(f, found[0]) for f in found)
