"""How cost grows: with the number of rows B, and with the size of a problem.

Programs with symbols of their own in every row (`hwf-7`, `kinship-10`) cost time in proportion to
B. Where all rows share their symbols (`sum-15`, `path-6x6`) the symbolic stage does not depend on B
at all: plans are looked up, user functions don't run. Only the tag stage does.

Sizes are the length of formulas, the side of a grid and the length of a chain of relatives. Times
are CPU times on one thread. Dashed lines in the picture grow as the work must: with the number of
rows, the length of a formula or chain, and the fifth power of a grid's side (paths between all
pairs of nodes, of all lengths).

    python benchmarks/scaling.py --json benchmarks/results/scaling.json
    python benchmarks/scaling.py --sizes --json benchmarks/results/scaling_sizes.json
    python benchmarks/scaling.py --draw docs/images/scaling.png      # of both files
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import dolphin as dl
from dolphin_tasks.bench.cases import Case, choose
from dolphin_tasks.bench.formulas import Formula
from dolphin_tasks.bench.kinship import Kinship
from dolphin_tasks.bench.paths import GridPaths
from dolphin_tasks.bench.timing import Draws

PROGRAMS = ("sum-15", "path-6x6", "hwf-7", "kinship-10")
BATCHES = (1, 4, 16, 64, 256, 1024)
DRAWS = 3  # that are seen once before, so that every combination is known, and then again
RESULTS = Path(__file__).with_name("results")
SIZED = (
    *(Case(f"hwf-{n}", Formula(n), "dtkp-am", 3, batch=16) for n in (3, 7, 11, 15, 19)),
    *(Case(f"path-{n}x{n}", GridPaths(n), "dtkp-am", 1, batch=16) for n in (3, 4, 5, 6, 7, 8)),
    *(Case(f"kinship-{n}", Kinship(n, shortest=n), batch=16) for n in (2, 4, 6, 8, 10, 12)),
)
AXES = {  # and the power of it that the work grows with
    "hwf": ("length of the formula", 1),
    "path": ("side of the grid", 5),
    "kinship": ("length of the chain", 1),
}


def measure(case: Case, steps: int) -> dict[str, Any]:
    """Medians of one step: everything, and the symbolic stage of the forward pass alone."""
    draws = Draws(case.program, case.batch, "early", torch.device("cpu"))
    given = [draws() for _ in range(DRAWS)]
    whole, symbolic, calls = [], [], []
    with dl.using(case.algebra()):
        for step in range(DRAWS + steps):
            scores, labels = given[step % DRAWS]
            scores = scores.detach().requires_grad_()
            start = time.process_time()
            case.program.loss(scores, labels).backward()
            took = time.process_time() - start
            with dl.profile() as seen:
                case.program.loss(scores, labels)
            if step >= DRAWS:
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


def measure_sizes(steps: int) -> list[dict[str, Any]]:
    """A step of each program of a few sizes, after a warm-up."""
    found = []
    for case in SIZED:
        line = measure(case, steps)
        found.append({**line, "size": int(case.name.rpartition("-")[2].partition("x")[0])})
        print(f"{case.name:>12} {1e3 * line['step_s']:>10.2f} ms", flush=True)
    return found


def measure_batches(names: Sequence[str], batches: Sequence[int], steps: int) -> list[Any]:
    """A table for each program."""
    found = []
    for case in choose(names):
        title = f"{case.name}, {case.provenance}{'' if case.k is None else f' k={case.k}'}"
        print(f"\n{title}")
        print(f"{'B':>6} {'step ms':>10} {'us per row':>10} {'symbolic ms':>12} {'calls':>8}")
        for batch in batches:
            (sized,) = (
                c
                for c in choose([case.name], provenance=case.provenance, batch=batch)
                if c.provenance == case.provenance
            )
            line = measure(sized, steps)
            found.append(line)
            print(
                f"{batch:>6} {1e3 * line['step_s']:>10.2f} {1e6 * line['step_s'] / batch:>10.1f} "
                f"{1e3 * line['symbolic_stage_s']:>12.2f} {line['udf_calls']:>8,}",
                flush=True,
            )
    return found


def draw(path: Path) -> None:
    """Time of a step against B and against sizes, both axes logarithmic."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    by_rows, by_size = (
        json.loads((RESULTS / name).read_text(encoding="utf-8"))
        for name in ("scaling.json", "scaling_sizes.json")
    )
    figure, grid = plt.subplots(2, 2, figsize=(8, 6), sharey=True, layout="constrained")
    panels = grid.flatten()
    lines: dict[str, list[tuple[int, float]]] = {}
    for line in by_rows:
        name = line["name"] + ("" if line["k"] is None else f", k = {line['k']}")
        lines.setdefault(name, []).append((line["batch"], line["step_s"]))
    for name, points in lines.items():
        panels[0].plot(*_milliseconds(points), "o-", ms=3, label=name)
    _guide(panels[0], max(lines.values(), key=lambda points: points[-1][1]), 1, "rows")
    panels[0].set_xlabel("rows")
    panels[0].legend(fontsize=7, ncols=2, loc="upper left")
    for panel, (kind, (label, power)) in zip(panels[1:], AXES.items(), strict=True):
        own = [line for line in by_size if line["name"].startswith(kind)]
        points = [(line["size"], line["step_s"]) for line in own]
        panel.plot(*_milliseconds(points), "o-", ms=3)
        _guide(panel, points, power, label.split()[0])
        panel.set_xlabel(f"{label} (16 rows)")
        panel.legend(fontsize=8)
    for panel in panels:
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_ylim(top=1500)  # room for the legend
        panel.grid(alpha=0.3)
    for panel, kind in zip(panels[1:], AXES, strict=True):
        sizes = [line["size"] for line in by_size if line["name"].startswith(kind)]
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.xaxis.set_minor_locator(NullLocator())
    for panel in grid[:, 0]:
        panel.set_ylabel("ms for a step")
    figure.savefig(path, dpi=110)


def _guide(panel: Any, points: Sequence[tuple[int, float]], power: int, what: str) -> None:
    """A line to the last point with the slope that the work has."""
    last, seconds = points[-1]
    line = [(at, seconds * (at / last) ** power) for at, _ in points]
    name = f"∝ {what}" if power == 1 else f"∝ {what}$^{power}$"
    panel.plot(*_milliseconds(line), "--", color="grey", lw=1, label=name)


def _milliseconds(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [at for at, _ in points], [1e3 * seconds for _, seconds in points]


def main() -> None:
    """Measure one of the two, or draw both."""
    parser = argparse.ArgumentParser(description="How cost grows with the number of rows.")
    parser.add_argument("names", nargs="*", default=PROGRAMS, metavar="PROGRAM")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--sizes", action="store_true", help="sizes of problems instead of rows")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="a picture of what is kept")
    args = parser.parse_args()
    if args.draw is not None:
        draw(args.draw)
        return
    torch.set_num_threads(1)
    if args.sizes:
        found = measure_sizes(args.steps)
    else:
        found = measure_batches(args.names, args.batches, args.steps)
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
