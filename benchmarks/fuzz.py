"""Random programs against the definitions: `tests/support/fuzzing` as a command.

    python benchmarks/fuzz.py --programs 100000 --jobs 2

Every seed is one program under one provenance. A failure is shown as the smallest script that still
fails in the same way; the exit code is 1 if there is any. A program that takes longer than
`--seconds` is a failure, too, and so is one that its process dies of. Ctrl-C ends the run with a
report of what has run so far.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from fuzzing import campaign, processes  # pyright: ignore[reportMissingImports]

CHUNK = 100  # programs that a process takes at a time


def _run(seeds: range, note: Callable[[int], None], seconds: float) -> campaign.Tally:
    torch.set_num_threads(1)
    return campaign.run(seeds, seconds, note)


def main() -> int:
    """Run the programs and print what became of them."""
    parser = argparse.ArgumentParser(description="Random programs against the definitions.")
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per program")
    options = parser.parse_args()
    last = options.seed + options.programs
    chunks = [range(start, min(start + CHUNK, last)) for start in range(options.seed, last, CHUNK)]
    total, start = campaign.Tally(), time.perf_counter()
    run = functools.partial(_run, seconds=options.seconds)
    stuck = (2 + campaign.SHRINKING) * options.seconds
    with contextlib.suppress(KeyboardInterrupt):
        for tally in processes.in_processes(run, chunks, options.jobs, campaign.lost, stuck):
            total.add(tally)
            rate = total.programs / (time.perf_counter() - start)
            print(
                f"\r{total.programs:,} of {options.programs:,} programs, {rate:.0f} per second, "
                f"{len(total.failures)} failures",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print(file=sys.stderr)
    print("\n".join(campaign.report(total)))
    return int(bool(total.failures))


if __name__ == "__main__":
    sys.exit(main())
