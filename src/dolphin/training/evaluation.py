"""How good a network is on a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dolphin.training.processes import Processes
from dolphin.training.task import Samples, Task

EVALUATION_BATCH = 250


@dataclass(frozen=True)
class Evaluation:
    """Right answers, and confusions of the perception (true class, read class)."""

    right: int
    total: int
    confusions: Tensor

    @property
    def accuracy(self) -> float:
        """The share of right answers, 0 without any samples."""
        return self.right / max(1, self.total)

    @property
    def perception_accuracy(self) -> float:
        """The share of inputs that were read right."""
        return int(self.confusions.diag().sum()) / max(1, int(self.confusions.sum()))


@torch.no_grad()
def evaluate(
    task: Task[Any, Any],
    network: nn.Module,
    samples: Samples[Any],
    processes: Processes,
    *,
    limit: int | None = None,
    between: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Answer every sample, each process its share; `between` is called between batches."""
    network.eval()
    count = len(samples) if limit is None else min(limit, len(samples))
    mine = torch.arange(count)[processes.share(count)]
    classes = len(task.classes)
    confusions = torch.zeros(classes, classes, dtype=torch.int64)
    right = 0
    for index in mine.split(EVALUATION_BATCH):
        between()
        batch = samples.batch(index)
        outputs = task.read(network, batch)
        right += sum(task.right(task.answers(outputs, batch), batch))
        read, true = task.perceived(outputs, batch)
        pairs = true.cpu() * classes + read.cpu()
        confusions += torch.bincount(pairs, minlength=classes**2).view(classes, classes)
    summed = processes.sum(torch.cat([torch.tensor([right]), confusions.view(-1)]))
    return Evaluation(int(summed[0]), count, summed[1:].view(classes, classes))
