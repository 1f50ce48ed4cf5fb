"""Checkpoints: everything that a run needs to go on, whole or refused."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

import dolphin as dl
from dolphin_tasks.fetch import atomic_write

FORMAT, VERSION = "dolphin checkpoint", 1


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
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise CheckpointError(
            f"{path} is no checkpoint, or a broken or truncated one ({error})."
        ) from None
    if damaged is not None:
        raise CheckpointError(f"{path} is damaged: {damaged} has the wrong checksum.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, KeyError, EOFError, ValueError) as error:
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


def load_weights(network: torch.nn.Module, weights: Any, path: Path) -> None:
    """Put weights into the network that they were saved from."""
    try:
        network.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError) as error:
        reason = str(error).replace("\n\t", " ").splitlines()[0]
        raise CheckpointError(f"{path} doesn't fit this network: {reason}") from None
