"""How all operations work: check the operands, build or find the plan, run it on the tags."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from dolphin.errors import InputError, shorten
from dolphin.execution import draws
from dolphin.execution.batching.recipes import recalled
from dolphin.execution.deferred import Deferred, answered, defer
from dolphin.execution.entries import Watch
from dolphin.execution.indices import Contraction, IndexLists, lists_of
from dolphin.execution.profiling import profiled
from dolphin.execution.selecting import choose_rows, row_mask, where_rows
from dolphin.execution.tagged import (
    Function,
    Holder,
    Tagged,
    agreed,
    alike,
    check,
    like_of,
    split,
)
from dolphin.provenance.contract import Provenance, Tags
from dolphin.provenance.differentiation import array_of
from dolphin.symbolic.chance import Sources
from dolphin.symbolic.planning import make_plan, union_plan
from dolphin.symbolic.plans import Domain, Plan, RowAddress, Rows, RowSymbols
from dolphin.symbolic.surroundings import PLAIN, in_operation, surroundings
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tasks import Task


def applied(arguments: Sequence[Any], where: Any, cache: bool) -> Tagged:
    """`apply(d1, ..., dK, f)`."""
    around = surroundings()
    if around is not PLAIN and where is None:
        result = recalled(around, "apply", arguments, cache)
        if result is not None:
            return result
    given, (function,) = split("apply", arguments, 1)
    return combine(Task("apply", function, cache=cache), given, where)


def applied_if(
    arguments: Sequence[Any], on: tuple[Function, ...] | None, where: Any, cache: bool
) -> Tagged:
    """`apply_if(d1, ..., dK, f, cond)`, or with keys to join on."""
    around = surroundings()
    if around is not PLAIN and where is None and on is None:
        result = recalled(around, "apply_if", arguments, cache)
        if result is not None:
            return result
    wanted = 2
    if on is not None and sum(not isinstance(each, Holder) for each in arguments) == 1:
        wanted = 1
    given, functions = split("apply_if", arguments, wanted)
    condition = functions[1] if len(functions) == 2 else None
    if on is not None:
        if not isinstance(on, (tuple, list)) or len(on) != len(given) or not all(map(callable, on)):
            got = f"{len(on)} of them" if isinstance(on, (tuple, list)) else shorten(on)
            names = ", ".join(f"key{number}" for number in range(1, len(given) + 1))
            raise InputError(
                f"apply_if: on= takes {len(given)} key functions ({names}), one per operand, got "
                f"{got}."
            )
        if len(given) == 1:
            raise InputError(
                "apply_if: on= joins two distributions or more, got 1; use a condition."
            )
        on = tuple(on)
    return combine(Task("apply_if", functions[0], condition, on, cache), given, where)


def filtered(distribution: Any, predicate: Any, cache: bool) -> Tagged:
    """`filter(d, predicate)`."""
    around = surroundings()
    if around is not PLAIN:
        result = recalled(around, "filter", (distribution, predicate), cache)
        if result is not None:
            return result
    given, (function,) = split("filter", (distribution, predicate), 1)
    return combine(Task("filter", _itself, function, cache=cache), given, None)


def _itself(symbol: Any) -> Any:
    return symbol


def united(distributions: Sequence[Any]) -> Tagged:
    """`union(d1, d2, ...)`."""
    if len(distributions) == 1 and not isinstance(distributions[0], Holder):
        raise InputError(
            f"union: expected distributions, got {shorten(distributions[0])}. For a list write "
            "union(*distributions)."
        )
    return unite(split("union", distributions, 0)[0])


def combine(task: Task, operands: Sequence[Tagged], where: Any) -> Tagged:
    """The result of a task."""
    around = surroundings()
    if around is PLAIN:
        return _combined(task, operands, where)
    if around.sketch is not None:
        return around.sketch.combine(task, operands, where)
    if around.sample is not None and where is None:
        return around.sample.combine(task, operands)
    return combine_now(task, operands, where)


def combine_now(task: Task, operands: Sequence[Tagged], where: Any = None) -> Tagged:
    """The same, without waiting for operations of other samples."""
    around = surroundings()
    if around.execution is not None:  # all runs of a program that get here share result and draws
        return around.execution.once("combine", lambda: combine_now(task, operands, where))
    active = around.profile
    if active is None:
        with in_operation():
            return _combined(task, operands, where)
    shown = task.condition if task.operation == "filter" else task.function
    with active.operation(task.operation, shown):
        result = _combined(task, operands, where)
    active.made(task.operation, shown, operands, result, task)
    return result


def _combined(task: Task, operands: Sequence[Tagged], where: Any) -> Tagged:
    if alike(operands):
        provenance, batch = operands[0].provenance, operands[0].batch
        skipped = [False] * len(operands)
    else:
        provenance, batch = check(task.operation, operands)
        operands = agreed(operands)
        skipped = left_out(provenance, operands)
    mask = None if where is None else row_mask(task.operation, where, (batch,))
    domains = [d.domain for d in operands]
    outcome = Outcome.of(provenance, batch, operands)
    outcome.normalised = (
        provenance.adds
        and outcome.exclusive
        and task.operation == "apply"
        and mask is None
        and all(d.normalised for d in operands)
    )
    sources = Sources(Watch)
    if True not in [isinstance(domain, RowSymbols) for domain in domains]:
        plan = make_plan(task, domains, skipped, sources)
        if mask is None and keeps_everything(task, plan, domains):
            return operands[0].copied()
        if mask is None and plan.draws is None:
            return run_shared(plan, operands, skipped, outcome)
        like = like_of(operands)
        tags = [d.tags_like(like) for d, skip in zip(operands, skipped, strict=True) if not skip]
        made, constant = _run(task, plan, tags, outcome, sources)
        result = outcome.tagged(plan.domain, made, constant)
        if mask is None:
            return result
        return choose_rows(mask, result, operands[0])
    like = like_of(operands)
    flat: list[tuple[Tags, RowAddress]] = [
        (None, RowAddress(d.width, per_row=False)) if skip else d.flat_tags(like)
        for d, skip in zip(operands, skipped, strict=True)
    ]
    active = None if mask is None else array_of(mask)
    if active is not None and active.all():
        active = None
    apart = draws.own_facts(provenance, batch)
    given = [tags for tags, _ in flat if tags is not None]
    longer = None if active is None or skipped[0] else _followed_by_one(provenance, given)
    rows = Rows(batch, [address for _, address in flat], active, apart, longer is not None)
    plan = make_plan(task, domains, skipped, sources, rows)
    if plan.kept and longer is not None:
        return outcome.tagged(plan.domain, run(plan, longer, provenance))
    if plan.draws is None:
        made, constant = _recalled(plan, given, batch, provenance), outcome.constant
    else:
        made, constant = _run(task, plan, given, outcome, sources)
    result = outcome.tagged(plan.domain, made, constant)
    return result if active is None else where_rows(active, result, operands[0])


def _followed_by_one(provenance: Provenance, given: Sequence[Tags]) -> list[Tags] | None:
    """Tags with which rows that an operation leaves alone are part of the same contraction.

    None where that is not the same to the last bit of the gradient. Formulas of up to 7 symbols, 64
    rows: a step takes a tenth less than with `where_rows`.
    """
    if surroundings().recursion is not None:  # compares its rounds tag by tag
        return None
    more = [provenance.followed_by_one(tags) for tags in given[1:]]
    return None if any(tags is None for tags in more) else [given[0], *more]


def keeps_everything(task: Task, plan: Plan, domains: Sequence[Any]) -> bool:
    """Whether a task is a filter that all symbols pass: its result is its operand."""
    return task.operation == "filter" and plan.domain is domains[0]


def run_shared(
    plan: Plan, operands: Sequence[Tagged], skipped: Sequence[bool], outcome: Outcome
) -> Tagged:
    """A plan over symbols that all rows share, now or when its result is read."""
    used = operands
    if True in skipped:
        used = [d for d, skip in zip(operands, skipped, strict=True) if not skip]
    lists = lists_of(plan.combinations)
    if len(used) == 2:
        deferred = defer(lists, used, plan.domain)
        if deferred is None:
            deferred = answered(lists, used)
        if deferred is not None:
            return outcome.tagged(plan.domain, deferred)
    like = like_of(operands)
    tags = [d.tags_like(like) if d.constant else d.tags for d in used]
    if surroundings() is PLAIN:
        return outcome.tagged(plan.domain, _run_tags(lists, tags, outcome.provenance))
    made, notes = _recalled(plan, tags, 1, outcome.provenance), surroundings().notes
    if notes is not None:
        notes.note(lists, used, False, made)
    return outcome.tagged(plan.domain, made)


def _recalled(plan: Plan, tags: Sequence[Tags], batch: int, provenance: Provenance) -> Tags | None:
    """`run`; in a recursion it reuses what the last round computed."""
    last = surroundings().recursion if provenance.renews else None
    if last is None or not tags:
        return run(plan, tags, provenance)
    return last.run(
        lists_of(plan.combinations),
        [[each] for each in tags],
        batch,
        provenance,
        lambda lists: run_lists(lists, tags, provenance),
    )


def _run(
    task: Task, plan: Plan, tags: Sequence[Tags], outcome: Outcome, sources: Sources
) -> tuple[Tags | None, bool]:
    """The tags of the result, and whether they depend on no input and no weight."""
    if plan.draws is None:
        return run(plan, tags, outcome.provenance), outcome.constant
    outcome.normalised = False  # weights may add up to less than 1
    site = (task.operation, getattr(task.function, "__code__", task.function))
    drawn = draws.tags_of(
        plan.draws,
        sources.tensors,
        tags,
        outcome.provenance,
        outcome.batch,
        site,
        flat=not isinstance(plan.domain, Symbols),
        constant=outcome.constant,
    )
    constant = outcome.constant and not plan.draws.from_tensors
    return run(plan, drawn, outcome.provenance), constant


class Outcome:
    """What is known about a result before its tags."""

    def __init__(self, provenance: Provenance, batch: int, exclusive: bool, constant: bool) -> None:
        self.provenance, self.batch = provenance, batch
        self.exclusive, self.constant = exclusive, constant
        self.normalised = False

    @classmethod
    def of(cls, provenance: Provenance, batch: int, operands: Sequence[Tagged]) -> Outcome:
        exclusive = False not in [d.exclusive for d in operands]
        return cls(provenance, batch, exclusive, False not in [d.constant for d in operands])

    def tagged(
        self, domain: Domain, made: Tags | Deferred | None, constant: bool | None = None
    ) -> Tagged:
        return Tagged(
            domain,
            made,
            self.provenance,
            self.batch,
            exclusive=self.exclusive,
            constant=self.constant if constant is None else constant,
            normalised=self.normalised,
        )


def left_out(provenance: Provenance, operands: Sequence[Tagged]) -> list[bool]:
    """Which operands take part in the symbols but not in the tags: certain ones, a factor **1**.

    Several certain symbols repeat each combination of the others, which the algebra must allow.
    Where all operands are certain, **1** ⊕ **1** must be **1** for several symbols to be merged.
    """
    neutral = "identities" in provenance.laws and provenance.repeatable
    skipped = [d.certain and (d.exclusive or neutral) for d in operands]
    one_result = all(d.exclusive for d in operands)
    if all(skipped) and not one_result and not ones_absorb(provenance):
        return [False] * len(operands)
    return skipped


def way_of_certain(provenance: Provenance) -> Hashable:
    """What `left_out` depends on apart from the operands: part of the key of a plan."""
    return provenance.repeatable, frozenset(provenance.laws)


def ones_absorb(provenance: Provenance) -> bool:
    """Whether **1** ⊕ **1** is **1**."""
    return not provenance.laws.isdisjoint({"one-absorbs", "idempotent-add"})


def run(plan: Plan, tags: Sequence[Tags], provenance: Provenance) -> Tags | None:
    """The tags of a plan's result; None if all operands are certain."""
    return run_lists(lists_of(plan.combinations), tags, provenance)


