"""Ctrl-C in a training run: the step that runs is finished, and the run can be continued."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(Exception):  # noqa: N818 (nothing went wrong)
    """The user stopped the run; its state is in the checkpoint."""


class Stop:
    """Whether the user asked for an end."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The first Ctrl-C (or SIGTERM) stops after the current step, the second at once."""

        def stop(number: int, _: Any) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True

        signals = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, stop) for number in signals]
        try:
            yield
        finally:
            for number, handler in zip(signals, before, strict=True):
                signal.signal(number, handler)

    def raise_if_asked(self) -> None:
        """Raises `Interrupted` after the first Ctrl-C."""
        if self.asked:
            raise Interrupted
