"""Dolphin beside other systems: same task, network, data and labels, each in its own environment.

    python benchmarks/peers/run.py                    # everything: about a quarter of an hour
    python benchmarks/peers/run.py --only ltntorch    # one of them
    python benchmarks/peers/run.py --tables           # tables and picture of what was measured

Environments are made in `benchmarks/peers/environments/` when they are missing, at the versions
of `constraints.txt`; packages whose declared requirements would bring another build of torch are
installed without them, and what they import is named here. What was measured goes to
`benchmarks/results/peers/`, the tables of `docs/comparison.md` and `docs/images/peers.png`.
MNIST is read from where `dolphin train` finds it. One thread, one process at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = HERE / "environments"
RESULTS = ROOT / "benchmarks" / "results" / "peers"
PAGE = ROOT / "docs" / "comparison.md"
PICTURE = ROOT / "docs" / "images" / "peers.png"
QUIET = 1.5  # a load of the machine above this is said in the table


class Place(NamedTuple):
    """A driver, and what its environment holds besides torch and numpy."""

    script: str
    environment: str
    needs: Sequence[str] = ()
    alone: Sequence[
        str
    ] = ()  # without what they declare: torchvision, of which there is no CPU build


LOGIC = ("pysdd", "problog==2.3.0", "pillow"), ("deepproblog==2.1.0",)
PLACES = {
    "dolphin": Place("ours.py", "dolphin"),
    "literal": Place("with_literal.py", "dolphin"),
    "ltntorch": Place("with_ltntorch.py", "ltntorch", alone=["LTNtorch==1.0.2"]),
    "ablkit": Place("with_ablkit.py", "ablkit", ["termcolor", "zoopt==0.4.2"], ["ablkit==1.0.0"]),
    "deepproblog": Place("with_deepproblog.py", "logic", *LOGIC),
    "problog": Place("with_problog.py", "logic", *LOGIC),
    "klay": Place("with_klay.py", "klay", ["pysdd", "klaycircuits"]),
}


def environment(place: Place) -> Path:
    """The Python of an environment, made if it is missing or was made for something else."""
    folder = ENVIRONMENTS / place.environment
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = json.dumps([place.needs, place.alone])
    stamp = folder / "made-for.json"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making the environment {place.environment}", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    _run([*pip, *constraints, "torch", "numpy", *place.needs])
    if place.alone:
        _run([*pip, "--no-deps", *place.alone])
    stamp.write_text(wanted)
    return python


def measure(name: str, seconds: float, seeds: int) -> None:
    """Run a driver in its environment; what it finds is in its file."""
    place = PLACES[name]
    python = environment(place)
    print(name, flush=True)
    usual = {
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "ONEDNN_MAX_CPU_ISA": os.environ.get("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"),
    }
    command = [str(python), "-W", "ignore", str(HERE / place.script), str(RESULTS / f"{name}.json")]
    # some write logs where they are started
    folder = ENVIRONMENTS / place.environment
    _run(
        [*command, "--seconds", str(seconds), "--seeds", str(seeds)],
        {**os.environ, **usual},
        folder,
    )


def _run(
    command: Sequence[str], variables: dict[str, str] | None = None, folder: Path | None = None
) -> None:
    done = subprocess.run(command, env=variables, cwd=folder, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")


# -- tables and picture ----------------------------------------------------------------------------


def results() -> dict[str, Any]:
    """What was measured, in the order of the drivers."""
    files = {name: RESULTS / f"{name}.json" for name in PLACES}
    return {n: json.loads(f.read_text(encoding="utf-8")) for n, f in files.items() if f.exists()}


def table_of_steps(found: dict[str, Any]) -> str:
    """Time and memory of a step."""
    heads = ("other system, case", "what", "its ms", "Dolphin's ms", "ratio",
             "its MB", "Dolphin's MB", "apart")  # fmt: skip
    rows = []
    for result in found.values():
        for case in result["cases"]:
            apart = case["largest_difference"]
            whole = case["what"] == "whole step"
            rows.append(
                (
                    f"{result['peer']}, {case['name']}",
                    case["what"],
                    _few(case["theirs_cpu_ms"]),
                    _few(case["ours_cpu_ms"]),
                    _few(case["theirs_cpu_ms"] / case["ours_cpu_ms"]),
                    _few(case["theirs_mb"]),
                    _few(case["ours_mb"]),
                    "other measure" if apart is None else "–" if whole else f"{apart:.0e}",
                )
            )
    return _table(heads, rows)


def table_of_learning(found: dict[str, Any]) -> str:
    """Accuracy after equal CPU time."""
    heads = ("sum of two digits", "rows per step", "CPU s", "rows seen",
             "right of 5,000 sums, seed by seed")  # fmt: skip
    rows = []
    for result in found.values():
        ends = [run["curve"][-1] for run in result["learning"]]
        if ends:
            seen = sorted(end["samples"] for end in ends)
            rows.append(
                (
                    result["peer"],
                    str(result["rows"]),
                    f"{ends[0]['cpu_s']:.0f}",
                    f"{seen[len(seen) // 2]:,}",
                    ", ".join(f"{end['accuracy']:.1%}" for end in ends),
                )
            )
    return _table(heads, rows)


def table_of_versions(found: dict[str, Any]) -> str:
    """What was installed, and how busy the machine was."""
    heads = ("measured", "versions", "load of the machine")
    rows = []
    for result in found.values():
        versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
        load = max(result["load_before"], result["load_after"])
        rows.append(
            (result["peer"], versions, f"{load:.1f}, **loaded**" if load > QUIET else "quiet")
        )
    return _table(heads, rows)


def _few(number: float) -> str:
    """Two or three figures that mean something."""
    return (
        f"{number:,.0f}" if number >= 100 else f"{number:.2g}" if number < 10 else f"{number:.0f}"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [heads, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


TABLES = (table_of_steps, table_of_learning, table_of_versions)


def with_tables(page: str, found: dict[str, Any]) -> str:
    """The page with each table in the place of the one that has its heads."""
    for table in TABLES:
        new = table(found)
        head = new.splitlines()[0]
        before, _, rest = page.partition(head)
        if not rest:
            raise SystemExit(f"{PAGE.name} has no table with the heads {head}")
        page = before + new + "\n\n" + rest.partition("\n\n")[2]
    return page


def draw(found: dict[str, Any]) -> None:
    """Accuracy over CPU time, and how many times longer a step takes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 7), layout="constrained")
    left, right = figure.subplots(2, 1, height_ratios=(2, 3))
    for number, result in enumerate(found.values()):
        for place, run in enumerate(result["learning"]):
            seconds = [0, *(point["cpu_s"] for point in run["curve"])]
            accuracy = [1 / 19, *(point["accuracy"] for point in run["curve"])]
            name = result["peer"] if place == 0 else None
            left.plot(seconds, accuracy, f"C{number}.-", linewidth=1, label=name)
    left.set(xlabel="CPU seconds of training", ylabel="test sums right", ylim=(0, 1))
    left.set_title("sum of two digits", fontsize=11)
    left.legend(fontsize=9, loc="center right", bbox_to_anchor=(-0.2, 0.5), frameon=False)
    names, ratios = [], []
    for result in found.values():
        for case in result["cases"]:
            names.append(f"{result['peer']}: {case['name']}")
            ratios.append(case["theirs_cpu_ms"] / case["ours_cpu_ms"])
    colours = ["#3b6fb6" if ratio >= 1 else "#e08e3c" for ratio in ratios]
    right.barh(names, [ratio - 1 for ratio in ratios], left=1, color=colours)
    right.axvline(1, color="#222222", linewidth=1)
    right.set(xscale="log", xlabel="its CPU time ÷ Dolphin's")
    right.invert_yaxis()
    right.tick_params(axis="y", labelsize=9)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Measure, then write tables and picture."""
    parser = argparse.ArgumentParser(description="Measure Dolphin beside other systems.")
    parser.add_argument("--only", nargs="+", choices=list(PLACES), metavar="NAME", default=None)
    parser.add_argument("--seconds", type=float, default=30.0, help="CPU seconds of learning")
    parser.add_argument("--seeds", type=int, default=3, help="how often each of them learns")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if not options.tables:
        for name in options.only or PLACES:
            measure(name, options.seconds, options.seeds)
    found = results()
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    draw(found)
    print(f"{PAGE.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)} say what was measured")


if __name__ == "__main__":
    sys.exit(main())
