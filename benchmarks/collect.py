"""Keep the results of runs as JSON, and put all that is kept into the tables of the docs.

    python benchmarks/collect.py runs/*
    python benchmarks/collect.py --check      # writes nothing; fails if a table is out of date

Each run folder with a `results.json` becomes `benchmarks/results/training/NAME.json`: the results
and every epoch. The tables are made of these files, whenever they were measured, and of what
`dolphin bench --json`, `shares.py`, `scaling.py`, `against_literal.py` and `distance.py` wrote.
`benchmarks/results/one-margin/` holds runs of PathFinder on images of the first edition, whose
dashes are one margin apart and not two.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dolphin_tasks.catalogue import find_task
from dolphin_tasks.training.folder import RunFolder

HERE = Path(__file__).parent
RESULTS = HERE / "results"
KEPT, ONE_MARGIN = RESULTS / "training", RESULTS / "one-margin"
DOCS = HERE.parent / "docs"
TOLD = {"n", "length", "size", "train_chains", "train_size", "epochs", "seed"}  # in any case
ELSEWHERE = {"out", "resume", "data_dir", "download", "device", "threads"}  # change no result


def keep(run: Path) -> None:
    """Copy what a run found, without the folders of the machine that it ran on."""
    folder = RunFolder(run)
    results = folder.read_json("results.json")
    results["config"] = {k: v for k, v in results["config"].items() if k not in ELSEWHERE}
    results["history"] = folder.read_metrics()
    (KEPT / f"{run.name}.json").write_text(json.dumps(results, indent=1) + "\n")


def command(results: dict[str, Any]) -> str:
    """The options that differ from their defaults, after `dolphin train`."""
    fields = dataclasses.fields(find_task(results["task"]).config_class)
    parts = [results["task"]]
    for field in fields:
        value = results["config"].get(field.name)
        flag = field.name.replace("_", "-")
        usual = value == field.default and field.name not in TOLD
        if field.name in ELSEWHERE or usual or value is None:
            continue
        if isinstance(value, bool):
            parts.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            parts.append(f"--{flag} {value}")
    return " ".join(parts)


def table_of_runs() -> str:
    """Every run that is kept."""
    return _runs("command, after `dolphin train`", KEPT)


def table_of_one_margin() -> str:
    """Runs on images of PathFinder that are easier than the published ones."""
    return _runs("command of the first edition, after `dolphin train`", ONE_MARGIN)


def _runs(head: str, folder: Path) -> str:
    heads = (head, "answers right", "perception", "minutes", "symbolic")
    return _table(heads, [_run(_read(path)) for path in sorted(folder.glob("*.json"))])


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _run(results: dict[str, Any]) -> Sequence[str]:
    perception = results["perception_accuracy"]
    return (
        f"`{command(results)}`",
        f"{results['test_accuracy']:.2%} of {results['test_samples']:,}",
        "" if perception is None else f"{perception:.2%}",
        f"{results['train_seconds'] / 60:.1f}",
        f"{results['symbolic_share']:.1%}",
    )


def table_of_speed() -> str:
    """The last benchmark that is kept."""
    heads = (
        "program", "provenance", "B", "network ms", "symbolic ms", "after the network", "ratio",
        "target", "peak MB", "user calls in a later step",
    )  # fmt: skip
    return _table(heads, [_program(measured) for measured in _read(RESULTS / "bench.json")])


def _program(measured: dict[str, Any]) -> Sequence[str]:
    proofs = "" if measured["k"] is None else f", `k={measured['k']}`"
    symbolic, ratio = measured["forward_s"] + measured["backward_s"], measured["ratio"]
    return (
        f"`{measured['name']}`",  # code doesn't break at a hyphen
        f"`{measured['provenance']}`{proofs}",
        f"{measured['batch']}",
        f"{measured['neural_s'] * 1e3:.0f}",
        f"{symbolic * 1e3:.1f}",
        f"{measured['cold_s'] * 1e3:.1f}",
        f"{ratio:.4f}" if ratio < 0.1 else f"{ratio:.3f}",
        "" if measured["target"] is None else f"{measured['target']:g}",
        "" if measured["peak_mb"] is None else f"{measured['peak_mb']:.0f}",
        f"{measured['udf_calls_later']:,}",
    )


def table_of_shares() -> str:
    """The program's share of a training step."""
    heads = ("`dolphin train`", "share on one thread", "on two", "at most")
    rows = [
        (
            f"`{found['run']}`",
            f"{found['one_thread']:.1%}",
            f"{found['two_threads']:.1%}",
            f"{found['aim']:.0%}",
        )
        for found in _read(RESULTS / "shares.json")
    ]
    return _table(heads, rows)


