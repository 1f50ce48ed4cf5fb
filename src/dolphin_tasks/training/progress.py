"""How far a run is: what its checkpoints hold besides weights, and the step size by then."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import Any

from dolphin_tasks.training.folder import EPOCH, Number, missing_field

_SHOWN = EPOCH | {
    "train_accuracy": Number,
    "perception_accuracy": (*Number, type(None)),
    "seconds": Number,
    "symbolic_share": Number,
}
"""What every epoch of the history has: a run that is continued shows it again."""
_SHARES = 200  # steps over which the median of the program's share is taken


@dataclass
class Progress:
    """The state of a run. All of it is saved in checkpoints."""

    epoch: int = 0
    step: int = 0  # within the epoch
    loss_sum: float = 0.0  # of the epoch so far
    right: int = 0
    seen: int = 0
    seconds: float = 0.0  # of the epoch so far
    total_seconds: float = 0.0
    symbolic_seconds: float = 0.0
    neural_seconds: float = 0.0
    shares: list[float] = field(default_factory=list)  # of the program in the last steps
    best_epoch: int = 0  # the one that validation chose
    best_accuracy: float = -1.0  # of any epoch on validation
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def restored(cls, values: dict[str, Any]) -> Progress:
        """The inverse of `asdict`; each value must be there and have its type."""
        progress = cls(**values)
        missing = vars(progress).keys() - values.keys()
        if missing:
            raise ValueError(f"progress.{min(missing)} is missing")
        for name, value in vars(cls()).items():
            kind = (int, float) if isinstance(value, float) else type(value)
            if not isinstance(getattr(progress, name), kind):
                raise ValueError(f"progress.{name} is {getattr(progress, name)!r:.60}")
        problems = [missing_field(line, _SHOWN) for line in progress.history]
        if any(problems) or len(problems) != progress.epoch:
            raise ValueError(f"its history is damaged: {next(filter(None, problems), 'too short')}")
        return progress

    @property
    def symbolic_share(self) -> float:
        """The share of the program in the time of a step, forward and backward.

        The median of the last steps; of a run of few steps, that of all steps together.
        """
        if self.shares:
            return statistics.median(self.shares)
        return self.symbolic_seconds / max(1e-9, self.symbolic_seconds + self.neural_seconds)

    def timed(self, symbolic: float, neural: float, *, warm: bool) -> None:
        """Count the seconds of a step; its share counts once the caches are warm."""
        self.symbolic_seconds += symbolic
        self.neural_seconds += neural
        if warm:
            self.shares = [*self.shares[1 - _SHARES :], symbolic / max(1e-9, symbolic + neural)]


def schedule(name: str, done: float) -> float:
    """The fraction of the greatest step size after this fraction of all steps.

    >>> [round(schedule("onecycle", done), 2) for done in (0.0, 0.15, 0.3, 0.65, 1.0)]
    [0.1, 0.55, 1.0, 0.5, 0.0]
    """
    if name == "constant":
        return 1.0
    rise = 0.3 if name == "onecycle" else 0.0
    if done < rise:
        return 0.1 + 0.9 * done / rise
    return 0.5 * (1 + math.cos(math.pi * (done - rise) / (1 - rise)))
