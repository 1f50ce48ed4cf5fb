"""In place of the package itself, whose index of models takes pyright a third of its time."""

from typing import Any

def __getattr__(name: str) -> Any: ...
