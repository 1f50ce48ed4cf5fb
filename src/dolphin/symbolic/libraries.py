"""Which code belongs to a library, and which libraries a remembered function may use."""

from __future__ import annotations

import functools
import sys
import sysconfig
import types
from typing import Any

from dolphin.symbolic.bounded import registered

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
        "urllib",
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
     "open", "input", "__import__", "breakpoint", "id"}
)  # fmt: skip
# Functions of numpy and torch that read or use what is set for the whole process.
_SETTINGS = frozenset(
    {"geterr", "geterrcall", "getbufsize", "get_printoptions", "array2string", "array_repr",
     "array_str", "get_default_dtype", "get_default_device", "get_num_threads",
     "get_num_interop_threads", "is_grad_enabled", "is_inference_mode_enabled",
     "is_autocast_enabled", "initial_seed", "get_rng_state", "get_float32_matmul_precision",
     "are_deterministic_algorithms_enabled"}
)  # fmt: skip
# Attributes that lead from a value to everything else.
REFLECTION = frozenset(
    {"__dict__", "__globals__", "__closure__", "__self__", "__func__", "__wrapped__", "__code__",
     "__getattribute__", "__builtins__", "__defaults__", "__kwdefaults__", "__subclasses__",
     "cell_contents", "f_globals", "f_locals", "f_back", "gi_frame", "tb_frame"}
)  # fmt: skip


@registered("modules of libraries")
@functools.lru_cache(maxsize=1024)
def of_library(module: str | None) -> bool:
    """Whether a module belongs to Python or to an installed package, rather than to the user."""
    root = (module or "").partition(".")[0]
    if root == "dolphin_tasks":  # installed or not, its programs count as a user's
        return False
    if root == "dolphin" or (root in sys.stdlib_module_names and root != "__main__"):
        return True
    found = getattr(sys.modules.get(root), "__file__", None)
    paths = (sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    return found is not None and any(found.startswith(path) for path in paths)


def is_library_function(function: types.FunctionType) -> bool:
    """Whether the code is in a library: a decorator may have copied `__module__` from elsewhere."""
    return of_library(function.__globals__.get("__name__"))


def stateless(module: str | None) -> bool:
    """Whether functions of this library depend on their arguments alone."""
    root = (module or "builtins").partition(".")[0]
    return root in _STATELESS or (of_library(module) and root not in sys.stdlib_module_names)


def is_dynamic(function: Any) -> bool:
    """Whether a built-in function reaches more than its arguments."""
    return function.__module__ in ("builtins", "io", "_io") and function.__name__ in _DYNAMIC


def reads_settings(function: Any) -> bool:
    """Whether a library's function depends on settings of that library."""
    return function.__name__ in _SETTINGS


def of_numpy(ufunc: Any) -> bool:
    """Whether a ufunc is one of numpy's or scipy's, rather than made of a Python function."""
    owners = (sys.modules.get(name) for name in ("numpy", "scipy.special"))
    return any(getattr(owner, ufunc.__name__, None) is ufunc for owner in owners)
