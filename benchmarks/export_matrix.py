"""Compiling and exporting the tasks' programs: which work, how exactly, and how long it takes.

Every program of a task whose rows share their symbols is traced under five provenances. The trace
is compiled (`torch.compile`), exported with any number of rows, saved and loaded (`torch.export`),
and turned into ONNX. Each is run with 1, 7, 64 and 1,000 rows and compared with the program itself,
which runs on distributions as usual. Each pair of program and provenance has its own process and
time limit.

    python benchmarks/export_matrix.py                            # everything: about an hour
    python benchmarks/export_matrix.py --programs sudoku --provenances dtkp-am --ways export onnx
    python benchmarks/export_matrix.py --missing --ways compile   # what was not measured yet
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

import dolphin as dl

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from shared_programs import FULL as PROGRAMS  # noqa: E402
from shared_programs import PROVENANCES, Shared  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "export.json"
PAGE = ROOT / "docs" / "performance.md"
BATCHES = (1, 7, 64, 1000)
WAYS = ("export", "onnx", "compile")
HEAD = "| program | " + " | ".join(f"`{name}`" for name in PROVENANCES) + " |"


# -- one pair of program and provenance ------------------------------------------------------------


def measure(
    name: str, provenance: str, backend: str, ways: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """What each way gives, as soon as it is known."""
    shared = PROGRAMS[name]()
    started = _cpu_time()
    try:
        traced = shared.trace(provenance)
    except dl.DolphinError as error:
        yield {"way": "trace", "refused": str(error)}
        return
    yield {"way": "trace", "cpu_s": _cpu_time() - started, "steps": len(traced.steps)}
    try:
        with torch.no_grad():
            right = {
                rows: shared.run(shared.numbers(rows), provenance).probs(traced.symbols)
                for rows in BATCHES
            }
    except dl.DolphinError as error:
        yield {"way": "eager", "refused": str(error)}
        return
    yield {"way": "eager", **_compared(traced, shared, right)}
    exported = None
    for way in ways:
        started = _cpu_time()
        try:
            if way == "compile":
                run = torch.compile(traced, fullgraph=True, dynamic=True, backend=backend)
                made = _compared(run, shared, right)
                made["graphs"] = len(_debug_get_cache_entry_list(dl.Traced.forward.__code__))
                made["backend"] = backend
            elif way == "export":
                exported = _exported(traced, shared)
                torch.export.save(exported, file := io.BytesIO())
                ready = _cpu_time() - started
                run = torch.export.load(io.BytesIO(file.getvalue())).module()
                made = _compared(run, shared, right)
                made |= {"making_cpu_s": ready, "kB": len(file.getvalue()) / 1e3}
                made["operations"] = len(exported.graph.nodes)
            else:
                run, size = _as_onnx(exported or _exported(traced, shared))
                ready = _cpu_time() - started
                made = _compared(run, shared, right)
                made |= {"making_cpu_s": ready, "kB": size / 1e3}
        except dl.DolphinError as error:
            made = {"refused": str(error)}
        except Exception as error:
            if isinstance(error.__cause__, dl.DolphinError):
                made = {"refused": str(error.__cause__)}
            else:
                made = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        yield {"way": way, "cpu_s": _cpu_time() - started, **made}


def _cpu_time() -> float:
    """Seconds of this process and of the compilers that it called."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _compared(
    run: Callable[..., Tensor], shared: Shared, right: dict[int, Tensor]
) -> dict[str, Any]:
    """How far probabilities are from those of the program, over all batches."""
    apart = 0.0
    for rows, probs in right.items():
        with torch.no_grad():
            found = run(*shared.numbers(rows))
        assert found.shape == probs.shape
        apart = max(apart, (found.exp() - probs).abs().max().item())
    return {"apart": apart}


def _exported(traced: dl.Traced, shared: Shared) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch")
    shapes = (tuple({0: batch} for _ in shared.symbols),)
    with torch.no_grad():
        return torch.export.export(traced, shared.numbers(5), dynamic_shapes=shapes, strict=False)


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
    # One thread, so that the C++ compiler is this process's own child, whose time counts.
    caches = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    environment = {**os.environ, **caches}
    done = subprocess.run(  # noqa: S603
        [*command, "--seconds", str(seconds)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            made = json.loads(line)
            found[made.pop("way")] = made
    if done.returncode:
        missing = next(way for way in ("trace", "eager", *ways) if way not in found)
        late = done.returncode == -signal.SIGXCPU
        reason = f"exit {done.returncode}: {done.stderr[-500:]}"
        found[missing] = {"ended": f"not within {seconds} s" if late else reason}
    return found


def table(found: dict[str, Any]) -> str:
    """The largest difference, and the CPU time, of what was measured."""
    lines = [HEAD, "|---" * (len(PROVENANCES) + 1) + "|"]
    for name in PROGRAMS:
        cells = [_cell(found.get(name, {}).get(provenance)) for provenance in PROVENANCES]
        lines.append(" | ".join(["| " + name, *cells]) + " |")
    return "\n".join(lines)


def _settled(known: dict[str, Any], way: str) -> bool:
    """Whether this way has a result, or can't have one."""
    measured = known.get(way, {}).keys()
    needed = {"apart", "graphs"} if way == "compile" else {"apart"}
    if measured >= needed or "refused" in measured:
        return True
    return any("refused" in known.get(before, {}) for before in ("trace", "eager"))


def _cell(made: dict[str, Any] | None) -> str:
    if made is None:
        return "–"
    parts = []
    for way in ("trace", "eager", *WAYS):
        own = made.get(way, {})
        if "refused" in own:
            reason = own["refused"].partition(": ")[2].partition(": ")[0]  # without remedies
            parts.append(f"{way} refused: {reason.rstrip('.')}")
        elif "failed" in own:
            parts.append(f"{way} **failed**")
        elif "ended" in own:
            parts.append(f"{way} {own['ended']}")
        elif way in WAYS and own:
            graphs = f", {own['graphs']} graphs" if "graphs" in own else ""
            apart = f"{own['apart']:.0e}" if own["apart"] else "0"
            parts.append(f"{way} {apart}, {own['cpu_s']:.0f} s{graphs}")
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
    parser.add_argument("--missing", action="store_true", help="only what was not measured yet")
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
            known = found.get(name, {}).get(provenance, {})
            ways = [way for way in options.ways if not (options.missing and _settled(known, way))]
            if not ways:
                continue
            made = in_its_own_process(name, provenance, options.backend, ways, options.seconds)
            found.setdefault(name, {}).setdefault(provenance, {}).update(made)
            print(f"{name:26} {provenance:9} {json.dumps(made)}", flush=True)
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if options.json == RESULTS:
        write_table(found)


if __name__ == "__main__":
    main()
