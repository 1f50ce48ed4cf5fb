"""Progress: a live line on a terminal, plain lines elsewhere, nothing in helper processes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress, TextColumn

PLAIN_SECONDS = 30.0  # between two lines where there is no terminal
WARM_UP = 5  # steps that are slower than others: plans are built, memory is allocated


@dataclass(frozen=True)
class State:
    """The values to show."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    speed: float
    symbolic_share: float
    evaluations: float = 0.0
    """The time left for validating and testing, in training steps that take as long."""

    def text(self, width: int | None = None) -> str:
        """One line, of at most `width` characters: what matters least is left out first.

        >>> state = State(1, 9, 3, 80, 0.5, 0.9, 1200.0, 0.04)
        >>> state.text()
        'epoch 1/9  loss 0.5  right 90.0%  1,200 samples/s  symbolic 4.0%'
        >>> State(1, 9, 3, 80, 0.5, 0.9, 0.5, 0.04).text(50)
        'epoch 1/9  loss 0.5  right 90.0%  0.5 samples/s'
        >>> state.text(40)
        'epoch 1/9  loss 0.5  right 90.0%'
        """
        parts = [
            f"epoch {self.epoch}/{self.epochs}",
            f"loss {self.loss:.4g}",
            f"right {self.accuracy:.1%}",
            f"{self.speed:,.{0 if self.speed >= 10 else 1}f} samples/s",
            f"symbolic {self.symbolic_share:.1%}",
        ]
        while width is not None and len(parts) > 1 and len("  ".join(parts)) > width:
            parts.pop()
        return "  ".join(parts)


class Clock:
    """The remaining time of a run, from its steps so far; the first few don't count.

    >>> clock = Clock()
    >>> [clock.left(step, 100 - step, now=10.0 * step) for step in (0, 4, 5, 6, 20)]
    [None, None, None, 940.0, 800.0]
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._began: tuple[int, float] | None = None

    def left(self, done: int, rest: float, now: float) -> float | None:
        """Seconds for the rest, in steps; None while nothing can be said."""
        if self._first is None:
            self._first = done
        if self._began is None and done >= self._first + WARM_UP:
            self._began = done, now
        if self._began is None or done == self._began[0]:
            return None
        steps, since = self._began
        return (now - since) / (done - steps) * rest


class Display:
    """Shows states and lines. Silent if `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(highlight=False, quiet=quiet)
        self._live = self.console.is_terminal and not quiet
        column = TextColumn("{task.description}", markup=False)
        self._progress = Progress(column, console=self.console, disable=not self._live)
        self._task = self._progress.add_task("", total=None)
        self._clock, self._said = Clock(), time.monotonic()

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.update(self._task, description="", visible=False)
        self._progress.stop()

    @property
    def width(self) -> int | None:
        """Characters of a line of the terminal; None where lines may be of any length."""
        return self.console.width if self.console.is_terminal else None

    def line(self, text: str) -> None:
        """A line that stays; a terminal breaks it between words."""
        self.console.print(text, soft_wrap=not self.console.is_terminal, markup=False)

    def epoch(self, state: State, note: str) -> None:
        """A line about an epoch that has ended."""
        room = None if self.width is None else self.width - len(note) - 2
        self.line(f"{state.text(room)}  {note}")

    def doing(self, what: str) -> None:
        """What is happening now, other than steps: loading, validating."""
        if self._live:
            self._progress.update(self._task, description=what)
            self._progress.refresh()

    def show(self, state: State) -> None:
        """The current state; on a terminal the line is redrawn in place."""
        now = time.monotonic()
        done, total = (state.epoch - 1) * state.steps + state.step, state.epochs * state.steps
        seconds = self._clock.left(done, total - done + state.evaluations, now)
        left = "" if seconds is None else f"  {_duration(seconds)} left"
        if self._live:
            where = f"  step {state.step}/{state.steps}{left}"
            text = state.text(self.console.width - len(where) - 1) + where
            self._progress.update(self._task, description=text)
        elif now - self._said >= PLAIN_SECONDS and left:
            self._said = now
            self.line(f"{state.text()}  step {state.step}/{state.steps}{left}")


def _duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> _duration(5), _duration(3700)
    ('0:05', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
