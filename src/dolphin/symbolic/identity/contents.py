"""Keys for what a function reads: its code, and everything that its code reaches."""

from __future__ import annotations

import array
import contextvars
import enum
import functools
import itertools
import sys
import threading
import types
from collections.abc import Hashable
from typing import Any

import numpy as np

from dolphin.symbolic.identity.bytecode import Use, uses_of
from dolphin.symbolic.identity.classes import Classes
from dolphin.symbolic.identity.codec_state import state_of_codecs
from dolphin.symbolic.identity.effects import Effects, effects_of
from dolphin.symbolic.identity.libraries import (
    REFLECTION,
    is_library_function,
    of_library,
    stateless,
)
from dolphin.symbolic.identity.marks import Same
from dolphin.symbolic.identity.purity import is_declared
from dolphin.symbolic.identity.randomness import refuse_chance, refuse_methods
from dolphin.symbolic.identity.trails import everywhere
from dolphin.symbolic.identity.values import (
    APPENDING,
    FLAT,
    MAPPINGS,
    NOTHING,
    SEQUENCES,
    TUPLE_FIELD,
    VALUES,
    WRAPPERS,
    current,
)

_OF_MODULES = frozenset(dir(types.ModuleType))
_ORDINARY_LOOKUP = (object.__getattribute__, types.SimpleNamespace.__getattribute__)


