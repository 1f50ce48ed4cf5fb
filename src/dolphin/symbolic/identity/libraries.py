"""Which code belongs to a library, and which libraries a remembered function may use."""

from __future__ import annotations

import sys
import types
from typing import Any

# Packages beside Python's own whose functions are trusted. All others count as the user's code.
_TRUSTED = frozenset({"dolphin", "numpy", "scipy", "torch"})
# Parts of Python whose functions give the same result for the same arguments.
_STATELESS = frozenset(
    [
        "abc",
        "array",
        "ast",
        "base64",
        "binascii",
        "bisect",
        "builtins",
        "calendar",
        "cmath",
        "collections",
        "colorsys",
        "copy",
        "copyreg",
        "csv",
        "dataclasses",
        "datetime",
        "difflib",
        "enum",
        "fnmatch",
        "fractions",
        "functools",
        "graphlib",
        "hashlib",
        "heapq",
        "hmac",
        "html",
        "ipaddress",
        "itertools",
        "json",
        "keyword",
        "marshal",
        "math",
        "numbers",
        "operator",
        "pprint",
        "random",
        "re",
        "reprlib",
        "secrets",
        "statistics",
        "string",
        "struct",
        "textwrap",
        "time",
        "token",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
        "uuid",
        "warnings",
        "weakref",
        "zlib",
        "_operator",
        "_functools",
        "_collections",
        "_collections_abc",
        "_bisect",
        "_heapq",
        "_struct",
        "_json",
        "_datetime",
        "_statistics",
        "_random",
        "sre_compile",
        "sre_parse",
    ]
)
# Built-in functions that reach more than their arguments.
_DYNAMIC = frozenset(
    {"getattr", "setattr", "delattr", "vars", "globals", "locals", "eval", "exec", "compile", "dir",
     "open", "input", "__import__", "breakpoint", "id", "get_type_hints"}
)  # fmt: skip
# Parts of the trusted packages that read files, devices or what is set for the whole process.
_STATEFUL = tuple(
    f"{module}."
    for module in (
        "numpy.lib._npyio_impl", "numpy.lib.npyio", "scipy.io", "torch.accelerator",
        "torch.autograd", "torch.backends", "torch.cuda", "torch.distributed", "torch.hub",
        "torch.jit", "torch.multiprocessing", "torch.nn.modules", "torch.optim",
        "torch.profiler", "torch.random", "torch.serialization", "torch.utils",
    )
)  # fmt: skip
_FILES = frozenset({"fromfile", "from_file", "memmap", "open_memmap"})
# Functions of numpy and torch that read or use what is set for the whole process; those of torch
# are mostly told by their names, `get_default_dtype` and `is_grad_enabled`.
_SETTINGS = frozenset(
    {"geterr", "geterrcall", "getbufsize", "get_printoptions", "array2string", "array_repr",
     "array_str", "initial_seed"}
)  # fmt: skip
# Attributes that lead from a value to everything else.
REFLECTION = frozenset(
    {"__dict__", "__globals__", "__closure__", "__self__", "__func__", "__wrapped__", "__code__",
     "__getattribute__", "__builtins__", "__defaults__", "__kwdefaults__", "__subclasses__",
     "__annotations__", "cell_contents", "f_globals", "f_locals", "f_back", "gi_frame", "tb_frame"}
)  # fmt: skip


def of_library(module: str | None) -> bool:
    """Whether a module belongs to Python or to a trusted package, rather than to the user."""
    root = (module or "").partition(".")[0]
    return root in _TRUSTED or (root in sys.stdlib_module_names and root != "__main__")


def is_library_function(function: types.FunctionType) -> bool:
    """Whether the code is in a library: a decorator may have copied `__module__` from elsewhere."""
    return of_library(function.__globals__.get("__name__"))


def stateless(module: str | None) -> bool:
    """Whether functions of this library depend on their arguments and `library_state` alone."""
    module = module or "builtins"
    root = module.partition(".")[0]
    if root in _TRUSTED:
        return not f"{module}.".startswith(_STATEFUL)
    return root in _STATELESS or module in _STATELESS


def is_dynamic(function: Any) -> bool:
    """Whether a built-in function reaches more than its arguments."""
    owners = ("builtins", "io", "_io", "typing")
    return function.__module__ in owners and function.__name__ in _DYNAMIC


def reads_settings(function: Any) -> bool:
    """Whether a library's function reads files, or settings of that library."""
    name = function.__name__
    if name in _SETTINGS or name in _FILES:
        return True
    of_torch = (function.__module__ or "torch").partition(".")[0] == "torch"  # some don't name it
    return of_torch and (name.startswith("get_") or name.endswith("_enabled"))


def of_numpy(ufunc: Any) -> bool:
    """Whether a ufunc is one of numpy's or scipy's, rather than made of a Python function."""
    owners = (sys.modules.get(name) for name in ("numpy", "scipy.special"))
    return any(getattr(owner, ufunc.__name__, None) is ufunc for owner in owners)
