"""How all operations work: check the operands, make or find the plan, run it on the tags."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.distribution import Distribution
from dolphin.errors import InputError, MismatchError, shorten
from dolphin.execution.deferred import Deferred
from dolphin.execution.indices import Contraction, Index
from dolphin.execution.profiling import active_profile
from dolphin.provenance.contract import Provenance, Tags
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Plan, Rows, RowSymbols, Task, caches, check_rows, make_plan

Function = Callable[..., Any]


def combine(task: Task, operands: Sequence[Distribution], where: Any) -> Distribution:
    """The distribution that a task makes of its operands."""
    active = active_profile()
    if active is None:
        return _combined(task, operands, where)
    shown = task.condition if task.operation == "filter" else task.function
    with active.operation(task.operation, shown):
        return _combined(task, operands, where)


def _combined(task: Task, operands: Sequence[Distribution], where: Any) -> Distribution:
    provenance, batch = check(task.operation, operands)
    mask = None if where is None else _mask(task.operation, where, batch)
    domains = [d._domain for d in operands]
    skipped = [d._certain() for d in operands]
    if all(d._shared() for d in operands):
        plan = make_plan(task, domains, skipped)
        if mask is None and len(operands) == 2 and _worth_waiting(plan.contraction, *operands):
            waiting = Deferred(operands[0], plan.contraction, operands[1]._tags)
            return Distribution._make(plan.domain, waiting, provenance, batch)
        tags = [d._tags for d in operands if d._tags is not None]
        result = run(plan, tags, provenance, batch)
        if mask is None:
            return result
        if result._domain is operands[0]._domain:
            return _where_shared(mask, result, operands[0])
        return _where_rows(mask.cpu().numpy(), result, operands[0])
    flat = [
        (None, 1) if skip else d._flat_tags() for d, skip in zip(operands, skipped, strict=True)
    ]
    active = None if mask is None else mask.cpu().numpy()
    plan = make_plan(task, domains, skipped, Rows(batch, [count for _, count in flat], active))
    result = run(plan, [tags for tags, _ in flat if tags is not None], provenance, batch)
    return result if active is None else _where_rows(active, result, operands[0])


def _worth_waiting(contraction: Contraction, first: Distribution, second: Distribution) -> bool:
    """Are the tags better computed when somebody reads them?"""
    if contraction.sizes is None or active_profile() is not None:
        return False
    if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
        return False
    other = second._tags
    like = other if isinstance(first._made, Deferred) else first._tags
    return first._provenance.waits(contraction, (like, other))


def run(plan: Plan, tags: Sequence[Tags], provenance: Provenance, batch: int) -> Distribution:
    """The distribution that a plan makes of its operands' tags."""
    if not tags:  # only certain operands: one symbol a row, still certain
        return Distribution._make(plan.domain, None, provenance, batch)
    active = active_profile()
    if active is None:
        made = _run_tags(plan, tags, provenance)
    else:
        with active.tags(plan.contraction.combinations):
            made = _run_tags(plan, tags, provenance)
    return Distribution._make(plan.domain, made, provenance, batch)


def _run_tags(plan: Plan, tags: Sequence[Tags], provenance: Provenance) -> Tags:
    selection = plan.contraction.selection
    if selection is not None:
        return provenance.select(tags[0], selection)
    return provenance.contract(tags, plan.contraction)


def _where_shared(mask: Tensor, new: Distribution, old: Distribution) -> Distribution:
    """`new` in the rows of the mask, `old` in the others; both have the same symbols."""
    like = old._tags if new._tags is None else new._tags
    parts = new._tags_like(like), old._tags_like(like)
    device = new._provenance.describe(parts[0])[0]
    tags = new._provenance.where(mask.to(device), *parts)
    return Distribution._make(new._domain, tags, new._provenance, new._batch)


def _where_rows(active: np.ndarray, new: Distribution, old: Distribution) -> Distribution:
    """`new` in the active rows, `old` in the others, each row with its own symbols."""
    table = caches.current_table()
    like = old._tags if new._tags is None else new._tags
    batch, width = new._batch, max(new._width(), old._width())
    numbers = np.full((batch, width), ABSENT, dtype=np.int64)
    places = np.full((batch, width), -1, dtype=np.int64)
    parts, start = [], 0
    for d, rows in ((new, active), (old, ~active)):
        own = np.broadcast_to(d._domain.in_table(table), (batch, d._width()))
        flat, count = d._flat_tags(like)
        at = start + np.arange(d._width()) + np.arange(batch)[:, None] * d._width() * (count > 1)
        numbers[rows, : d._width()] = own[rows]
        places[rows, : d._width()] = np.where(own == ABSENT, -1, at)[rows]
        parts.append(flat)
        start += count * d._width()
    tags = new._provenance.pick(parts, Index(places.reshape(-1)))
    return Distribution._make(RowSymbols(table, numbers), tags, new._provenance, batch)


