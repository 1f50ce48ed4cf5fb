"""Recording what a program does to tags, to repeat it with other numbers.

A program runs once, with tags that don't exist yet (`Noted`), under an algebra that records
operations instead of computing (`Notes`). What can't be recorded without numbers is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import FixpointError, UnsupportedError
from dolphin.execution.indices import Contraction, Convolution, Index
from dolphin.execution.recursion.recurrences import Limit
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.facts import Facts


@dataclass(frozen=True)
class Noted:
    """Tags that don't exist yet: the result of step `number`, counting inputs first."""

    number: int


Step = tuple[str, tuple[Any, ...]]  # a method of the algebra, or "repeat", and its arguments


@dataclass(frozen=True)
class Loop:
    """A fixpoint: `body` is repeated on one distribution until its tags settle."""

    start: Noted
    body: tuple[Step, ...]  # the loop's tags are numbered like one more step before it
    result: Noted
    aligned: Index  # the result in the order of the loop's symbols
    max_iterations: int

    def run(self, algebra: Provenance, before: Sequence[Any]) -> Any:
        """The tags of the last round."""
        state = before[self.start.number]
        if torch.compiler.is_compiling():
            return self._unrolled(algebra, before, state)
        for _ in range(self.max_iterations):
            new, aligned = self._round(algebra, before, state)
            if algebra.saturated(state, aligned):
                return new
            state = aligned
        raise FixpointError(
            f"fixpoint: nothing settled within max_iterations={self.max_iterations} steps of the "
            "traced program."
        )

    def _round(self, algebra: Provenance, before: Sequence[Any], state: Any) -> tuple[Any, Any]:
        tags = [*before, state]
        run_steps(algebra, self.body, tags)
        new = tags[self.result.number]
        return new, algebra.select(new, self.aligned)

    def _unrolled(self, algebra: Provenance, before: Sequence[Any], state: Any) -> Any:
        """As many rounds as may be needed: a compiler can't check whether tags have settled.

        In a distributive lattice-like algebra the best derivation of a symbol has none of the same
        symbol below it, so n symbols settle within n rounds.
        """
        rounds = len(self.aligned)
        if not {"distributive", "absorption"} <= algebra.laws or rounds > _MOST_ROUNDS:
            raise UnsupportedError(
                f"trace: how often a fixpoint under {algebra!r} repeats depends on numbers, which "
                "a compiler can't read. Call the traced module without torch.compile, or say how "
                "many rounds are enough: dolphin.fixpoint(..., rounds=n)."
            )
        new = state
        for _ in range(rounds):
            new, state = self._round(algebra, before, state)
        return new


_MOST_ROUNDS = 256  # a map of 12×12 cells has 144 symbols: 2,700 operations


def run_steps(algebra: Provenance, steps: Sequence[Step], tags: list[Any]) -> None:
    """Run recorded steps; every step adds its result to `tags`."""
    for method, arguments in steps:
        if method == "repeat":
            tags.append(arguments[0].run(algebra, tags))
        else:
            result = getattr(algebra, method)(*(_known(a, tags) for a in arguments))
            tags.append(result)


def _known(argument: Any, tags: Sequence[Any]) -> Any:
    if isinstance(argument, Noted):
        return tags[argument.number]
    if isinstance(argument, tuple):
        return [_known(a, tags) for a in argument]
    return argument


