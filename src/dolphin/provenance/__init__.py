"""Algebras of tags; see README.md in this folder for how to add one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dolphin.errors import InputError, listing
from dolphin.provenance.contract import Provenance, TensorProvenance
from dolphin.provenance.damp import DAMP
from dolphin.provenance.debugging import Boolean, Counting
from dolphin.provenance.exact import Exact
from dolphin.provenance.facts import Facts
from dolphin.provenance.fuzzy import Godel, Lukasiewicz, MaxProduct, NoisyOr, StableProduct
from dolphin.provenance.tnorms import Frank, Hamacher, NilpotentMinimum, SchweizerSklar, Yager
from dolphin.provenance.topk import TopKProofs

__all__ = [
    "DAMP",
    "Boolean",
    "Counting",
    "Exact",
    "Facts",
    "Frank",
    "Godel",
    "Hamacher",
    "Lukasiewicz",
    "MaxProduct",
    "NilpotentMinimum",
    "NoisyOr",
    "Provenance",
    "SchweizerSklar",
    "StableProduct",
    "TensorProvenance",
    "TopKProofs",
    "Yager",
    "get_provenance",
    "provenance_names",
]

_BY_NAME: dict[str, Callable[..., Provenance]] = {
    "damp": DAMP,
    "dtkp-am": partial(TopKProofs, wmc="add-mult"),
    "dtkp-wmc": partial(TopKProofs, wmc="exact"),
    "exact": Exact,
    "min-max": Godel,
    "noisy-or": NoisyOr,
    "lukasiewicz": Lukasiewicz,
    "viterbi": MaxProduct,
    "stable-product": StableProduct,
    "hamacher": Hamacher,
    "nilpotent": NilpotentMinimum,
    "yager": Yager,
    "schweizer-sklar": SchweizerSklar,
    "frank": Frank,
    "boolean": Boolean,
    "counting": Counting,
}


def get_provenance(name: str, **parameters: Any) -> Provenance:
    """A provenance by its name, for configuration files and command lines.

    >>> get_provenance("dtkp-am", k=3)
    TopKProofs(k=3)
    """
    make = _BY_NAME.get(name)
    if make is None:
        raise InputError(
            f"get_provenance: no provenance {name!r}; known are {listing(_BY_NAME, 20)}."
        )
    try:
        return make(**parameters)
    except TypeError as error:
        raise InputError(f"get_provenance({name!r}): {error}.") from None


def provenance_names() -> list[str]:
    """All names that `get_provenance` knows.

    >>> provenance_names()[:4]
    ['damp', 'dtkp-am', 'dtkp-wmc', 'exact']
    """
    return list(_BY_NAME)


def names_with_negation() -> list[str]:
    """The names of the provenances that have a negation."""
    return [name for name, make in _BY_NAME.items() if _negates(type(make()))]


def _negates(kind: type[Provenance]) -> bool:
    if issubclass(kind, TensorProvenance) and kind.negate is TensorProvenance.negate:
        return kind.negation is not TensorProvenance.negation
    return kind.negate is not Provenance.negate
