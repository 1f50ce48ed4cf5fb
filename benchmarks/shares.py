"""The program's share of a training step, in `dolphin train` with default options.

    python benchmarks/shares.py                 # about ten minutes on two idle cores
    python benchmarks/shares.py clutrr hwf      # only these tasks; the others stay as they are

Each run takes few samples, with one and with two threads. The share is that of `results.json`: the
median over the last 200 steps. Frozen text encoders read a story once, so CLUTRR takes four epochs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS: tuple[tuple[str, float], ...] = (
    ("hwf --length 7 --train-samples 3000", 0.10),
    ("hwf --length 15 --no-curriculum --train-samples 1500", 0.10),
    ("hwf --length 19 --no-curriculum --train-samples 1200", 0.10),
    ("clutrr --train-chains 3 --encoder minilm --epochs 4 --train-samples 2000", 0.12),
    ("clutrr --train-chains 4 --encoder minilm --epochs 4 --train-samples 2000", 0.12),
    ("pathfinder --size 32 --train-samples 3000", 0.20),
    ("pathfinder --size 128 --train-samples 2000", 0.20),
    ("pathfinder --size 256 --train-samples 1500", 0.20),
    ("product --n 16 --train-samples 1500", 0.15),
    ("product --n 20 --train-samples 1200", 0.25),
    ("add --n 4 --train-samples 3000", 0.05),
    ("add --n 15 --train-samples 800", 0.10),
    ("sum --n 5 --train-samples 5000", 0.02),
    ("sum --n 15 --train-samples 2000", 0.02),
    ("mugen --train-size 600", 0.10),
)
"""Options of `dolphin train`, and the share that is aimed at."""
COMMON = ("--epochs", "1", "--test-samples", "64")
KEPT = Path(__file__).parent / "results" / "shares.json"


def share(options: str, threads: int) -> float:
    """The share of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        given = options.split()
        common = [] if "--epochs" in given else COMMON[:2]
        command = [sys.executable, "-m", "dolphin", "train", *given, *common, *COMMON[2:]]
        subprocess.run(  # noqa: S603  the commands are those above
            [*command, "--threads", str(threads), "--out", str(out)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return json.loads((out / "results.json").read_text())["symbolic_share"]


def main() -> None:
    """Measure the tasks that are named, and keep the figures of the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tasks", nargs="*", help="tasks to measure (default: all)")
    tasks = parser.parse_args().tasks
    known = {each["run"]: each for each in json.loads(KEPT.read_text())} if KEPT.exists() else {}
    for options, aim in RUNS:
        if not tasks or options.split()[0] in tasks:
            one, two = share(options, 1), share(options, 2)
            known[options] = {"run": options, "one_thread": one, "two_threads": two, "aim": aim}
            print(
                f"{options}: {one:.1%} on one thread, {two:.1%} on two (aim {aim:.0%})", flush=True
            )
            kept = [known[options] for options, _ in RUNS if options in known]
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")  # a later run may fail


if __name__ == "__main__":
    main()
