"""Scripts that run in processes of their own, which start in a moment.

Most of the start of a process is the import of torch. Here one process imports it, and is forked
for each script. Where processes can't be forked, each imports it anew. Nothing here can hang:
processes that take too long are ended.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

SECONDS = 200
_METHODS = multiprocessing.get_all_start_methods()
CONTEXT = multiprocessing.get_context("forkserver" if "forkserver" in _METHODS else "spawn")
CONTEXT.set_forkserver_preload(
    ["torch", "torch._dynamo", "dolphin_tasks.training.commands"]  # optimizers import the second
)

Command = Sequence[str | Path]
Environment = Mapping[str, str]


class Ended(NamedTuple):
    """How a process has ended, and what it wrote."""

    code: int | None
    output: str
    errors: str


def run(*command: str | Path, environment: Environment | None = None) -> Ended:
    """Run a script with arguments to its end."""
    return run_together([command], [environment])[0]


def run_together(
    commands: Sequence[Command], environments: Sequence[Environment | None]
) -> list[Ended]:
    # Files, not pipes: whoever outlives its parent keeps a pipe open, and its reader waiting.
    with TemporaryDirectory() as folder:
        files = [(Path(folder, f"{n}.out"), Path(folder, f"{n}.err")) for n in range(len(commands))]
        processes = [
            start(command, *own, environment)
            for command, own, environment in zip(commands, files, environments, strict=True)
        ]
        deadline = time.monotonic() + SECONDS
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in processes:
            process.kill()
            process.join()
        return [
            Ended(process.exitcode, *(file.read_text() for file in own))
            for process, own in zip(processes, files, strict=True)
        ]


def start(
    command: Command, output: Path, errors: Path, environment: Environment | None = None
) -> BaseProcess:
    """Start a script, with one thread. What it writes goes to two files."""
    for file in (output, errors):
        file.touch()
    given = [str(each) for each in command]
    names = dict(os.environ if environment is None else environment)
    process = CONTEXT.Process(target=_run, args=(given, str(output), str(errors), names))
    process.start()
    return process


def _run(command: list[str], output: str, errors: str, environment: dict[str, str]) -> None:
    import torch

    for file, number in ((output, 1), (errors, 2)):
        os.dup2(os.open(file, os.O_WRONLY), number)
    faulthandler.dump_traceback_later(SECONDS - 10, file=2)  # where it hangs, if it does
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)
    sys.argv[:] = command
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path(command[0]).parent), *filter(None, folders)]
    runpy.run_path(command[0], run_name="__main__")
