"""The run folder: what a run was, how it went, and what came out."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dolphin as dl
from dolphin_tasks.fetch import atomic_write


class RunError(dl.DolphinError, RuntimeError):
    """A run folder is missing something, or already holds another run."""


class RunFolder:
    """Files of one run, each written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoint(self) -> Path:
        """Where to go on from."""
        return self.path / "checkpoint.pt"

    @property
    def best(self) -> Path:
        """The weights of the epoch that validation chose."""
        return self.path / "best.pt"

    def write_json(self, name: str, content: Any) -> None:
        """Write one file of the run."""
        with atomic_write(self.path / name) as stream:
            stream.write((json.dumps(content, indent=2) + "\n").encode())

    def write_metrics(self, history: list[dict[str, Any]]) -> None:
        """One line of JSON an epoch."""
        with atomic_write(self.path / "metrics.jsonl") as stream:
            stream.write("".join(json.dumps(line) + "\n" for line in history).encode())

    def read_json(self, name: str) -> Any:
        """Read one file of the run, or say what is wrong with it."""
        path = self.path / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{self.path} is no finished run: it has no {name}.") from None
        except (OSError, ValueError) as error:
            raise RunError(f"{path} can't be read: {error}.") from None

    def read_metrics(self) -> list[dict[str, Any]]:
        """The epochs of the run."""
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return []
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except ValueError as error:
            raise RunError(f"{path} can't be read: {error}.") from None


def portable(text: str) -> str:
    """A text that names files, without what is particular to this machine.

    >>> portable(f"digits in {Path.home()}/mnist")
    'digits in ~/mnist'
    """
    shared = os.environ.get("DOLPHIN_DATA", "").rstrip("/")
    if shared:
        text = text.replace(shared, "$DOLPHIN_DATA")
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text


def versions() -> dict[str, str]:
    """What the numbers of a run were made with."""
    return {
        "dolphin": dl.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
