"""Memory over many steps: formulas of 19 symbols with fresh inputs at every one of them.

Every step brings formulas that were never seen, so symbol tables and remembered results would grow
without end if they were not bounded. What the process holds is printed as it runs.

    python benchmarks/long_run.py --steps 10000 --json benchmarks/results/long_run.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

import dolphin as dl
from dolphin_tasks.bench.formulas import Formula
from dolphin_tasks.bench.memory import held_memory


def main() -> None:
    """Train for `--steps` steps without a network; report what is held twenty times."""
    parser = argparse.ArgumentParser(description="Memory of hwf-19 over many steps.")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=19)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    program, generator = Formula(args.length), torch.Generator().manual_seed(0)
    every = max(1, args.steps // 20)
    found = []
    print(f"{'step':>7} {'MB held':>9} {'symbols':>9} {'remembered':>11} {'restarts':>9} {'s':>7}")
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        scores, labels = program.draw(args.batch, "early", generator)
        with dl.using(dl.TopKProofs(k=3)):
            program.loss(scores.requires_grad_(), labels).backward()
        if step % every == 0:
            info = dl.cache_info()
            line = {
                "step": step,
                "held_mb": held_memory() / 2**20,
                "symbols": info.symbols,
                "remembered": info.remembered,
                "restarts": info.restarts,
                "seconds": time.perf_counter() - start,
            }
            found.append(line)
            print(
                f"{step:>7,} {line['held_mb']:>9.0f} {line['symbols']:>9,} "
                f"{line['remembered']:>11,} {line['restarts']:>9} {line['seconds']:>7.0f}",
                flush=True,
            )
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