_USAGE = {
    "apply": "apply(d1, ..., dK, f)",
    "apply_if": "apply_if(d1, ..., dK, f, cond), or apply_if(d1, d2, f, on=(key1, key2))",
    "filter": "filter(d, predicate)",
    "union": "union(d1, d2, ...)",
    "stack": "Distribution.stack([d1, d2, ...])",
}
_WITH_FUNCTIONS = ("apply", "apply_if", "filter")


def split(
    operation: str, arguments: Sequence[Any], functions: int
) -> tuple[Sequence[Distribution], Sequence[Function]]:
    """Leading distributions, then exactly so many functions."""
    count = len(arguments) - functions
    operands, rest = arguments[:count], arguments[count:]
    if count < 1:
        raise InputError(f"{operation}: got no distribution. Write {_usage(operation)}.")
    for place, operand in enumerate(operands):
        if not isinstance(operand, Distribution):
            raise InputError(
                f"{operation}: argument {place + 1} must be a Distribution, got "
                f"{type(operand).__name__} {shorten(operand, 40)}. Write {_usage(operation)}."
            )
    for place, function in enumerate(rest):
        if isinstance(function, Distribution) or not callable(function):
            raise InputError(
                f"{operation}: expected a function after {count} distribution"
                f"{'s' * (count != 1)}, got {type(function).__name__} {shorten(function, 40)}. "
                f"Write {_usage(operation)}."
            )
        if operation in _WITH_FUNCTIONS:
            _check_arity(operation, ("function", "condition")[place], function, count)
    return operands, rest


def _usage(operation: str) -> str:
    return _USAGE.get(operation, f"{operation}(d, ...)")


def _takes(function: Function, count: int) -> bool:
    """The usual case, without building a signature: plain positional parameters that fit."""
    code = function.__code__
    bound = isinstance(function, types.MethodType)
    fewest = code.co_argcount - len(function.__defaults__ or ()) - bound
    return fewest <= count <= code.co_argcount - bound and code.co_kwonlyargcount == 0


def _check_arity(operation: str, role: str, function: Function, count: int) -> None:
    """Refuse a function that can't take `count` arguments before any symbol is touched."""
    if getattr(function, "__code__", None) is None:
        return  # built-in functions and classes often have no signature: calling them will tell
    if _takes(function, count):
        return
    try:
        inspect.signature(function).bind(*([None] * count))
    except TypeError as error:
        name = getattr(function, "__qualname__", "the function")
        raise InputError(
            f"{operation}: the {role} {name}{inspect.signature(function)} does not take {count} "
            f"argument{'s' * (count != 1)} ({error}). {operation} calls it with one symbol from "
            f"each of {count} distribution{'s' * (count != 1)}."
        ) from None
    except ValueError:
        return


def check(
    operation: str, operands: Sequence[Distribution], *, rows: bool = True
) -> tuple[Provenance, int]:
    """Operands must agree in provenance, device and batch size."""
    tagged = [d for d in operands if d._made is not None] or operands[:1]
    first = tagged[0]
    for other in tagged[1:]:
        if other._provenance is not first._provenance and other._provenance != first._provenance:
            raise MismatchError(
                f"{operation}: operands have different provenances: {first._provenance!r} and "
                f"{other._provenance!r}. Create all inputs of a program with the same one, e.g. in "
                "one `with dolphin.using(...)` block."
            )
        if other.device != first.device:
            raise MismatchError(
                f"{operation}: operands are on different devices: {first.device} and "
                f"{other.device}. Move the networks' outputs to one device first."
            )
    batch = check_rows(operation, [d._batch for d in operands]) if rows else 0
    return first._provenance, batch


def _mask(operation: str, where: Any, batch: int) -> Tensor:
    mask = torch.as_tensor(where)
    if mask.dtype != torch.bool or mask.shape != (batch,):
        raise InputError(
            f"{operation}: where= must be a mask of {batch} booleans, one per row, got shape "
            f"{tuple(mask.shape)} of {mask.dtype}."
        )
    return mask
