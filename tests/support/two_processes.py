"""Code that runs in two processes, which are told of each other as torchrun tells them.

Where even plain torch can't train in two processes, the test is skipped with what torch says.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from python_process import Ended, run_together

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


def check(both: list[Ended]) -> None:
    """Both have done their work, or the test is skipped where plain torch can't do any."""
    if any(one.code for one in both):
        reason = _why_torch_itself_fails()
        if reason:
            pytest.skip(f"torch.distributed doesn't work on this machine: {reason}")
    assert [one.code for one in both] == [0, 0], both


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
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        # They meet on this machine, whatever its name stands for in a network.
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
    }
    ranks = [{**environment, "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    return run_together([command] * 2, ranks)


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
