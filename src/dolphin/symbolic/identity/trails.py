"""A record of what a function reads, to check cheaply whether it is still the same function.

Inspecting all that a function reads (`contents.Reader`) takes longer than most small operations.
Where that is names, plain values and plain containers, a `Trail` records each place together with
the object found there: as long as the same objects are in the same places, nothing has changed.
"""

from __future__ import annotations

import abc
import locale
import re
import sys
import types
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from operator import is_
from typing import Any

import numpy as np

from dolphin.symbolic.identity.bytecode import Use, uses_of
from dolphin.symbolic.identity.classes import ABOUT_CLASSES
from dolphin.symbolic.identity.codec_state import state_of_codecs
from dolphin.symbolic.identity.effects import effects_of
from dolphin.symbolic.identity.libraries import is_library_function, of_library, of_numpy, stateless
from dolphin.symbolic.identity.library_state import (
    PLAIN,
    Library,
    LibraryState,
    state_of,
)
from dolphin.symbolic.identity.marks import Code
from dolphin.symbolic.identity.purity import is_declared
from dolphin.symbolic.identity.reach import implementation_of
from dolphin.symbolic.identity.snapshots import Snapshot
from dolphin.symbolic.identity.values import (
    COMPILED,
    CONVERTERS,
    FLAT,
    NOTHING,
    TUPLE_FIELD,
    library_of,
)

_MOST_PLACES = 500
_SMALLEST = 5e-324
_CONVERTERS = {cls.__name__: cls for cls in CONVERTERS}
# Values whose methods read nothing else.
_WITH_METHODS = FLAT | {tuple, list, dict, set, frozenset, re.Pattern}
_KEYS = type({}.keys())
# Members of a class that lead nowhere: fields and slots.
_FIELDS = (TUPLE_FIELD, types.MemberDescriptorType, types.GetSetDescriptorType, type(None))


def everywhere() -> Hashable:
    """Settings that any code depends on: how deep it may recurse, how numbers are written.

    And whether the processor takes the smallest numbers for 0 (`torch.set_flush_denormal`): as a
    truth value, because a processor that does finds them equal to 0.
    """
    numeric = locale.setlocale(locale.LC_NUMERIC)
    return (sys.getrecursionlimit(), sys.get_int_max_str_digits(), numeric, _SMALLEST * 1.0 > 0.0)


