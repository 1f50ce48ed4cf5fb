"""Progress: a live table on a terminal, plain lines elsewhere, nothing in helper processes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.text import Text

from dolphin_tasks.training.table import State, Table, duration

PLAIN_SECONDS = 30.0  # between two lines where there is no terminal
_ECHO = "^C^C "  # what a terminal writes on Ctrl-C: a line that it breaks can't be redrawn
_LEAST_BAR = 10  # characters
WARM_UP = 5  # steps that are slower than others: plans are built, memory is allocated


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
        """Seconds for the rest, in steps; None while nothing can be said.

        `now` counts the seconds of steps only, without validation.
        """
        if self._first is None:
            self._first = done
        if self._began is None and done >= self._first + WARM_UP:
            self._began = done, now
        if self._began is None or done == self._began[0]:
            return None
        steps, since = self._began
        return (now - since) / (done - steps) * rest


class Display:
    """Shows states and lines. Silent if `quiet`.

    On a terminal, epochs that have ended are printed like any other line, so that they scroll, and
    survive an interruption; only the running epoch and the line below it are redrawn in place.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(highlight=False, quiet=quiet)
        self._clock, self._said = Clock(), time.monotonic()
        self._perception = True
        self._title = ""  # of the table, as printed
        self._running: State | None = None
        self._left = ""
        self._other: Spinner | None = None  # what happens instead of steps
        self._live: Live | None = None

    def __enter__(self) -> Display:
        if self._on_terminal:
            self._live = Live(
                console=self.console,
                get_renderable=self._redrawn,
                refresh_per_second=4,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def _on_terminal(self) -> bool:
        return self.console.is_terminal and not self.console.quiet

    def line(self, text: str) -> None:
        """A line that stays; a terminal breaks it between words."""
        self.console.print(text, soft_wrap=not self.console.is_terminal, markup=False)

    def doing(self, what: str) -> None:
        """What is happening now, other than steps: loading, validating."""
        self._other = Spinner("line", Text(what))
        if self._live is not None:
            self._live.refresh()

    def table(self, states: Sequence[State], *, perception: bool) -> None:
        """Begin the table, with the epochs before in a run that is continued."""
        self._perception = perception
        if self._on_terminal:
            for state in states:
                self._print(state)

    def show(self, state: State) -> None:
        """The running epoch; on a terminal it is redrawn in place."""
        done, total = (state.epoch - 1) * state.steps + state.step, state.epochs * state.steps
        seconds = self._clock.left(done, total - done + state.evaluations, state.trained)
        self._left = "" if seconds is None else f"  {duration(seconds)} left"
        self._running, self._other = state, None
        now = time.monotonic()
        if self._on_terminal:
            self._print_title()
        elif now - self._said >= PLAIN_SECONDS and seconds is not None:
            self._said = now
            self.line(f"{state.text()}  step {state.step}/{state.steps}{self._left}")

    def epoch(self, state: State) -> None:
        """An epoch that has ended."""
        self._running = self._other = None
        if self._on_terminal:
            self._print(state)
        else:
            self.line(state.text() + ("" if state.validation is not None else "  no validation"))

    def _redrawn(self) -> RenderableType:
        """The running epoch, and how far it is, or what happens instead."""
        state, below = self._running, self._other
        if state is None:
            return below or ""
        if below is None:
            where = f"  step {state.step}/{state.steps}{self._left}"
            room = self.console.width - len(_ECHO)
            legend = "  * chosen so far" if state.epoch > 1 else ""
            if len(where + legend) + _LEAST_BAR <= room:
                where += legend
            bar = ProgressBar(state.steps, state.step, width=max(1, min(30, room - len(where))))
            below = Columns([bar, Text(where, no_wrap=True, overflow="crop")], padding=0)
        return Group(self._row(state), below)

    def _row(self, state: State) -> Text:
        return Text(self._table.row(state), no_wrap=True, overflow="crop")

    @property
    def _table(self) -> Table:
        return Table(self.console.width, perception=self._perception)

    def _print(self, state: State) -> None:
        self._print_title()
        self._keep(self._row(state))

    def _print_title(self) -> None:
        """Before the first row, and where a terminal of another width has other columns."""
        title = self._table.title
        if title != self._title:
            self._title = title
            rule = ("-" if self.console.options.ascii_only else "─") * len(title)
            self._keep(Text(f"{title}\n{rule}", style="bold"))

    def _keep(self, text: Text) -> None:
        """Print what stays, and bring what is below up to date."""
        self.console.print(text)
        if self._live is not None:
            self._live.refresh()