AIMS: Sequence[Sequence[str]] = (
    ("SumN-5", "96 %", "sum-5-seed*"),
    ("SumN-10", "92 %", "sum-10-seed*"),
    ("SumN-15, images shifted", "90 %", "sum-15-augment-seed*"),
    ("ProductN-4", "96 %", "product-4-seed*"),
    ("ProductN-8", "95 %", "product-8-seed*"),
    ("ProductN-16", "94 %", "product-16-seed*"),
    ("ProductN-20", "92 %", "product-20-seed*"),
    ("AddN-4", "above 93.5 %", "add-4-seed*"),
    ("AddN-15", "above 79.0 %", "add-15-seed*"),
    ("HWF-7, strict split", "95 %", "hwf-7-strict-seed*"),
    ("HWF-7, strict split, 16 epochs", "95 %", "hwf-7-strict-16-seed*"),
    ("HWF-7, the same with every symbol's label", "at most 1 point more",
     "hwf-7-strict-twin-16-seed*"),
    ("HWF-15, strict split", "90 %", "hwf-15-strict-seed*"),
    ("HWF-19, strict split", "88 %", "hwf-19-seed*"),
    ("HWF-7, shared ink", "98 %", "hwf-7-shared-24-seed*"),
    ("HWF-15, shared ink", "96 %", "hwf-15-shared-seed*"),
    ("HWF-19, shared ink", "95 %", "hwf-19-shared-12k-seed*"),
    ("PathFinder-32", "90 %", "pathfinder-32-seed*"),
    ("PathFinder-128", "95 %", "pathfinder-128-seed*"),
    ("PathFinder-128, without a program", "", "pathfinder-128-plain-seed*"),
    ("PathFinder-128, distances balanced", "", "pathfinder-128-balanced-seed*"),
    ("PathFinder-128, 9 dashes", "", "pathfinder-128-9dashes-seed*"),
    ("PathFinder-128, 14 dashes", "", "pathfinder-128-14dashes-seed*"),
    ("PathFinder-256", "95 %", "pathfinder-256-seed*"),
    ("PathFinder-256, without a program", "", "pathfinder-256-plain-seed*"),
    ("CLUTRR-3", "above the paper", "clutrr-3-seed*"),
    ("CLUTRR-4", "above the paper's 53.6 %", "clutrr-4-seed*"),
    ("Mugen-1K, same actions in another order, clip to caption", "", "mugen-1k-seed*",
     "reordered_captions.vtr"),
    ("Mugen-1K, whole test set by sequence, caption to clip, first", "", "mugen-1k-seed*",
     "whole_test_set.tvr_by_sequence.recall@1"),
    ("Mugen-1K, whole test set by sequence, clip to caption, first", "", "mugen-1k-seed*",
     "whole_test_set.vtr_by_sequence.recall@1"),
    ("Mugen-1K, groups of 3", "96 %", "mugen-1k-seed*"),
    ("Mugen-5K, groups of 3", "96 %", "mugen-5k-seed*"),
    ("Sudoku 4×4, 2,000 boards", "", "sudoku-seed*"),
    ("Sudoku 4×4, 200 boards, a split each", "in the 90s", "sudoku-200-seed*"),
    ("Sudoku 9×9, 9,000 puzzles, solved", "above the published 81.5 %", "sudoku-9-9000-seed*"),
    ("Sudoku 9×9, 1,500 puzzles, solved", "above the published 81.5 %", "sudoku-9-1500-seed*"),
    ("Terrain 12×12", "99 %", "terrain-seed*"),
    ("Member, N = 3", "", "member-3-seed*"),
    ("Scene questions", "", "scenes-seed*"),
    ("Half, sums", "", "half-seed*"),
    ("Half, digits", "", "half-seed*", "perception_accuracy"),
    ("Even-Odd, sums", "", "even-odd-seed*"),
    ("Even-Odd, digits", "", "even-odd-seed*", "perception_accuracy"),
)  # fmt: skip
"""What was aimed at, the names of the runs that show what was reached, and the figure of theirs
that shows it, where it isn't `test_accuracy`."""


def table_of_aims() -> str:
    """Means over seeds beside what was aimed at; an aim without a run is listed as such."""
    heads = ("task", "aim", "reached, on average", "lowest and highest", "seeds")
    return _table(heads, [_aim(*aim) for aim in AIMS])


def _aim(name: str, aim: str, pattern: str, figure: str = "test_accuracy") -> Sequence[str]:
    found = [_figure(_read(path), figure) for path in sorted(KEPT.glob(f"{pattern}.json"))]
    shares = [100 * share for share in found if share is not None]
    if not shares:
        return (name, aim, "not measured", "", "0")
    spread = f"{min(shares):.1f} … {max(shares):.1f}" if len(shares) > 1 else ""
    return (name, aim, f"{statistics.mean(shares):.1f} %", spread, str(len(shares)))


def _figure(results: dict[str, Any], name: str) -> float | None:
    """A figure by its name, dots between levels; None where a run is older than the figure."""
    found: Any = results
    for part in name.split("."):
        found = None if found is None else found.get(part)
    return found["right"] / found["total"] if isinstance(found, dict) else found


