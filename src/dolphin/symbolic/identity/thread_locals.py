"""Values of one thread (`threading.local`) that a program reads, found in its code.

Samples of a batched program run in threads of their own, where the caller's values are missing.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

from dolphin.symbolic.identity.bytecode import Use, uses_of
from dolphin.symbolic.identity.libraries import is_library_function, of_library

_NOTHING = object()
_FLAT = frozenset({type(None), bool, int, float, str, object, types.BuiltinFunctionType})


def thread_local_in(program: Callable[..., Any]) -> str:
    """The name of a thread-local that a program or its helpers read and never assign; "" if none.

    >>> import threading
    >>> own = threading.local()
    >>> thread_local_in(eval("lambda x: x + own.k", {"own": own})), thread_local_in(max)
    ('own.k', '')
    """
    walk = _Walk()
    walk.callable(program)
    walk.run()
    return next((name for key, name in walk.read.items() if key not in walk.assigned), "")


class _Walk:
    def __init__(self) -> None:
        self.read: dict[int, str] = {}  # names of thread-locals
        self.assigned: set[int] = set()
        self._seen: set[tuple[int, int]] = set()
        self._next: list[tuple[types.FunctionType, Any]] = []

    def run(self) -> None:
        while self._next:
            function, owner = self._next.pop()
            for use in uses_of(function.__code__).chains:
                value = _start(use, function, owner)
                if type(value) not in _FLAT and not _is_library(value):
                    self._follow(value, use)

    def callable(self, value: Any, owner: Any = _NOTHING) -> None:
        """Note the user's functions behind a value, to be read later."""
        if isinstance(value, types.MethodType):
            value, owner = value.__func__, value.__self__
        elif isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif not isinstance(value, (types.FunctionType, type)):
            call = _static(type(value), "__call__")
            if isinstance(call, types.FunctionType):
                value, owner = call, value
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType) and not is_library_function(value):
            mark = (id(value), id(owner))
            if mark not in self._seen:
                self._seen.add(mark)
                self._next.append((value, owner))

    def _class(self, cls: type) -> None:
        if (id(cls), 0) not in self._seen and not of_library(cls.__module__):
            self._seen.add((id(cls), 0))
            for member in list(vars(cls).values()):
                self.callable(member)

    def _follow(self, value: Any, use: Use) -> None:
        for depth, name in enumerate(use.chain):
            if isinstance(value, threading.local):
                self.read.setdefault(id(value), use.text(depth + 1))
                return
            owner = value
            value = _attribute(value, name)
            if isinstance(value, (types.FunctionType, property, classmethod)):
                self.callable(value, owner)
                return
        if not isinstance(value, threading.local):
            self.callable(value)
        elif use.stored:
            self.assigned.add(id(value))
        else:
            self.read.setdefault(id(value), use.text())


def _start(use: Use, function: types.FunctionType, owner: Any) -> Any:
    if use.root == "first":
        return None if owner is _NOTHING else owner
    if use.root == "global":
        return function.__globals__.get(use.name, _NOTHING)
    if use.root == "cell":
        return next(_held(use.name, function), _NOTHING)
    return _NOTHING


def _is_library(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and of_library(value.__name__)


def _held(name: str, function: types.FunctionType) -> Iterator[Any]:
    cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
    try:
        yield cell.cell_contents
    except ValueError:  # nothing yet
        return


def _attribute(value: Any, name: str) -> Any:
    """An attribute, without running any code."""
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict | types.MappingProxyType) and name in own:
        return own[name]
    return _static(type(value), name)


def _static(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return _NOTHING