class Notes(Provenance):
    """Records operations on tags instead of running them.

    An algebra whose tags depend on the program alone (`Provenance.structural`) also runs them, with
    facts that stand for any: what it decides then holds for all numbers.
    """

    name = "notes"
    structural = True

    def __init__(self, algebra: Provenance, inputs: Sequence[Facts]) -> None:
        self.algebra = algebra
        self.laws = algebra.laws  # type: ignore[misc]
        self.numeric, self.repeatable = algebra.numeric, algebra.repeatable
        self.adds, self.adds_disjoint = algebra.adds, algebra.adds_disjoint
        self.steps: list[Step] = []
        self.known = len(inputs)  # tags that are numbered so far
        self.shadows: list[Any] = []
        if algebra.structural:
            self.shadows = [algebra.from_facts(facts) for facts in inputs]

    def parameters(self) -> dict[str, Any]:
        return {"of": id(self)}

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "trace: the program copies or pickles a distribution, which has no tags while it is "
            "traced. Copy the module that trace returns instead."
        )

    def _note(self, method: str, *arguments: Any) -> Noted:
        self.steps.append((method, arguments))
        self.known += 1
        if self.shadows:
            shadow = getattr(self.algebra, method)(*(_known(a, self.shadows) for a in arguments))
            self.shadows.append(shadow)
        return Noted(self.known - 1)

    def from_facts(self, facts: Facts) -> Noted:
        raise UnsupportedError(
            "trace: the program creates an input itself. Pass all inputs to it as arguments."
        )

    def one(self, n: int, like: Any) -> Noted:
        return self._note("one", n, like)

    def contract(self, operands: Sequence[Any], plan: Contraction) -> Noted:
        return self._note("contract", tuple(operands), plan)

    def contract_disjoint(self, operands: Sequence[Any], plan: Contraction) -> Noted:
        return self._note("contract_disjoint", tuple(operands), plan)

    def convolve(self, operands: Sequence[Any], plan: Convolution) -> Noted:
        return self._note("convolve", tuple(operands), plan)

    def negate(self, tags: Any) -> Noted:
        return self._note("negate", tags)

    def negate_choices(self, tags: Any, width: int) -> Noted:
        return self._note("negate_choices", tags, width)

    def select(self, tags: Any, index: Index) -> Noted:
        return self._note("select", tags, index)

    def concat(self, parts: Sequence[Any]) -> Noted:
        return self._note("concat", tuple(parts))

    def log_probs(self, tags: Any) -> Tensor:
        raise UnsupportedError(
            "trace: the program reads numbers (probs, sample, argmax, ...). A traced program ends "
            "with a distribution, and what it does may not depend on numbers."
        )

    def saturated(self, old: Any, new: Any) -> bool:
        if self.shadows:
            return self.algebra.saturated(*(self.shadows[tags.number] for tags in (old, new)))
        return True

    def where(self, mask: Tensor, yes: Any, no: Any) -> Noted:
        raise UnsupportedError(
            "trace: where= depends on rows, which a traced program doesn't have."
        )

    def flatten(self, tags: Any, rows: int) -> Noted:
        raise UnsupportedError(
            "trace: rows of the program have different symbols, so its plan depends on numbers."
        )

    def stack(self, parts: Sequence[Any], batches: Sequence[int], *, flat: bool) -> Noted:
        raise UnsupportedError("trace: stack depends on rows, which a traced program doesn't have.")

    def take_rows(self, tags: Any, rows: np.ndarray, width: int | None) -> Noted:
        raise UnsupportedError(
            "trace: d[rows] depends on rows, which a traced program doesn't have."
        )

    def moved(self, tags: Any, move: Callable[[Tensor], Tensor]) -> Noted:
        raise UnsupportedError("trace: .to and .detach can't be traced; move the module instead.")

    def describe(self, tags: Any) -> TagInfo:
        return TagInfo(torch.device("cpu"), 1, torch.get_default_dtype())

    def repeated(
        self, step: Callable[[Tagged], Tagged], start: Tagged, max_iterations: int
    ) -> Tagged:
        """A fixpoint whose end depends on numbers: a loop, once there are no new symbols."""
        old = start
        for _ in range(max_iterations):
            steps, count = len(self.steps), self.known
            new = step(old)
            if set(new.domain.members) == set(old.domain.members):
                del self.steps[steps:]
                self.known = count
                return self._loop(step, old, max_iterations)
            old = new
        raise FixpointError(
            f"fixpoint: new symbols appeared in each of max_iterations={max_iterations} steps."
        )

    def _loop(self, step: Callable[[Tagged], Tagged], old: Tagged, max_iterations: int) -> Tagged:
        start = old.tags_like()
        steps = len(self.steps)
        going_round = Noted(self.known)
        self.known += 1
        new = step(Tagged(old.domain, going_round, self, 1))
        if set(new.domain.members) != set(old.domain.members):
            raise UnsupportedError(
                "trace: the step of a fixpoint gave different symbols when it was called again, so "
                "it is not a function of its argument alone."
            )
        result = new.tags_like()
        places = new.domain.indices_of(old.domain.members)  # type: ignore[union-attr]
        body = tuple(self.steps[steps:])
        del self.steps[steps:]
        self.known = going_round.number
        loop = Loop(start, body, result, Index(places), max_iterations)
        return Tagged(new.domain, self._note("repeat", loop), self, 1)


def traced_fixpoint(step: Callable[[Tagged], Tagged], start: Tagged, limit: Limit) -> Tagged | None:
    """The fixpoint as a step of notes; None where it can be computed right now."""
    notes = start.provenance
    if not isinstance(notes, Notes) or notes.shadows or limit.enough:
        return None
    if type(notes.algebra).saturated is Provenance.saturated:
        return None  # only symbols decide
    return notes.repeated(step, start, limit.rounds)
