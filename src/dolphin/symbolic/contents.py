"""Keys for what a function reads: plain values by content, everything else not at all."""

from __future__ import annotations

import array
import builtins
import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import operator
import re
import sys
import types
import uuid
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from dolphin.symbolic.bytecode import Use, uses_of
from dolphin.symbolic.libraries import (
    REFLECTION,
    is_dynamic,
    is_library_function,
    of_library,
    stateless,
)
from dolphin.symbolic.purity import any_pure, is_pure
from dolphin.symbolic.randomness import refuse_chance

_BUDGET = 2000  # how many values a key may hold before it counts as too expensive
_MOST_BYTES = 4096  # of an array that is compared by content
_SCALARS = frozenset({int, str, bool, bytes, type(None), type(Ellipsis), type(NotImplemented)})
_FLAT = _SCALARS | {float}
_SEQUENCES = frozenset({tuple, list, collections.deque, bytearray, set, frozenset})
_MAPPINGS = frozenset(
    {dict, collections.OrderedDict, collections.Counter, types.MappingProxyType,
     collections.defaultdict}
)  # fmt: skip
# Objects that can't change and are known by what they show.
_VALUES = (
    complex, range, slice, re.Pattern, fractions.Fraction, decimal.Decimal, datetime.date,
    datetime.time, datetime.timedelta, datetime.timezone, uuid.UUID, np.dtype,
)  # fmt: skip
# Containers that keep their contents in another.
_INSIDE = {
    collections.UserDict: "data",
    collections.UserList: "data",
    collections.ChainMap: "maps",
}
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_APPENDING = {
    list: frozenset({"append", "extend"}),
    set: frozenset({"add"}),
    collections.deque: frozenset({"append", "appendleft", "extend"}),
}
_ORDINARY_LOOKUP = (object.__getattribute__, types.SimpleNamespace.__getattribute__)
_NOTHING = object()  # no `self`
_WRAPPERS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
# Types of functions that numpy and compiled libraries have of their own.
_COMPILED = ("cython_function_or_method", "_ArrayFunctionDispatcher")
_LRU = type(functools.lru_cache(lambda: None))
_TUPLE_FIELD = type(vars(collections.namedtuple("_Pair", "a"))["a"])
# Parts of a class that don't decide what its methods return.
_ABOUT_CLASSES = frozenset(
    [
        "__module__",
        "__dict__",
        "__weakref__",
        "__doc__",
        "__qualname__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__match_args__",
        "__slots__",
        "__orig_bases__",
        "__parameters__",
        "__abstractmethods__",
        "_abc_impl",
        "__firstlineno__",
        "__static_attributes__",
        "__type_params__",
        "__classdictcell__",
        "__hash__",
    ]
)
_MADE_BY_DATACLASS = frozenset(
    [
        "__init__",
        "__repr__",
        "__eq__",
        "__hash__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__setattr__",
        "__delattr__",
        "__replace__",
        "__getstate__",
        "__setstate__",
    ]
)


class TooMuchError(Exception):
    """The function reads more than can be compared cheaply."""


class Same:
    """Equal only to another reference to the very same, still living object."""

    __slots__ = ("_hash", "_strong", "_weak")

    def __init__(self, target: Any) -> None:
        self._hash = id(target)
        self._weak: weakref.ref[Any] | None = None
        self._strong = None
        try:
            self._weak = weakref.ref(target)
        except TypeError:
            self._strong = target

    def _target(self) -> Any:
        return self._strong if self._weak is None else self._weak()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Same):
            return NotImplemented
        target = self._target()
        return target is not None and target is other._target()


def is_declared(value: Any) -> bool:
    """Whether `pure` was said of a thing, or of the class of an object."""
    return any_pure() and (is_pure(value) or is_pure(type(value)))


Slot = Callable[[Any], Hashable | None]
"""What stands for a value that counts by its place alone, not by content; None for all others."""


