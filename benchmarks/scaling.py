"""How cost grows with the number of rows B.

Programs with symbols of their own in every row (`hwf-7`, `clutrr-like`) cost time in proportion to
B. Where all rows share their symbols (`sum-15`, `path-6x6`) the symbolic stage does not depend on B
at all: plans are looked up, user functions don't run. Only the tag stage does.

    python benchmarks/scaling.py --json benchmarks/results/scaling.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import dolphin as dl
from dolphin_tasks.bench.cases import Case, choose
from dolphin_tasks.bench.timing import Draws

PROGRAMS = ("sum-15", "path-6x6", "hwf-7", "clutrr-like")
BATCHES = (1, 4, 16, 64, 256, 1024)


def measure(case: Case, steps: int) -> dict[str, Any]:
    """Medians of one step: everything, and the symbolic stage of the forward pass alone."""
    draws = Draws(case.program, case.batch, "early", torch.device("cpu"))
    whole, symbolic, calls = [], [], []
    with dl.using(case.algebra()):
        for step in range(2 + steps):
            scores, labels = draws()
            start = time.perf_counter()
            case.program.loss(scores, labels).backward()
            took = time.perf_counter() - start
            scores, labels = draws()
            with dl.profile() as seen:
                case.program.loss(scores, labels)
            if step >= 2:
                whole.append(took)
                symbolic.append(seen.total.function_seconds + seen.total.other_seconds)
                calls.append(seen.total.function_calls)
    return {
        "name": case.name,
        "provenance": case.provenance,
        "k": case.k,
        "batch": case.batch,
        "step_s": statistics.median(whole),
        "symbolic_stage_s": statistics.median(symbolic),
        "udf_calls": int(statistics.median(calls)),
    }


def main() -> None:
    """A table for each program."""
    parser = argparse.ArgumentParser(description="How cost grows with the number of rows.")
    parser.add_argument("names", nargs="*", default=PROGRAMS, metavar="PROGRAM")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    found = []
    for case in choose(args.names):
        title = f"{case.name}, {case.provenance}{'' if case.k is None else f' k={case.k}'}"
        print(f"\n{title}")
        print(f"{'B':>6} {'step ms':>10} {'us a row':>10} {'symbolic ms':>12} {'calls':>8}")
        for batch in args.batches:
            (sized,) = (
                c
                for c in choose([case.name], provenance=case.provenance, batch=batch)
                if c.provenance == case.provenance
            )
            line = measure(sized, args.steps)
            found.append(line)
            print(
                f"{batch:>6} {1e3 * line['step_s']:>10.2f} {1e6 * line['step_s'] / batch:>10.1f} "
                f"{1e3 * line['symbolic_stage_s']:>12.2f} {line['udf_calls']:>8,}",
                flush=True,
            )
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
