"""Two checkouts of Dolphin on the same programs and inputs: how many times faster this one is.

Each library runs in its own process, on one thread. Both run the programs of the other checkout;
only the closure of paths is `fixpoint` in both, which counts a path once. They take turns, step
by step, on the same numbers and graphs, fresh ones at every step. A step is forward, loss and
backward, and its time is that of the CPU. Losses and gradients are compared.

    python benchmarks/against_first.py ../first --json FILE
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Name of the case, module of the benchmark, class and arguments, algebra and k, required speed-up.
CASES = {
    "kinship-4": ("kinship", "Kinship", 4, "damp", None, 8.0),
    "kinship-4 k=3": ("kinship", "Kinship", 4, "dtkp-am", 3, 8.0),
    "kinship-10": ("kinship", "Kinship", 10, "damp", None, 11.0),
    "kinship-10 k=3": ("kinship", "Kinship", 10, "dtkp-am", 3, 19.0),
    "path-6x6": ("paths", "GridPaths", 6, "damp", None, 1.8),
    "path-6x6 k=1": ("paths", "GridPaths", 6, "dtkp-am", 1, 4.5),
}
WARM_UP = 20  # steps, after which most user functions have met most of their symbols


def serve(library: Path, written: Path, name: str, batch: int, channel: Connection) -> None:
    """Answer each request with the CPU time, the loss and the gradient of one more step.

    The library is that of one checkout, the programs were written for another.
    """
    sys.path.insert(0, str(library / "src"))
    import torch

    import dolphin as dl

    assert Path(dl.__file__).is_relative_to(library)
    sys.path.insert(0, str(written / "src"))
    dl.__path__.append(str(written / "src" / "dolphin"))  # the tasks were part of the library once
    torch.set_num_threads(1)
    module, kind, size, provenance, k, _ = CASES[name]
    package = "dolphin_tasks" if (written / "src" / "dolphin_tasks").is_dir() else "dolphin"
    programs = importlib.import_module(f"{package}.bench.{module}")
    if module == "paths":
        programs.closure = _closure
    program = _of_one_length(getattr(programs, kind))(size)
    algebra = dl.get_provenance(provenance, **({} if k is None else {"k": k}))
    generator = torch.Generator().manual_seed(0)
    while channel.recv():
        scores, labels = program.draw(batch, "early", generator)
        scores.requires_grad_()
        start = time.process_time()
        with dl.using(algebra):
            loss = program.loss(scores, labels)
        loss.backward()
        seconds = time.process_time() - start
        channel.send((seconds, loss.item(), scores.grad.flatten().tolist()))


def _closure(edges: Any) -> Any:
    """All pairs of nodes that a path of edges joins."""
    import dolphin as dl

    def step(paths: Any) -> Any:
        ends = (lambda path: path[1], lambda edge: edge[0])
        return dl.union(edges, dl.apply_if(paths, edges, lambda p, e: (p[0], e[1]), on=ends))

    return dl.fixpoint(step, edges)


def _of_one_length(kind: Any) -> Any:
    """The same program; a story has as many relations as the longest."""
    if not hasattr(kind, "_length"):
        return kind
    return type(kind.__name__, (kind,), {"_length": lambda self, row: self.longest})


def steps(
    libraries: list[Path], written: Path, name: str, batch: int, count: int
) -> Iterator[list[Any]]:
    """What all libraries say of each step after warm-up."""
    context = multiprocessing.get_context("spawn")
    channels, processes = [], []
    for library in libraries:
        ours, theirs = context.Pipe()
        channels.append(ours)
        arguments = (library, written, name, batch, theirs)
        processes.append(context.Process(target=serve, args=arguments, daemon=True))
        processes[-1].start()
        theirs.close()
    for step in range(WARM_UP + count):
        answers = []
        for channel in channels:
            channel.send(True)
            answers.append(channel.recv())
        if step >= WARM_UP:
            yield answers
    for channel, process in zip(channels, processes, strict=True):
        channel.send(False)
        process.join()


def compare(other: Path, name: str, batch: int, count: int) -> dict[str, Any]:
    """Times of both checkouts, their ratio, and how far values and gradients are apart."""
    here = Path(__file__).resolve().parent.parent
    answers = list(steps([here, other], other, name, batch, count))
    times = [[answer[place][0] for answer in answers] for place in (0, 1)]
    apart = max(abs(ours[1] - theirs[1]) for ours, theirs in answers)
    most = max(max(map(abs, theirs[2])) for _, theirs in answers)
    gradients = max(
        abs(a - b) for ours, theirs in answers for a, b in zip(ours[2], theirs[2], strict=True)
    )
    (ours, theirs), (least, their_least) = map(statistics.median, times), map(min, times)
    return {
        "name": name,
        "batch": batch,
        "ms": 1e3 * ours,
        "other_ms": 1e3 * theirs,
        "least_ms": 1e3 * least,
        "other_least_ms": 1e3 * their_least,
        "speed_up": theirs / ours,
        "speed_up_of_least": their_least / least,
        "wanted": CASES[name][-1],
        "loss_apart": apart,
        "gradients_apart": gradients / most if most else gradients,
    }


def main() -> None:
    """Compare two checkouts, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="folder of the other edition")
    parser.add_argument("--case", action="append", choices=list(CASES), help="some cases only")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(f"{'program':<16}{'ms':>8}{'other':>9}{'times':>8}{'least':>8}{'asked':>7}  apart")
    results = []
    for name in options.case or CASES:
        result = compare(options.checkout.resolve(), name, options.batch, options.steps)
        results.append(result)
        print(
            f"{name:<16}{result['ms']:8.1f}{result['other_ms']:9.1f}{result['speed_up']:8.2f}"
            f"{result['speed_up_of_least']:8.2f}{result['wanted']:7.1f}"
            f"  {result['loss_apart']:.1e} {result['gradients_apart']:.1e}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
