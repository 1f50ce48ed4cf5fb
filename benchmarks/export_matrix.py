"""Compiling and exporting the tasks' programs: which work, how exactly, and how long it takes.

Every program of a task whose rows share their symbols is traced under five provenances. The trace
is compiled (`torch.compile`), exported with any number of rows, saved and loaded (`torch.export`),
and turned into ONNX. Each is run with 1, 7, 64 and 1,000 rows and compared with the program itself,
which runs on distributions as usual. Each pair of program and provenance has its own process and
time limit.

    python benchmarks/export_matrix.py                            # everything: about an hour
    python benchmarks/export_matrix.py --programs sudoku --provenances dtkp-am --ways export onnx
    python benchmarks/export_matrix.py --table                    # the table of what was measured

What was measured is added to `benchmarks/results/export.json`; the table is on docs/performance.md.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import torch._dynamo.testing
from torch import Tensor

import dolphin as dl
from dolphin_tasks.clutrr.kinship import RELATIONS, Fact
from dolphin_tasks.clutrr.program import relation_asked_for
from dolphin_tasks.member.program import member
from dolphin_tasks.mugen.program import ACTIONS, watch
from dolphin_tasks.pathfinder.program import both_ways, connected
from dolphin_tasks.pathfinder.task import PathfinderConfig, PathfinderTask
from dolphin_tasks.product_n.program import multiply
from dolphin_tasks.scenes.program import answer
from dolphin_tasks.scenes.world import ATTRIBUTES
from dolphin_tasks.sudoku.program import valid
from dolphin_tasks.sum_n.program import add_up
from dolphin_tasks.terrain.program import grid, reached

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "export.json"
PAGE = ROOT / "docs" / "performance.md"
PROVENANCES = ("damp", "viterbi", "noisy-or", "dtkp-am", "exact")
BATCHES = (1, 7, 64, 1000)
WAYS = ("export", "onnx", "compile")
HEAD = "| program | " + " | ".join(f"`{name}`" for name in PROVENANCES) + " |"


class Shared(NamedTuple):
    """A task's program, and the symbols of its inputs."""

    program: Callable[..., dl.Distribution[Any]]
    symbols: Sequence[Sequence[Any]]
    exclusive: Any = True


def _sum(*digits: dl.Distribution) -> dl.Distribution:
    return add_up(digits)


def _product(*digits: dl.Distribution) -> dl.Distribution:
    return multiply(digits)


def _member(asked: dl.Distribution, *digits: dl.Distribution) -> dl.Distribution:
    """The digit that is asked for is one more input here: a row of zeros and a one."""
    return member(digits, asked)


def _mugen(*pairs: dl.Distribution) -> dl.Distribution:
    return watch(pairs, [("walk", "jump"), ("walk", "collect", "walk"), ("jump", "kill", "die")])


def _scenes(*colours: dl.Distribution) -> dl.Distribution:
    """One question about a scene: how many things are left of a red one."""
    places = [(0, 0), (3, 1), (1, 2), (2, 3)]
    question = ("filter", "red"), ("relate", "left"), ("count",)
    return answer({"colour": colours}, places, question)


def _sudoku(*cells: dl.Distribution) -> dl.Distribution:
    return valid(cells)


def _kinship(people: int, links: int | None) -> Shared:
    pairs = [(a, b) for a in range(people) for b in range(people) if a != b]
    facts = [Fact(a, relation, b) for a, b in pairs for relation in RELATIONS]
    size = len(RELATIONS)
    groups = [list(range(size * place, size * (place + 1))) for place in range(len(pairs))]
    return Shared(lambda told: relation_asked_for(told, links), [facts], groups)


