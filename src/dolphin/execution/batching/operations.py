"""Operations that run at once, or inside `dolphin.batched` together with those of other samples.

The symbolic stage does not depend on numbers, so each sample goes through it separately, with the
usual cached plans. Only the tag stage waits: a contraction of one sample is a block of a
contraction of many, whatever the functions and symbols were. Where symbols depend on numbers
(after `sample`), operations with the same function wait for each other and then run as a batch in
per-row layout.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple, SupportsIndex

import torch

from dolphin.errors import InputError
from dolphin.execution import negating, run, selecting
from dolphin.execution.batching.contractions import operand_of, run_contractions, spread_out
from dolphin.execution.batching.in_step import by_source, settle
from dolphin.execution.batching.nodes import Form, Kind, Node, Recipe, Run, Sample
from dolphin.execution.batching.pending import Pending, requested
from dolphin.execution.batching.recipes import (
    Later,
    given_functions,
    recalled_row,
    remember,
    remember_row,
)
from dolphin.execution.batching.steady import steady
from dolphin.execution.draws import repeats_draws
from dolphin.execution.entries import Watch
from dolphin.execution.tagged import Tagged
from dolphin.execution.tracing import Notes
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.registry import negates
from dolphin.symbolic.chance import Sources
from dolphin.symbolic.identity.functions import name_of
from dolphin.symbolic.planning import make_plan, union_plan
from dolphin.symbolic.plans import Plan, RowAddress, Rows
from dolphin.symbolic.surroundings import surroundings
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tasks import Task


class _Common(NamedTuple):
    """What the operands of a sample's operation have in common."""

    sample: Sample
    provenance: Provenance
    info: TagInfo

    def key(self, *more: Hashable) -> Hashable:
        return (self.provenance, self.info.device, self.info.dtype, *more)

    def kind(self, name: str, key: Hashable, run: Run) -> Kind:
        return self.sample.agenda.kind(name, self.key(key), run)

    def form(self, domain: Symbols | None, exclusive: bool) -> Form:
        return self.sample.agenda.form(domain, self.provenance, self.info, exclusive)

    def recipe(self, kind: Kind, payload: Any, form: Form, operands: Sequence[Tagged]) -> Recipe:
        mark = id(payload) if isinstance(payload, Plan) else None  # all else is part of the kind
        return self.sample.agenda.recipe(kind, mark, payload, form, self.forms(operands))

    def forms(self, operands: Sequence[Tagged]) -> tuple[Form, ...]:
        outside = self.sample.agenda.outside
        return tuple([(d if isinstance(d, Pending) else outside(d)).form for d in operands])


def _common(sample: Sample, operands: Sequence[Tagged]) -> _Common | None:
    """None where an operation runs at once: its operands are not single rows of one kind."""
    provenance: Provenance | None = None
    info: TagInfo | None = None
    for d in operands:
        if d.batch != 1:
            return None
        if d.certain:
            continue
        if provenance is None:
            provenance = d.provenance
        elif provenance is not d.provenance and provenance != d.provenance:
            return None
        if d.constant:
            continue
        own = d.info()
        if info is not None and (own.dtype, own.device) != (info.dtype, info.device):
            return None
        info = own
    if provenance is None or info is None or isinstance(provenance, Notes):
        return None
    return _Common(sample, provenance, info)


def _known(d: Tagged) -> Symbols | None:
    """The symbols of one row, if they are known without waiting."""
    domain = d.known_domain if isinstance(d, Pending) else d.domain
    return domain if isinstance(domain, Symbols) else None


