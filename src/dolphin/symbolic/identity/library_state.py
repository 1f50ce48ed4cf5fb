"""What a library's functions depend on besides their arguments: its settings, and patches of it.

The code of a library counts by identity: it is trusted to compute results from arguments. Two
things can still change underneath it: settings (print options, the precision of decimals, the time
zone), and names that are patched (a method of `fractions.Fraction`). `state_of_library` gives
a key that differs after either. Patches are noticed in the package of the function that is called,
in the classes named there, and in what its code reads in turn (`reach`).
"""

from __future__ import annotations

import copy
import copyreg
import decimal
import importlib
import itertools
import locale
import os
import sys
import time
import types
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dolphin.symbolic.bounded import register
from dolphin.symbolic.identity.reach import Reach, can_be_patched, is_foreign, reach_of
from dolphin.symbolic.identity.snapshots import Filling, Snapshot


class LibraryState(NamedTuple):
    """The state of a library: a key for it, and user code that was put into it."""

    key: Hashable
    foreign: tuple[Any, ...] = ()
    encodes: bool = False  # it may use a codec that has a name
    snapshot: Snapshot = Snapshot()  # of what is patched in its place
    settings: Callable[[], Hashable] | None = None


PLAIN = LibraryState(None)
_DOLPHIN = __name__.partition(".")[0]


Library = str | type | types.FunctionType
"""A library by its name, or a class or function of one."""


def state_of(library: Library) -> LibraryState:
    """The settings and patches that a library, or a part of it, depends on."""
    if isinstance(library, str):
        return state_of_library(library)
    return state_of_class(library) if isinstance(library, type) else state_of_function(library)


def state_of_library(module: str) -> LibraryState:
    """The present state of the library that a module belongs to.

    >>> before = state_of_library("decimal")
    >>> with decimal.localcontext(prec=5):
    ...     state_of_library("decimal") == before
    False
    >>> state_of_library("decimal") == before, state_of_library("math").key is None
    (True, True)
    """
    root = module.partition(".")[0]
    return _together(root, _names_of(root))


def state_of_class(cls: type) -> LibraryState:
    """The same for one class of a library, and all that its code reads."""
    root = cls.__module__.partition(".")[0]
    return _together(root, reach_of(cls) if can_be_patched(cls) else None)


def state_of_function(function: types.FunctionType) -> LibraryState:
    """The patches in what the code of a library's function reads, whatever library that is in.

    Dolphin's own functions (`choose`, `weighted`) are left out: most programs call them, and it
    would take a sixth of their time.
    """
    if str(function.__globals__.get("__name__")).partition(".")[0] == _DOLPHIN:
        return PLAIN
    reach = reach_of(function)
    return LibraryState(reach.mark, reach.foreign, reach.encodes, reach.snapshot)


def _together(root: str, names: Reach | None) -> LibraryState:
    settings = _SETTINGS.get(root)
    if names is None:
        return PLAIN if settings is None else LibraryState(settings(), settings=settings)
    key = names.mark if settings is None else (settings(), names.mark)
    return LibraryState(key, names.foreign, names.encodes, names.snapshot, settings)


# -- settings --------------------------------------------------------------------------------------


def _of_decimal() -> Hashable:
    context = decimal.getcontext()
    _, (*fixed, _, traps) = context.__reduce__()  # all but the flags, which calculations set
    return (*fixed, tuple(traps))


def _of_numpy() -> Hashable:
    printing = np.get_printoptions()
    formatter = printing.pop("formatter")  # a dictionary, if any
    errors = tuple(np.geterr().values())
    # What a user's function does about errors is not known: never the same twice.
    handled = object() if {"call", "log"} & {*errors} else None
    return (errors, handled, tuple(printing.values()), formatter and repr(formatter))


def _of_torch() -> Hashable:
    torch: Any = sys.modules["torch"]
    printing = sys.modules["torch._tensor_str"].PRINT_OPTS
    return (
        torch.get_default_dtype(),
        str(torch.get_default_device()),
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
        repr(printing),
        _of_numpy(),
    )


def _of_clocks() -> Hashable:
    names = locale.setlocale(locale.LC_TIME)  # of days and months
    parsing = vars(importlib.import_module("_strptime")).get  # compiled code calls these
    parsers = (parsing("_strptime_datetime"), parsing("_strptime_time"), parsing("_strptime"))
    formats = Filling.of(parsing("_regex_cache", {})).version()
    return (os.environ.get("TZ"), time.tzname, time.timezone, names, parsers, formats)


def _of_copying() -> Hashable:
    tables = (getattr(copy, name, {}) for name in ("_copy_dispatch", "_deepcopy_dispatch"))
    return tuple(tuple(table.items()) for table in (copyreg.dispatch_table, *tables))


_SETTINGS: Mapping[str, Callable[[], Hashable]] = {
    "copy": _of_copying,
    "datetime": _of_clocks,
    "decimal": _of_decimal,
    "numpy": _of_numpy,
    "scipy": _of_numpy,
    "time": _of_clocks,
    "torch": _of_torch,
}


# -- patches ---------------------------------------------------------------------------------------


_known: dict[str, Reach | None] = {}
register("names of libraries", _known.__len__, _known.clear)


def _names_of(root: str) -> Reach | None:
    """What the names of a library stand for; None where nothing can be patched."""
    known = _known.get(root)
    if known is None and root in _known:
        return None
    if known is not None and known.unchanged():
        return known
    snapshot = Snapshot(whole=_scopes(root))
    values = snapshot.objects()
    foreign = tuple(filter(is_foreign, values))
    names = Reach(snapshot.mark(), snapshot, foreign, False) if values else None
    _known[root] = names
    return names


def _scopes(root: str) -> dict[tuple[int, str], Collection[Any]]:
    """The names of a part of Python that is written in Python: of modules, classes and objects.

    Of torch those of its functions and of the methods of tensors, which any function may call.
    """
    if root == "torch":
        torch: Any = sys.modules["torch"]
        owners = [torch.Tensor, *map(vars, (torch, torch.functional, torch.linalg))]
        return {(id(owner), "values"): _scope(owner).values() for owner in owners}
    file = str(getattr(sys.modules.get(root), "__file__", None))
    if root not in sys.stdlib_module_names or not file.endswith(".py"):
        return {}
    modules = [
        module
        for name, module in list(sys.modules.items())
        if (name == root or name.startswith(root + ".")) and isinstance(module, types.ModuleType)
    ]
    owners: list[Any] = list(map(vars, modules))
    for value in itertools.chain.from_iterable(list(vars(module).values()) for module in modules):
        cls = value if isinstance(value, type) else type(value)
        if can_be_patched(cls) and not isinstance(value, (types.ModuleType, int)):
            owners += [value] if hasattr(value, "__dict__") else []
    return {(id(owner), "values"): _scope(owner).values() for owner in owners}


def _scope(owner: Any) -> Mapping[str, Any]:
    return owner if isinstance(owner, dict) else vars(owner)
