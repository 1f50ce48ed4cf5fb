"""Progress: a live line on a terminal, plain lines elsewhere, nothing in helper processes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 30.0  # how often to say something where there is no terminal


@dataclass(frozen=True)
class State:
    """What there is to show."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    speed: float
    symbolic_share: float

    def text(self) -> str:
        """One line without the bar."""
        return (
            f"epoch {self.epoch}/{self.epochs}  loss {self.loss:.4g}  right {self.accuracy:.1%}  "
            f"{self.speed:,.0f} samples/s  symbolic {self.symbolic_share:.1%}"
        )


class Display:
    """Shows states and lines. Silent if `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(highlight=False, quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=12), TimeRemainingColumn())
        self._live = self.console.is_terminal and not quiet
        self._progress = Progress(*columns, console=self.console, disable=not self._live)
        self._task = self._progress.add_task("", total=None)
        self._began = self._said = time.monotonic()
        self._first: int | None = None

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def line(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, soft_wrap=True, markup=False)

    def show(self, state: State) -> None:
        """The current state; on a terminal the line is redrawn in place."""
        done, total = (state.epoch - 1) * state.steps + state.step, state.epochs * state.steps
        if self._live:
            text = state.text()
            self._progress.update(self._task, completed=done, total=total, description=text)
            return
        now = time.monotonic()
        if self._first is None:
            self._first, self._began, self._said = done, now, now
        if now - self._said < PLAIN_SECONDS or done == self._first:
            return
        self._said = now
        left = (now - self._began) / (done - self._first) * (total - done)
        self.line(f"{state.text()}  step {state.step}/{state.steps}  {_duration(left)} left")


def _duration(seconds: float) -> str:
    """Seconds for people.

    >>> _duration(5), _duration(3700)
    ('0:05', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
