"""What the distance between the discs of PathFinder images answers by itself, and in balanced sets.

    python benchmarks/distance.py

Writes `benchmarks/results/distance.json`, of which `benchmarks/collect.py` makes a table.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dolphin_tasks.pathfinder import data, distance, generator
from dolphin_tasks.training.noise import seed_of

RESULTS = Path(__file__).parent / "results" / "distance.json"
SETS = ((32, 6), (128, 6), (256, 6), (128, 9))


def measure(size: int, dashes: int, train: int, test: int) -> dict[str, Any]:
    """Right answers from the distance alone, in images as drawn and in balanced ones."""
    design = generator.design(size, dashes)
    known, asked = (
        data.load_plans(design, seed_of(0, split), count)  # those that training uses by default
        for split, count in ((0, train), (2, test))
    )
    even, tried = (distance.balanced(plans, design, len(plans), 0) for plans in (known, asked))
    apart = distance.distances(known, design)
    return {
        "size": size,
        "dashes": dashes,
        "train_samples": train,
        "test_samples": test,
        "accuracy": distance.accuracy(known, asked, design),
        "balanced_accuracy": distance.accuracy(even, tried, design),
        "balanced_test_samples": len(tried),
        "joined_pixels": float(apart[known.labels].mean()),
        "apart_pixels": float(apart[~known.labels].mean()),
    }


def main() -> None:
    """Measure all sets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--train", type=int, default=4_000, help="plans to learn the answers from")
    parser.add_argument("--test", type=int, default=4_000, help="plans to answer")
    options = parser.parse_args()
    found = [measure(size, dashes, options.train, options.test) for size, dashes in SETS]
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