def table_of_distances() -> str:
    """PathFinder from the distance between the discs alone."""
    heads = (
        "size", "dashes", "pixels between joined discs", "between discs apart",
        "answers right from the distance", "with `--balance distance`",
    )  # fmt: skip
    rows = [
        (
            str(found["size"]),
            str(found["dashes"]),
            f"{found['joined_pixels']:.1f}",
            f"{found['apart_pixels']:.1f}",
            f"{found['accuracy']:.1%}",
            f"{found['balanced_accuracy']:.1%}",
        )
        for found in _read(RESULTS / "distance.json")
    ]
    return _table(heads, rows)


def table_of_scaling() -> str:
    """Milliseconds of a whole step and of its symbolic stage, by the number of rows."""
    found = _read(RESULTS / "scaling.json")
    batches = sorted({measured["batch"] for measured in found})
    lines: dict[str, dict[int, float]] = {}
    for measured in found:
        proofs = "" if measured["k"] is None else f", k = {measured['k']}"
        name = f"{measured['name']}, {measured['provenance']}{proofs}"
        lines.setdefault(f"{name}: whole step, ms", {})[measured["batch"]] = measured["step_s"]
        stage = f"{name}: symbolic stage"
        lines.setdefault(stage, {})[measured["batch"]] = measured["symbolic_stage_s"]
    rows = [
        (name, *(_ms(line[batch]) if batch in line else "" for batch in batches))
        for name, line in lines.items()
    ]
    return _table(("B", *map(str, batches)), rows)


def _ms(seconds: float) -> str:
    """Milliseconds with three digits."""
    value = 1e3 * seconds
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def table_against_literal() -> str:
    """Speed beside the definitions, evaluated as they stand."""
    heads = ("program", "Dolphin", "literally", "faster", "largest difference of probabilities")
    rows = [
        (
            f"{found['name']}, k = {found['k']}",
            f"{1e3 * found['dolphin_s']:.0f} ms",
            f"{found['literal_s']:.3g} s",
            f"{found['speedup']:,.0f} times",
            f"{found['largest_difference']:.0e}",
        )
        for found in _read(RESULTS / "against_literal.json")
    ]
    return _table(heads, rows)


def table_of_pathfinder() -> str:
    """How PathFinder learns, and what the distance between the discs alone answers."""
    heads = (
        "`dolphin train pathfinder`", "samples seen", "validation after each epoch",
        "test accuracy", "from the distance alone",
    )  # fmt: skip
    rows = []
    for path in sorted(KEPT.glob("pathfinder-*.json"), key=_by_size):
        found = _read(path)
        epochs = [100 * epoch["validation_accuracy"] for epoch in found["history"]]
        rows.append(
            (
                f"`{command(found).removeprefix('pathfinder ')}`",
                f"{found['history'][-1]['samples_seen']:,}",
                ", ".join(f"{share:.1f}" for share in epochs) + " %",
                f"**{found['test_accuracy']:.1%}** of {found['test_samples']:,}",
                f"{found['distance_accuracy']:.1%}",
            )
        )
    return _table(heads, rows)


def _by_size(path: Path) -> tuple[int, int, str]:
    config = _read(path)["config"]
    return config["dashes"], config["size"], path.name


PAGES: dict[Path, Sequence[Callable[[], str]]] = {
    DOCS / "benchmarks.md": (
        table_of_runs, table_of_one_margin, table_of_aims, table_of_distances, table_of_speed,
        table_of_shares, table_of_scaling, table_against_literal,
    ),
    DOCS / "pathfinder.md": (table_of_pathfinder,),
}  # fmt: skip


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def replaced(page: str, table: str) -> str:
    """A page with this table instead of the one with the same heads."""
    before, found, after = page.partition(table.splitlines()[0] + "\n")
    if not found:
        raise SystemExit(f"there is no table with the heads {table.splitlines()[0]}")
    lines = after.split("\n")
    end = next(number for number, line in enumerate(lines) if not line.startswith("|"))
    return before + table + "\n" + "\n".join(lines[end:])


def main() -> None:
    """Keep the runs that are named, and bring the pages up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path, help="run folders")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    options = parser.parse_args()
    if options.check and options.runs:
        parser.error("--check looks at what is kept; leave out the run folders")
    for run in options.runs:
        keep(run)
    for path, tables in PAGES.items():
        before = page = path.read_text()
        for table in tables:
            page = replaced(page, table())
        if options.check and page != before:
            raise SystemExit(f"{path.name} is out of date: run python benchmarks/collect.py")
        if not options.check:
            path.write_text(page)
    if not options.check:
        print(f"{len(list(KEPT.glob('*.json')))} runs in {' and '.join(p.name for p in PAGES)}")


if __name__ == "__main__":
    main()
