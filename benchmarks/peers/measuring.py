"""What all drivers share: data, network, time, memory, learning, and a file of results.

A driver describes one other system as a `Peer` and calls `main(peer)`. It runs in the environment
that has that system installed; Dolphin is imported from the sources, so that both sides of a case
get the same numbers in one process and take turns.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dolphin_tasks.mnist import digit_network, load_mnist

Step = Callable[[Any], Tensor | None]
"""From inputs to the probabilities of what is true in each row (B,), or to None after a whole step.

A driver whose measure of truth is another one returns a loss of no dimension.
"""


@dataclass(frozen=True)
class Case:
    """The same computation by both sides, and the inputs of a step."""

    name: str
    draw: Callable[[torch.Generator], Any]
    theirs: Callable[[], Step]
    ours: Callable[[], Step]
    steps: int = 10
    what: str = "symbolic part"  # or "whole step"
    comparable: bool = True  # whether both sides give the same probabilities

    def side(self, name: str) -> Step:
        """A step of one side; whatever it keeps between steps is made now."""
        return self.theirs() if name == "theirs" else self.ours()


Learner = Callable[[Tensor, list[int]], None]
"""Improves a network from images (B, 2, 1, 28, 28) and their sums."""


@dataclass(frozen=True)
class Peer:
    """A system to compare with."""

    name: str
    packages: Sequence[str]
    cases: Sequence[Case] = ()
    learner: Callable[[nn.Module], Learner] | None = None
    rows: int = 64  # of a learning step


# -- inputs ----------------------------------------------------------------------------------------


def digit_probabilities(rows: int, digits: int, generator: torch.Generator) -> list[Tensor]:
    """The output of a network that has hardly been trained, as leaves that require grad."""
    scores = torch.randn(digits, rows, 10, generator=generator)
    return [part.softmax(-1).requires_grad_() for part in scores]


def digit_sums(
    rows: int, digits: int, generator: torch.Generator
) -> tuple[list[Tensor], list[int]]:
    """Probabilities of some digits per row, and sums to be explained."""
    truth = torch.randint(10, (rows, digits), generator=generator).sum(1).tolist()
    return digit_probabilities(rows, digits, generator), truth


def edge_probabilities(rows: int, edges: int, generator: torch.Generator) -> Tensor:
    """How likely each edge is there."""
    return torch.rand(rows, edges, generator=generator).mul(0.8).add(0.1).requires_grad_()


def grid(side: int) -> list[tuple[int, int]]:
    """The edges of a grid, each once, from corner to corner; they may be walked both ways."""
    nodes = [divmod(node, side) for node in range(side * side)]
    right = [(side * r + c, side * r + c + 1) for r, c in nodes if c + 1 < side]
    down = [(side * r + c, side * r + c + side) for r, c in nodes if r + 1 < side]
    return sorted(right + down)


class Pairs:
    """Two digits of MNIST per row, and their sum, dealt in the order of a seed."""

    def __init__(self) -> None:
        mnist = load_mnist(download=False)
        self.train = mnist.train_images.unsqueeze(1).float().div(255), mnist.train_labels
        self.test = mnist.test_images.unsqueeze(1).float().div(255), mnist.test_labels

    def batches(self, rows: int, seed: int) -> Any:
        """Endless batches of images (B, 2, 1, 28, 28) and sums."""
        images, labels = self.train
        generator = torch.Generator().manual_seed(seed)
        while True:
            order = torch.randperm(len(labels), generator=generator).view(-1, 2)
            for some in order.split(rows):
                if len(some) == rows:
                    yield images[some], labels[some].sum(1).tolist()

    @torch.no_grad()
    def accuracy(self, network: nn.Module) -> float:
        """The share of 5,000 test sums that is right."""
        images, labels = self.test
        was = network.training
        network.eval()
        read = torch.cat([network(part).argmax(-1) for part in images.split(500)])
        network.train(was)
        return (read.view(-1, 2).sum(1) == labels.view(-1, 2).sum(1)).float().mean().item()


def real_pairs(rows: int) -> Callable[[torch.Generator], Any]:
    """Batches of real images and sums, read when the first one is requested."""
    batches: list[Any] = []

    def draw(_: torch.Generator) -> Any:
        if not batches:
            batches.append(Pairs().batches(rows, seed=1))
        return next(batches[0])

    return draw


# -- measuring -------------------------------------------------------------------------------------


def run(step: Step, inputs: Any) -> Tensor | None:
    """One step, with the loss and its gradients where the step leaves them to us."""
    result = step(inputs)
    if result is None:
        return None
    loss = result if result.dim() == 0 else -result.clamp_min(1e-12).log().mean()
    loss.backward()
    return result.detach()


def timed(case: Case) -> dict[str, Any]:
    """Both sides in turns on the same draws: medians of wall and of CPU time."""
    generator = torch.Generator().manual_seed(0)
    sides = {name: case.side(name) for name in ("theirs", "ours")}
    wall: dict[str, list[float]] = {name: [] for name in sides}
    busy: dict[str, list[float]] = {name: [] for name in sides}
    apart = 0.0
    for turn in range(case.steps + 2):
        inputs = case.draw(generator)
        results = []
        for name, step in sides.items():
            started = time.perf_counter(), time.process_time()
            results.append(run(step, inputs))
            if turn >= 2:
                wall[name].append(1e3 * (time.perf_counter() - started[0]))
                busy[name].append(1e3 * (time.process_time() - started[1]))
        first, second = results
        if case.comparable and first is not None and second is not None:
            apart = max(apart, (first - second).abs().max().item())
    figures: dict[str, Any] = {"name": case.name, "what": case.what, "steps": case.steps}
    for name in sides:
        figures[f"{name}_ms"] = statistics.median(wall[name])
        figures[f"{name}_cpu_ms"] = statistics.median(busy[name])
    figures["largest_difference"] = apart if case.comparable else None
    return figures


def memory(case: Case, side: str) -> float:
    """Megabytes by which this process grows at most in three steps of one side."""
    generator = torch.Generator().manual_seed(0)
    inputs = [case.draw(generator) for _ in range(3)]
    torch.rand(64, 10, requires_grad=True).softmax(-1).sum().backward()  # torch's own beginnings
    before = _megabytes("VmRSS")
    step = case.side(side)
    for each in inputs:
        run(step, each)
    return _megabytes("VmHWM") - before


def _megabytes(name: str) -> float:
    """What Linux says of this process; `getrusage` would begin with the peak of its parent."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def learnt(peer: Peer, seconds: float, seed: int, every: float = 10.0) -> list[dict[str, float]]:
    """Accuracy over CPU seconds of training; looking at the test set doesn't count."""
    assert peer.learner is not None
    torch.manual_seed(seed)
    network, pairs = digit_network(), Pairs()
    learn = peer.learner(network)
    curve, spent, samples = [], 0.0, 0
    for images, sums in pairs.batches(peer.rows, seed):
        started = time.process_time()
        network.train()
        learn(images, sums)
        spent += time.process_time() - started
        samples += len(sums)
        if spent >= every * (len(curve) + 1) or spent >= seconds:
            right = pairs.accuracy(network)
            curve.append({"cpu_s": spent, "samples": samples, "accuracy": right})
            print(f"  {spent:6.1f} s  {samples:7,} rows  {right:.2%}", flush=True)
        if spent >= seconds:
            break
    return curve


