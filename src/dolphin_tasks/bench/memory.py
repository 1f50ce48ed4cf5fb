"""Peak extra memory of the symbolic part, measured in a separate process.

A fresh Python process imports everything, draws the numbers of all steps and does some unrelated
work with torch. What it then holds is the baseline. After a few training steps of the symbolic part
its peak is read from the operating system: the difference is all that the program needed,
plans, caches and gradients included. No network runs in that process.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
from pathlib import Path

import torch

import dolphin as dl
from dolphin.provenance import ProvenanceName
from dolphin_tasks.bench.cases import CASES, Case
from dolphin_tasks.bench.program import Inputs
from dolphin_tasks.bench.timing import Draws

STEPS = 4


def peak_memory(case: Case, inputs: Inputs) -> float:
    """Megabytes (2²⁰ bytes) that the symbolic part of `case` needs at most."""
    place = [same.name for same in CASES].index(case.name)
    request = [place, case.provenance, case.k, case.batch, inputs]
    command = [sys.executable, "-m", "dolphin_tasks.bench.memory", json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"measuring the memory of {case.name} failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])


def _measure(
    place: int, provenance: ProvenanceName, k: int | None, batch: int, inputs: Inputs
) -> float:
    program = CASES[place].program
    algebra = Case("", program, provenance, k).algebra()
    draws = Draws(program, batch, inputs, torch.device("cpu"))
    data = [draws() for _ in range(STEPS)]
    torch.ones(256, 256, requires_grad=True).exp().sum().backward()
    _forget_peak()
    before = held_memory()
    for scores, labels in data:
        with dl.using(algebra):
            program.loss(scores, labels).backward()
    return (_peak() - before) / 2**20


def held_memory() -> int:
    """The bytes that this process holds now, or has held at most where only that is known."""
    return _status("VmRSS:") or _peak()


def _forget_peak() -> None:
    """Reset `_peak`, where the operating system can do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> int:
    """The most bytes that this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    # The operating system's table is right also if a larger process has started this one.
    return _status("VmHWM:") or unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(field: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    return 0


if __name__ == "__main__":
    sys.stdout.write(f"{_measure(*json.loads(sys.argv[1])):.3f}\n")
