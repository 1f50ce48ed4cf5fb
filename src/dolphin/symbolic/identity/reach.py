"""Where a patch can change what a library's code does: the names that it reads, and theirs.

The code of a library is trusted, but the names that it reads can be assigned: a function of
`statistics` depends on the methods of `fractions.Fraction`. And tables can be changed in place:
`html.unescape` depends on `html.entities.html5`. `reach_of` follows names from a function or a
class to the code and the data that they stand for, nearest first, and records it. Containers count
by contents. One that this code changes itself is a cache: entries may come and go, but none may be
replaced (`Filling`).
"""

from __future__ import annotations

import collections
import copyreg
import enum
import itertools
import sys
import sysconfig
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.identity.bytecode import Use, uses_of
from dolphin.symbolic.identity.effects import effects_of
from dolphin.symbolic.identity.libraries import is_library_function, of_library
from dolphin.symbolic.identity.marks import Objects
from dolphin.symbolic.identity.snapshots import ABSENT, Filling, Snapshot

_MOST_FOLLOWED = 60  # functions and classes; those further away hardly matter, and are many
_BY_TORCH = "typing_extensions"  # whose decorators torch uses
_MOST_ENTRIES = 10_000  # of tables
_MOST_CACHED = 1000  # entries of a cache
_PACKAGES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_TABLES = frozenset({*_MAPPINGS, list, set, collections.deque, tuple})

Owner = types.FunctionType | type


class Reach(NamedTuple):
    """What library code reads: names, code and tables, as they were."""

    mark: Objects  # all of it
    snapshot: Snapshot
    foreign: tuple[Any, ...]  # user code among it
    encodes: bool  # it may use a codec that has a name

    def unchanged(self) -> bool:
        return self.snapshot.unchanged()


_known: BoundedCache[int, tuple[Owner, Reach]] = BoundedCache(1024)
register("reach of library code", _known.__len__, _known.clear)


def reach_of(owner: Owner) -> Reach:
    """What a function or class of a library reads, as it is now.

    >>> import statistics, fractions
    >>> before = reach_of(statistics.mean)
    >>> reach_of(statistics.mean) is before
    True
    >>> fractions.Fraction.patched = 1
    >>> reach_of(statistics.mean) is before
    False
    >>> del fractions.Fraction.patched
    """
    known = _known.peek(id(owner))
    if known is not None and known[0] is owner and known[1].unchanged():
        return known[1]
    walk = _Walk()
    walk.follow(owner)
    reach = walk.reach()
    _known.replace(id(owner), (owner, reach))
    return reach


class _Walk:
    def __init__(self) -> None:
        self._picked: dict[int, tuple[Mapping[str, Any], dict[str, Any]]] = {}
        self._whole: dict[tuple[int, str], Collection[Any]] = {}
        self._entries = 0  # of tables
        self._functions: list[types.FunctionType] = []
        self._tables: list[tuple[str, Any]] = []  # containers, and what they are called
        self._changed: set[str] = set()  # names of those that the code changes
        self._encodes = False
        self._seen: set[int] = set()
        self._next: collections.deque[Any] = collections.deque()

    def reach(self) -> Reach:
        fillings: dict[int, Filling] = {}
        for name, table in self._tables:
            if name not in self._changed:
                self._contents(table)
            elif type(table) is dict and len(table) <= _MOST_CACHED:
                fillings[id(table)] = Filling.of(table)
        snapshot = Snapshot(self._picked, self._whole, self._functions, fillings.values())
        others = _reducers_of_packages()
        foreign = tuple(v for v in snapshot.objects() if is_foreign(v) and id(v) not in others)
        return Reach(snapshot.mark(), snapshot, foreign, self._encodes)

    def _contents(self, table: Any) -> None:
        """Record what a table contains, and the tables inside it."""
        self._entries += len(table)
        if (id(table), "values") in self._whole or self._entries > _MOST_ENTRIES:
            return
        values = table.values() if isinstance(table, _MAPPINGS) else table
        if values is not table:
            self._whole[id(table), "keys"] = table.keys()
        if type(table) is not tuple:
            self._whole[id(table), "values"] = values
        for inner in filter(_is_table, values):
            self._contents(inner)

    def follow(self, first: Owner) -> None:
        self._next.append(first)
        while self._next and len(self._seen) < _MOST_FOLLOWED:
            one = self._next.popleft()
            if id(one) in self._seen:
                continue
            self._seen.add(id(one))
            if isinstance(one, type):
                self._class(one)
            else:
                self._function(one)

    def _class(self, cls: type) -> None:
        for base in filter(can_be_patched, cls.__mro__):
            names = vars(base)
            self._whole[id(base), "values"] = names.values()
            self._next += itertools.chain.from_iterable(map(_code_of, names.values()))
            if not issubclass(base, enum.Enum):  # which notes combinations of flags in its tables
                self._tables += [
                    (name, value)
                    for name, value in names.items()
                    if _is_table(value) and not name.startswith("__")
                ]

    def _function(self, function: types.FunctionType) -> None:
        self._functions.append(function)
        effects = effects_of(function.__code__)
        self._changed |= effects.changed
        self._encodes |= effects.encodes
        for use in uses_of(function.__code__).chains:
            self._use(use, function)
        for cell in function.__closure__ or ():
            try:
                self._next += _code_of(cell.cell_contents)
            except ValueError:  # nothing yet
                continue
        if function.__kwdefaults__:
            self._tables.append(("", function.__kwdefaults__))

    def _use(self, use: Use, function: types.FunctionType) -> None:
        if use.root == "module":
            value = self._read(sys.modules, use.name)
        elif use.root == "global":
            value = self._read(function.__globals__, use.name)
            if value is ABSENT:
                value = self._read(function.__builtins__, use.name)
        else:
            return
        called = use.name
        for name in use.chain:
            if not isinstance(value, types.ModuleType) or (value is sys and _kept_by_python(name)):
                break
            value, called = self._read(vars(value), name), name
        if _is_table(value):
            self._tables.append((called, value))
        else:
            self._next += _code_of(value)

    def _read(self, scope: Mapping[str, Any], name: str) -> Any:
        value = scope.get(name, ABSENT)
        self._picked.setdefault(id(scope), (scope, {}))[1][name] = value
        return value