class Trail:
    """The places that a function reads, and the objects found there."""

    __slots__ = (
        "_cells",
        "_classes",
        "_codecs",
        "_containers",
        "_encodes",
        "_everywhere",
        "_functions",
        "_libraries",
        "_modules",
        "_names",
        "_patchable",
        "_settings",
        "_snapshot",
    )

    def __init__(self) -> None:
        self._everywhere = everywhere()
        self._encodes = False
        self._codecs: LibraryState | None = None  # if it encodes
        self._patchable: list[_Patchable] = []  # functions of libraries
        self._libraries: dict[Library, LibraryState] = {}
        self._snapshot: Snapshot | None = None  # of all of them
        self._settings: list[tuple[Callable[[], Hashable], Hashable]] = []
        self._modules: list[types.ModuleType] = []
        self._names: list[tuple[Mapping[str, Any], str, Any]] = []
        self._functions: list[tuple[types.FunctionType, types.CodeType, _Texts]] = []
        self._containers: list[tuple[Collection[Any], tuple[Any, ...]]] = []
        self._classes: list[tuple[type, tuple[Any, ...]]] = []
        self._cells: list[tuple[types.CellType, Any]] = []  # of functions of libraries

    def unchanged(self, now: Hashable | None = None) -> bool:
        """Whether the same objects are still in all places. `now`: `everywhere()`, if known."""
        if (now or everywhere()) != self._everywhere:
            return False
        for module in self._modules:
            if type(module) is not types.ModuleType:
                return False
        if self._codecs is not None and state_of_codecs() != self._codecs:
            return False
        if self._snapshot is not None and not self._libraries_unchanged():
            return False
        for scope, name, value in self._names:
            if scope.get(name, NOTHING) is not value:
                return False
        for container, items in self._containers:
            if len(container) != len(items) or not all(map(is_, container, items)):
                return False
        for function, code, (name, qualname, text) in self._functions:
            if (
                function.__code__ is not code
                or function.__name__ is not name
                or function.__qualname__ is not qualname
                or function.__doc__ is not text
                or function.__closure__  # `is_bare`, without a call
                or function.__defaults__
                or function.__kwdefaults__
                or function.__dict__
            ):
                return False
        return not self._classes or self._classes_unchanged()

    def _classes_unchanged(self) -> bool:
        return all(_about(cls) == about for cls, about in self._classes) and all(
            _held_by(cell) is value for cell, value in self._cells
        )

    def _libraries_unchanged(self) -> bool:
        assert self._snapshot is not None
        return (
            all(settings() == before for settings, before in self._settings)
            and self._snapshot.unchanged()
            and all(map(_Patchable.unchanged, self._patchable))
        )

    # -- walking -----------------------------------------------------------------------------------

    def follow(self, function: types.FunctionType) -> bool:
        """Record what a function reads; False if it reads more than can be recorded."""
        if any(known is function for known, *_ in self._functions):  # recursion
            return True
        if not is_bare(function) or is_declared(function):
            return False
        self._functions.append((function, function.__code__, _texts_of(function)))
        # `exec` may have given it other built-ins than the usual ones.
        scopes = function.__globals__, function.__builtins__
        uses = uses_of(function.__code__)
        self._encodes |= effects_of(function.__code__).encodes
        for name in uses.implicit:
            self._read(function.__builtins__, name)
        return all(self._use(use, *scopes) for use in uses.chains)

    def finish(self) -> bool:
        """Record the state of all libraries, and of codecs; False if user code is part of it."""
        if self._libraries or self._patchable or self._settings:
            self._snapshot = Snapshot.of_all(s.snapshot for s in self._libraries.values())
            settings = {state.settings for state in self._libraries.values()} - {None}
            self._settings += [(each, each()) for each in settings if each is not None]
        self._codecs = state_of_codecs() if self._encodes else None
        return self._codecs is None or not self._codecs.foreign

    def follow_class(self, cls: type) -> bool:
        """Record what the methods of a user's class read; False if that can't be recorded.

        Named tuples can. Dataclasses and enums hold more than names, and are read again each time.
        """
        if any(known is cls for known, _ in self._classes):
            return True
        if type(cls) is not type or "__dataclass_params__" in vars(cls) or is_declared(cls):
            return False
        for base in cls.__mro__:
            if of_library(base.__module__):
                if not self._library(base):
                    return False
                continue
            names = vars(base)
            self._classes.append((base, _about(base)))
            self._containers += [(names.keys(), tuple(names)), (names.values(), (*names.values(),))]
            if not all(self._member(names[name]) for name in names.keys() - ABOUT_CLASSES):
                return False
        return True

    def _member(self, member: Any) -> bool:
        if isinstance(member, _FIELDS):
            return True
        if isinstance(member, (staticmethod, classmethod)):
            member = member.__func__
        return self._value(member)

    def _use(self, use: Use, scope: dict[str, Any], beyond: dict[str, Any]) -> bool:
        if use.root == "first":  # an argument
            return True
        if use.root != "global":
            return False
        value = self._read(scope, use.name)
        if value is NOTHING:
            value = self._read(beyond, use.name)
        if value is NOTHING:
            return True
        for name in use.chain:
            if type(value) is not types.ModuleType:
                break  # a method of a plain value, unless `_value` says that it is none
            self._modules.append(value)
            value = self._read(vars(value), name)
            if value is NOTHING:  # its module may compute it
                return False
        else:
            # Under its own name; `effects` knows what it is called with.
            converts = use.text() in _CONVERTERS and value is _CONVERTERS[use.text()]
            return converts or self._value(value)
        return type(value) in _WITH_METHODS and self._value(value)

    def _read(self, scope: Mapping[str, Any], name: str) -> Any:
        value = scope.get(name, NOTHING)
        self._names.append((scope, name, value))
        return value

    def _value(self, value: Any) -> bool:
        cls = type(value)
        if cls in FLAT:
            return True
        if cls is dict or (cls is types.MappingProxyType and type(value.keys()) is _KEYS):
            return self._items(value.keys(), kept=True) and self._items(value.values(), kept=True)
        if cls in (tuple, frozenset, list, set):
            return self._items(value, kept=cls in (list, set))
        if is_declared(value):
            return False
        if cls is types.FunctionType:
            return self._function(value)
        return self._class(value) if isinstance(value, type) else self._compiled(value)

    def _function(self, function: types.FunctionType) -> bool:
        if not is_library_function(function):
            return self.follow(function)
        self._patchable.append(_Patchable(function))
        root = str(function.__globals__.get("__name__")).partition(".")[0]
        known = all(map(self._cell, function.__closure__ or ()))
        beneath = _stands_alone(function) or (self._library(root) and self._library(function))
        return known and beneath

    def _class(self, cls: type) -> bool:
        if not of_library(cls.__module__):
            return self.follow_class(cls)
        if isinstance(cls, abc.ABCMeta):  # classes can be registered with it
            self._settings.append((abc.get_cache_token, abc.get_cache_token()))
        self._encodes |= cls in CONVERTERS
        return all(map(self._library, cls.__mro__))

    def _compiled(self, value: Any) -> bool:
        """Functions and patterns that are not written in Python; False for other objects."""
        cls = type(value)
        if cls is types.BuiltinFunctionType:
            owner = value.__self__  # `tuple` of `tuple.__new__`
            inside = isinstance(owner, (types.ModuleType, type(None)))
            return (inside or owner is tuple) and self._library(library_of(value))
        if cls is re.Pattern:
            return self._library(cls)
        if cls is np.ufunc:
            return of_numpy(value) and self._library("numpy")
        if cls.__name__ in COMPILED and stateless(getattr(value, "__module__", None)):
            inside = map(self._library, implementation_of(value))
            return self._library(value.__module__) and all(inside)
        return False

    def _cell(self, cell: types.CellType) -> bool:
        value = _held_by(cell)
        self._cells.append((cell, value))
        return value is not NOTHING and self._value(value)

    def _library(self, library: Library) -> bool:
        """Record the settings of a library; False if a user has patched it."""
        state = self._libraries.get(library) or state_of(library)
        if state is not PLAIN:  # which has neither settings nor names that can be patched
            self._libraries[library] = state
            self._encodes |= state.encodes
        return not state.foreign

    def _items(self, items: Collection[Any], kept: bool) -> bool:
        if len(items) > _MOST_PLACES or len(self._containers) > _MOST_PLACES:
            return False
        if kept:
            self._containers.append((items, tuple(items)))
        return all(map(self._value, items))


