"""The table of a run: one row per epoch, columns that fit the terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class State:
    """An epoch: the running one, or one that has ended and was validated."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    speed: float
    symbolic_share: float
    seconds: float = 0.0
    """The time that the steps of the epoch took."""
    trained: float = 0.0
    """The time that all steps of the run took, without validation."""
    evaluations: float = 0.0
    """The time left for validating and testing, in training steps that take as long."""
    validation: float | None = None
    perception: float | None = None
    chosen: bool = False
    """Whether validation chose this epoch, so far."""

    def text(self) -> str:
        """One line.

        >>> State(1, 9, 3, 80, 0.5, 0.9, 1200.0, 0.04, validation=0.875).text()
        'epoch 1/9  loss 0.5  right 90.0%  1,200 samples/s  symbolic 4.0%  validation 87.50%'
        """
        parts = [
            f"epoch {self.epoch}/{self.epochs}",
            f"loss {self.loss:.4g}",
            f"right {self.accuracy:.1%}",
            f"{_speed(self)} samples/s",
            f"symbolic {self.symbolic_share:.1%}",
        ]
        if self.validation is not None:
            note = "" if self.perception is None else f", perception {self.perception:.2%}"
            parts.append(f"validation {self.validation:.2%}{note}")
        return "  ".join(parts)


@dataclass(frozen=True)
class _Column:
    title: str
    width: int
    value: Callable[[State], str]


def _speed(state: State) -> str:
    return f"{state.speed:,.{0 if state.speed >= 10 else 1}f}"


def _share(value: float | None, mark: str = "") -> str:
    return "" if value is None else f"{value:.2%}{mark}"


_COLUMNS = (
    _Column("epoch", 7, lambda s: f"{s.epoch}/{s.epochs}"),
    _Column("loss", 7, lambda s: f"{s.loss:.4g}"),
    _Column("training", 8, lambda s: _share(s.accuracy)),
    _Column("validation", 10, lambda s: _share(s.validation, " *" if s.chosen else "  ")),
    _Column("perception", 10, lambda s: _share(s.perception)),
    _Column("program", 7, lambda s: f"{s.symbolic_share:.1%}"),
    _Column("samples/s", 9, _speed),
    _Column("time", 7, lambda s: duration(s.seconds)),
)
_LEFT_OUT_FIRST = ("samples/s", "program", "perception", "time", "training", "loss")


class Table:
    """Lines of a table of at most `width` characters: what matters least is left out first.

    >>> state = State(1, 9, 80, 80, 0.5, 0.9, 1200.0, 0.04, 75.0, validation=0.875, chosen=True)
    >>> table = Table(50)
    >>> for line in (table.title, table.row(state)): print(line)
      epoch     loss  training  validation     time
        1/9      0.5    90.00%    87.50% *     1:15
    """

    def __init__(self, width: int, *, perception: bool = True) -> None:
        columns = [c for c in _COLUMNS if perception or c.title != "perception"]
        for name in _LEFT_OUT_FIRST:
            if sum(c.width + 2 for c in columns) - 2 <= width:
                break
            columns = [c for c in columns if c.title != name]
        self._columns = columns

    @property
    def title(self) -> str:
        """The names of the columns."""
        return "  ".join(f"{c.title:>{c.width}}" for c in self._columns)

    def row(self, state: State) -> str:
        """The figures of an epoch."""
        return "  ".join(f"{c.value(state):>{c.width}}" for c in self._columns)


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> duration(5), duration(3700)
    ('0:05', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
