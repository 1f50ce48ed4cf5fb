"""What code does to containers and texts: which it changes, and whether it encodes by name."""

from __future__ import annotations

import dis
import functools
import itertools
import types
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dolphin.symbolic.bounded import registered

_CHANGING = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop",
     "popitem", "popleft", "remove", "reverse", "rotate", "setdefault", "sort", "update"}
)  # fmt: skip
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", *_ATTRIBUTES})
_LOCALS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
_NOISE = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "KW_NAMES"})
_CONVERTERS = frozenset({"str", "bytes", "bytearray"})  # which take the name of a codec
_UNKNOWN = 99  # arguments of a call that isn't seen


class Effects(NamedTuple):
    """What code does to containers and texts."""

    changed: frozenset[str]  # names of globals and attributes that are containers it changes
    encodes: bool  # it may use a codec, or a handler of encoding errors, that has a name


@registered("effects of code")
@functools.lru_cache(maxsize=4096)
def effects_of(code: types.CodeType) -> Effects:
    """What code, with all code inside it, does to containers and texts.

    >>> table, cache = {}, {}
    >>> def look_up(key):
    ...     cache[key] = table[key]
    ...     return str(key).encode()
    >>> sorted(effects_of(look_up.__code__).changed), effects_of(look_up.__code__).encodes
    (['cache'], False)
    >>> effects_of((lambda x: x.encode("latin-1")).__code__).encodes
    True
    """
    steps = [i for i in dis.get_instructions(code) if i.opname not in _NOISE]
    inner = [effects_of(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    changed = frozenset(_changed(steps)).union(*(each.changed for each in inner))
    return Effects(changed, _encodes(steps) or any(each.encodes for each in inner))


def _changed(steps: Sequence[dis.Instruction]) -> Iterator[str]:
    origins = {
        str(after.argval): str(before.argval)
        for before, after in itertools.pairwise(steps)
        if before.opname in _NAMES and after.opname == "STORE_FAST"
    }
    for place, step in enumerate(steps):
        if step.opname in _ATTRIBUTES and step.argval in _CHANGING:
            yield from _name(steps, place - 1, origins)
        elif step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            yield from _name(steps, _start_of_value(steps, place) - 1, origins)


def _name(steps: Sequence[dis.Instruction], place: int, origins: dict[str, str]) -> Iterator[str]:
    """The name of the container that this instruction loads; all names if that isn't clear."""
    step = steps[max(place, 0)]
    if place >= 0 and step.opname in _NAMES:
        yield str(step.argval)
    elif place >= 0 and step.opname in _LOCALS:
        yield origins.get(step.argval, str(step.argval))
    else:
        yield from (str(each.argval) for each in steps if each.opname in _NAMES)


def _start_of_value(steps: Sequence[dis.Instruction], end: int) -> int:
    """Where the instructions begin that load the topmost value; -1 if that isn't clear."""
    height = 0
    for place in range(end - 1, -1, -1):
        height += _effect(steps[place])
        if height >= 1:
            return place if height == 1 else -1
    return -1


def _encodes(steps: Sequence[dis.Instruction]) -> bool:
    for place, step in enumerate(steps):
        if step.opname in _ATTRIBUTES and step.argval in ("encode", "decode"):
            if _arguments(steps, place) > 0:
                return True
        elif step.opname in _NAMES and step.argval in _CONVERTERS and _arguments(steps, place) > 1:
            return True
    return False


def _arguments(steps: Sequence[dis.Instruction], place: int) -> int:
    """The number of arguments that the value just loaded is called with."""
    height = 0
    after = place + 1
    if after < len(steps) and steps[after].opname == "PUSH_NULL":  # since 3.13
        after += 1
    for step in steps[after:]:
        if step.opname in ("CALL", "CALL_KW") and step.arg is not None and height == step.arg:
            return height
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return _UNKNOWN
        height += _effect(step)
        if height < 0:  # passed on
            return _UNKNOWN
    return _UNKNOWN


def _effect(step: dis.Instruction) -> int:
    """By how much an instruction changes the height of the stack."""
    if step.opname == "CALL":  # in 3.11 shared with PRECALL; the callable is two values high
        return -(step.arg or 0) - 1
    return dis.stack_effect(step.opcode, step.arg, jump=False)
