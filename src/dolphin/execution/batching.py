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
from typing import Any, NamedTuple

import torch

from dolphin.execution import run, selecting
from dolphin.execution.contractions import operand_of, run_contractions, settle, spread_out
from dolphin.execution.draws import repeats_draws
from dolphin.execution.entries import Watch
from dolphin.execution.pending import Form, Kind, Node, Pending, Run, Waiting
from dolphin.execution.steady import steady
from dolphin.execution.tagged import Tagged
from dolphin.execution.tracing import Notes
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.registry import negates
from dolphin.symbolic.chance import Sources
from dolphin.symbolic.identity import key_of, lasting
from dolphin.symbolic.planning import make_plan, union_plan
from dolphin.symbolic.plans import Plan, RowAddress, Rows
from dolphin.symbolic.surroundings import surroundings
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tasks import Task


class _Common(NamedTuple):
    """What the operands of a sample's operation have in common."""

    sample: Waiting
    provenance: Provenance
    info: TagInfo

    def key(self, *more: Hashable) -> Hashable:
        return (self.provenance, self.info.device, self.info.dtype, *more)

    def node(
        self,
        name: str,
        key: Hashable,
        run: Run,
        operands: Sequence[Tagged],
        payload: Any = None,
    ) -> Node:
        kind = self.sample.agenda.kind(name, self.key(key), run)
        return Node(self.sample, kind, operands, payload)


class _Recipe(NamedTuple):
    """How an operation is recorded, to be reused for others with the same key."""

    kind: Kind
    plan: Plan | None  # None: it is built when the operation runs
    taking_part: tuple[bool, ...] | None  # which operands have tags; None: all of them
    form: Form
    nothing: bool = False  # whether the result is the operand


def _common(sample: Waiting, operands: Sequence[Tagged]) -> _Common | None:
    """None where an operation runs at once: not on single rows alike."""
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


def combine(sample: Waiting, task: Task, operands: Sequence[Tagged]) -> Tagged:
    """The result of a task."""
    key = _recipe_key(sample, task, operands)
    recipe = None if key is None else sample.agenda.recipes.get(key)
    if recipe is None or (recipe.plan is None and repeats_draws()):
        return _combine_anew(sample, task, operands, key)
    if recipe.nothing:
        return operands[0].copied()
    taking_part = recipe.taking_part
    if taking_part is not None:
        operands = [d for d, takes_part in zip(operands, taking_part, strict=True) if takes_part]
    payload = task if recipe.plan is None else recipe.plan
    return Pending.of(Node(sample, recipe.kind, operands, payload), recipe.form)


def _recipe_key(sample: Waiting, task: Task, operands: Sequence[Tagged]) -> Hashable | None:
    """A key for how a combination is recorded, where it is cheap to compute.

    With it, recording an operation takes a third of the time.
    """
    around = surroundings()
    if around.profile is not None or around.execution is not None:
        return None
    filtering = task.operation == "filter"  # then the function is Dolphin's own
    function = task.function if filtering else lasting(task.function)
    condition = lasting(task.condition)
    if function is None or condition is None or task.on is not None:
        return None
    agenda = sample.agenda
    forms: list[Hashable] = []
    for d in operands:
        if not isinstance(d, Pending):
            return None
        forms.append(d.form(agenda))
    return (id(agenda.mode()), task.operation, function, condition, task.cache, *forms)


def _combine_anew(
    sample: Waiting, task: Task, operands: Sequence[Tagged], key: Hashable | None
) -> Tagged:
    common = _common(sample, operands)
    if common is None:
        return run.combine_now(task, operands)
    domains = [_known(d) for d in operands]
    if None in domains:
        if repeats_draws():  # the function may draw
            return run.combine_now(task, operands)
        return _combine_later(common, task, operands, key)
    skipped = run.left_out(common.provenance, operands)
    plan = _plan(task, domains, skipped)
    if plan.draws is not None and repeats_draws():  # which draws these are is known here only
        return run.combine_now(task, operands)
    if plan.draws is not None:  # chance: the facts of each row are created when it runs
        return _combine_later(common, task, operands, key)
    taking_part = [d for d, skip in zip(operands, skipped, strict=True) if not skip]
    agenda = common.sample.agenda
    kind = agenda.kind("combine", common.key(len(taking_part)), run_contractions)
    assert isinstance(plan.domain, Symbols)
    exclusive = all(d.exclusive for d in operands)
    form = agenda.form(plan.domain, common.provenance, common.info, exclusive)
    nothing = run.keeps_everything(task, plan, domains)
    if key is not None:
        chosen = tuple(not skip for skip in skipped)
        agenda.recipes[key] = _Recipe(kind, plan, None if all(chosen) else chosen, form, nothing)
    if nothing:
        return operands[0].copied()
    return Pending.of(Node(common.sample, kind, taking_part, plan), form)


