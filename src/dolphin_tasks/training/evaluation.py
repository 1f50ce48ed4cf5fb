"""How good a network is on a split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dolphin_tasks.training.checks import check_marks, check_perceived
from dolphin_tasks.training.processes import Processes
from dolphin_tasks.training.task import Samples, Task

EVALUATION_BATCH = 250


@dataclass(frozen=True)
class Evaluation:
    """Right answers, confusions of the perception (true class, read class), answers by group."""

    right: int
    total: int
    confusions: Tensor
    groups: dict[str, dict[str, int]]
    """`right` and `total` of each group of samples that the task distinguishes."""

    @property
    def accuracy(self) -> float:
        """The share of right answers, 0 without any samples."""
        return self.right / max(1, self.total)

    @property
    def perception_accuracy(self) -> float | None:
        """The share of inputs that were read right, where it is known what they show."""
        total = int(self.confusions.sum())
        return int(self.confusions.diag().sum()) / total if total else None

    @property
    def perception_note(self) -> str:
        """What to add to a line about answers."""
        share = self.perception_accuracy
        return "" if share is None else f", perception {share:.2%}"


def near_tie(accuracy: float, best: float, rows: int) -> bool:
    """Whether this many validation rows can't distinguish this accuracy from the best one.

    That is within one standard error of the best. A few hundred rows say little about a tenth of a
    percent, so among near-ties the later epoch is taken, which has learnt for longer.

    >>> near_tie(0.955, 0.960, rows=600), near_tie(0.945, 0.960, rows=600)
    (True, False)
    """
    if accuracy >= best:
        return True
    share = (best * rows + 1) / (rows + 2)  # all rows right is not certainty
    return accuracy >= best - math.sqrt(share * (1 - share) / max(1, rows))


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
    groups = torch.zeros(len(task.group_names), 2, dtype=torch.int64)
    # an empty tensor would be split into one empty part
    for index in mine.split(EVALUATION_BATCH) if len(mine) else ():
        between()
        batch = samples.batch(index)
        outputs = task.read(network, batch)
        marks = task.right(task.answers(outputs, batch), batch)
        check_marks(task, marks, len(index))
        right += sum(marks)
        if task.group_names:
            members, marked = torch.tensor(task.groups(batch)), torch.tensor(marks).long()
            groups.index_add_(0, members, torch.stack([marked, torch.ones_like(marked)], dim=1))
        read, true = task.perceived(outputs, batch)
        check_perceived(task, read, true)
        pairs = true.cpu() * classes + read.cpu()
        confusions += torch.bincount(pairs, minlength=classes**2).view(classes, classes)
    parts = [torch.tensor([right]), confusions.view(-1), groups.view(-1)]
    whole, confused, grouped = processes.sum(torch.cat(parts)).split([len(p) for p in parts])
    counts = zip(task.group_names, grouped.view(-1, 2).tolist(), strict=True)
    by_group = {name: {"right": r, "total": n} for name, (r, n) in counts if n}
    return Evaluation(int(whole), count, confused.view(classes, classes), by_group)


def further_lines(figures: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """A task's further figures as lines: shares, counts of right answers, and groups of them.

    >>> figures = {"recall": {"at_1": 0.5}, "read": {"right": 3, "total": 4}}
    >>> list(further_lines(figures | {"nothing": {"right": 0, "total": 0}}))
    ['recall, at 1: 50.00%', 'read: 75.00% of 4']
    """
    for key, value in figures.items():
        name = f"{above}{key.replace('_', ' ')}"
        if isinstance(value, Mapping):
            if set(value) == {"right", "total"}:
                if value["total"]:
                    share = value["right"] / value["total"]
                    yield f"{name}: {share:.2%} of {value['total']:,}"
            else:
                yield from further_lines(value, f"{name}, ")
        else:
            yield f"{name}: {value:.2%}" if isinstance(value, float) else f"{name}: {value}"
