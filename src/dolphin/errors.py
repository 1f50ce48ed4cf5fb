"""The one family of exceptions that Dolphin raises.

Every message names the operation, the sizes or symbols involved, and what to do about it. The
subclasses also inherit from the built-in exception that a Python user would expect.
"""

from __future__ import annotations


class DolphinError(Exception):
    """Base class of everything that Dolphin raises on purpose."""


class InputError(DolphinError, ValueError):
    """An argument is invalid: what a distribution is built from, or queried with."""


class SymbolError(DolphinError, TypeError):
    """An object can't be a symbol: it is unhashable, a tensor, a generator or a distribution."""


class MismatchError(DolphinError, ValueError):
    """The operands of one operation don't fit together."""


class FunctionError(DolphinError, RuntimeError):
    """A user function failed, or returned something that can't be used."""


class SizeError(DolphinError, MemoryError):
    """An operation would take more combinations, memory or time than allowed."""


class FixpointError(DolphinError, RecursionError):
    """A fixpoint was not reached within the allowed number of iterations."""


class UnsupportedError(DolphinError, NotImplementedError):
    """A provenance doesn't support the operation."""


def told(error: BaseException) -> str:
    """An exception as part of a sentence, without its own full stop.

    >>> told(ValueError("Too large."))
    'ValueError: Too large'
    """
    return f"{type(error).__name__}: {error}".removesuffix(".").removesuffix(": ")


def shorten(value: object, limit: int = 80) -> str:
    """`repr(value)`, cut to `limit` characters: messages quote symbols of any size.

    >>> shorten("x" * 100, limit=12)
    "'xxxxxxxx..."
    """
    try:
        text = repr(value)
    except Exception:  # a broken __repr__ must not hide the error being reported
        text = f"<{type(value).__name__} object>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def listing(values: object, limit: int = 6) -> str:
    """The first few of `values`, and how many more there are.

    >>> listing(range(9), limit=3)
    '0, 1, 2, ... (9 in all)'
    """
    items = list(values)  # type: ignore[call-overload]
    text = ", ".join(shorten(v, 40) for v in items[:limit])
    return text if len(items) <= limit else f"{text}, ... ({len(items)} in all)"
