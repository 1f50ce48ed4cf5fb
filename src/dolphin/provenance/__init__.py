"""Algebras of tags; see README.md in this folder for how to add one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dolphin.errors import InputError, listing
from dolphin.provenance.contract import Facts, Provenance, TensorProvenance
from dolphin.provenance.damp import DAMP
from dolphin.provenance.topk import TopKProofs

__all__ = ["DAMP", "Facts", "Provenance", "TensorProvenance", "TopKProofs", "get_provenance"]

_BY_NAME: dict[str, Callable[..., Provenance]] = {
    "damp": DAMP,
    "dtkp-am": TopKProofs,
}


def get_provenance(name: str, **parameters: Any) -> Provenance:
    """A provenance by its name, for configuration files and command lines.

    >>> get_provenance("dtkp-am", k=3)
    TopKProofs(k=3)
    """
    make = _BY_NAME.get(name)
    if make is None:
        raise InputError(f"get_provenance: no provenance {name!r}; known are {listing(_BY_NAME, 20)}.")
    try:
        return make(**parameters)
    except TypeError as error:
        raise InputError(f"get_provenance({name!r}): {error}.") from None
