"""`dolphin bench`: how long the symbolic part of a program takes compared with its network."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import torch

import dolphin as dl
from dolphin_tasks.bench.cases import NAMES, Case, choose
from dolphin_tasks.bench.launches import Launches, launches
from dolphin_tasks.bench.memory import peak_memory
from dolphin_tasks.bench.program import Inputs
from dolphin_tasks.bench.timing import Draws, compare, time_both

BUDGET = 40.0  # seconds that the steps of one measurement may take


@dataclass(frozen=True)
class Measurement:
    """A line of the table. Times are medians, in seconds; `ratio` is symbolic ÷ neural."""

    name: str
    provenance: str
    k: int | None
    batch: int
    inputs: str
    neural_s: float
    forward_s: float
    backward_s: float
    ratio: float
    target: float | None
    peak_mb: float | None
    udf_calls_first: int
    udf_calls_later: int
    neural_forward_s: float
    neural_backward_s: float
    cold_s: float
    """A symbolic step right after the network, as in training, forward and backward."""
    host_ms: float
    """Python and numpy of a symbolic step, with the launches of its torch operations."""
    kernels: int
    """Torch operations that a symbolic step dispatches, forward and backward."""
    compared: dict[str, float]
    """How many times as long other ways to write the program take."""


def measure(
    case: Case,
    *,
    steps: int = 20,
    inputs: Inputs = "early",
    device: str = "cpu",
    memory: bool = True,
) -> Measurement:
    """Measure one case: the network alone and the symbolic part alone, in turns."""
    where = torch.device(device)
    draws = Draws(case.program, case.batch, inputs, where)
    dl.cache_clear()
    first = _function_calls(case, draws)
    symbolic, cold, neural = time_both(case.program, case.algebra(), draws, steps, BUDGET)
    later = _function_calls(case, draws)
    launched = count_launches(case, draws)
    return Measurement(
        name=case.name,
        provenance=case.provenance,
        k=case.k,
        batch=case.batch,
        inputs=inputs,
        neural_s=neural.total,
        forward_s=symbolic.forward,
        backward_s=symbolic.backward,
        ratio=symbolic.total / neural.total,
        target=case.target if inputs == "early" and where.type == "cpu" else None,
        peak_mb=peak_memory(case, inputs) if memory and where.type == "cpu" else None,
        udf_calls_first=first,
        udf_calls_later=later,
        neural_forward_s=neural.forward,
        neural_backward_s=neural.backward,
        cold_s=cold.total,
        host_ms=1e3 * launched.host_s,
        kernels=launched.kernels,
        compared=compare(case.program, case.algebra(), draws, min(steps, 7)),
    )


def count_launches(case: Case, draws: Draws) -> Launches:
    """The torch operations of a step of a case's program and loss, and the time between them."""

    def step(data: tuple[torch.Tensor, Any]) -> None:
        with dl.using(case.algebra()):
            case.program.loss(*data).backward()

    return launches(draws, step)


def _function_calls(case: Case, draws: Draws) -> int:
    """How often user functions run in one more step."""
    scores, labels = draws()
    with dl.using(case.algebra()), dl.profile() as seen:
        case.program.loss(scores, labels)
    return seen.total.function_calls


COLUMNS = (
    "program", "provenance", "B", "neural ms", "forward ms", "backward ms", "cold ms", "ratio",
    "target", "peak MB", "host ms", "kernels", "calls", "calls later",
)  # fmt: skip
WIDTHS = (16, 12, 5, 10, 10, 11, 8, 8, 8, 8, 8, 8, 8, 11)


def _line(cells: Sequence[str]) -> str:
    return " ".join(
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )


