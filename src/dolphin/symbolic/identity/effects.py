"""What code does to containers, texts and new objects.

Which containers it changes, whether it encodes by name, and which objects it makes that may get
into a set, whose order then depends on where they are in memory.
"""

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
_TYPE_CHECKS = frozenset({"isinstance", "issubclass"})
_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", *_ATTRIBUTES})
_LOCALS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
_NOISE = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "KW_NAMES"})
_CONVERTERS = frozenset({"str", "bytes", "bytearray"})  # which take the name of a codec
_FORMATTING = frozenset({"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"})  # f-strings
_SHOWING = frozenset({"format", "format_map", "__format__", "__repr__", "__str__"})
_COLLECTING = frozenset({"BUILD_SET", "SET_ADD", "SET_UPDATE"})
# Names of code that is no function of its own.
_PARTS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_ITERATORS = frozenset({"enumerate", "filter", "map", "reversed", "zip"})
_READERS = frozenset(  # of what their first argument iterates over
    {"all", "any", "dict", "enumerate", "frozenset", "list", "next", "set", "sorted", "sum",
     "tuple", "zip"}
)  # fmt: skip
_UNKNOWN = 99  # arguments of a call that isn't seen


class Effects(NamedTuple):
    """What code does to containers, texts and new objects."""

    changed: frozenset[str]  # names of globals and attributes that are containers it changes
    encodes: bool  # it may use a codec, or a handler of encoding errors, that has a name
    made: frozenset[str]  # names of what it calls, if it does more with a result than read it
    defines: bool  # functions
    collects: bool  # it makes sets
    shows: bool  # it turns objects into texts, other than by a function


@registered("effects of code")
@functools.lru_cache(maxsize=4096)
def effects_of(code: types.CodeType) -> Effects:
    """What code, with all code inside it, does to containers, texts and new objects.

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
    codes = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    inner = [*map(effects_of, codes)]
    return Effects(
        frozenset(_changed(steps)).union(*(each.changed for each in inner)),
        _encodes(steps) or any(each.encodes for each in inner),
        frozenset(_made(steps)).union(*(each.made for each in inner)),
        any(each.co_name not in _PARTS for each in codes),
        any(step.opname in _COLLECTING for step in steps) or any(each.collects for each in inner),
        _shows(steps) or any(each.shows for each in inner),
    )


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


def _shows(steps: Sequence[dis.Instruction]) -> bool:
    texts = any(step.opname == "LOAD_CONST" and isinstance(step.argval, str) for step in steps)
    return any(
        step.opname in _FORMATTING
        or (step.opname in _ATTRIBUTES and step.argval in _SHOWING)
        or (texts and step.opname == "BINARY_OP" and step.argrepr == "%")
        for step in steps
    )


def _made(steps: Sequence[dis.Instruction]) -> Iterator[str]:
    """Names of what is called or passed on, except where only attributes of the result are read."""
    whole = {
        str(step.argval)
        for step, after in itertools.pairwise(steps)
        if step.opname in _LOCALS and after.opname not in _ATTRIBUTES
    }
    for place, step in enumerate(steps):
        if step.opname not in _NAMES or _is_compared(steps, place):
            continue
        call = _call(steps, place)
        after = steps[call + 1] if call is not None else step
        stored = after.opname == "STORE_FAST" and after.argval not in whole
        if call is not None and _is_read(steps, place, call):
            continue
        if not stored and after.opname not in ("RAISE_VARARGS", *_ATTRIBUTES):
            yield str(step.argval)


def _is_read(steps: Sequence[dis.Instruction], place: int, call: int) -> bool:
    """Whether an iterator that is made here is only read from, by a loop or a function."""
    if steps[place].argval not in _ITERATORS:
        return False
    before = place - 1
    while before >= 0 and steps[before].opname == "PUSH_NULL":  # around names, since 3.13
        before -= 1
    reader = steps[before] if before >= 0 else None
    if reader is not None and reader.opname in _NAMES and reader.argval in _READERS:
        return _call(steps, before) is not None
    return steps[call + 1].opname == "GET_ITER"


def _is_compared(steps: Sequence[dis.Instruction], place: int) -> bool:
    """Whether a class is only compared with that of an object: by `isinstance`, `match`, `except`.

    Or is no class, as an attribute of it is read.
    """
    after = [step.opname for step in steps[place + 1 : place + 3]]
    if after[0] in (*_ATTRIBUTES, "CHECK_EXC_MATCH") or after[1:] == ["MATCH_CLASS"]:
        return True
    while steps[place + 1].opname in _NAMES:  # others in the same tuple
        place += 1
    last = steps[place + 1].opname, steps[place + 2].opname if place + 2 < len(steps) else ""
    asked = any(step.opname in _NAMES and step.argval in _TYPE_CHECKS for step in steps)
    return asked and (last[0] == "CALL" or last == ("BUILD_TUPLE", "CALL"))


def _arguments(steps: Sequence[dis.Instruction], place: int) -> int:
    """The number of arguments that the value just loaded is called with."""
    call = _call(steps, place)
    return _UNKNOWN if call is None else steps[call].arg or 0


def _call(steps: Sequence[dis.Instruction], place: int) -> int | None:
    """Where the value just loaded is called; None if that isn't clear."""
    height = 0
    after = place + 1
    if after < len(steps) and steps[after].opname == "PUSH_NULL":  # since 3.13
        after += 1
    for number, step in enumerate(steps[after:], after):
        if step.opname in ("CALL", "CALL_KW") and step.arg is not None and height == step.arg:
            return number
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return None
        height += _effect(step)
        if height < 0:  # passed on
            return None
    return None


def _effect(step: dis.Instruction) -> int:
    """By how much an instruction changes the height of the stack."""
    if step.opname == "CALL":  # in 3.11 shared with PRECALL; the callable is two values high
        return -(step.arg or 0) - 1
    return dis.stack_effect(step.opcode, step.arg, jump=False)
