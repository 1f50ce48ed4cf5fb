"""Many programs: what they were made of, and what went wrong."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fuzzing.check import WrongAnswerError, check
from fuzzing.generate import Program, generate
from fuzzing.limits import TooSlowError, at_most
from fuzzing.shrink import shrink

SHRINKING = 5  # times what one program may take


@dataclass
class Failure:
    seed: int
    kind: str
    detail: str
    script: str


@dataclass
class Tally:
    """What became of some programs."""

    outcomes: Counter[str] = field(default_factory=Counter)
    provenances: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def programs(self) -> int:
        return sum(self.outcomes.values())

    def add(self, other: Tally) -> None:
        for name in ("outcomes", "provenances", "features", "notes"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures


def run(
    seeds: Iterable[int],
    seconds: float | None = None,
    note: Callable[[int], None] = lambda seed: None,
) -> Tally:
    """Generate and check the programs of these seeds, each for at most this long.

    `note` is told every seed before its program starts.
    """
    tally, shrunk = Tally(), set()
    for seed in seeds:
        note(seed)
        program = generate(seed)
        tally.provenances[program.provenance] += 1
        tally.features.update(program.features)
        try:
            with at_most(seconds):
                outcome = check(program)
        except TooSlowError:
            slow = WrongAnswerError("too slow", f"not done after {seconds} seconds")
            _add_failure(tally, seed, program, slow)
        except WrongAnswerError as mismatch:
            if mismatch.kind not in shrunk:  # one of each kind will do
                shrunk.add(mismatch.kind)
                with (
                    contextlib.suppress(TooSlowError),
                    at_most(None if seconds is None else SHRINKING * seconds),
                ):
                    program, mismatch = shrink(program, mismatch)
            _add_failure(tally, seed, program, mismatch)
        else:
            tally.outcomes[outcome.what] += 1
            tally.notes.update(outcome.notes)
    return tally


def lost(seed: int, code: int | None) -> Tally:
    """The tally of a program that the process died of, with this exit code."""
    tally, program = Tally(), generate(seed)
    tally.provenances[program.provenance] += 1
    tally.features.update(program.features)
    died = WrongAnswerError("process died", f"with exit code {code}")
    _add_failure(tally, seed, program, died)
    return tally


def _add_failure(tally: Tally, seed: int, program: Program, mismatch: WrongAnswerError) -> None:
    tally.outcomes["failed"] += 1
    script = program.script(program.k or 5)
    tally.failures.append(Failure(seed, mismatch.kind, str(mismatch), script))


def report(tally: Tally) -> Iterator[str]:
    """The tally as lines of text."""
    for title in ("outcomes", "provenances", "features", "notes"):
        counts = getattr(tally, title)
        listed = ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
        yield f"{title}: {listed}"
    kinds = Counter(failure.kind for failure in tally.failures)
    for kind, count in kinds.most_common():
        alike = [failure for failure in tally.failures if failure.kind == kind]
        first = min(alike, key=lambda failure: len(failure.script))
        yield f"\n{kind}: {count} programs, for example seed {first.seed}\n{first.detail[:600]}"
        if len(alike) > 1:
            yield f"all seeds: {', '.join(str(failure.seed) for failure in alike)}"
        yield first.script