def combine(sample: Sample, task: Task, operands: Sequence[Tagged]) -> Tagged:
    """The result of a task."""
    common = _common(sample, operands)
    if common is None:
        return run.combine_now(task, operands)
    domains = [_known(d) for d in operands]
    if None in domains:
        if repeats_draws():  # the function may draw
            return run.combine_now(task, operands)
        return _combine_later(common, task, operands)
    skipped = run.left_out(common.provenance, operands)
    plan = _plan(task, domains, skipped)
    if plan.draws is not None and repeats_draws():  # only now is it known which draws these are
        return run.combine_now(task, operands)
    if plan.draws is not None:  # chance: the facts of each row are created when it runs
        return _combine_later(common, task, operands)
    taking_part = [d for d, skip in zip(operands, skipped, strict=True) if not skip]
    kind = common.kind("combine", len(taking_part), run_contractions)
    assert isinstance(plan.domain, Symbols)
    form = common.form(plan.domain, all(d.exclusive for d in operands))
    if run.keeps_everything(task, plan, domains):
        remember(sample, operands, task, None)
        return operands[0].copied()
    recipe = common.recipe(kind, plan, form, taking_part)
    remember(sample, operands, task, recipe)
    return requested(common.sample, recipe, taking_part)


def _plan(task: Task, domains: Sequence[Any], skipped: Sequence[bool]) -> Plan:
    active = surroundings().profile
    if active is None:
        return make_plan(task, domains, skipped, Sources(Watch))
    shown = task.condition if task.operation == "filter" else task.function
    with active.operation(task.operation, shown):
        return make_plan(task, domains, skipped, Sources(Watch))


def _combine_later(common: _Common, task: Task, operands: Sequence[Tagged]) -> Tagged:
    """Symbols depend on numbers: functions run later, so what they read must not change."""
    functions = (task.function, task.condition, *(task.on or ()))
    held = [None if f is None else steady(f) for f in functions]
    changing = any(h is None for h, f in zip(held, functions, strict=True) if f is not None)
    if not changing:
        on = tuple(held[2:]) if task.on is not None else None
        task = task._replace(function=held[0], condition=held[1], on=on)
    later = Later.of(task)
    # The task is kept until it has run, so no other function has the same number before.
    identity = later.identity or tuple(map(id, (task.function, task.condition, *(task.on or ()))))
    key = (identity, task.cache, len(operands))
    kind = common.kind(task.operation, key, _run_combinations)
    form = common.form(None, all(d.exclusive for d in operands))
    if changing:
        made = requested(common.sample, Recipe(kind, later, form, common.forms(operands)), operands)
        made.wait()
        return made
    recipe = common.recipe(kind, later, form, operands)
    remember(common.sample, operands, task, recipe)
    return requested(common.sample, recipe, operands)


def unite(sample: Sample, operands: Sequence[Tagged]) -> Tagged:
    """All symbols of all operands; the tags of common symbols are ⊕-ed."""
    common = _common(sample, operands)
    if common is None:
        return run.unite_now(operands)
    domains = [_known(d) for d in operands]
    domain: Any = None
    if None not in domains:
        addresses = [RowAddress(len(own), per_row=False) for own in domains if own is not None]
        domain = union_plan("union", domains, Rows(1, addresses)).domain  # type: ignore[arg-type]
    kind = common.kind("union", len(operands), _run_unions)
    recipe = common.recipe(kind, None, common.form(domain, exclusive=False), operands)
    return requested(common.sample, recipe, operands)


def rowwise(
    name: str,
    operation: Callable[[Tagged], Tagged],
    d: Tagged,
    key: Hashable,
    domain: Symbols | None,
    *,
    exclusive: bool = False,
) -> Tagged:
    """An operation on one distribution, row by row; equal keys mean the same operation.

    `domain`: the symbols of the result, where they are known beforehand.
    """
    around = surroundings()
    sample = around.sample
    if sample is None:
        return operation(d)
    known = recalled_row(around, d, name, key, domain, exclusive)
    if known is not None:
        return known
    common = _common(sample, [d])
    if common is None:
        return operation(d)
    kind, form = common.kind(name, key, _run_rowwise), common.form(domain, exclusive)
    recipe = common.recipe(kind, operation, form, (d,))
    remember_row(sample, d, recipe, name, key, domain, exclusive)
    return requested(common.sample, recipe, (d,))


