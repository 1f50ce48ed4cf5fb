"""Checkpoints: everything that a run needs to continue, complete or refused."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any, TypeVar

import torch

import dolphin as dl
from dolphin_tasks.fetch import BROKEN_ARCHIVE, atomic_write

FORMAT, VERSION = "dolphin checkpoint", 1


UNREADABLE = (*BROKEN_ARCHIVE, OSError, ValueError, TypeError)


class CheckpointError(dl.DolphinError, RuntimeError):
    """A checkpoint is missing, broken, or belongs to something else."""


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint in one go: a crash leaves the old one in place."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, "version": VERSION, **content}, buffer)
    with atomic_write(path) as stream:
        stream.write(buffer.getvalue())


def load(path: Path, task: str) -> dict[str, Any]:
    """Read a checkpoint of `task`. Never executes code from the file.

    Raises:
        CheckpointError: says what is wrong with it.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except UNREADABLE as error:
        raise CheckpointError(
            f"{path} is not a checkpoint, or a broken or truncated one ({error})."
        ) from None
    if damaged is not None:
        raise CheckpointError(f"{path} is damaged: {damaged} has the wrong checksum.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (*UNREADABLE, pickle.UnpicklingError, LookupError, AttributeError) as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise CheckpointError(f"{path} can't be read as a checkpoint: {reason}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path} was not written by dolphin's trainer.")
    if content.get("version") != VERSION:
        raise CheckpointError(
            f"{path} has version {content.get('version')} of the format, this dolphin reads "
            f"version {VERSION}."
        )
    if content.get("task") != task:
        raise CheckpointError(
            f"{path} belongs to the task {content.get('task')!r}, not to {task!r}."
        )
    return content


P = TypeVar("P")


def part(content: dict[str, Any], name: str, kind: type[P], path: Path) -> P:
    """One part of a checkpoint, which must be there and of this type."""
    value = content.get(name)
    if not isinstance(value, kind):
        problem = "is missing" if name not in content else f"is not a {kind.__name__}"
        raise CheckpointError(f"{path} is incomplete: its part {name!r} {problem}.")
    return value


def load_weights(network: torch.nn.Module, weights: Any, path: Path) -> None:
    """Put weights into the network that they were saved from."""
    own = network.state_dict()
    for name, weight in weights.items() if isinstance(weights, dict) else ():
        wanted = own[name].dtype if name in own else None
        given = getattr(weight, "dtype", None)
        if wanted is not None and given is not None and given != wanted:  # else it is converted
            raise CheckpointError(
                f"{path} doesn't fit this network: {name} is of type {given}, not {wanted}."
            )
    try:
        network.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError) as error:
        reason = str(error).replace("\n\t", " ").splitlines()[0]
        raise CheckpointError(f"{path} doesn't fit this network: {reason}") from None


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any], path: Path) -> None:
    """Restore the state of an optimizer; every tensor must be as large as its parameter."""
    try:
        optimizer.load_state_dict(state)
        sizes = [
            (parameter.shape, value.shape)
            for parameter, kept in optimizer.state.items()
            for value in kept.values()
            if isinstance(value, torch.Tensor) and value.dim()
        ]
    except (ValueError, LookupError, AttributeError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path} holds a damaged optimizer state: {error!r}.") from None
    for wanted, shape in sizes:
        if wanted != shape:
            raise CheckpointError(
                f"{path} holds a damaged optimizer state: {tuple(shape)} for a parameter of shape "
                f"{tuple(wanted)}."
            )
