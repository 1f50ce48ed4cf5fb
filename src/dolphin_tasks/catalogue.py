"""All tasks that the trainer and the command line know, and those of other packages."""

from __future__ import annotations

import importlib
import sys
from contextvars import ContextVar
from importlib.metadata import entry_points
from typing import Any

from dolphin_tasks.add_n.task import AddTask
from dolphin_tasks.clutrr.task import ClutrrTask
from dolphin_tasks.hwf.task import HwfTask
from dolphin_tasks.member.task import MemberTask
from dolphin_tasks.mugen.task import MugenTask
from dolphin_tasks.pathfinder.task import PathfinderTask
from dolphin_tasks.product_n.task import ProductTask
from dolphin_tasks.scenes.task import ScenesTask
from dolphin_tasks.shortcuts.task import EvenOddTask, HalfTask
from dolphin_tasks.sudoku.solving import Sudoku9Task
from dolphin_tasks.sudoku.validity import SudokuTask
from dolphin_tasks.sum_n.task import SumTask
from dolphin_tasks.terrain.task import TerrainTask
from dolphin_tasks.training.checks import check_class
from dolphin_tasks.training.config import OptionError
from dolphin_tasks.training.task import Task
from dolphin_tasks.words.task import WordsTask

TASKS: dict[str, type[Task[Any, Any]]] = {
    task.name: task
    for task in (
        SumTask,
        ProductTask,
        AddTask,
        HalfTask,
        EvenOddTask,
        HwfTask,
        PathfinderTask,
        ClutrrTask,
        MugenTask,
        ScenesTask,
        WordsTask,
        MemberTask,
        SudokuTask,
        Sudoku9Task,
        TerrainTask,
    )
}
GROUP = "dolphin.tasks"
"""The group of entry points in which other packages name their tasks."""
GUARD = 'put what it runs under `if __name__ == "__main__":`'

importing: ContextVar[str] = ContextVar("importing", default="")
"""The module that is being imported for its task: it must not start a command meanwhile."""


def find_task(name: str) -> type[Task[Any, Any]]:
    """The task of this name, of an installed package, or at `module:Class`.

    >>> find_task("sum").name, find_task("dolphin_tasks.sum_n.task:SumTask").name
    ('sum', 'sum')
    """
    if name in TASKS:
        return TASKS[name]
    if ":" in name:
        return _import_task(name)
    for entry in entry_points(group=GROUP, name=name):
        return _import_task(entry.value)
    others = ", ".join([*TASKS, *installed()])
    raise OptionError(f"there is no task {name!r}. Tasks: {others}; or module:Class for your own.")


def installed() -> dict[str, str]:
    """The tasks of other packages, and where each one is; nothing is imported."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


def reference(task: type[Task[Any, Any]]) -> str:
    """The name by which `find_task` finds this task.

    >>> reference(SumTask)
    'sum'
    """
    if TASKS.get(task.name) is task:
        return task.name
    return f"{task.__module__}:{task.__qualname__}"


def _import_task(place: str) -> type[Task[Any, Any]]:
    module_name, _, class_name = place.partition(":")
    if "" not in sys.path:  # modules in the current folder
        sys.path.insert(0, "")
    token = importing.set(module_name)
    try:
        target: Any = importlib.import_module(module_name)
    except OptionError:
        raise
    except SystemExit:
        raise OptionError(f"{module_name} ends when it is imported: {GUARD}.") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise OptionError(f"{module_name} can't be imported ({reason}).") from error
    finally:
        importing.reset(token)
    for part in class_name.split("."):
        target = getattr(target, part, None)
    if not (isinstance(target, type) and issubclass(target, Task)):
        raise OptionError(
            f"{module_name} has no task {class_name!r}: a subclass of "
            "dolphin_tasks.training.task.Task."
        )
    check_class(target)
    return target
