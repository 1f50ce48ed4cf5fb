"""What the programs of all tasks do to an accelerator, checked without one.

A tensor on the device `meta` has a shape and no values: whatever reads one fails. Operations that
are dispatched are looked at one by one.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import dolphin as dl
from dolphin.execution.recursion import renewing
from shared_programs import PROVENANCES, SMALL

READS = {"_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2", "unique_dim"}

# The most operations that are dispatched, forward and backward, by provenance in the order of
# PROVENANCES. Figures of the day, and a tenth more.
CEILINGS = {
    "sum": (112, 126, 156, 256, 221),
    "product": (130, 126, 156, 256, 231),
    "member": (166, 160, 206, 362, 228),
    "mugen": (123, 126, 132, 224, 211),
    "scenes": (187, 175, 233, 405, 228),
    "sudoku": (552, 584, 598, 1286, 625),
    "clutrr": (110, 103, 133, 283, 207),
    "pathfinder, straight": (374, 349, 448, 869, 271),
    "pathfinder": (377, 345, 469, 955, 271),
    "terrain": (182, 0, 228, 0, 294),
}

CASES = [
    (name, provenance)
    for name in SMALL
    for provenance in PROVENANCES
    # How many rounds it takes depends on numbers: it asks after each whether they have settled.
    if not (name == "terrain" and provenance in ("viterbi", "dtkp-am"))
]


LOOPS = {"pathfinder, straight", "pathfinder", "terrain"}
"""Programs that recurse: plans are made, then loops are learnt, then their lists are copied."""


class Watched(TorchDispatchMode):
    """Operations, and those of them that make a program wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []
        self.waits: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.operations.append(name)
        tensors = [each for each in tree_leaves((args, kwargs, result)) if isinstance(each, Tensor)]
        if name in READS or len({tensor.device for tensor in tensors}) > 1:
            self.waits.append(name)
        return result


def run(shared, provenance, rows, watched=None):
    given = [numbers.to("meta").requires_grad_() for numbers in shared.numbers(rows)]
    with watched or nullcontext():
        logs = shared.run(given, provenance).log_probs()
        logs.sum().backward()
    assert logs.device.type == "meta" and logs.shape[0] == rows


def watch(shared, provenance, rows):
    run(shared, provenance, rows, watched := Watched())
    return watched


@pytest.mark.parametrize(("name", "provenance"), CASES)
def test_nothing_is_read_or_copied_and_little_launched(name, provenance):
    """Once index lists are on the device, and whatever the number of rows."""
    shared = SMALL[name]()
    for _ in range(3 if name in LOOPS else 1):
        run(shared, provenance, 4)
    some, more = watch(shared, provenance, 4), watch(shared, provenance, 9)
    assert not some.waits and not more.waits
    assert some.operations == more.operations
    assert len(some.operations) <= CEILINGS[name][PROVENANCES.index(provenance)]


def test_rounds_are_not_compared(monkeypatch):
    """Tags of a recursion that are computed again only where they changed: on the CPU alone."""
    monkeypatch.setattr(renewing, "_WORTH_A_LOOK", 1)
    shared = SMALL["pathfinder"]()
    for _ in range(3):
        run(shared, "dtkp-am", 4)
    assert not watch(shared, "dtkp-am", 4).waits


@pytest.mark.parametrize("name", SMALL)
def test_functions_of_programs_are_remembered(name):
    shared = SMALL[name]()
    shared.run(shared.numbers(2), "damp")
    with dl.profile() as seen:
        shared.run(shared.numbers(2), "damp")
    assert seen.total.function_calls == 0


@pytest.mark.parametrize("name", SMALL)
def test_programs_can_be_traced(name):
    """And so be exported: they create no input of their own, and read no numbers."""
    shared = SMALL[name]()
    given = shared.numbers(3)
    traced, result = shared.trace("damp"), shared.run(given, "damp")
    torch.testing.assert_close(traced(*given), result.log_probs(traced.symbols))


@pytest.mark.parametrize("provenance", PROVENANCES)
@pytest.mark.parametrize("name", ["mugen", "sudoku", "pathfinder, straight", "pathfinder"])
def test_a_trace_has_the_gradients_of_its_program(name, provenance):
    """With numbers from which something follows: beyond 1, sums pass no gradient on."""
    shared = SMALL[name]()
    given = [numbers.requires_grad_() for numbers in shared.numbers(7)]
    traced = shared.trace(provenance)
    wanted = shared.run(given, provenance).probs(traced.symbols)
    assert ((wanted > 0.01) & (wanted < 0.99)).any(1).sum() >= 3
    found = traced.probs(*given)
    torch.testing.assert_close(found, wanted)
    gradients = torch.autograd.grad(wanted.square().sum(), given)
    assert all(gradient.any() for gradient in gradients)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), given), gradients)