def _plan(task: Task, domains: Sequence[Any], skipped: Sequence[bool]) -> Plan:
    active = surroundings().profile
    if active is None:
        return make_plan(task, domains, skipped, Sources(Watch))
    shown = task.condition if task.operation == "filter" else task.function
    with active.operation(task.operation, shown):
        return make_plan(task, domains, skipped, Sources(Watch))


def _combine_later(
    common: _Common, task: Task, operands: Sequence[Tagged], recipe: Hashable | None
) -> Tagged:
    """Symbols depend on numbers: functions run later, so what they read must not change."""
    functions = (task.function, task.condition, *(task.on or ()))
    held = [None if f is None else steady(f) for f in functions]
    changing = any(h is None for h, f in zip(held, functions, strict=True) if f is not None)
    identity = key_of(task.operation, functions, task.cache)  # tensors count as themselves
    if not changing:
        on = (held[2], held[3]) if task.on is not None else None
        task = task._replace(function=held[0], condition=held[1], on=on)
    if identity is None:
        identity = tuple(map(id, functions))
    key = (identity, task.cache, len(operands))
    node = common.node(task.operation, key, _run_combinations, operands, task)
    agenda, exclusive = common.sample.agenda, all(d.exclusive for d in operands)
    form = agenda.form(None, common.provenance, common.info, exclusive)
    if changing:
        node.wait()
    elif recipe is not None:
        agenda.recipes[recipe] = _Recipe(node.kind, None, None, form)
    return Pending.of(node, form)


def unite(sample: Waiting, operands: Sequence[Tagged]) -> Tagged:
    """All symbols of all operands; the tags of common symbols are ⊕-ed."""
    common = _common(sample, operands)
    if common is None:
        return run.unite_now(operands)
    domains = [_known(d) for d in operands]
    domain: Any = None
    if None not in domains:
        addresses = [RowAddress(len(own), per_row=False) for own in domains if own is not None]
        domain = union_plan("union", domains, Rows(1, addresses)).domain  # type: ignore[arg-type]
    node = common.node("union", len(operands), _run_unions, operands)
    return Pending(node, common.provenance, common.info, domain=domain)


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
    sample = surroundings().sample
    if sample is None:
        return operation(d)
    agenda, whole = sample.agenda, None
    if isinstance(d, Pending):
        whole = (name, key, d.form(agenda), domain, exclusive, id(agenda.mode()))
    recipe = agenda.recipes.get(whole)
    if recipe is None:
        common = _common(sample, [d])
        if common is None:
            return operation(d)
        kind = agenda.kind(name, common.key(key), _run_rowwise)
        recipe = kind, agenda.form(domain, common.provenance, common.info, exclusive)
        if whole is not None:
            agenda.recipes[whole] = recipe
    return Pending.of(Node(sample, recipe[0], [d], operation), recipe[1])


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
    node = common.node(name, key, _run_readers, [d], (reader, argument))
    return [node.wait().value]


def negated(d: Tagged, world: Symbols | None) -> Tagged:
    """The same symbols, or those of a closed world, with negated tags."""
    if not negates(d.provenance):
        return selecting.negated(d, world)  # raises
    domain = d.known_domain if isinstance(d, Pending) else None
    return rowwise("negate", partial(_negated, world), d, world, world or domain)


def _negated(world: Symbols | None, d: Tagged) -> Tagged:
    return selecting.negated(d, world)


def sampled(d: Tagged, k: int, method: str, generator: torch.Generator | None) -> Tagged:
    """At most k symbols per row, chosen for each row separately, with their tags unchanged."""
    selecting.check_sample(k, method, generator)
    if isinstance(d, Pending) and d.known_domain is not None and len(d.known_domain) <= k:
        return d.copied()
    chosen = partial(_sampled, k, method, generator)
    return rowwise("sample", chosen, d, (k, method, id(generator)), None, exclusive=d.exclusive)


def _sampled(k: int, method: str, generator: torch.Generator | None, d: Tagged) -> Tagged:
    return selecting.sampled(d, k, method, generator)


# -- running many as one ---------------------------------------------------------------------------


def _run_combinations(nodes: Sequence[Node]) -> None:
    task: Task = nodes[0].payload
    operands = [operand_of(nodes, place) for place in range(len(nodes[0].operands))]
    settle(nodes, run.combine_now(task, operands))


def _run_unions(nodes: Sequence[Node]) -> None:
    settle(nodes, run.unite_now([operand_of(nodes, at) for at in range(len(nodes[0].operands))]))


def _run_rowwise(nodes: Sequence[Node]) -> None:
    settle(nodes, nodes[0].payload(operand_of(nodes, 0)))


def _run_readers(nodes: Sequence[Node]) -> None:
    reader = nodes[0].payload[0]
    rows = spread_out(operand_of(nodes, 0), len(nodes))
    values = reader(rows, [node.payload[1] for node in nodes])
    for node, value in zip(nodes, values, strict=True):
        node.settle(None, value=value)
