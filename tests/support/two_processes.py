"""Code that runs in two processes, which are told of each other as torchrun tells them.

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
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

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
    both = launch(*command)
    check(both)
    return "".join(one.output for one in both)


class Ended(NamedTuple):
    """How a process has ended, and what it wrote."""

    code: int
    output: str
    errors: str


def check(both: list[Ended]) -> None:
    """Both have done their work, or the test is skipped where plain torch can't do any."""
    if any(one.code for one in both):
        reason = _why_torch_itself_fails()
        if reason:
            pytest.skip(f"torch.distributed doesn't work on this machine: {reason}")
    assert [one.code for one in both] == [0, 0], [one.errors for one in both]


@functools.cache
def _why_torch_itself_fails() -> str:
    """Empty where two processes can train without Dolphin."""
    both = launch(__file__, __file__, plain_step.__name__, "")
    return "".join(one.errors[-500:] for one in both if one.code != 0)


def plain_step(folder: Path) -> None:
    """A step of training that has nothing to do with Dolphin."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    model(torch.ones(1, 2)).sum().backward()


def launch(*command: str | Path) -> list[Ended]:
    """Run a script in two processes, for a limited time."""
    path = [str(SOURCES), str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        # They meet on this machine, whatever its name stands for in a network.
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
    }
    # Files, not pipes: whoever outlives its parent keeps a pipe open, and its reader waiting.
    with (
        TemporaryFile("w+") as output, TemporaryFile("w+") as errors,
        TemporaryFile("w+") as other_output, TemporaryFile("w+") as other_errors,
    ):  # fmt: skip
        files = [(output, errors), (other_output, other_errors)]
        processes = [
            _start(command, {**environment, "RANK": rank, "LOCAL_RANK": rank}, *own)
            for rank, own in zip("01", files, strict=True)
        ]
        deadline = time.monotonic() + SECONDS
        try:
            for process in processes:
                process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            errors.write(f"\nnot finished after {SECONDS} seconds")
        finally:
            for process in processes:
                process.kill()
        return [
            Ended(process.wait(), *map(_written, own))
            for process, own in zip(processes, files, strict=True)
        ]


def _start(
    command: tuple[str | Path, ...], environment: Mapping[str, str], output: IO, errors: IO
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
    )


def _written(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


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