def trail_of(function: types.FunctionType) -> Trail | None:
    """The trail of a function; None if not all that it reads can be recorded.

    >>> limits = {"low": 1}
    >>> trail = trail_of(eval("lambda x: x > limits['low']", {"limits": limits}))
    >>> trail.unchanged()
    True
    >>> limits["low"] = 2
    >>> trail.unchanged()
    False
    """
    trail = Trail()
    return trail if trail.follow(function) and trail.finish() else None


def trail_of_classes(classes: Iterable[Any]) -> Trail | None:
    """The trail of what the methods of some classes read; None if it can't be recorded.

    >>> from typing import NamedTuple
    >>> class Fact(NamedTuple):
    ...     who: str
    >>> trail = trail_of_classes([Fact])
    >>> trail.unchanged()
    True
    >>> Fact.shown = property(lambda fact: fact.who)
    >>> trail.unchanged()
    False
    """
    trail = Trail()
    known = (isinstance(each, type) and trail.follow_class(each) for each in classes)
    return trail if all(known) and trail.finish() else None


class _Patchable:
    """A function of a library, and what can be replaced in it."""

    __slots__ = ("_code", "_defaults", "_named", "_of", "_parts")

    def __init__(self, function: types.FunctionType) -> None:
        self._of, self._parts = function, Code([function])
        self._code, self._defaults = function.__code__, function.__defaults__
        self._named = bool(function.__kwdefaults__)

    def unchanged(self) -> bool:
        """Whether nothing was replaced: 0.1 instead of 0.9 microseconds where that is plain."""
        function = self._of
        same = function.__code__ is self._code and function.__defaults__ is self._defaults
        named = self._named or function.__kwdefaults__
        return (same and not named) or Code([function]) == self._parts


_Texts = tuple[str, str, str | None]


def _about(cls: type) -> tuple[Any, ...]:
    """What a class has besides the names in it."""
    return (cls.__name__, cls.__qualname__, cls.__mro__)


def _stands_alone(function: types.FunctionType) -> bool:
    """Whether a function reads no name of its module, like the methods of a named tuple."""
    names = (use.name for use in uses_of(function.__code__).chains if use.root == "global")
    scope = function.__globals__
    return scope.get("__name__") == "collections" and scope.keys().isdisjoint(names)


def _held_by(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing
        return NOTHING


def _texts_of(function: types.FunctionType) -> _Texts:
    """What a function that is passed on tells about itself."""
    return (function.__name__, function.__qualname__, function.__doc__)


def is_bare(function: types.FunctionType) -> bool:
    """Whether it is its code and names of its module, and nothing more."""
    return not (
        function.__closure__
        or function.__defaults__
        or function.__kwdefaults__
        or function.__dict__
    )