class Reader:
    """One walk over everything that a function reads. `reasons` tells why it can't be known."""

    def __init__(self, slot: Slot | None = None) -> None:
        self.reasons: list[str] = []
        self._slot = slot
        self._left = _BUDGET
        self._seen: set[tuple[int, int]] = set()  # functions (with their `self`) and classes
        self._open: set[int] = set()  # containers around the present value
        self._data = 0  # plain values met so far

    # -- functions ---------------------------------------------------------------------------------

    def function(self, function: Any) -> Hashable:
        """The key of what was passed to an operation."""
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

    def _python(self, function: types.FunctionType, bound: Any = _NOTHING) -> Hashable:
        """A function of the user's own; `bound` is its first argument where that is known."""
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
        parts = [self._use(use, function, bound) for use in uses.chains]
        if bound is not _NOTHING and "super" in code.co_names:
            parts.append(self._parents(code, bound))
        whole = Use("global", function.__name__, ())
        if function.__defaults__ or function.__kwdefaults__:
            parts.append(self.value((function.__defaults__, function.__kwdefaults__), whole))
        if function.__dict__:
            own = {k: v for k, v in function.__dict__.items() if k != "__wrapped__"}
            parts.append(self.value(own, whole))
        return (code, *parts)

    def _check(self, function: types.FunctionType, uses: Any, bound: Any) -> None:
        if uses.assigned:
            self._unknown(f"assigns `{uses.assigned[0]}`, which is not its own")
        if uses.rebinds_first and bound is not _NOTHING:
            self._unknown(f"gives another value to its first parameter in `{function.__name__}`")
        if uses.relative_import:
            self._unknown("imports a module of its own package when it is called")
        if not REFLECTION.isdisjoint(uses.attributes):
            name = min(REFLECTION & uses.attributes)
            self._unknown(f"reads `{name}`, which can lead anywhere")

    def _use(self, use: Use, function: types.FunctionType, bound: Any) -> Hashable:
        if use.root == "first":
            return None if bound is _NOTHING else self._follow(bound, use, 0)
        if use.root == "global":
            scope = function.__globals__
            value = scope.get(use.name, _NOTHING)
            if value is _NOTHING:
                value = vars(builtins).get(use.name, _NOTHING)
            return "unbound" if value is _NOTHING else self._follow(value, use, 0)
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
                reached.append(self._found(vars(base)[name], bound, cls, use, 0))
        return tuple(reached)

    def _pure_function(self, function: types.FunctionType, bound: Any) -> Hashable:
        cells = tuple(
            self._pure_cell(cell) for cell in function.__closure__ or () if cell is not None
        )
        defaults = tuple(map(self._plain_or_same, function.__defaults__ or ()))
        keywords = tuple(
            (k, self._plain_or_same(v)) for k, v in (function.__kwdefaults__ or {}).items()
        )
        owner = None if bound is _NOTHING else Same(bound)
        return ("pure", function.__code__, cells, defaults, keywords, owner)

    def _pure_cell(self, cell: types.CellType) -> Hashable:
        try:
            return self._plain_or_same(cell.cell_contents)
        except ValueError:
            return "unbound"

    def _plain_or_same(self, value: Any) -> Hashable:
        """Content where there is any, else identity: somebody vouches for it."""
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
            if use.stored:
                return self._unknown(f"assigns an attribute of `{use.text()}`")
            return self.value(value, use)
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
        if name in _APPENDING.get(cls, ()):
            return name
        if cls in _FLAT or cls in _SEQUENCES or cls in _MAPPINGS or isinstance(value, _VALUES):
            return (name, self.value(value, use, depth))
        if cls in (np.ndarray, array.array) or isinstance(value, np.generic):
            return (name, self.value(value, use, depth))
        if cls is contextvars.ContextVar and name == "get":
            return (Same(value), self.value(_current(value), use, depth))
        return self._of_object(value, use, depth)

    def _of_module(self, module: types.ModuleType, use: Use, depth: int) -> Hashable:
        name = use.chain[depth]
        value = vars(module).get(name, _NOTHING)
        if value is _NOTHING:
            inner = sys.modules.get(f"{module.__name__}.{name}", _NOTHING)
            if inner is _NOTHING and stateless(module.__name__):
                return "absent"
            if inner is _NOTHING:
                return self._unknown(f"reads `{use.text(depth + 1)}`, which its module makes up")
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
        found = _static(cls, name)
        if found is _NOTHING or _static(type(cls), name) is not _NOTHING:
            return self._unknown(f"reads `{use.text(depth + 1)}` through a metaclass")
        if isinstance(found, types.FunctionType):
            return self.value(found, use, depth)
        if isinstance(found, (property, functools.cached_property, types.MemberDescriptorType)):
            return self.value(cls, use, depth)
        return self._found(found, cls, cls, use, depth)

    def _of_object(self, value: Any, use: Use, depth: int) -> Hashable:
        """An attribute of an object, by the rules of `object.__getattribute__`."""
        cls, name = type(value), use.chain[depth]
        if name == "__class__":
            return self._follow(cls, use, depth + 1)
        if cls.__getattribute__ not in _ORDINARY_LOOKUP:
            return self._whole(
                value, use, depth, f"reads `{use.text(depth + 1)}` through __getattribute__ of"
            )
        found = _static(cls, name)
        if found is not _NOTHING and _is_data_descriptor(found):
            return self._found(found, value, cls, use, depth)
        for store in _stores(value):
            if name in store:
                return self._follow(store[name], use, depth + 1)
        if found is _NOTHING:
            if _static(cls, "__getattr__") is _NOTHING:
                return "absent"
            return self._whole(
                value, use, depth, f"reads `{use.text(depth + 1)}` through __getattr__ of"
            )
        return self._found(found, value, cls, use, depth)

    def _found(self, found: Any, owner: Any, cls: type, use: Use, depth: int) -> Hashable:
        """An attribute of a class, read off `owner`: an object of the class, or the class."""
        if isinstance(found, types.FunctionType):
            return self._method(found, owner, use, depth)
        if type(found) is property and isinstance(found.fget, types.FunctionType):
            return self._method(found.fget, owner, use, depth)
        if type(found) is functools.cached_property:
            return self._method(found.func, owner, use, depth)
        if type(found) is staticmethod:
            return self.value(found.__func__, use, depth)
        if type(found) is classmethod and isinstance(found.__func__, types.FunctionType):
            return self._method(found.__func__, cls, use, depth)
        if isinstance(found, types.MemberDescriptorType):
            try:
                return self._follow(found.__get__(owner), use, depth + 1)
            except AttributeError:
                return "absent"
        if isinstance(found, (_TUPLE_FIELD, *_WRAPPERS)) or hasattr(type(found), "__get__"):
            return self._whole(owner, use, depth, f"reads `{use.text(depth + 1)}` of")
        return self._follow(found, use, depth + 1)

    def _method(self, function: types.FunctionType, owner: Any, use: Use, depth: int) -> Hashable:
        if is_library_function(function):
            return self._whole(owner, use, depth, f"calls `{use.text(depth + 1)}` of")
        return ("method", self._python(function, owner))

    def _whole(self, value: Any, use: Use, depth: int, how: str) -> Hashable:
        """An object of which more is read than attributes can tell, unless it is a value."""
        key = self._value_object(value, use)
        if key is not None:
            return key
        return self._unknown(f"{how} a {type(value).__name__}")

    # -- values ------------------------------------------------------------------------------------

    def value(self, value: Any, use: Use, depth: int | None = None) -> Hashable:
        """The key of a value that is used as a whole."""
        self._spend(1)
        cls = type(value)
        if cls in _SCALARS:
            self._data += 1
            return (cls, value)
        if cls is float:
            self._data += 1
            return (cls, repr(value))
        if is_declared(value):
            if isinstance(value, types.FunctionType):
                return self._pure_function(value, _NOTHING)
            return Same(value)
        if cls in _SEQUENCES or cls in _MAPPINGS:
            return self._container(value, use)
        place = self._place(value)
        if place is not None:
            return place
        refuse_chance(value, called_bare=use.called_bare)
        if isinstance(value, types.FunctionType):
            return self._library(value, use) if is_library_function(value) else self._python(value)
        if isinstance(value, type):
            return self._class(value, use)
        key = self._callable(value, use)
        if key is None:
            key = self._value_object(value, use)
        return self._escapes(value, use, depth) if key is None else key

    def _place(self, value: Any) -> Hashable | None:
        """The key of a tensor of which only entries are taken: whoever asks watches over that."""
        return None if self._slot is None else self._slot(value)

    def _callable(self, value: Any, use: Use) -> Hashable | None:
        """Functions in other guises."""
        cls = type(value)
        if cls is types.MethodType:
            function = value.__func__
            if isinstance(function, types.FunctionType):
                return self._method(function, value.__self__, use, len(use.chain))
            return None
        if cls is types.BuiltinFunctionType:
            return self._built_in(value, use)
        if cls in _WRAPPERS or cls is np.ufunc or cls.__module__.partition(".")[0] == "typing":
            return Same(value)
        if cls is functools.partial:
            parts = (value.func, value.args, value.keywords)
            return ("partial", *(self.value(part, use) for part in parts))
        if cls in _GETTERS:
            return (cls, self.value(value.__reduce__()[1], use))
        if cls is _LRU:
            return self._behind_lru(value, use)
        if cls.__name__ in _COMPILED and stateless(getattr(value, "__module__", None)):
            return Same(value)
        return None

    def _built_in(self, function: Any, use: Use) -> Hashable:
        owner = function.__self__
        if owner is not None and not isinstance(owner, (types.ModuleType, type)):
            if type(owner) in _APPENDING and function.__name__ in _APPENDING[type(owner)]:
                return function.__name__
            return (function.__name__, self.value(owner, use))
        if is_dynamic(function):
            return self._unknown(f"calls `{function.__name__}`, which can read anything")
        if not stateless(function.__module__):
            name = f"{function.__module__}.{function.__name__}"
            return self._unknown(f"calls `{name}`, which can read what changes")
        return Same(function)

    def _library(self, function: types.FunctionType, use: Use) -> Hashable:
        """A library's function is what it is, apart from what it wraps."""
        module = function.__globals__.get("__name__")
        if not stateless(module):
            name = f"{module}.{function.__name__}"
            return self._unknown(f"calls `{name}`, which can read what changes")
        if not function.__closure__:
            return Same(function)
        mark = (id(function), 0)
        if mark in self._seen:
            return Same(function)
        self._seen.add(mark)
        return (Same(function), *(self.value(c.cell_contents, use) for c in function.__closure__))

    def _behind_lru(self, value: Any, use: Use) -> Hashable:
        """`lru_cache` keeps old results itself: what is inside may read nothing that changes."""
        if (id(value), 0) in self._seen:
            return "again"
        self._seen.add((id(value), 0))
        before = self._data
        key = self.value(value.__wrapped__, use)
        if self._data != before:
            return self._unknown(f"calls `{use.text()}`, behind an lru_cache, which reads data")
        return (_LRU, key)

    def _container(self, value: Any, use: Use) -> Hashable:
        cls = type(value)
        self._data += 1
        self._spend(len(value))
        if id(value) in self._open:
            return self._unknown(f"reads `{use.text()}`, which contains itself")
        self._open.add(id(value))
        try:
            if cls in (set, frozenset):
                return (cls, frozenset(self.value(item, use) for item in value))
            if cls in _SEQUENCES:
                return (cls, self._items(tuple(value), use))
            made_by = (
                self.value(value.default_factory, use)
                if isinstance(value, collections.defaultdict)
                else None
            )
            keys, values = tuple(value.keys()), tuple(value.values())
            return (cls, made_by, self._items(keys, use), self._items(values, use))
        finally:
            self._open.discard(id(value))

    def _items(self, items: tuple[Any, ...], use: Use) -> Hashable:
        """Contents in order. Plain ones, and tuples of them, without a step of Python for each."""
        kinds = set(map(type, items))
        if kinds <= _SCALARS:
            return (items, tuple(map(type, items)) if len(kinds) > 1 else tuple(kinds))
        if kinds <= _FLAT:
            return (tuple(map(repr, items)), tuple(map(type, items)))
        if kinds == {tuple}:
            lengths = tuple(map(len, items))
            self._spend(sum(lengths))
            return (lengths, self._items(tuple(itertools.chain.from_iterable(items)), use))
        return tuple(self.value(item, use) for item in items)

    def _value_object(self, value: Any, use: Use) -> Hashable | None:
        """Objects that are values: known by their content, whatever is done with them."""
        cls: Any = type(value)
        if issubclass(cls, _VALUES) and of_library(cls.__module__):
            self._data += 1
            return (cls, repr(value))
        if issubclass(cls, enum.Enum):
            return (Same(value), self._class(cls, use))
        if cls is np.ndarray or issubclass(cls, np.generic):
            return self._array(value, use)
        if cls is array.array:
            self._data += 1
            self._spend(len(value) // 8)
            return (cls, value.typecode, value.tobytes())
        if issubclass(cls, tuple) and hasattr(cls, "_fields") and cls.__iter__ is tuple.__iter__:
            return (self._class(cls, use), self._items(tuple(value), use))
        if dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen:  # type: ignore
            fields = [field.name for field in dataclasses.fields(value)]
            if set(fields) >= set(getattr(value, "__dict__", ())):
                contents = [self.value(getattr(value, name), use) for name in fields]
                return (self._class(cls, use), *contents)
        if cls.__module__ == "torch" and cls.__name__ in ("dtype", "device", "layout"):
            return (cls, repr(value))
        if cls is contextvars.ContextVar:
            return (Same(value), self.value(_current(value), use))
        if cls in _INSIDE:
            return (cls, self.value(getattr(value, _INSIDE[cls]), use))
        return None

    def _array(self, value: Any, use: Use) -> Hashable | None:
        self._data += 1
        if value.nbytes > _MOST_BYTES:
            raise TooMuchError(f"reads `{use.text()}`, an array of {value.nbytes:,} bytes")
        if value.dtype.hasobject:
            return None
        return (type(value), value.dtype.str, value.shape, value.tobytes())

    def _escapes(self, value: Any, use: Use, depth: int | None) -> Hashable:
        if isinstance(value, types.ModuleType):
            return self._unknown(f"passes on the module `{use.text(depth)}`")
        how = {"cell": "closes over", "first": "reads"}.get(use.root, "reads the global")
        kind = f"a {type(value).__name__}"
        if hasattr(value, "data_ptr"):
            return self._unknown(f"{how} `{use.text(depth)}`, {kind}, whose numbers may change")
        return self._unknown(
            f"{how} `{use.text(depth)}`, {kind} that is used as a whole (passed on, called or "
            "iterated)"
        )

    # -- classes -----------------------------------------------------------------------------------

    def _class(self, cls: type, use: Use) -> Hashable:
        """A class that is used as a whole: its objects can do whatever its methods do."""
        if of_library(cls.__module__):
            if not stateless(cls.__module__):
                name = f"{cls.__module__}.{cls.__name__}"
                return self._unknown(f"uses `{name}`, which can read what changes")
            return Same(cls)
        mark = (id(cls), 0)
        if mark in self._seen:
            return Same(cls)
        self._seen.add(mark)
        parts: list[Hashable] = [Same(cls)]
        meta: Any = type(cls)
        for base in (*cls.__mro__, *meta.__mro__):
            if not of_library(base.__module__):
                parts += self._body(base, use)
        return tuple(parts)

    def _body(self, cls: Any, use: Use) -> list[Hashable]:
        is_enum = issubclass(cls, enum.Enum)
        made = _MADE_BY_DATACLASS if "__dataclass_params__" in vars(cls) else frozenset()
        parts: list[Hashable] = []
        for name, member in list(vars(cls).items()):
            if name in _ABOUT_CLASSES or (name in made and _is_generated(member)):
                continue
            if is_enum and not _is_written(member):
                continue
            if isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue
            if isinstance(member, _TUPLE_FIELD) or member is None:
                continue
            parts.append((name, self._member(member, use)))
        if is_enum:
            for name, member in vars(cls)["_member_map_"].items():
                own = {k: v for k, v in vars(member).items() if k not in _OF_MEMBERS}
                parts.append((name, self.value(member._value_, use), self.value(own, use)))
        fields = dataclasses.fields(cls) if made else ()
        parts += [
            (field.name, self.value(default, use))
            for field in fields
            for default in (field.default, field.default_factory)
            if default is not dataclasses.MISSING
        ]
        return parts

    def _member(self, member: Any, use: Use) -> Hashable:
        if isinstance(member, (staticmethod, classmethod)):
            member = member.__func__
        elif type(member) is functools.cached_property:
            member = member.func
        elif type(member) is property:
            return (self.value(member.fget, use), self.value(member.fset, use))
        return self.value(member, use)

    # -- bookkeeping -------------------------------------------------------------------------------

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise TooMuchError(f"reads more than {_BUDGET:,} values")

    def _unknown(self, reason: str) -> Hashable:
        self.reasons.append(reason)
        return None


_OF_MEMBERS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})


def _current(variable: Any) -> Any:
    return variable.get(None)


def _static(cls: type, name: str) -> Any:
    """What a class or its parents have under a name, without running any code."""
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return _NOTHING


def _is_data_descriptor(found: Any) -> bool:
    return hasattr(type(found), "__set__") or hasattr(type(found), "__delete__")


def _stores(value: Any) -> list[dict[str, Any]]:
    """Where an object keeps its attributes; a network has some of its own."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    if "_parameters" not in own:
        return [own]
    inner = (own.get(name) for name in ("_parameters", "_buffers", "_modules"))
    return [own, *(store for store in inner if store)]


def _is_written(member: Any) -> bool:
    """Whether a member of an enum class is code of the user's own."""
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    if type(member) is property:
        member = member.fget
    return isinstance(member, types.FunctionType) and not is_library_function(member)


def _is_generated(member: Any) -> bool:
    """Whether `dataclass` wrote a method, rather than the user."""
    code = getattr(getattr(member, "__wrapped__", member), "__code__", None)
    return code is None or code.co_filename == "<string>"
