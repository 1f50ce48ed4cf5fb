"""Samples with a common history share nodes; what they get is what a loop gives them."""

from __future__ import annotations

import contextlib
import contextvars
import random
import threading

import pytest
import torch

import dolphin as dl
from dolphin.execution.batching import agenda
from same_as_the_loop import assert_same_as_the_loop

ALGEBRAS = [dl.DAMP(), dl.TopKProofs(k=3), dl.TopKProofs(k=2, wmc="exact"), dl.Exact()]


def add(x, y):
    return (x + y) % 4


def fits(x, y):
    return x <= y + 1


def even(x):
    return x % 2 == 0


def logits_of(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def rows_of_nodes(monkeypatch):
    """How many rows each node has, in order."""
    seen = []
    schedule = agenda.Agenda._schedule

    def noted(self):
        seen.extend(map(len, self.new))
        schedule(self)

    monkeypatch.setattr(agenda.Agenda, "_schedule", noted)
    return seen


def test_one_node_for_all_samples_that_have_done_the_same(rows_of_nodes):
    torch.manual_seed(0)

    def program(logits, number):
        a, b = dl.Distribution.each_from_logits(logits[None], range(4))
        total = dl.sample(dl.apply(a, b, add), 3)
        return dl.apply(total, b if number < 3 else a, add)

    logits = logits_of(8, 2, 4)
    dl.batched(program)(logits, range(8))
    assert rows_of_nodes == [8, 8, 8, 8, 3, 5]


def test_the_same_operation_twice_in_a_sample():
    """Rows of a node may belong to the same sample."""
    torch.manual_seed(1)

    def program(logits, number):
        a, b = (dl.Distribution.from_logits(row, range(4)) for row in logits)
        totals = [dl.sample(dl.apply(a, b, add), 2) for _ in range(1 + number % 3)]
        return dl.union(*totals, dl.sample(b, 2))

    logits = logits_of(7, 2, 4)
    for algebra in ALGEBRAS:
        with dl.using(algebra):
            assert_same_as_the_loop(program, (logits, range(7)), [logits], 1e-8)


def instructions(draw):
    """What a sample does; few choices, so that samples begin alike and then differ."""
    kinds = ("add", "add", "fit", "sample", "even", "union", "look")
    return [draw.choice(kinds) for _ in range(draw.randint(1, 5))]


def follow(rows, script):
    """A program that its sample decides about, by its numbers, too."""
    if rows.dim() == 3:
        inputs = dl.Distribution.each_from_logits(rows, range(4))
    else:
        inputs = [dl.Distribution.from_logits(row, range(4)) for row in rows]
    total, used = inputs[0], 1
    for instruction in script:
        other = inputs[used % len(inputs)]
        used += 1
        if instruction == "add":
            total = dl.apply(total, other, add)
        elif instruction == "fit":
            total = dl.apply_if(total, other, add, fits)
        elif instruction == "sample":
            total = dl.sample(total, 2)
        elif instruction == "even":
            total = dl.filter(dl.union(total, inputs[0]), even)
        elif instruction == "union":
            total = dl.union(total, other)
        elif total.argmax()[0] in (0, 1, None):
            total = dl.apply(total, other, lambda x, y: max(x, y))
    return total


@pytest.mark.parametrize("algebra", ALGEBRAS, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_random_histories(algebra, seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    scripts = [instructions(draw) for _ in range(3)]
    scripts += [script[: draw.randint(0, len(script))] for script in scripts]
    chosen = [draw.choice(scripts) for _ in range(draw.choice([1, 5, 40]))]
    shapes = [(1, draw.randint(1, 3), 4) if draw.random() < 0.5 else (2, 4) for _ in chosen]
    rows = [logits_of(*shape) for shape in shapes]
    with dl.using(algebra):
        assert_same_as_the_loop(follow, (rows, chosen), rows, 1e-7)


def test_an_error_concerns_its_own_sample_alone():
    """The others go on, and so does a sample that catches it."""
    torch.manual_seed(2)

    def picky(x):
        if x == 7:
            raise ValueError("seven")
        return x

    def program(logits, symbols):
        a, b = (dl.Distribution.from_logits(row, symbols) for row in logits)
        try:
            # Symbols after `sample` depend on numbers: the function runs for all samples at once.
            total = dl.apply(dl.sample(a, 2).map(picky), b, lambda x, y: x + y)
            total.argmax()
        except dl.DolphinError:
            return b
        return total

    logits = torch.zeros(6, 2, 3, dtype=torch.float64)
    logits[:, 0] = torch.tensor([3.0, 2.0, 1.0])
    logits.requires_grad_()
    symbols = [(1, 2, 3), (7, 2, 3), (1, 2, 7), (1, 7, 3), (1, 2, 3), (4, 5, 6)]
    for algebra in ALGEBRAS:
        with dl.using(algebra):
            assert_same_as_the_loop(program, (logits, symbols), [logits], 1e-8)

    def careless(logits, symbols):
        a, b = (dl.Distribution.from_logits(row, symbols) for row in logits)
        return dl.apply(dl.sample(a, 2).map(picky), b, lambda x, y: x + y)

    def caught_and_returned(logits, symbols):
        result = careless(logits, symbols)
        with contextlib.suppress(dl.DolphinError):
            result.argmax()
        return result

    for wrong in (careless, caught_and_returned):
        with pytest.raises(dl.DolphinError, match=r"sample 1: .*seven"):
            dl.batched(wrong)(logits, symbols)


def test_threads_that_programs_start():
    """Their operations are nodes of their own: they may come at any time."""
    torch.manual_seed(3)

    def program(logits):
        a, b = (dl.Distribution.from_logits(row, range(4)) for row in logits)
        found = []
        context = contextvars.copy_context()
        work = threading.Thread(
            target=context.run, args=(lambda: found.append(dl.apply(a, b, add)),)
        )
        work.start()
        own = dl.apply(b, a, add)
        work.join()
        return dl.apply(found[0], own, max)

    logits = logits_of(9, 2, 4)
    for algebra in ALGEBRAS:
        with dl.using(algebra):
            assert_same_as_the_loop(program, (logits,), [logits], 1e-8)


def test_numbers_of_several_inputs_that_were_modified():
    def program(logits):
        a, _ = dl.Distribution.each_from_logits(logits, range(3))
        logits.zero_()
        return a

    with pytest.raises(dl.DolphinError, match="modified in place"):
        dl.batched(program)([torch.randn(1, 2, 3) for _ in range(3)])
