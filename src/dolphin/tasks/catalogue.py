"""All tasks that the trainer and the command line know."""

from __future__ import annotations

from typing import Any

from dolphin.tasks.add_n.task import AddTask
from dolphin.tasks.clutrr.task import ClutrrTask
from dolphin.tasks.hwf.task import HwfTask
from dolphin.tasks.mugen.task import MugenTask
from dolphin.tasks.pathfinder.task import PathfinderTask
from dolphin.tasks.product_n.task import ProductTask
from dolphin.tasks.sum_n.task import SumTask
from dolphin.training.config import OptionError
from dolphin.training.task import Task

TASKS: dict[str, type[Task[Any, Any]]] = {
    task.name: task
    for task in (SumTask, ProductTask, AddTask, HwfTask, PathfinderTask, ClutrrTask, MugenTask)
}


def find_task(name: str) -> type[Task[Any, Any]]:
    """The task of this name.

    >>> find_task("sum").name
    'sum'
    """
    if name not in TASKS:
        raise OptionError(f"there is no task {name!r}. Tasks: {', '.join(TASKS)}.")
    return TASKS[name]
