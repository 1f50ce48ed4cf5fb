"""How long a step takes: the network alone, and the symbolic part alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin.bench.program import Inputs, Program

WARM_UP = 3
PICTURES_AT_ONCE = 2048  # larger batches go through the network in parts, to fit into memory


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
        """Scores as a leaf that wants its gradient, and labels, both on the device."""
        scores, labels = self.program.draw(self.batch, self.inputs, self.generator)
        labels = labels.to(self.device) if isinstance(labels, Tensor) else labels
        return scores.to(self.device).requires_grad_(), labels


def time_symbolic(
    program: Program, provenance: dl.Provenance, draws: Draws, steps: int, budget: float
) -> Times:
    """Medians of `steps` steps after warm-up, fewer if they take longer than `budget` seconds."""

    def forward() -> Tensor:
        with dl.using(provenance):
            return program.loss(*data)

    clock, times = Clock(draws.device), []
    started = time.perf_counter()
    for step in range(WARM_UP + steps):
        data = draws()
        times.append(_step(clock, forward, Tensor.backward))
        if step >= WARM_UP and time.perf_counter() - started > budget:
            break
    return _medians(times[WARM_UP:])


def time_network(
    network: nn.Module, pictures: Tensor, steps: int, budget: float, device: torch.device
) -> Times:
    """Forward and backward of the network alone, in training mode, on the whole batch."""
    network = network.train().to(device)
    parts = [part.to(device) for part in pictures.split(PICTURES_AT_ONCE)]
    clock, times = Clock(device), []
    started = time.perf_counter()
    for step in range(1 + steps):
        whole = [0.0, 0.0]
        for part in parts:
            forward, backward = _step(
                clock, lambda part=part: network(part), lambda y: y.backward(torch.ones_like(y))
            )
            whole = [whole[0] + forward, whole[1] + backward]
        network.zero_grad(set_to_none=True)
        times.append((whole[0], whole[1]))
        if step >= 3 and time.perf_counter() - started > budget:
            break
    return _medians(times[1:])


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
