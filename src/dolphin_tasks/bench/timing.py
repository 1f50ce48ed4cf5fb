"""How long a step takes: the network alone, and the symbolic part alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

import dolphin as dl
from dolphin_tasks.bench.program import Inputs, Program

WARM_UP = 3
MOST_TURNS = 10  # of network and symbolic part
SHORTEST = 0.1  # seconds of symbolic steps in a turn
PICTURES_AT_ONCE = 2048  # larger batches go through the network in parts, to fit in memory


@dataclass(frozen=True)
class Times:
    """Medians of some steps, in seconds."""

    forward: float
    backward: float

    @property
    def total(self) -> float:
        return self.forward + self.backward


class Clock:
    """Seconds, after everything that was started on a device is done."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


class Draws:
    """Fresh numbers for every step, the same for every run."""

    def __init__(self, program: Program, batch: int, inputs: Inputs, device: torch.device) -> None:
        self.program, self.batch, self.device = program, batch, device
        self.inputs: Inputs = inputs
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self) -> tuple[Tensor, Any]:
        """Scores as a leaf that requires grad, and labels, both on the device."""
        scores, labels = self.program.draw(self.batch, self.inputs, self.generator)
        labels = labels.to(self.device) if isinstance(labels, Tensor) else labels
        return scores.to(self.device).requires_grad_(), labels


class Turns(NamedTuple):
    """Medians of the symbolic part alone, of its steps right after the network, of the network."""

    symbolic: Times
    cold: Times
    network: Times


def time_both(
    program: Program, provenance: dl.Provenance, draws: Draws, steps: int, budget: float
) -> Turns:
    """Medians of the symbolic part alone and of the network alone, after warm-up.

    They take turns, because the speed of a machine changes from one second to the next: both see
    the same. A turn has at least one step of each, and of a short program as many as take
    `SHORTEST` seconds. Turns end early when all of them have taken `budget` seconds.

    The first symbolic step of a turn finds the processor's caches as training does: meanwhile the
    network, or whatever else the machine does, has used them. Short programs take up to three times
    as long as in later steps.
    """
    symbolic, network = _Symbolic(program.loss, provenance, draws), _Network(program, draws)
    for _ in range(WARM_UP):
        symbolic.step()
    network.step()
    turns = min(steps, MOST_TURNS)
    times: list[tuple[float, float]] = []
    cold: list[tuple[float, float]] = []
    neural: list[tuple[float, float]] = []
    started = time.perf_counter()
    for turn in range(turns):
        neural.append(network.step())
        until, wanted = time.perf_counter() + SHORTEST, (turn + 1) * steps // turns
        cold.append(symbolic.step())
        times.append(cold[-1])
        while len(times) < wanted or time.perf_counter() < until:
            times.append(symbolic.step())
        if turn >= 2 and time.perf_counter() - started > budget:
            break
    return Turns(_medians(times), _medians(cold), _medians(neural))


def compare(
    program: Program, provenance: dl.Provenance, draws: Draws, turns: int
) -> dict[str, float]:
    """How many times as long other ways to write the program take, measured alternately."""
    own = _Symbolic(program.loss, provenance, draws)
    compared = {}
    for other in program.others():
        rival = _Symbolic(other.loss, provenance, draws)
        pairs = [(own.step(), rival.step()) for _ in range(WARM_UP + turns)][WARM_UP:]
        mine, theirs = (_medians(list(times)).total for times in zip(*pairs, strict=True))
        compared[other.name] = theirs / mine
    return compared


class _Symbolic:
    """The symbolic part of a step: from scores to the loss and back."""

    def __init__(
        self, loss: Callable[[Tensor, Any], Tensor], provenance: dl.Provenance, draws: Draws
    ) -> None:
        self.loss, self.provenance, self.draws = loss, provenance, draws
        self.clock = Clock(draws.device)

    def step(self) -> tuple[float, float]:
        data = self.draws()

        def forward() -> Tensor:
            with dl.using(self.provenance):
                return self.loss(*data)

        return _step(self.clock, forward, Tensor.backward)


class _Network:
    """Forward and backward of the network alone, in training mode, on the whole batch."""

    def __init__(self, program: Program, draws: Draws) -> None:
        self.network = program.network().train().to(draws.device)
        pictures = program.pictures(draws.batch).split(PICTURES_AT_ONCE)
        self.parts = [part.to(draws.device) for part in pictures]
        self.clock = Clock(draws.device)

    def step(self) -> tuple[float, float]:
        whole = [0.0, 0.0]
        for part in self.parts:
            forward, backward = _step(
                self.clock,
                lambda part=part: self.network(part),
                lambda y: y.backward(torch.ones_like(y)),
            )
            whole = [whole[0] + forward, whole[1] + backward]
        self.network.zero_grad(set_to_none=True)
        return whole[0], whole[1]


def _step(
    clock: Clock, forward: Callable[[], Tensor], backward: Callable[[Tensor], Any]
) -> tuple[float, float]:
    start = clock()
    result = forward()
    middle = clock()
    backward(result)
    return middle - start, clock() - middle


def _medians(times: list[tuple[float, float]]) -> Times:
    forward, backward = zip(*times, strict=True)
    return Times(statistics.median(forward), statistics.median(backward))