def _cells(m: Measurement) -> tuple[str, ...]:
    return (
        m.name,
        m.provenance if m.k is None else f"{m.provenance} k={m.k}",
        str(m.batch),
        f"{1e3 * m.neural_s:.1f}",
        f"{1e3 * m.forward_s:.2f}",
        f"{1e3 * m.backward_s:.2f}",
        f"{1e3 * m.cold_s:.2f}",
        f"{m.ratio:.4f}",
        "" if m.target is None else f"{m.target:g}{'' if m.ratio <= m.target else ' !'}",
        "" if m.peak_mb is None else f"{m.peak_mb:.0f}",
        f"{m.host_ms:.1f}",
        f"{m.kernels:,}",
        f"{m.udf_calls_first:,}",
        f"{m.udf_calls_later:,}",
    )


def _busy() -> str:
    """A warning where other programs keep the cores busy: ratios then mean little."""
    load, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
    if load < 0.5 * cores:
        return ""
    return (
        f"The machine is busy (load {load:.1f} on {cores} cores), so these times are too long, and "
        "those of small operations most of all. --threads 1 helps a little.\n"
    )


def _positive(text: str) -> int:
    """A whole number from 1 upwards."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _device(text: str) -> str:
    """A device of this machine."""
    try:
        torch.zeros(1, device=text).item()
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        raise argparse.ArgumentTypeError(f"{text} can't be used here: {error}") from None
    return text


def parser() -> argparse.ArgumentParser:
    """The options of `dolphin bench`."""
    options = argparse.ArgumentParser(
        prog="dolphin bench",
        description="Time the symbolic part of programs against their networks.",
        epilog="programs: " + ", ".join(NAMES),
    )
    options.add_argument(
        "names", nargs="*", metavar="PROGRAM", help="which programs (default: all)"
    )
    options.add_argument(
        "--batch", type=_positive, help="rows of a batch (default: each program's own)"
    )
    options.add_argument("--provenance", help="e.g. damp or dtkp-am (default: each program's own)")
    options.add_argument("--k", type=int, help="proofs of a symbol, for provenances that keep some")
    options.add_argument("--steps", type=_positive, default=20, help="timed steps (default: 20)")
    options.add_argument("--inputs", choices=get_args(Inputs), default="early",
                      help="a network early in training, or a confident one")  # fmt: skip
    options.add_argument("--device", type=_device, default="cpu")
    options.add_argument(
        "--threads", type=_positive, help="threads of torch (default: its own choice)"
    )
    options.add_argument("--no-memory", action="store_true", help="don't measure peak memory")
    options.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results there as well"
    )
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table, and write JSON if requested."""
    options = parser()
    args = options.parse_args(argv)
    try:
        cases = choose(args.names, provenance=args.provenance, k=args.k, batch=args.batch)
        for case in cases:
            case.algebra()
    except (ValueError, dl.DolphinError) as error:
        options.error(str(error))
    if args.json is not None and args.json.is_dir():
        options.error(f"--json {args.json} is a folder, not a file")
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    out = sys.stdout
    out.write(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {args.device}, "
        f"{args.inputs} inputs; ratio = (forward + backward) / neural; ! above target\n"
        f"{_busy()}\n"
    )
    out.write(_line(COLUMNS) + "\n" + "-" * (sum(WIDTHS) + len(WIDTHS) - 1) + "\n")
    measurements = []
    for case in cases:
        torch.manual_seed(0)
        measurements.append(
            measure(
                case,
                steps=args.steps,
                inputs=args.inputs,
                device=args.device,
                memory=not args.no_memory,
            )
        )
        out.write(_line(_cells(measurements[-1])) + "\n")
        for other in case.program.others():
            times = measurements[-1].compared[other.name]
            short = "" if times >= other.at_least else " !"
            out.write(f"  {other.name}: {times:.2f} times as long ({other.at_least:.2f}{short})\n")
        out.flush()
        if args.json is not None:  # now, in case a later program is interrupted
            args.json.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps([asdict(m) for m in measurements], indent=2)
            args.json.write_text(text + "\n", encoding="utf-8")
    return 0
