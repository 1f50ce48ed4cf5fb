"""`dl.batched` ends whatever happens to its threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import dolphin as dl
from dolphin.execution.batching import crew


def coin(p):
    return dl.Distribution(torch.stack([1 - p, p]), [0, 1])


@dl.batched
def first(p):
    """A sample that waits for a number."""
    d = coin(p)
    return d if d.argmax()[0] == 1 else d.map(lambda x: 1 - x)


def ended(work, *args):
    """The result of some work, or the exception that it raised; fails if it doesn't end."""
    found = []

    def run():
        try:
            found.append(work(*args))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert found, "it hangs"
    return found[0]


def test_an_exception_that_is_raised_in_a_thread_from_outside(monkeypatch):
    ran = crew.Crew._run_sample

    def struck(self, number):
        if number == 2:
            raise SystemExit("from outside")
        ran(self, number)

    monkeypatch.setattr(crew.Crew, "_run_sample", struck)
    assert isinstance(ended(first, torch.linspace(0.1, 0.9, 5)), SystemExit)


def test_a_system_with_few_threads(monkeypatch):
    started = threading.Thread.start

    def few(thread):
        if sum(own.name == "dolphin-batched" for own in threading.enumerate()) >= 3:
            raise RuntimeError("can't start new thread")
        started(thread)

    monkeypatch.setattr(threading.Thread, "start", few)
    p = torch.linspace(0.1, 0.9, 20)
    assert torch.allclose(ended(first, p).prob_of([1] * 20), torch.maximum(p, 1 - p))


def test_a_system_without_threads(monkeypatch):
    def none(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    with pytest.raises(RuntimeError, match="new thread"):
        first(torch.tensor([0.5]))


def test_numbers_are_read_in_the_thread_of_the_sample():
    @dl.batched
    def program(p):
        d = coin(p)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(d.argmax).result()

    error = ended(program, torch.tensor([0.1, 0.9]))
    assert isinstance(error, dl.InputError)
    assert "own thread" in str(error)
