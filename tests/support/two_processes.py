"""Code that runs in two processes, started by torchrun as users start them.

Nothing here can hang: processes that take too long are ended. Where even plain torch can't train
in two processes, the test is skipped with what torch says.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
import torch
import torch.distributed as dist

SECONDS = 100
SUPPORT = Path(__file__).parent
SOURCES = SUPPORT.parents[1] / "src"


def call_in_two_processes(function: Callable[[Path], Any], folder: Path) -> None:
    """Call a function of a module in two processes that know each other."""
    file = sys.modules[function.__module__].__file__
    assert file is not None
    run_in_two_processes(__file__, file, function.__name__, folder)


def run_in_two_processes(*command: str | Path) -> str:
    """What a script prints in two processes."""
    code, output, errors = _launch(*command)
    if code != 0:
        reason = _why_torch_itself_fails()
        if reason:
            pytest.skip(f"torch.distributed doesn't work on this machine: {reason}")
    assert code == 0, errors
    return output


@functools.cache
def _why_torch_itself_fails() -> str:
    """Empty where two processes can train without Dolphin."""
    code, _, errors = _launch(__file__, __file__, plain_step.__name__, "")
    return "" if code == 0 else errors[-1000:]


def plain_step(folder: Path) -> None:
    """A step of training that has nothing to do with Dolphin."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    model(torch.ones(1, 2)).sum().backward()


def _launch(*command: str | Path) -> tuple[int, str, str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1"]
    torchrun += ["--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    torchrun += ["--master-port", str(_free_port())]
    path = [str(SOURCES), str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    # Files, not pipes: whoever outlives its parent keeps a pipe open, and its reader waiting.
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*torchrun, *map(str, command)], env=environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
        )  # fmt: skip
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = -1
            process.terminate()  # torchrun then ends its processes, and kills them after 30 seconds
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
            errors.write(f"\nnot finished after {SECONDS} seconds")
        output.seek(0)
        errors.seek(0)
        return code, output.read(), errors.read()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _main(file: str, name: str, folder: str) -> None:
    spec = importlib.util.spec_from_file_location("in_two_processes", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    dist.init_process_group("gloo")
    try:
        getattr(module, name)(Path(folder))
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    _main(*sys.argv[1:])
