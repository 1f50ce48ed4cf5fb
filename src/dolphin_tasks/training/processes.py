"""One process or several: which has which rows, and sums over all of them.

`accelerate launch` and `torchrun` tell each process its place in environment variables. Gradients
are summed over processes in one call after the backward pass.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dolphin_tasks.training.config import OptionError


class Processes:
    """This process among the others."""

    def __init__(self, device: str = "cpu") -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.device = _device(device, int(os.environ.get("LOCAL_RANK", "0")))
        if self.size > 1:
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """This process's part of `count` rows: contiguous, nearly equal."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size == 1:
            return values
        total = values.to(self.device, copy=True)
        dist.all_reduce(total)
        return total.to(values.device)

    def sum_gradients(self, parameters: Iterable[nn.Parameter], flag: bool) -> bool:
        """Sum gradients over all processes, in place. Returns whether any of them set the flag."""
        if self.size == 1:
            return flag
        used = [p for p in parameters if p.requires_grad]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in used]
        flat = torch.cat([g.reshape(-1) for g in grads] + [grads[0].new_tensor([float(flag)])])
        dist.all_reduce(flat)
        parts = flat[:-1].split([p.numel() for p in used])
        for parameter, part in zip(used, parts, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        return bool(flat[-1] > 0)

    def average_buffers(self, network: nn.Module) -> None:
        """The same running statistics (batch norm) everywhere: their mean over processes."""
        if self.size == 1:
            return
        for buffer in network.buffers():
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer.div_(self.size)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()

    def stop(self) -> None:
        """Leave the group."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def _device(name: str, local_rank: int) -> torch.device:
    if name == "auto":
        if torch.cuda.is_available():
            name = f"cuda:{local_rank % torch.cuda.device_count()}"
        else:
            name = "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"--device {name} can't be used here: {reason}") from None
    return device
