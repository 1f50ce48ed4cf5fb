"""`exact` against KLay: the same questions, the same probabilities, alternating in one process.

A step is forward and backward for 64 rows. KLay evaluates in logarithms what PySDD compiled, which
is what its authors recommend; Dolphin runs its remembered program and evaluates what it compiled
itself. Running the program and compiling are also timed apart. Values and gradients are compared.

    python benchmarks/against_klay.py            # about a minute; writes the JSON and the table
    python benchmarks/against_klay.py "grid 4x4" --steps 20      # prints only

What was measured goes to `benchmarks/results/against_klay.json` and docs/comparison.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import klay
import networkx as nx
import torch
from pysdd.sdd import SddManager, SddNode, Vtree
from torch import Tensor

import dolphin as dl
from dolphin_tasks.sudoku.program import valid

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "against_klay.json"
PAGE = ROOT / "docs" / "comparison.md"
HEAD = (
    "| question | `exact` ms | of it the program | KLay ms | ratio | `exact` compiling s "
    "| PySDD compiling s |"
)
WARM_UP = 5
Edges = list[tuple[Any, Any]]


# -- the question: are two vertices of a graph connected? ------------------------------------------


def grid(rows: int, columns: int) -> Edges:
    """The edges of a grid, row by row."""
    return sorted((min(edge), max(edge)) for edge in nx.grid_2d_graph(rows, columns).edges)


def random_graph(vertices: int, edges: int) -> Edges:
    """A connected random graph."""
    for seed in itertools.count():
        graph = nx.gnm_random_graph(vertices, edges, seed=seed)
        if nx.is_connected(graph):
            return sorted((min(edge), max(edge)) for edge in graph.edges)
    raise AssertionError


class Reachability:
    """Whether the first and the last vertex of a graph are connected."""

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        vertices = sorted({vertex for edge in edges for vertex in edge})
        self.source, self.target = vertices[0], vertices[-1]

    def draw(self, batch: int, generator: torch.Generator) -> Tensor:
        """Probabilities (batch, edges)."""
        return torch.rand(batch, len(self.edges), generator=generator)

    def program(self, probs: Tensor, provenance: dl.Exact) -> dl.Distribution:
        """By a fixpoint over what is reached."""
        edges = dl.Distribution(probs, self.edges, exclusive=False, provenance=provenance)
        both = dl.union(edges, dl.apply(edges, lambda e: (e[1], e[0])))
        source = self.source
        start = dl.apply(dl.filter(both, lambda e: e[0] == source), lambda e: e[1])

        def step(found: dl.Distribution) -> dl.Distribution:
            ends = (lambda v: v, lambda e: e[0])
            return dl.union(found, dl.apply_if(found, both, lambda v, e: e[1], on=ends))

        return dl.fixpoint(step, start)

    def sdd(self) -> tuple[SddManager, SddNode]:
        """By the same recursion over sentential decision diagrams."""
        manager = SddManager.from_vtree(Vtree(len(self.edges), vtree_type="balanced"))
        ways = [(e, manager.literal(i)) for i, e in enumerate(self.edges, start=1)]
        ways += [((v, u), literal) for (u, v), literal in ways]
        reached = {vertex: manager.false() for (vertex, _), _ in ways}
        reached[self.source] = manager.true()
        changed = True
        while changed:
            before = dict(reached)
            for (u, v), edge in ways:
                reached[v] = reached[v] | (reached[u] & edge)
            changed = any(reached[v] != before[v] for v in reached)
        return manager, reached[self.target]

    def weights(self, probs: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the weights of facts and of their negations, as KLay takes them."""
        return probs.log(), torch.log1p(-probs)


# -- the question: is a 4×4 board a valid Sudoku? --------------------------------------------------


