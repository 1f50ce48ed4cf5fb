"""Recursion: a step repeated until nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from torch import Tensor

from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import (
    FixpointError,
    InputError,
    MismatchError,
    UnsupportedError,
    listing,
    shorten,
)
from dolphin.execution.batching.pending import Pending
from dolphin.execution.draws import rounds
from dolphin.execution.eager import eager
from dolphin.execution.indices import Index
from dolphin.execution.recursion.looping import KnownLoop
from dolphin.execution.recursion.noting import Notes, noting
from dolphin.execution.recursion.recollection import Recollection
from dolphin.execution.recursion.recurrences import Limit
from dolphin.execution.recursion.renewing import changed, recursion
from dolphin.execution.recursion.sketching import RowLoop
from dolphin.execution.selecting import places_of
from dolphin.execution.tagged import Tagged, check_arity, operand, present_only, tagged_of, usage
from dolphin.execution.tracing import traced_fixpoint
from dolphin.inputs.arguments import count, flag
from dolphin.operations import union
from dolphin.programs.goals import Directed, Goal
from dolphin.provenance.contract import Provenance
from dolphin.provenance.differentiation import followed
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.joins import Matches, Sorted, in_rows
from dolphin.symbolic.plans import caches
from dolphin.symbolic.surroundings import in_operation, surroundings
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tables import SymbolTable

R = TypeVar("R")
S = TypeVar("S")

MOST_ROUNDS = 100_000  # steps that may all be taken, and recorded for gradients


@eager
def fixpoint(
    step: Callable[[Distribution[S]], Distribution[S]],
    start: Distribution[S],
    max_iterations: int = 1000,
    *,
    goal: Goal[S] | None = None,
    only_new: bool = False,
    rounds: int | None = None,
) -> Distribution[S]:
    """Repeat `d = step(d)` from `start` until nothing changes, or for a number of rounds.

    It ends when a step brings no new symbols and the provenance sees no change in the tags
    (proofs, truth values). Sums of probabilities may not converge on cyclic programs; with `DAMP`
    only the symbols decide. Gradients flow through all steps, and the cost is that of all steps.

    Args:
        step: a function from a distribution to the next one.
        start: the first distribution.
        max_iterations: at most this many steps; then a `FixpointError` says what was still growing.
        goal: the requested symbols: a predicate, or `(key, asked)` with a key function and a list
            of the key that each row asks for, which are then looked up by key. Other symbols are
            dropped in every round, so nothing is derived from them, and a union that `step` returns
            is built from requested symbols only. Requested symbols have the same tags as without
            `goal` if their derivations need only requested symbols, such as paths from one vertex
            that grow at their ends. A goal that leaves out what it needs is refused: it is tried
            once per program, on some symbols. Where only the symbols decide when a recursion ends,
            there may be fewer rounds than without a goal.
        only_new: apply `step` only to the symbols that are new, or have new tags, since the last
            round, and add what follows to the result (semi-naive evaluation). The result is the
            same; a last step over everything ensures it. Needs a step that keeps its argument and
            doesn't negate, and a provenance that doesn't count repeated derivations again
            ("exact", "viterbi", "min-max", "boolean"); others are refused. Where numbers have
            gradients, all rounds run over everything: they decide how equally likely derivations
            share a gradient.
        rounds: return the result of this many steps, settled or not, in place of
            `max_iterations`: paths of a bounded length; at most 100,000. Steps that can be seen to
            change no tag are left out.

    >>> import dolphin as dl
    >>> edges = dl.Distribution([0.9, 0.8], [(0, 1), (1, 2)], exclusive=False)
    >>> def grow(paths):
    ...     longer = dl.apply_if(paths, edges, lambda p, e: (p[0], e[1]), lambda p, e: p[1] == e[0])
    ...     return dl.union(edges, longer)
    >>> dl.fixpoint(grow, edges).symbols
    ((0, 1), (1, 2), (0, 2))
    >>> dl.fixpoint(grow, edges, goal=lambda path: path[0] == 0).symbols
    ((0, 1), (0, 2))
    >>> two = dl.fixpoint(grow, edges, goal=(lambda path: path[0], [0, 1]))
    >>> two.row(0), two.row(1)
    ([((0, 1), 0.9), ((0, 2), 0.72)], [((1, 2), 0.8)])
    >>> ring = dl.Distribution([0.9, 0.8, 0.7], [(0, 1), (1, 2), (2, 0)], exclusive=False)
    >>> one_more = lambda paths: dl.apply_if(
    ...     paths, ring, lambda p, e: (p[0], e[1]), lambda p, e: p[1] == e[0]
    ... )
    >>> dl.fixpoint(one_more, ring, rounds=2).row(0)
    [((0, 0), 0.504), ((1, 1), 0.504), ((2, 2), 0.504)]
    """
    if isinstance(step, Distribution) or not callable(step):
        raise InputError(
            f"fixpoint: step must be a function, got {shorten(step)}. Write {usage('fixpoint')}."
        )
    operand("fixpoint", start)
    check_arity("fixpoint", "step", step, 1, "one distribution")

    directed = None if goal is None else Directed(step, goal)

    def checked(distribution: Distribution[S]) -> Distribution[S]:
        new = step(distribution) if directed is None else directed(distribution)
        if not isinstance(new, Distribution):
            raise InputError(
                f"fixpoint: step must return a Distribution, it returned {shorten(new)}."
            )
        return new

    whole = start
    if directed is not None:
        start = directed.asked(start)
    if flag("fixpoint", "only_new", only_new):
        _check_only_new(tagged_of(start).provenance)
    limit = _limit(max_iterations, rounds, only_new)

    traced = traced_fixpoint(
        lambda d: tagged_of(checked(distribution_of(d))), tagged_of(start), limit
    )
    if traced is not None:
        return distribution_of(traced)
    own = tagged_of(start)
    if directed is not None or surroundings().profile is not None:
        result = _repeated(checked, start, limit, only_new=only_new)
        if directed is not None:
            directed.check(whole)
        return result
    if not own.provenance.structural:
        return _looped(step, checked, start, limit, only_new=only_new)
    recollection = Recollection(own, step, (limit, only_new))
    known = recollection.outcome
    if known is not None:
        return distribution_of(known)
    result = _repeated(checked, start, limit, only_new=only_new)
    recollection.keep(tagged_of(result))
    return result


def _limit(max_iterations: int, rounds: int | None, only_new: bool) -> Limit:
    if rounds is None:
        return Limit(count("fixpoint", "max_iterations", max_iterations), enough=False)
    if only_new:
        raise InputError(
            "fixpoint: rounds= counts steps over all symbols, but only_new=True takes steps over "
            "new ones. Leave one of them out."
        )
    rounds = count("fixpoint", "rounds=", rounds, least=0)
    if rounds > MOST_ROUNDS:
        raise InputError(
            f"fixpoint: rounds= takes at most {MOST_ROUNDS:,} steps, got {shorten(rounds)}. Leave "
            "it out to repeat step until nothing changes."
        )
    return Limit(rounds, enough=True)


def _looped(
    own: Callable[[Distribution[S]], Distribution[S]],
    step: Callable[[Distribution[S]], Distribution[S]],
    start: Distribution[S],
    limit: Limit,
    *,
    only_new: bool,
) -> Distribution[S]:
    """`step`, which calls `own`, until nothing changes; in one loop where it is known how."""
    known = KnownLoop(tagged_of(start), own, (limit, only_new))
    result = known.run(limit)
    if result is not None:
        return distribution_of(result)
    in_rows = RowLoop(own, tagged_of(start))
    result = None if only_new or limit.enough else in_rows.run(distribution_of, limit.rounds)
    if result is not None:
        return distribution_of(result)
    notes = None if only_new else known.notes()
    repeated = _repeated(step, start, limit, only_new=only_new, notes=notes)
    if notes is not None:
        known.learn(notes)
    in_rows.learn()
    return repeated


def _repeated(
    step: Callable[[Distribution[S]], Distribution[S]],
    start: Distribution[S],
    limit: Limit,
    *,
    only_new: bool,
    notes: Notes | None = None,
) -> Distribution[S]:
    """`step` until nothing changes."""
    old = new = start
    with rounds() as draws, recursion() as last, noting(notes):
        if only_new:
            old = _grown_by_what_is_new(step, start, limit.rounds, draws.start_round)
        for _ in range(limit.rounds):
            draws.start_round()
            last.start_round()
            new = step(old)
            if notes is not None:
                notes.end_round(tagged_of(old), tagged_of(new))
            with in_operation():
                before, after = tagged_of(old), tagged_of(new)
                _check_step(before, after)
                watched = not limit.enough or _sees_changes(after)
                settled = watched and _settled(before, after)
            if settled:
                return new
            old = new
    if limit.enough:
        return new
    known = set(start.symbols)
    grown = [symbol for symbol in new.symbols if symbol not in known]
    added = f", some of them new: {listing(grown[-3:])}" if grown else ""
    raise FixpointError(
        f"fixpoint: still changing after max_iterations={limit.rounds} steps; the last result "
        f"has {len(old)} symbols{added}. Make sure that step can't produce new symbols forever "
        "(bound a length, filter), or raise max_iterations."
    )


def _check_step(before: Tagged, after: Tagged) -> None:
    """Refuse a step that returns other rows, or another algebra, than it was given."""
    certain = before.constant or after.constant
    if not certain and after.provenance != before.provenance:
        raise MismatchError(
            f"fixpoint: step was given a distribution under {before.provenance!r} and returned one "
            f"under {after.provenance!r}. Create all inputs of a program with the same one."
        )
    if after.batch != before.batch and before.batch != 1:
        raise MismatchError(
            f"fixpoint: step returned a distribution of {after.batch} rows for one of "
            f"{before.batch}. A step gives each row its next symbols: use dolphin.stack or d[rows] "
            "before or after the recursion."
        )


def _sees_changes(state: Tagged) -> bool:
    """Whether it can be told at little cost that no tag changes any more."""
    algebra = state.provenance
    if algebra.structural or not _compares_tags(algebra) or isinstance(state, Pending):
        return False
    return state.info().device.type == "cpu" and not followed()


def _compares_tags(provenance: Provenance) -> bool:
    """Whether tags decide about the end of a fixpoint, not only symbols."""
    return type(provenance).saturated is not Provenance.saturated


_REPEATABLE = {"idempotent-add", "absorption", "distributive", "associative"}


def _check_only_new(provenance: Provenance) -> None:
    if not provenance.laws >= _REPEATABLE:
        raise UnsupportedError(
            f"fixpoint: only_new=True adds what is new to what is known, which {provenance!r} "
            "would count again or cut differently. Leave it out, or use 'exact', 'viterbi', "
            "'min-max' or 'boolean' as the provenance of the inputs."
        )


def _grown_by_what_is_new(
    step: Callable[[Distribution[S]], Distribution[S]],
    start: Distribution[S],
    max_iterations: int,
    start_round: Callable[[], None],
) -> Distribution[S]:
    """Everything that follows from `start`, by steps over what the last step added.

    That is `start` itself where numbers have gradients. A derivation that is as likely as a known
    one changes no number, so what follows from it would not be looked at, but it has a share of
    the gradient.
    """
    start_round()
    result = step(start)
    if not _settled(tagged_of(result), tagged_of(union(start, result))):
        raise InputError(
            "fixpoint: with only_new=True, step must keep what it is given: step(start) lacks "
            "symbols of start, or their tags are smaller. Return union(start, ...), or leave "
            "only_new out."
        )
    new = _what_is_new(start, result)
    for _ in range(max_iterations):
        if _is_differentiated(result):
            return start
        if new is None:
            return result
        start_round()
        more = union(result, step(distribution_of(new)))
        new, result = _what_is_new(result, more), more
    return result


def _is_differentiated(d: Distribution[S]) -> bool:
    tags = tagged_of(d).tags_like()
    return isinstance(tags, Tensor) and tags.requires_grad


def _what_is_new(old: Distribution[S], known: Distribution[S]) -> Tagged | None:
    new, active = changed(tagged_of(old), tagged_of(known)), surroundings().profile
    if active is not None and new is not None:
        active.made("new", None, (known,), new)
    return new


def _settled(old: Tagged, new: Tagged) -> bool:
    if old.batch != new.batch or old.provenance != new.provenance:
        return False
    if old.shared and new.shared:
        if set(old.domain.members) != set(new.domain.members):
            return False
        if not _compares_tags(new.provenance):
            return True  # only symbols decide
        places = places_of(new, Symbols.of(old.domain.members))[0]
        aligned = new.provenance.select(new.tags_like(), Index(places))
        return new.provenance.saturated(old.tags_like(aligned), aligned)
    table = caches.current_table()
    before, after = (_numbers_in_rows(d, table) for d in (old, new))
    places = _places_in_rows(before, after)
    if places is None:
        return False
    tags, address = new.flat_tags()
    every = np.arange(new.batch)[:, None]
    index = Index(np.where(places >= 0, address.at(every, places), -1).reshape(-1))
    aligned = new.provenance.select(tags, index)
    known = old.tags_like(aligned)
    known = old.provenance.flatten(known, old.batch) if old.shared else present_only(known, old)
    return new.provenance.saturated(known, aligned)


def _numbers_in_rows(d: Tagged, table: SymbolTable) -> np.ndarray:
    """(B, width), the same number for equal symbols, `ABSENT` where a row has none."""
    numbers = np.broadcast_to(d.domain.in_table(table), (d.batch, d.width))
    return np.where(numbers == ABSENT, ABSENT, table.classes(np.maximum(numbers, 0)))


def _places_in_rows(before: np.ndarray, after: np.ndarray) -> np.ndarray | None:
    """The place of each symbol of `before` in the same row of `after`; None if rows differ."""
    present = before != ABSENT
    if (present.sum(1) != (after != ABSENT).sum(1)).any():
        return None
    matches = Matches(in_rows(before, len(before), None), Sorted(in_rows(after, len(after), None)))
    if matches.size != present.sum():  # symbols of a row are distinct
        return None
    places = np.full(before.shape, -1, dtype=np.int64)
    places[present] = matches.places()[1] % after.shape[1]
    return places
