"""All tasks that the trainer and the command line know."""

from __future__ import annotations

from typing import Any

from dolphin_tasks.add_n.task import AddTask
from dolphin_tasks.clutrr.task import ClutrrTask
from dolphin_tasks.hwf.task import HwfTask
from dolphin_tasks.mugen.task import MugenTask
from dolphin_tasks.pathfinder.task import PathfinderTask
from dolphin_tasks.product_n.task import ProductTask
from dolphin_tasks.sum_n.task import SumTask
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.task import Task
from dolphin_tasks.words.task import WordsTask

TASKS: dict[str, type[Task[Any, Any]]] = {
    task.name: task
    for task in (
        SumTask,
        ProductTask,
        AddTask,
        HwfTask,
        PathfinderTask,
        ClutrrTask,
        MugenTask,
        WordsTask,
    )
}


def find_task(name: str) -> type[Task[Any, Any]]:
    """The task of this name.

    >>> find_task("sum").name
    'sum'
    """
    if name not in TASKS:
        raise OptionError(f"there is no task {name!r}. Tasks: {', '.join(TASKS)}.")
    return TASKS[name]