def run_lists(lists: IndexLists, tags: Sequence[Tags], provenance: Provenance) -> Tags | None:
    """The same for the index lists of a plan."""
    active = surroundings().profile
    if active is None:
        return _run_tags(lists, tags, provenance)
    with active.tags(lists.combinations):
        return _run_tags(lists, tags, provenance)


def _run_tags(lists: IndexLists, tags: Sequence[Tags], provenance: Provenance) -> Tags | None:
    if not tags:
        return None
    if lists.selection is not None:
        return provenance.select(tags[0], lists.selection)
    if not isinstance(lists, Contraction):
        return provenance.convolve(tags, lists)
    taken, lists = lists.narrowed
    if taken is not None:
        tags = [
            operand if used is None else provenance.select(operand, used)
            for operand, used in zip(tags, taken, strict=True)
        ]
    return provenance.contract(tags, lists)


def unite(operands: Sequence[Tagged]) -> Tagged:
    """All symbols of all operands; the tags of common symbols are ⊕-ed."""
    around = surroundings()
    if around is PLAIN:
        return _united(operands)
    if around.sketch is not None:
        return around.sketch.unite(operands)
    if around.unions is not None:
        return around.unions(operands)
    if around.sample is not None:
        return around.sample.unite(operands)
    return unite_now(operands)


