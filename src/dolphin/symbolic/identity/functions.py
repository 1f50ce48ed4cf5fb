"""When two user functions are the same.

A function is identified by its code and by everything that the code reads: what it closes over,
globals, defaults, attributes of `self`, the user's helper functions and what those read in turn.
All of it counts by content, so a lambda written inside `forward` is the same function at every
step, and one that closes over another value is a different function.

Content is what this module can see: plain values and containers of them, values such as
enum members and frozen dataclasses, and objects of which only attributes are read that are plain
themselves (`self.rules.depth`). An object that is used as a whole (passed on, called, iterated,
read through `getattr`) can hold anything; a function that uses one is not remembered, and
`Identity.reason` says why. A cache that lies is worse than none.

Functions that assign what they don't own (`self.k = ...`, `global`, `nonlocal`) are not remembered
either. Appending to a list or set that the function doesn't otherwise read is harmless.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from dolphin.errors import FunctionError
from dolphin.inputs.arguments import flag
from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.identity.contents import Reader
from dolphin.symbolic.identity.purity import is_declared
from dolphin.symbolic.identity.randomness import ChanceError
from dolphin.symbolic.identity.trails import Trail, everywhere, is_bare, trail_of
from dolphin.symbolic.identity.values import Slot, TooMuchError
from dolphin.symbolic.surroundings import surroundings


class Identity(NamedTuple):
    """A key that is equal for functions that behave alike, or why there is none."""

    key: Hashable | None
    reason: str = ""


class _Hashed:
    """A key whose hash is computed once: that of code takes longer than finding a plan by it."""

    __slots__ = ("_hash", "_key")

    def __init__(self, key: Hashable) -> None:
        self._key, self._hash = key, hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, _Hashed):
            return NotImplemented
        return self._hash == other._hash and self._key == other._key


def identify(
    function: Callable[..., Any],
    operation: str = "apply",
    slot: Slot | None = None,
    now: Hashable | None = None,
) -> Identity:
    """The identity of `function`. Raises `FunctionError` if it reads randomness or a clock.

    `now` is `everywhere()`, if that is known already.

    >>> box = []
    >>> identify(lambda x: x in map(str, box)).key is None
    False
    >>> identify(lambda x: getattr(x, "name")).reason
    'calls `getattr`, which can read anything'
    """
    look = _looked_at(function, now)
    if look is not None:
        return look.identity
    reader = Reader(slot)
    try:
        key = reader.identity(function)
    except ChanceError as error:
        raise FunctionError(
            f"{operation}: the function {name_of(function)} reads {error}. A function runs once "
            "per combination of symbols, for all rows and steps: it can't draw or tell the time. "
            "Return dolphin.weighted({outcome: weight, ...}) for a choice at random, draw symbols "
            'with dolphin.sample(d, k, method="categorical"), or pass the drawn value as an '
            "operand (Distribution.certain)."
        ) from None
    except TooMuchError as error:
        return Identity(None, str(error))
    except Exception as error:  # inspecting an object can raise anything
        return Identity(None, f"inspecting what it reads raised {type(error).__name__}")
    if reader.of_thread and surroundings().sample is not None:
        raise FunctionError(
            f"{operation}: the function {name_of(function)} reads `{reader.of_thread}`, a "
            "threading.local, and samples of a batched program run in threads of their own: it "
            "would not be the caller's value. Use a contextvars.ContextVar, or pass the value on."
        )
    if reader.reasons:
        return Identity(None, reader.reasons[0])
    return _noted_look(function, Identity(_Hashed(key)))


def fingerprint(
    function: Callable[..., Any], operation: str = "apply", slot: Slot | None = None
) -> Hashable | None:
    """A key that is equal for functions that behave alike, or None if there is none.

    >>> def adder(n): return lambda x: x + n
    >>> one, again, two = (fingerprint(adder(n)) for n in (1, 1, 2))
    >>> one == again, one == two
    (True, False)
    """
    return identify(function, operation, slot).key


class NotRemembered(NamedTuple):
    """A function whose results are computed again in every operation, and why."""

    name: str
    reason: str


_MOST_NOTED = 100
_noted: BoundedCache[tuple[str, str], NotRemembered] = BoundedCache(_MOST_NOTED)
register("functions not remembered", _noted.__len__, _noted.clear)


def note_not_remembered(function: Callable[..., Any], reason: str) -> None:
    """Report in `cache_info` and in the enclosing profile that a function is not remembered."""
    name = name_of(function)
    _noted.put((name, reason), NotRemembered(name, reason))
    profile = surroundings().profile
    if profile is not None:
        profile.not_remembered(f"{name} {reason}")


def key_of(
    operation: str,
    functions: Iterable[Callable[..., Any] | None],
    cache: bool = True,
    slot: Slot | None = None,
) -> Hashable | None:
    """One key for all functions of an operation, or None if they must not be remembered.

    Every function is inspected, even with `cache=False`: none may read a clock.
    """
    if cache is not True:
        flag(operation, "cache", cache)
    parts: list[Hashable] = []
    now = everywhere()
    for function in functions:
        if function is None:
            parts.append("none")
            continue
        key, reason = identify(function, operation, slot, now)
        if key is None and cache:
            note_not_remembered(function, reason)
        parts.append(key)
    return tuple(parts) if cache and None not in parts else None


def not_remembered() -> tuple[NotRemembered, ...]:
    """The functions that were not remembered recently, the latest last."""
    return tuple(_noted.values())


class _Look(NamedTuple):
    """The identity of a function when it was last inspected, and what it read."""

    code: types.CodeType
    scope: dict[str, Any]
    trail: Trail
    identity: Identity


_MOST_LOOKS = 1024
_looks: BoundedCache[int, _Look] = BoundedCache(_MOST_LOOKS)
register("functions inspected", _looks.__len__, _looks.clear)


def _looked_at(function: Any, now: Hashable | None = None) -> _Look | None:
    """The last inspection of a function, if all that it reads is still the same.

    It costs a tenth of a `Reader`, which every operation would otherwise need for every function.
    """
    if type(function) is not types.FunctionType:
        return None
    look = _looks.peek(id(function.__code__))
    if look is None or look.code is not function.__code__:
        return None
    if look.scope is not function.__globals__ or not is_bare(function):
        return None
    return look if look.trail.unchanged(now) else None


def _noted_look(function: Any, identity: Identity) -> Identity:
    """Keep an inspection if its trail can be recorded."""
    if type(function) is types.FunctionType and not is_declared(function):
        trail = trail_of(function)
        if trail is not None:
            code = function.__code__
            _looks.replace(id(code), _Look(code, function.__globals__, trail, identity))
    return identity


def lasting(function: Callable[..., Any] | None) -> Hashable | None:
    """An object that stands for a function as long as nothing that it reads changes.

    None for functions that were not inspected (`identify`), or read more than a `Trail` records.

    >>> def larger(x, y): return max(x, y)
    >>> lasting(max) is max, lasting(larger) is None
    (True, True)
    >>> key = fingerprint(larger)
    >>> lasting(larger) is lasting(larger) is not None
    True
    """
    if function is None:
        return "none"
    if type(function) is types.FunctionType:
        look = _looked_at(function)
        return None if look is None else look.trail
    if isinstance(function, types.BuiltinFunctionType):
        return function if type(function.__self__) is types.ModuleType else None
    return None


def name_of(function: Callable[..., Any] | None) -> str:
    """The name of a function for messages; for a lambda its file and line."""
    if function is None:
        return ""
    name = getattr(function, "__qualname__", None)
    name = name if isinstance(name, str) else type(function).__name__
    name = name.rpartition("<locals>.")[2]
    code = getattr(function, "__code__", None)
    if code is None or "<lambda>" not in name:
        return name
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"lambda at {file}:{code.co_firstlineno}"
