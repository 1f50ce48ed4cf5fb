"""The default provenance of a block of code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from dolphin.errors import InputError, shorten
from dolphin.provenance import DAMP, Provenance

_default: ContextVar[Provenance] = ContextVar("dolphin_provenance", default=DAMP())  # noqa: B039


def default_provenance() -> Provenance:
    """The provenance of inputs that don't name one."""
    return _default.get()


@contextlib.contextmanager
def using(provenance: Provenance) -> Iterator[Provenance]:
    """Make `provenance` the default of inputs created in this block, in this thread or task only.

    >>> import dolphin as dl
    >>> with dl.using(dl.TopKProofs(k=3)):
    ...     dl.Distribution([0.5, 0.5], "ab").provenance
    TopKProofs(k=3)
    """
    if not isinstance(provenance, Provenance):
        raise InputError(
            f"using: expected a Provenance such as dolphin.TopKProofs(k=3), got "
            f"{shorten(provenance)}. From a name: dolphin.get_provenance('dtkp-am', k=3)."
        )
    token = _default.set(provenance)
    try:
        yield provenance
    finally:
        _default.reset(token)
