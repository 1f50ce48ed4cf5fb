"""What a step would cost on an accelerator: launched operations, and the time of the host.

There the network takes a tenth of its time on a CPU, and what remains of a program are the
operations that torch dispatches and the Python and numpy between them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

STEPS = 3


@dataclass(frozen=True)
class Launches:
    """One step, forward and backward: dispatched operations, and seconds outside of them."""

    kernels: int
    host_s: float


class _Watch(TorchDispatchMode):
    """Counts dispatched operations, and takes their time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self.seconds.append(time.perf_counter() - start)
        return result


def launches(draw: Callable[[], Any], step: Callable[[Any], Any]) -> Launches:
    """Measure some steps on new numbers, after a first one; drawing numbers doesn't count.

    On a CPU an operation is its launch and its work. The launch is host time, as it would be on an
    accelerator; it takes as long as that of an operation with almost no work.
    """
    launch = _time_of_a_launch()
    step(draw())
    counts, wholes, works = [], [], []
    for _ in range(STEPS):
        data = draw()
        start = time.perf_counter()
        step(data)
        wholes.append(time.perf_counter() - start)
        data = draw()
        with _Watch() as seen:
            step(data)
        works.append(sum(max(0.0, seconds - launch) for seconds in seen.seconds))
        counts.append(len(seen.seconds))
    # Whatever else the machine does can only make a step longer.
    return Launches(int(statistics.median(counts)), max(0.0, min(wholes) - min(works)))


def _time_of_a_launch() -> float:
    small = torch.zeros(1)
    with _Watch() as seen:
        for _ in range(200):
            small.neg()
    return statistics.median(seen.seconds)