def _paths(**options: Any) -> Shared:
    task = PathfinderTask(PathfinderConfig(**options))

    def joined(ends: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
        if task.directed:
            return connected(ends, edges, task.steps)
        return connected(ends, both_ways(edges), task.steps, symmetric=True)

    return Shared(joined, [task.nodes, task.edges], False)


PROGRAMS: dict[str, Callable[[], Shared]] = {
    "sum, 5 digits": lambda: Shared(_sum, [range(10)] * 5),
    "half, even-odd": lambda: Shared(_sum, [range(10)] * 2),
    "product, 4 digits": lambda: Shared(_product, [range(10)] * 4),
    "member, 3 digits": lambda: Shared(_member, [range(10)] * 4),
    "mugen, 6 pairs of frames": lambda: Shared(_mugen, [ACTIONS] * 6),
    "scenes, one question": lambda: Shared(_scenes, [ATTRIBUTES["colour"]] * 4),
    "sudoku 4×4": lambda: Shared(_sudoku, [range(1, 5)] * 16),
    "clutrr, 3 links": lambda: _kinship(4, 3),
    "pathfinder, 6×6 blocks": lambda: _paths(network="paper"),
    "pathfinder, 16×16 blocks": _paths,
    "terrain 12×12": lambda: Shared(reached, [grid(12)], False),
}
"""Rows of AddN, HWF, words and Sudoku 9×9 have symbols of their own: they can't be traced."""


def numbers(shared: Shared, rows: int) -> tuple[Tensor, ...]:
    """Probabilities for every input, not the same for any two symbols."""
    generator = torch.Generator().manual_seed(rows)
    each = [torch.rand(rows, len(own), generator=generator) for own in shared.symbols]
    if shared.exclusive is False:
        return tuple(each)
    if shared.exclusive is True:
        return tuple((3 * scores).softmax(1) for scores in each)
    return tuple(
        torch.cat([(3 * scores[:, group]).softmax(1) for group in shared.exclusive], 1)
        for scores in each
    )


def wanted(shared: Shared, provenance: str, symbols: Sequence[Any], rows: int) -> Tensor:
    """What the program itself gives."""
    algebra = dl.get_provenance(cast(Any, provenance))
    given = [
        dl.Distribution(probs, own, exclusive=shared.exclusive, provenance=algebra)
        for probs, own in zip(numbers(shared, rows), shared.symbols, strict=True)
    ]
    with torch.no_grad():
        return shared.program(*given).probs(symbols)


# -- one pair of program and provenance ------------------------------------------------------------


def measure(
    name: str, provenance: str, backend: str, ways: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """What each way gives, as soon as it is known."""
    shared = PROGRAMS[name]()
    started = time.process_time()
    try:
        traced = dl.trace(
            shared.program,
            *shared.symbols,
            exclusive=shared.exclusive,
            provenance=dl.get_provenance(cast(Any, provenance)),
        )
    except dl.DolphinError as error:
        yield {"way": "trace", "refused": str(error)}
        return
    yield {"way": "trace", "cpu_s": time.process_time() - started, "steps": len(traced.steps)}
    right = {rows: wanted(shared, provenance, traced.symbols, rows) for rows in BATCHES}
    yield {"way": "eager", **_compared(traced, shared, right)}
    exported = None
    for way in ways:
        started = time.process_time()
        try:
            if way == "compile":
                graphs = torch._dynamo.testing.CompileCounterWithBackend(backend)
                run = torch.compile(traced, fullgraph=True, dynamic=True, backend=graphs)
                made = _compared(run, shared, right)
                made["graphs"] = graphs.frame_count
            elif way == "export":
                exported = _exported(traced, shared)
                torch.export.save(exported, file := io.BytesIO())
                ready = time.process_time() - started
                run = torch.export.load(io.BytesIO(file.getvalue())).module()
                made = _compared(run, shared, right)
                made |= {"making_cpu_s": ready, "kB": len(file.getvalue()) / 1e3}
                made["operations"] = len(exported.graph.nodes)
            elif exported is None:
                continue
            else:
                run, size = _as_onnx(exported)
                ready = time.process_time() - started
                made = _compared(run, shared, right)
                made |= {"making_cpu_s": ready, "kB": size / 1e3}
        except dl.DolphinError as error:
            made = {"refused": str(error)}
        except Exception as error:
            if isinstance(error.__cause__, dl.DolphinError):
                made = {"refused": str(error.__cause__)}
            else:
                made = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        yield {"way": way, "cpu_s": time.process_time() - started, **made}


def _compared(
    run: Callable[..., Tensor], shared: Shared, right: dict[int, Tensor]
) -> dict[str, Any]:
    """How far probabilities are from those of the program, over all batches."""
    apart = 0.0
    for rows, probs in right.items():
        with torch.no_grad():
            found = run(*numbers(shared, rows))
        assert found.shape == probs.shape
        apart = max(apart, (found.exp() - probs).abs().max().item())
    return {"apart": apart}


def _exported(traced: dl.Traced, shared: Shared) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch")
    shapes = (tuple({0: batch} for _ in shared.symbols),)
    with torch.no_grad():
        return torch.export.export(traced, numbers(shared, 5), dynamic_shapes=shapes, strict=False)


def _as_onnx(exported: torch.export.ExportedProgram) -> tuple[Callable[..., Tensor], int]:
    """An exported program as it runs without torch, and its size."""
    import onnxruntime

    model = torch.onnx.export(exported, (), dynamo=True, verbose=False)
    assert model is not None
    file = io.BytesIO()
    model.save(file)  # pyright: ignore[reportArgumentType]  # files that are open work, too
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def run(*given: Tensor) -> Tensor:
        named = {name: n.numpy() for name, n in zip(names, given, strict=True)}
        return torch.from_numpy(session.run(None, named)[0])

    return run, len(file.getvalue())


# -- all of them -----------------------------------------------------------------------------------


def in_its_own_process(
    name: str, provenance: str, backend: str, ways: Sequence[str], seconds: int
) -> dict[str, Any]:
    """The results of a pair, as far as it came within the time."""
    command = [sys.executable, "-W", "ignore", __file__, "--backend", backend]
    command += ["--ways", *ways]
    command += ["--pair", name, provenance]
    environment = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    done = subprocess.run(  # noqa: S603
        [*command, "--seconds", str(seconds)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            made = json.loads(line)
            found[made.pop("way")] = made
    if done.returncode == -signal.SIGXCPU:
        found["ended"] = f"not within {seconds} s of CPU time"
    elif done.returncode:
        found["ended"] = f"exit {done.returncode}: {done.stderr[-500:]}"
    return found


def table(found: dict[str, Any]) -> str:
    """The largest difference, and the CPU time, of what was measured."""
    lines = [HEAD, "|---" * (len(PROVENANCES) + 1) + "|"]
    for name in PROGRAMS:
        cells = [_cell(found.get(name, {}).get(provenance)) for provenance in PROVENANCES]
        lines.append(" | ".join(["| " + name, *cells]) + " |")
    return "\n".join(lines)


def _cell(made: dict[str, Any] | None) -> str:
    if made is None:
        return "–"
    ways = [made[way] for way in ("trace", *WAYS) if way in made]
    for way in ways:
        if "refused" in way:
            return "refused"
        if "failed" in way:
            return "**failed**"
    parts = []
    for way in WAYS:
        if "apart" in made.get(way, {}):
            graphs = f", {made[way]['graphs']} graphs" if "graphs" in made[way] else ""
            apart = f"{made[way]['apart']:.0e}" if made[way]["apart"] else "0"
            parts.append(f"{way} {apart}, {made[way]['cpu_s']:.0f} s{graphs}")
    if "ended" in made:
        parts.append(f"{next(way for way in WAYS if way not in made)} {made['ended']}")
    return "<br>".join(parts)


def write_table(found: dict[str, Any]) -> None:
    """Put the table into its page, in the place of the one before."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(HEAD)
    if not rest:
        raise SystemExit(f"{PAGE.name} has no table with the heads {HEAD}")
    PAGE.write_text(before + table(found) + "\n\n" + rest.partition("\n\n")[2], encoding="utf-8")


def main() -> None:
    """Measure, then write the JSON and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", nargs="+", metavar="NAME", help="those that begin like this")
    parser.add_argument("--provenances", nargs="+", choices=PROVENANCES, default=PROVENANCES)
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seconds", type=int, default=600, help="CPU seconds that a pair may take")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--pair", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pair:
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_CPU, (options.seconds, options.seconds + 5))
        name, provenance = options.pair
        for made in measure(name, provenance, options.backend, options.ways):
            print(json.dumps(made), flush=True)
        return
    chosen = [
        name
        for name in PROGRAMS
        if not options.programs or any(name.startswith(each) for each in options.programs)
    ]
    found = json.loads(options.json.read_text()) if options.json.exists() else {}
    for name in () if options.table else chosen:
        for provenance in options.provenances:
            made = in_its_own_process(
                name, provenance, options.backend, options.ways, options.seconds
            )
            found.setdefault(name, {})[provenance] = made
            print(f"{name:26} {provenance:9} {json.dumps(made)}", flush=True)
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if options.json == RESULTS:
        write_table(found)


if __name__ == "__main__":
    main()