def _kept_by_python(name: str) -> bool:
    """Whether this name of `sys` stands for a table of Python's own, or for a stream."""
    return _is_table(vars(sys).get(name)) or name in ("stdin", "stdout", "stderr")


def _is_table(value: Any) -> bool:
    return type(value) in _TABLES


def _code_of(value: Any) -> Iterator[Owner]:
    """The functions and classes of libraries behind a value."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        yield from (f for f in (value.fget, value.fset) if isinstance(f, types.FunctionType))
        return
    for inner in ("__wrapped__", "_implementation"):  # of an lru_cache; of a function of numpy
        if not isinstance(value, (type, types.FunctionType, types.ModuleType)):
            value = _static_attribute(value, inner)
    if isinstance(value, types.FunctionType):
        if is_library_function(value):
            yield value
    elif isinstance(value, type):
        if of_library(value.__module__) and can_be_patched(value):
            yield value
    elif can_be_patched(type(value)) and of_library(type(value).__module__):
        yield type(value)


def _static_attribute(value: Any, name: str) -> Any:
    if type(value).__name__ in ("_lru_cache_wrapper", "_ArrayFunctionDispatcher"):
        return getattr(value, name, value)
    return value


def implementation_of(function: Any) -> Iterable[Owner]:
    """The code of a library's function that is compiled, as far as it is written in Python."""
    return tuple(_code_of(function))


def _reducers_of_packages() -> set[int]:
    """What installed packages registered to copy objects of their own classes.

    A function that copies such an object names the package, whose code then counts as the user's.
    """
    ids: set[int] = set()
    for cls, reduce in list(copyreg.dispatch_table.items()):
        module = sys.modules.get(str(cls.__module__).partition(".")[0])
        same = getattr(reduce, "__module__", "").partition(".")[0] == getattr(module, "__name__", 0)
        if same and str(getattr(module, "__file__", "")).startswith(_PACKAGES):
            ids |= {id(cls), id(reduce)}
    return ids


def can_be_patched(cls: type) -> bool:
    """Whether attributes of a class can be assigned: it is not part of the interpreter."""
    return cls.__flags__ & (1 << 9 | 1 << 8) == 1 << 9  # on the heap, and not immutable


def is_foreign(value: Any) -> bool:
    """Whether a user put this into a library."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    if isinstance(value, types.FunctionType):
        # Methods of named tuples are made in a scope of their own.
        scope = str(value.__globals__.get("__name__"))
        return not is_library_function(value) and not scope.startswith(("namedtuple_", _BY_TORCH))
    owner = value.__module__ if isinstance(value, type) else type(value).__module__
    if not isinstance(owner, str) or owner == _BY_TORCH:
        return False
    return owner == "unittest.mock" or not of_library(owner)
