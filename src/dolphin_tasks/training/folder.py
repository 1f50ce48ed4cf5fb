"""The run folder: a run's options, its progress, and its results."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dolphin as dl
from dolphin_tasks.fetch import atomic_write, parse_json, remove_temporaries
from dolphin_tasks.training.lock import FolderLock
from dolphin_tasks.training.processes import Processes


class RunError(dl.DolphinError, RuntimeError):
    """A run folder is missing something, or already holds another run."""


class RunFolder:
    """Files of one run, each written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoint(self) -> Path:
        """The state to continue from."""
        return self.path / "checkpoint.pt"

    @property
    def best(self) -> Path:
        """The weights of the epoch that validation chose."""
        return self.path / "best.pt"

    @property
    def familiar(self) -> Path:
        """What the inputs of training looked like."""
        return self.path / "familiar.pt"

    @contextlib.contextmanager
    def claimed(self, processes: Processes) -> Iterator[None]:
        """Create the folder and keep other runs out of it. All processes of a run share its lock.

        Raises:
            RunError: the folder can't be created, or another run uses it.
        """
        lock, problem = FolderLock(self.path), ""
        if processes.main:
            problem = self._claim(lock)
        if processes.sum(torch.tensor([len(problem)])).item():
            raise RunError(problem or f"{self.path} can't be used; the first process says why.")
        try:
            yield
        finally:
            lock.release()
            if processes.main:
                with contextlib.suppress(OSError):
                    self.path.rmdir()  # only if it is still empty

    def _claim(self, lock: FolderLock) -> str:
        """Take the lock; returns what prevents it, or an empty string."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            taken = lock.take()
        except OSError as error:
            return f"--out {self.path} can't be used as a folder: {error.strerror or error}."
        if not taken:
            by = f" ({lock.holder()})" if lock.holder() else ""
            return f"another run is using {self.path}{by}. Choose another --out, or wait."
        remove_temporaries(self.path)
        return ""

    def write_json(self, name: str, content: Any) -> None:
        """Write one file of the run."""
        with atomic_write(self.path / name) as stream:
            stream.write((json.dumps(content, indent=2, allow_nan=False) + "\n").encode())

    def write_metrics(self, history: list[dict[str, Any]]) -> None:
        """One line of JSON per epoch."""
        with atomic_write(self.path / "metrics.jsonl") as stream:
            stream.write("".join(json.dumps(line) + "\n" for line in history).encode())

    def read_json(self, name: str) -> Any:
        """Read one file of the run, or say what is wrong with it."""
        path = self.path / name
        try:
            return parse_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{self.path} is not a finished run: it has no {name}.") from None
        except (OSError, ValueError) as error:
            raise RunError(f"{path} can't be read: {error}.") from None

    def read_fields(self, name: str, fields: Mapping[str, type | tuple[type, ...]]) -> Any:
        """Read one file of the run, an object with at least these fields of these types."""
        content = self.read_json(name)
        problem = missing_field(content, fields)
        if problem:
            raise RunError(f"{self.path / name} is damaged or of another version: {problem}.")
        return content

    def read_metrics(self) -> list[dict[str, Any]]:
        """The epochs of the run."""
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return []
        try:
            lines = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise RunError(f"{path} can't be read: {error}.") from None
        for number, line in enumerate(lines, 1):
            problem = missing_field(line, EPOCH)
            if problem:
                raise RunError(f"{path}, line {number}, is damaged: {problem}.")
        return lines


Number = (int, float)
EPOCH: dict[str, type | tuple[type, ...]] = {
    "epoch": int,
    "loss": Number,
    "validation_accuracy": (*Number, type(None)),
}
"""What every line of `metrics.jsonl` has."""


def missing_field(content: Any, fields: Mapping[str, type | tuple[type, ...]]) -> str:
    """What an object lacks of these fields, or has as another type; empty if nothing.

    >>> missing_field({"n": 3}, {"n": int}), missing_field({"n": "3"}, {"n": int})
    ('', "'n' is '3'")
    """
    if not isinstance(content, dict):
        return "it is not an object"
    for name, kind in fields.items():
        if name not in content:
            return f"{name!r} is missing"
        if not isinstance(content[name], kind):
            return f"{name!r} is {content[name]!r:.60}"
    return ""


def portable(text: str) -> str:
    """A text that names files, without what is particular to this machine.

    >>> portable(f"digits in {Path.home()}/mnist")
    'digits in ~/mnist'

    Without a home directory, as in some containers, nothing is shortened.
    """
    shared = os.environ.get("DOLPHIN_DATA", "").rstrip("/")
    if shared:
        text = text.replace(shared, "$DOLPHIN_DATA")
    home = os.path.expanduser("~")  # noqa: PTH111 (which doesn't fail where there is none)
    return text.replace(home, "~") if len(home) > 1 else text


def versions() -> dict[str, str]:
    """The versions of the software behind a run's numbers."""
    return {
        "dolphin": dl.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