@profiled("union")
def unite_now(operands: Sequence[Tagged]) -> Tagged:
    """The same, neither deferred nor together with other samples."""
    with in_operation():
        return _united(operands)


def _united(operands: Sequence[Tagged]) -> Tagged:
    provenance, batch = check("union", operands)
    given, operands = operands, agreed(operands)
    constant = all(d.constant for d in operands)
    shared = all(d.shared for d in operands)
    like = like_of(operands)
    if all(d.made is None for d in operands) and ones_absorb(provenance):
        addresses = [RowAddress(d.width, per_row=False) for d in operands]
        plan = union_plan("union", [d.domain for d in operands], Rows(batch, addresses))
        return Tagged(plan.domain, None, provenance, batch, constant=True)
    flat = [
        (d.tags_like(like), RowAddress(d.width, per_row=False)) if shared else d.flat_tags(like)
        for d in operands
    ]
    rows = Rows(batch, [address for _, address in flat])
    plan = union_plan("union", [d.domain for d in operands], rows)
    parts = [tags for tags, _ in flat]

    def made_of(lists: IndexLists) -> Tags | None:
        active = surroundings().profile
        if active is None:
            joined = provenance.concat(parts)
        else:
            with active.tags(0):
                joined = provenance.concat(parts)
        return run_lists(lists, [joined], provenance)

    lists = lists_of(plan.combinations)
    last = surroundings().recursion if provenance.renews else None
    if last is None:
        made = made_of(lists)
    else:
        made = last.run(lists, [parts], 1 if shared else batch, provenance, made_of)
    notes = surroundings().notes
    if notes is not None and shared:
        notes.note(lists, given, True, made)
    return Tagged(plan.domain, made, provenance, batch, constant=constant)
