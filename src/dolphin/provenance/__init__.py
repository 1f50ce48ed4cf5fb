"""Algebras of tags; see README.md in this folder for how to add one."""

from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.damp import DAMP
from dolphin.provenance.debugging import Boolean, Counting
from dolphin.provenance.exact import Exact
from dolphin.provenance.facts import Facts
from dolphin.provenance.fuzzy import Godel, Lukasiewicz, NoisyOr, StableProduct
from dolphin.provenance.max_product import MaxProduct
from dolphin.provenance.registry import (
    ProvenanceName,
    RegisteredName,
    get_provenance,
    provenance_names,
    register_provenance,
    using,
)
from dolphin.provenance.tensors import TensorProvenance
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
    "ProvenanceName",
    "RegisteredName",
    "SchweizerSklar",
    "StableProduct",
    "TagInfo",
    "TensorProvenance",
    "TopKProofs",
    "Yager",
    "get_provenance",
    "provenance_names",
    "register_provenance",
    "using",
]
