"""A plot of what `dolphin bench --json FILE` has measured.

python -m dolphin bench --json benchmarks/results/bench.json
python benchmarks/plot.py benchmarks/results/bench.json --out benchmarks/results/bench.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

FORWARD, BACKWARD, TARGET = "#3b6fb6", "#e08e3c", "#222222"


def label(line: dict[str, Any]) -> str:
    """What a bar stands for."""
    k = "" if line.get("k") is None else f" k={line['k']}"
    return f"{line['name']}  ({line['provenance']}{k}, B={line['batch']})"


def draw(lines: list[dict[str, Any]], out: Path) -> None:
    """Symbolic time as a share of the network's, forward and backward apart, with targets."""
    figure, axes = plt.subplots(figsize=(9, 0.42 * len(lines) + 1.4), layout="constrained")
    places = range(len(lines))
    forward = [line["forward_s"] / line["neural_s"] for line in lines]
    backward = [line["backward_s"] / line["neural_s"] for line in lines]
    both = [f + b for f, b in zip(forward, backward, strict=True)]
    # On a logarithmic axis a stacked bar would lie about its second part: show two thin bars.
    axes.barh([p - 0.18 for p in places], forward, 0.34, color=FORWARD, label="forward")
    axes.barh([p + 0.18 for p in places], backward, 0.34, color=BACKWARD, label="backward")
    targets = [(p, line["target"]) for p, line in zip(places, lines, strict=True)
               if line.get("target") is not None]  # fmt: skip
    if targets:
        rows, values = zip(*targets, strict=True)
        axes.scatter(
            values, rows, marker="|", s=320, color=TARGET, label="target of both", zorder=3
        )
    axes.set_xscale("log")
    right = 2 * max([*both, *(value for _, value in targets)])
    axes.set_xlim(min([*forward, *backward]) / 2, 3 * right)
    for place, ratio in zip(places, both, strict=True):
        axes.text(right, place, f"{ratio:.3f}", va="center", ha="left", fontsize=9)
    axes.text(right, -0.85, "both", va="center", ha="left", fontsize=9, weight="bold")
    axes.axvline(1.0, color="#bbbbbb", linewidth=0.8, zorder=0)
    axes.set_yticks(list(places), [label(line) for line in lines])
    axes.invert_yaxis()
    axes.set_xlabel("symbolic time ÷ time of the network, forward + backward (logarithmic)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, 1.06), ncols=3, frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)
    plt.close(figure)


def main() -> None:
    """Read the file, draw, say where the picture is."""
    parser = argparse.ArgumentParser(description="Plot the results of `dolphin bench --json`.")
    parser.add_argument("file", type=Path, help="what `dolphin bench --json` has written")
    parser.add_argument("--out", type=Path, help="the picture (default: beside FILE, as .png)")
    args = parser.parse_args()
    out = args.out or args.file.with_suffix(".png")
    draw(json.loads(args.file.read_text(encoding="utf-8")), out)
    print(f"picture: {out}")


if __name__ == "__main__":
    main()
