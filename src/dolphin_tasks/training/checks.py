"""What the members of a task return, checked where a mistake would go unnoticed or show up late.

Errors *inside* a task's own code keep their traceback, which shows where they are.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.task import Data, Task


def check_class(task: type[Task[Any, Any]]) -> None:
    """Refuse a class that lacks a part, or whose options are not a dataclass.

    >>> from dolphin_tasks.training.task import Task
    >>> check_class(type("Lamps", (Task,), {"data": None, "network": None}))
    Traceback (most recent call last):
    dolphin_tasks.training.config.OptionError: Lamps has no program(): a task needs data(), ...
    """
    name = task.__name__
    missing = sorted(task.__abstractmethods__)
    own = [part for part in ("losses", "answers") if getattr(task, part) is not getattr(Task, part)]
    if task.program is Task.program and len(own) < 2:
        missing.append("program")
    if missing:
        lacks = " and no ".join(f"{part}()" for part in missing)
        raise OptionError(f"{name} has no {lacks}: a task needs data(), network() and program().")
    options = task.config_class
    if not (isinstance(options, type) and issubclass(options, TrainConfig)):
        raise OptionError(f"{name}.config_class must be a dataclass that inherits TrainConfig.")
    fields = {field.name for field in dataclasses.fields(options)}
    ignored = sorted(inspect.get_annotations(options).keys() - fields)
    if ignored:
        raise OptionError(
            f"{options.__name__} would ignore its option {ignored[0]!r}: write "
            "@dataclass(frozen=True) above the class."
        )


def checked_data(task: Task[Any, Any], data: Any) -> Data[Any]:
    """The splits of a task; each can be counted and gives batches."""
    name = type(task).__name__
    if not isinstance(data, Data):
        raise OptionError(
            f"{name}.data() must return Data(train, validation, test, source), got "
            f"{type(data).__name__}."
        )
    for part in ("train", "validation", "test"):
        samples = getattr(data, part)
        lacks = [m for m in ("__len__", "reads", "batch") if not hasattr(samples, m)]
        if lacks:
            raise OptionError(
                f"{name}.data(): the {part} split is a {type(samples).__name__}, which has no "
                f"{lacks[0]}(); write TensorSamples(inputs, targets), or a class like it."
            )
    if not isinstance(data.source, str):
        raise OptionError(f"{name}.data(): the source must be a text, got {data.source!r}.")
    return data


def checked_network(task: Task[Any, Any]) -> nn.Module:
    """The network of a task, which has something to learn."""
    network: Any = task.network()
    name = type(task).__name__
    if not isinstance(network, nn.Module):
        kind = f"the class {network.__name__}" if isinstance(network, type) else repr(network)[:60]
        raise OptionError(f"{name}.network() must return an nn.Module, got {kind}.")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise OptionError(f"{name}.network() has no parameters to train.")
    return network


def check_outputs(task: Task[Any, Any], outputs: Any) -> None:
    """Refuse outputs of the network that are not a tuple of tensors."""
    if not (isinstance(outputs, tuple) and all(isinstance(o, Tensor) for o in outputs)):
        kinds = ", ".join(type(o).__name__ for o in outputs) if isinstance(outputs, tuple) else ""
        raise OptionError(
            f"{type(task).__name__}: the network must return a tensor or a tuple of tensors, got "
            f"{kinds or type(outputs).__name__}; override read() to convert it."
        )


def check_losses(task: Task[Any, Any], losses: Any, rows: int) -> None:
    """Refuse losses that are not one per row: their mean would be that of something else."""
    name = type(task).__name__
    if not isinstance(losses, Tensor):
        raise OptionError(f"{name}.losses() must return a tensor, got {type(losses).__name__}.")
    if losses.shape != (rows,):
        raise OptionError(
            f"{name}.losses() must return one loss per row, of shape ({rows},), got "
            f'{tuple(losses.shape)}. The losses of dolphin are, with reduction="none".'
        )
    if not losses.requires_grad:
        raise OptionError(
            f"{name}.losses() doesn't depend on the outputs of the network: nothing can be learnt."
        )


def check_marks(task: Task[Any, Any], marks: Sequence[Any], rows: int) -> None:
    """Refuse marks that are not one per row."""
    if len(marks) != rows:
        raise OptionError(
            f"{type(task).__name__}.right() must return one mark per row, got {len(marks)} for "
            f"{rows} rows."
        )


def check_perceived(task: Task[Any, Any], read: Tensor, true: Tensor) -> None:
    """Refuse class numbers that no class has, and readings without a true class."""
    name, classes = type(task).__name__, len(task.classes)
    if read.shape != true.shape:
        raise OptionError(
            f"{name}.perceived() must return as many true classes as readings, got "
            f"{tuple(true.shape)} and {tuple(read.shape)}."
        )
    for numbers in (read, true):
        wrong = numbers[(numbers < 0) | (numbers >= classes)]
        if len(wrong):
            raise OptionError(
                f"{name}.perceived() returned the class {wrong[0].item()}, but there are {classes} "
                "classes."
            )