# -- the driver's command line ---------------------------------------------------------------------


def main(peer: Peer) -> None:
    """`with_NAME.py FILE` measures everything and writes it down."""
    parser = argparse.ArgumentParser(description=f"Measure {peer.name} beside Dolphin.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0, help="CPU seconds of learning")
    parser.add_argument("--seeds", type=int, default=3, help="how often it learns")
    parser.add_argument("--memory", nargs=2, metavar=("CASE", "SIDE"), help="print megabytes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory:
        name, side = options.memory
        print(memory(next(case for case in peer.cases if case.name == name), side))
        return
    load = os.getloadavg()[0]
    cases = []
    for case in peer.cases:
        figures = timed(case)
        for side in ("theirs", "ours"):
            command = [sys.executable, *sys.argv, "--memory", case.name, side]
            done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
            figures[f"{side}_mb"] = float(done.stdout.split()[-1])
        cases.append(figures)
        print(f"  {case.name}: {figures['theirs_ms']:.1f} ms, Dolphin {figures['ours_ms']:.1f} ms",
              flush=True)  # fmt: skip
    result = {
        "peer": peer.name,
        "versions": {name: importlib.metadata.version(name) for name in ("torch", *peer.packages)},
        "load_before": load,
        "cases": cases,
        "rows": peer.rows,
        "learning": [
            {"seed": seed, "curve": learnt(peer, options.seconds, seed)}
            for seed in range(options.seeds if peer.learner else 0)
        ],
        "load_after": os.getloadavg()[0],
    }
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