def read_rows(
    name: str,
    reader: Callable[[Tagged, list[Any]], Sequence[Any]],
    d: Tagged,
    key: Hashable,
    argument: Any = None,
) -> Any:
    """A value per row; inside a sample, of its one row. `reader` gets rows and their arguments."""
    sample, common = surroundings().sample, None
    if sample is not None and isinstance(d, Pending) and not d.node.done:
        common = _common(sample, [d])
    if common is None:
        return reader(d, [argument] * d.batch)
    kind = common.kind(name, key, _run_readers)
    recipe = common.recipe(kind, reader, common.form(None, exclusive=False), (d,))
    return [requested(common.sample, recipe, (d,), argument).value()]


def negated(d: Tagged, world: Symbols | None) -> Tagged:
    """The same symbols, or those of a closed world, with negated tags."""
    if not negates(d.provenance):
        return negating.negated(d, world)  # raises
    domain = d.known_domain if isinstance(d, Pending) else None
    return rowwise("negate", partial(_negated, world), d, world, world or domain)


def _negated(world: Symbols | None, d: Tagged) -> Tagged:
    return negating.negated(d, world)


def sampled(d: Tagged, k: SupportsIndex, method: str, generator: torch.Generator | None) -> Tagged:
    """At most k symbols per row, chosen for each row separately, with their tags unchanged."""
    around = surroundings()
    sample = around.sample
    if sample is not None and type(k) is int and type(method) is str:
        known = recalled_row(around, d, "sample", k, method, id(generator))
        if known is not None:
            return known
    k = selecting.check_sample(k, method, generator)
    common = None if sample is None else _common(sample, [d])
    if sample is None or common is None:
        return selecting.sampled(d, k, method, generator)
    key = (k, method, id(generator))
    kind = common.kind("sample", key, _run_rowwise)
    domain = d.known_domain if isinstance(d, Pending) else None
    if domain is not None and len(domain) <= k:
        remember_row(sample, d, None, "sample", *key)
        return d.copied()
    chosen = partial(_sampled, k, method, generator)
    recipe = common.recipe(kind, chosen, common.form(None, d.exclusive), (d,))
    remember_row(sample, d, recipe, "sample", *key)
    return requested(common.sample, recipe, (d,))


def _sampled(k: int, method: str, generator: torch.Generator | None, d: Tagged) -> Tagged:
    return selecting.sampled(d, k, method, generator)


# -- running many as one ---------------------------------------------------------------------------


def _run_combinations(nodes: Sequence[Node]) -> None:
    later: Later = nodes[0].payload
    task = later.task
    if not later.unchanged():
        names = " and ".join(map(name_of, given_functions(task)))
        raise InputError(
            f"{task.operation}: what {names} reads was changed after the call. Inside "
            "dolphin.batched, functions of symbols that depend on numbers (after dolphin.sample) "
            "run later. Close over the value instead of assigning a name of the module."
        )
    for some in by_source(nodes):
        operands = [operand_of(some, place) for place in range(len(some[0].operands))]
        settle(some, run.combine_now(task, operands))


def _run_unions(nodes: Sequence[Node]) -> None:
    settle(nodes, run.unite_now([operand_of(nodes, at) for at in range(len(nodes[0].operands))]))


def _run_rowwise(nodes: Sequence[Node]) -> None:
    for some in by_source(nodes):
        settle(some, some[0].payload(operand_of(some, 0)))


def _run_readers(nodes: Sequence[Node]) -> None:
    arguments = [argument for node in nodes for argument in node.arguments()]
    rows = spread_out(operand_of(nodes, 0), len(arguments))
    values, start = nodes[0].payload(rows, arguments), 0
    for node in nodes:
        rows = len(node)
        node.values = values[start : start + rows]
        start += rows
        node.settle(None)