class Sudoku:
    """Whether sixteen digits are a valid board."""

    def draw(self, batch: int, generator: torch.Generator) -> Tensor:
        """Scores of a network (batch, 64), four for each cell."""
        return torch.randn(batch, 64, generator=generator)

    target = True

    def program(self, scores: Tensor, provenance: dl.Exact) -> dl.Distribution:
        """By the program of the task."""
        places = scores.view(-1, 16, 4)
        cells = dl.Distribution.each_from_logits(places, (1, 2, 3, 4), provenance=provenance)
        return valid(cells)

    def sdd(self) -> tuple[SddManager, SddNode]:
        """By its constraints: one digit in a cell, and different ones in what belongs together."""
        manager = SddManager.from_vtree(Vtree(64, vtree_type="balanced"))
        board = manager.true()
        for cell in range(16):
            board = board & _exactly_one(manager, [4 * cell + d for d in range(1, 5)])
        for a, b in itertools.combinations(range(16), 2):
            (r, c), (s, d) = divmod(a, 4), divmod(b, 4)
            if r == s or c == d or (r // 2, c // 2) == (s // 2, d // 2):
                for digit in range(1, 5):
                    board = board & (
                        manager.literal(-4 * a - digit) | manager.literal(-4 * b - digit)
                    )
        return manager, board

    def weights(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Exactly one fact of a cell holds, so that the others need no weight."""
        return scores.view(-1, 16, 4).log_softmax(-1).flatten(1), torch.zeros_like(scores)


def _exactly_one(manager: SddManager, variables: Sequence[int]) -> SddNode:
    made = manager.false()
    for chosen in variables:
        one = manager.true()
        for variable in variables:
            one = one & manager.literal(variable if variable == chosen else -variable)
        made = made | one
    return made


CASES: dict[str, Reachability | Sudoku] = {
    "grid 4x4": Reachability(grid(4, 4)),
    "random graph, 12 edges": Reachability(random_graph(7, 12)),
    "random graph, 15 edges": Reachability(random_graph(8, 15)),
    "random graph, 18 edges": Reachability(random_graph(9, 18)),
    "grid 3x7": Reachability(grid(7, 3)),
    "sudoku 4x4": Sudoku(),
}


# -- timing ----------------------------------------------------------------------------------------


def compare(case: Reachability | Sudoku, batch: int, steps: int, compiler: str) -> dict[str, Any]:
    """Times of both on the same numbers, and how far their results are apart."""
    generator = torch.Generator().manual_seed(0)
    provenance = dl.Exact(compiler=compiler)  # type: ignore[arg-type]
    dl.cache_clear()
    compiling, _ = _timed(lambda: _ours(case, case.draw(1, generator), provenance))
    compiling_sdd, (_manager, node) = _timed(case.sdd)
    circuit = klay.Circuit()
    circuit.add_sdd(node)
    module = circuit.to_torch_module(semiring="log", compile=False)

    def theirs(probs: Tensor) -> Tensor:
        return module(*case.weights(probs))[:, 0].exp()

    runs = [lambda probs: _ours(case, probs, provenance), theirs]
    times: list[list[float]] = [[], []]
    alone: list[float] = []  # the program, without evaluating its result
    apart = gradients_apart = 0.0
    for _ in range(WARM_UP + steps):
        drawn = case.draw(batch, generator)
        found = []
        for run, own in zip(runs, times, strict=True):
            probs = drawn.clone().requires_grad_()
            spent, out = _timed(lambda run=run, probs=probs: _step(run, probs))
            own.append(1000.0 * spent)
            found.append((out.detach(), probs.grad))
        probs = drawn.clone().requires_grad_()
        alone.append(1000.0 * _timed(lambda probs=probs: case.program(probs, provenance))[0])
        (value, grad), (other, other_grad) = found
        assert grad is not None and other_grad is not None
        apart = max(apart, (value - other).abs().max().item())
        gradients_apart = max(gradients_apart, (grad - other_grad).abs().max().item())
    ours_ms, theirs_ms = [statistics.median(each[WARM_UP:]) for each in times]
    return {
        "ours_ms": ours_ms,
        "program_ms": statistics.median(alone[WARM_UP:]),
        "klay_ms": theirs_ms,
        "ratio": ours_ms / theirs_ms,
        "ours_compiling_s": compiling,
        "pysdd_compiling_s": compiling_sdd,
        "values_apart": apart,
        "gradients_apart": gradients_apart,
    }


def _ours(case: Reachability | Sudoku, numbers: Tensor, provenance: dl.Exact) -> Tensor:
    return case.program(numbers, provenance).prob_of([case.target] * len(numbers))


def _step(run: Callable[[Tensor], Tensor], probs: Tensor) -> Tensor:
    out = run(probs)
    out.sum().backward()
    return out


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    made = run()
    return time.process_time() - start, made


def largest() -> dict[str, Any]:
    """Compiling and evaluating, once, the largest grid that fits into the default limits."""
    case, provenance = Reachability(grid(5, 5)), dl.get_provenance("exact")
    assert isinstance(provenance, dl.Exact)
    dl.cache_clear()
    probs = case.draw(1, torch.Generator().manual_seed(0))
    try:
        spent, _ = _timed(lambda: _ours(case, probs, provenance))
    except dl.DolphinError as error:  # limits are in seconds of the clock: a busy machine is slower
        return {"refused": str(error)}
    return {"ours_compiling_s": spent}


# -- the page --------------------------------------------------------------------------------------


def table(found: dict[str, Any]) -> str:
    """What was measured."""
    lines = [HEAD, "|---" * (HEAD.count("|") - 1) + "|"]
    for name, made in found["cases"].items():
        keys = (
            "ours_ms",
            "program_ms",
            "klay_ms",
            "ratio",
            "ours_compiling_s",
            "pysdd_compiling_s",
        )
        cells = [f"{made[key]:.2f}" if key in made else "–" for key in keys]
        lines.append(" | ".join(["| " + name, *cells]) + " |")
    return "\n".join(lines)


def with_table(page: str, found: dict[str, Any]) -> str:
    """The page with this table in the place of the one before."""
    before, _, rest = page.partition(HEAD)
    if not rest:
        raise SystemExit(f"{PAGE.name} has no table with the heads {HEAD}")
    return before + table(found) + "\n\n" + rest.partition("\n\n")[2]


def main() -> None:
    """Run all cases, print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--compiler", default="auto", choices=["auto", "diagrams", "sdd"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    print(f"{'case':24} {'ours ms':>8} {'program':>8} {'KLay ms':>8} {'ratio':>6}  compiling (s)")
    for name in options.cases or CASES:
        made = results[name] = compare(CASES[name], options.batch, options.steps, options.compiler)
        print(
            f"{name:24} {made['ours_ms']:8.2f} {made['program_ms']:8.2f} {made['klay_ms']:8.2f} "
            f"{made['ratio']:6.2f}  "
            f"{made['ours_compiling_s']:.2f}, {made['pysdd_compiling_s']:.2f}   apart "
            f"{made['values_apart']:.1e}, gradients {made['gradients_apart']:.1e}",
            flush=True,
        )
    if not options.cases and options.compiler == "auto":
        about = {
            "batch": options.batch,
            "steps": options.steps,
            "compiler": options.compiler,
            "torch": torch.__version__,
            "clock": "CPU time of the process, one thread, medians",
            "load": os.getloadavg()[0],
        }
        found = {"about": about, "cases": results, "grid 5x5": largest()}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_table(page, found), encoding="utf-8")


if __name__ == "__main__":
    main()
