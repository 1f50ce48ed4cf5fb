"""Samples of a batch, each with a program that can be suspended and resumed.

Plain Python code can only be suspended on its own stack, so samples run in threads. There is a
single baton: the thread that has it runs, all others wait, so a program sees no concurrency. A
thread runs one sample after the other; it is tied to a sample only while that waits for a number,
and another thread continues. A program that never reads a number needs a single thread. The
operations themselves run in the thread of the caller.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dolphin.errors import InputError
from dolphin.execution.batching import operations
from dolphin.execution.batching.agenda import Agenda
from dolphin.execution.batching.modes import Mode
from dolphin.execution.batching.nodes import Node
from dolphin.execution.batching.pending import Cancelled
from dolphin.execution.tagged import Tagged
from dolphin.symbolic.surroundings import PLAIN, Surroundings, surrounded, surroundings
from dolphin.symbolic.tasks import Task

MOST_WAITING = 256  # suspended samples before the numbers that they wait for are computed
_PATIENCE = 5.0  # seconds that a sample has to finish after the batch was interrupted


class SampleFailed(Exception):  # noqa: N818 (not for users: carries the number of the sample)
    """A sample raised an exception, the cause of this one."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Gate:
    """Where one thread waits for its turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        self._lock.release()

    def wait(self, timeout: float = -1) -> bool:
        return self._lock.acquire(timeout=timeout)


class _Sample:
    """A running sample: records its operations and waits for them."""

    __slots__ = ("agenda", "alone", "crew", "inputs", "number", "thread")

    def __init__(self, crew: Crew, number: int) -> None:
        self.crew, self.number, self.thread = crew, number, threading.get_ident()
        self.agenda = crew.agenda
        self.alone: Surroundings | None = None
        self.inputs = 0  # that it has created

    def combine(self, task: Task, operands: Sequence[Tagged]) -> Tagged:
        return operations.combine(self, task, operands)

    def unite(self, operands: Sequence[Tagged]) -> Tagged:
        return operations.unite(self, operands)

    def wait_for(self, node: Node) -> None:
        if not self.crew.over and threading.get_ident() != self.thread:
            raise InputError(
                "batched: a sample's numbers can be read in its own thread only, not in one that "
                "its program has started. Read them before, and pass on what was read."
            )
        self.crew.park(node)


class Crew:
    """Runs a program for many samples."""

    def __init__(self, program: Callable[..., Any], samples: Sequence[tuple[tuple, dict]]) -> None:
        self.program, self.samples = program, samples
        self.agenda = Agenda(len(samples))
        self.results: list[Any] = [None] * len(samples)
        self.over = False
        self._next = 0
        self._waiting: deque[tuple[_Gate, Node]] = deque()
        self._most_waiting = MOST_WAITING
        self._main = _Gate()
        self._mine = True  # whether the caller has the baton
        self._error: tuple[int, BaseException] | None = None
        self._context = contextvars.copy_context()
        self._mode, self._device = Mode.current(), torch.get_default_device()
        self._threads: list[threading.Thread] = []

    def run(self) -> list[Any]:
        """The program's result for each sample; all operations have run."""
        try:
            while self._next < len(self.samples) or self._waiting:
                self._mine = False
                self._pass_on()
                self._main.wait()
                self._mine = True
                if self._error is not None:
                    break
                self.agenda.run()
        finally:
            if self._error is not None or self._next < len(self.samples) or self._waiting:
                self._cancel()
            self.over = True
        for thread in self._threads:
            thread.join(_PATIENCE)
        self._raise()
        return self.results

    def _raise(self) -> None:
        failures = [(f.sample.number, f.error) for f in self.agenda.failed if not f.raised]
        if self._error is not None:
            failures.append(self._error)
        if failures:
            number, error = min(failures, key=lambda failure: failure[0])
            raise SampleFailed(number) from error

    # -- the baton ---------------------------------------------------------------------------------

    def _pass_on(self) -> None:
        """Called by the thread that has the baton and is about to wait or end."""
        if self.agenda.cancelled or self._error is not None:
            self._main.open()
        elif self._waiting and self._waiting[0][1].done:
            self._waiting.popleft()[0].open()
        elif self._can_start():
            self._start_thread()
        else:
            self._main.open()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name="dolphin-batched", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more: continue with those that there are
            if not self._waiting:  # not even one: it is the caller who tries
                self._mine = True
                raise
            self._most_waiting = len(self._waiting)
            self._main.open()
        else:
            self._threads.append(thread)

    def _can_start(self) -> bool:
        return self._next < len(self.samples) and len(self._waiting) < self._most_waiting

    def park(self, node: Node) -> None:
        """Wait in the middle of a sample until a node has run."""
        if self.over:
            raise InputError(
                "batched: this distribution belongs to a call of a batched program that failed "
                "before it was computed."
            )
        if self.agenda.cancelled:
            raise Cancelled
        gate = _Gate()
        self._waiting.append((gate, node))
        self._pass_on()
        gate.wait()
        if self.agenda.cancelled:
            raise Cancelled

    def _work(self) -> None:
        number = self._next
        try:
            with self._mode.entered(), self._on_device():
                while self._can_start() and not self.agenda.cancelled and self._error is None:
                    number = self._next
                    self._next += 1
                    self._context.copy().run(self._run_sample, number)
                    if self._waiting and self._waiting[0][1].done:
                        break
        except BaseException as error:  # raised from outside, between two samples
            self._note(number, error)
        finally:  # whatever happens: all others wait for the baton
            self._pass_on()

    def _on_device(self) -> contextlib.AbstractContextManager[Any]:
        known = torch.get_default_device()
        return contextlib.nullcontext() if known == self._device else self._device

    def _run_sample(self, number: int) -> None:
        args, kwargs = self.samples[number]
        alone, sample = surroundings() is PLAIN, _Sample(self, number)
        try:
            with surrounded(sample=sample):
                sample.alone = surroundings() if alone else None
                self.results[number] = self.program(*args, **kwargs)
        except Cancelled:
            return
        except BaseException as error:  # raised again in the thread of the caller
            self._note(number, error)
        finally:
            sample.alone = None  # which refers to the sample

    def _note(self, number: int, error: BaseException) -> None:
        if self._error is None:
            self._error = (number, error)

    def _cancel(self) -> None:
        """End all waiting samples."""
        self.agenda.cancelled = True
        if not self._mine and not self._main.wait(_PATIENCE):
            return  # a program that doesn't return keeps its thread
        while self._waiting:
            self._waiting.popleft()[0].open()
            if not self._main.wait(_PATIENCE):
                return