class Reader(Classes):
    """One walk over everything that a function reads. `reasons` says why it has no key."""

    # -- functions ---------------------------------------------------------------------------------

    def identity(self, function: Any) -> Hashable:
        """The key of a function that was passed to an operation."""
        key = self._function(function)
        if self._compares and not self.reasons:  # once more, telling equal values apart
            self.start(apart=True)
            key = self._function(function)
        self._check_addresses()
        refuse_methods(self._loose, "torch" in self._libraries, self._samplers)
        return (everywhere(), key, self._codecs() if self._encodes else None)

    def _check_addresses(self) -> None:
        """A hash that is an address differs from call to call; so does the order of a set.

        And so does the text of an object, of which a result may show no more than the length.
        """
        kept = sorted(self._made & self._by_address)
        if self._hashes and self._defines:
            kept.append("function")
        if kept and (self._hashes or self._collects):
            how = "calls `hash`" if self._hashes else "fills sets"
            self._unknown(f"{how}, and makes objects ({kept[0]}) whose hash is their address")
        shown = sorted(self._made & self._shown)
        if shown and self._shows:
            self._unknown(
                f"makes texts, and objects ({shown[0]}) whose text contains their address"
            )

    def _codecs(self) -> Hashable:
        """How texts are encoded, unless users have registered codecs: those can do anything."""
        state = state_of_codecs()
        if not state.foreign:
            return state.key
        name = getattr(state.foreign[0], "__qualname__", "something")
        return self._unknown(f"may encode with a user-defined codec or error handler, `{name}`")

    def _function(self, function: Any) -> Hashable:
        use = Use("global", getattr(function, "__name__", type(function).__name__), ())
        if is_declared(function) or isinstance(function, type):
            return self.value(function, use)
        if isinstance(function, types.FunctionType):
            return self._python(function)
        cls = type(function)
        call = _static(cls, "__call__")
        if isinstance(call, types.FunctionType) and not is_library_function(call):
            return ("callable", self._python(call, function))
        return self.value(function, use)

    def _python(self, function: types.FunctionType, bound: Any = NOTHING) -> Hashable:
        """A user function; `bound` is its first argument where that is known."""
        if is_declared(function):
            return self._pure_function(function, bound)
        mark = (id(function), id(bound))
        if mark in self._seen:  # recursion, or already part of this key
            return ("again", function.__qualname__, len(self._seen))
        self._seen.add(mark)
        self._spend(1)
        code = function.__code__
        uses = uses_of(code)
        self._check(function, uses, bound)
        self._compares |= uses.compares
        self._loose |= uses.loose
        self._note(effects_of(code))
        names = (function.__name__, function.__qualname__, function.__doc__)
        parts = [self._use(use, function, bound) for use in uses.chains]
        if bound is not NOTHING and "super" in code.co_names:
            parts.append(self._parents(code, bound))
        whole = Use("global", function.__name__, ())
        if function.__defaults__ or function.__kwdefaults__:
            parts.append(self.value((function.__defaults__, function.__kwdefaults__), whole))
        if function.__dict__:
            own = {k: v for k, v in function.__dict__.items() if k != "__wrapped__"}
            parts.append(self.value(own, whole))
        return (code, names, *parts)

    def _note(self, effects: Effects) -> None:
        self._encodes |= effects.encodes
        self._collects |= effects.collects
        self._shows |= effects.shows
        self._defines |= effects.defines
        self._made |= effects.made

    def _check(self, function: types.FunctionType, uses: Any, bound: Any) -> None:
        if uses.assigned:
            self._unknown(f"assigns `{uses.assigned[0]}`, which is not its own")
        if uses.rebinds_first and bound is not NOTHING:
            self._unknown(f"reassigns its first parameter in `{function.__name__}`")
        if uses.passes_super:
            self._unknown("passes on `super()`")
        if uses.relative_import:
            self._unknown("imports a module of its own package when it is called")
        for name in uses.implicit:
            if type(function.__builtins__.get(name)) is not types.BuiltinFunctionType:
                self._unknown(f"calls `{name}`, which was replaced")
        if not REFLECTION.isdisjoint(uses.attributes):
            name = min(REFLECTION & uses.attributes)
            self._unknown(f"reads `{name}`, which can lead anywhere")

    def _use(self, use: Use, function: types.FunctionType, bound: Any) -> Hashable:
        if use.root == "first":
            return None if bound is NOTHING else self._follow(bound, use, 0)
        if use.root == "global":
            scope = function.__globals__
            value = scope.get(use.name, NOTHING)
            if value is NOTHING:
                value = function.__builtins__.get(use.name, NOTHING)
            return "unbound" if value is NOTHING else self._follow(value, use, 0)
        if use.root == "cell":
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(use.name)]
            try:
                value = cell.cell_contents
            except ValueError:
                return "unbound"
            return self._follow(value, use, 0)
        module = sys.modules.get(use.name)
        if module is not None:
            return self._follow(module, use, 0)
        if not stateless(use.name):
            self._unknown(f"imports `{use.name}` when it is called")
        return "not imported yet"

    def _parents(self, code: types.CodeType, bound: Any) -> Hashable:
        """What `super()` may reach: whatever the parents have under a name in the code."""
        cls = bound if isinstance(bound, type) else type(bound)
        reached = []
        for name, base in itertools.product(code.co_names, cls.__mro__[1:]):
            if name in vars(base):
                use = Use("first", "super()", (name,))
                reached.append(self._attribute(vars(base)[name], bound, cls, use, 0))
        return tuple(reached)

    def _pure_function(self, function: types.FunctionType, bound: Any) -> Hashable:
        cells = tuple(
            self._pure_cell(cell) for cell in function.__closure__ or () if cell is not None
        )
        defaults = tuple(map(self._plain_or_same, function.__defaults__ or ()))
        keywords = tuple(
            (k, self._plain_or_same(v)) for k, v in (function.__kwdefaults__ or {}).items()
        )
        owner = None if bound is NOTHING else Same(bound)
        return ("pure", function.__code__, cells, defaults, keywords, owner)

    def _pure_cell(self, cell: types.CellType) -> Hashable:
        try:
            return self._plain_or_same(cell.cell_contents)
        except ValueError:
            return "unbound"

    def _plain_or_same(self, value: Any) -> Hashable:
        """Content where there is any, otherwise identity: the user has declared it pure."""
        apart = Reader()
        try:
            key = apart.value(value, Use("cell", "", ()))
        except Exception:
            return Same(value)
        return Same(value) if apart.reasons else key

    # -- attributes --------------------------------------------------------------------------------

    def _follow(self, value: Any, use: Use, depth: int) -> Hashable:
        """The key of what a chain leads to, from `value` after `depth` attributes."""
        if depth == len(use.chain):
            return self._end(value, use)
        if is_declared(value):
            return Same(value)
        place = self._place(value)
        if place is not None:
            return place
        name = use.chain[depth]
        refuse_chance(value, name)
        if isinstance(value, types.ModuleType):
            return self._of_module(value, use, depth)
        if isinstance(value, type):
            return self._of_class(value, use, depth)
        if isinstance(value, types.FunctionType) and name in value.__dict__:
            return self._follow(value.__dict__[name], use, depth + 1)
        cls = type(value)
        if name in APPENDING.get(cls, ()):
            return name
        if cls in FLAT or cls in SEQUENCES or cls in MAPPINGS or isinstance(value, VALUES):
            return (name, self.value(value, use, depth))
        if cls in (np.ndarray, array.array) or isinstance(value, np.generic):
            return (name, self.value(value, use, depth))
        if cls is contextvars.ContextVar and name == "get":
            return (Same(value), self.value(current(value), use, depth))
        return self._of_object(value, use, depth)

    def _end(self, value: Any, use: Use) -> Hashable:
        if use.stored:
            return self._unknown(f"assigns an attribute of `{use.text()}`")
        return self.value(value, use)

    def _of_module(self, module: types.ModuleType, use: Use, depth: int) -> Hashable:
        name = use.chain[depth]
        value = vars(module).get(name, NOTHING)
        if _static(type(module), name) is not NOTHING and name not in _OF_MODULES:
            return self._unknown(f"reads `{use.text(depth + 1)}`, which its module computes")
        if value is NOTHING:
            inner = sys.modules.get(f"{module.__name__}.{name}", NOTHING)
            if inner is NOTHING and stateless(module.__name__):
                return "absent"
            if inner is NOTHING:
                return self._unknown(f"reads `{use.text(depth + 1)}`, which its module computes")
            value = inner
        return self._follow(value, use, depth + 1)

    def _of_class(self, cls: Any, use: Use, depth: int) -> Hashable:
        name = use.chain[depth]
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return (Same(cls), self._follow(type.__getattribute__(cls, name), use, depth + 1))
        if issubclass(cls, enum.Enum) and name in cls.__members__:
            return self._follow(cls.__members__[name], use, depth + 1)
        if of_library(cls.__module__):
            return self.value(cls, use, depth)
        attribute = _static(cls, name)
        if attribute is NOTHING or _static(type(cls), name) is not NOTHING:
            return self._unknown(f"reads `{use.text(depth + 1)}` through a metaclass")
        if isinstance(attribute, types.FunctionType):
            return self.value(attribute, use, depth)
        if isinstance(attribute, (property, functools.cached_property, types.MemberDescriptorType)):
            return self.value(cls, use, depth)
        return self._attribute(attribute, cls, cls, use, depth)

    def _of_object(self, value: Any, use: Use, depth: int) -> Hashable:
        """An attribute of an object, by the rules of `object.__getattribute__`."""
        cls, name = type(value), use.chain[depth]
        if isinstance(value, threading.local):
            return self._thread_local(use)
        if name == "__class__":
            return self._follow(cls, use, depth + 1)
        if cls.__getattribute__ not in _ORDINARY_LOOKUP:
            return self._whole(
                value, use, depth, f"reads `{use.text(depth + 1)}` through __getattribute__ of"
            )
        attribute = _static(cls, name)
        if attribute is not NOTHING and _is_data_descriptor(attribute):
            return self._attribute(attribute, value, cls, use, depth)
        for store in _stores(value):
            if name in store:
                return self._follow(store[name], use, depth + 1)
        if attribute is NOTHING:
            if _static(cls, "__getattr__") is NOTHING:
                return "absent"
            return self._whole(
                value, use, depth, f"reads `{use.text(depth + 1)}` through __getattr__ of"
            )
        return self._attribute(attribute, value, cls, use, depth)

    def _attribute(self, attribute: Any, owner: Any, cls: type, use: Use, depth: int) -> Hashable:
        """An attribute of a class, read off `owner`: an object of the class, or the class."""
        if isinstance(attribute, types.FunctionType):
            return self._method(attribute, owner, use, depth)
        if type(attribute) is property and isinstance(attribute.fget, types.FunctionType):
            return self._method(attribute.fget, owner, use, depth)
        if type(attribute) is functools.cached_property:
            return self._method(attribute.func, owner, use, depth)
        if type(attribute) is staticmethod:
            return self.value(attribute.__func__, use, depth)
        if type(attribute) is classmethod and isinstance(attribute.__func__, types.FunctionType):
            return self._method(attribute.__func__, cls, use, depth)
        if isinstance(attribute, types.MemberDescriptorType):
            try:
                return self._follow(attribute.__get__(owner), use, depth + 1)
            except AttributeError:
                return "absent"
        if isinstance(attribute, (TUPLE_FIELD, *WRAPPERS)) or hasattr(type(attribute), "__get__"):
            return self._whole(owner, use, depth, f"reads `{use.text(depth + 1)}` of")
        return self._follow(attribute, use, depth + 1)

    def _method(self, function: types.FunctionType, owner: Any, use: Use, depth: int) -> Hashable:
        if is_library_function(function):
            return self._whole(owner, use, depth, f"calls `{use.text(depth + 1)}` of")
        return ("method", self._python(function, owner))

    def _whole(self, value: Any, use: Use, depth: int, how: str) -> Hashable:
        """An object of which more is read than its attributes, unless it is a value."""
        key = self._value_object(value, use)
        if key is not None:
            return key
        return self._unknown(f"{how} a {type(value).__name__}")


def _static(cls: type, name: str) -> Any:
    """What a class or its parents have under a name, without running any code."""
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return NOTHING


def _is_data_descriptor(attribute: Any) -> bool:
    return hasattr(type(attribute), "__set__") or hasattr(type(attribute), "__delete__")


def _stores(value: Any) -> list[dict[str, Any]]:
    """The dictionaries of an object's attributes; a network has several."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    if "_parameters" not in own:
        return [own]
    inner = (own.get(name) for name in ("_parameters", "_buffers", "_modules"))
    return [own, *(store for store in inner if store)]
