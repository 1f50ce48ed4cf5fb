"""Dolphin: put an ordinary Python program behind a neural network, and train through it."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from dolphin.answers.diagnosis import diagnose
from dolphin.caching import cache_clear, cache_info
from dolphin.conditioning import (
    condition,
    entropy,
    expected,
    most_likely,
    normalized,
    posterior,
)
from dolphin.display.drawing import Drawing, draw
from dolphin.display.findings import Diagnosis, Finding
from dolphin.display.proofs import Derivation, Fact, Proof, Proofs
from dolphin.distribution import Distribution
from dolphin.errors import (
    DolphinError,
    FixpointError,
    FunctionError,
    InputError,
    MismatchError,
    SizeError,
    SymbolError,
    UnsupportedError,
)
from dolphin.estimation import estimate
from dolphin.execution.profiling import Profile, profile
from dolphin.losses import bce_loss, nll_loss, satisfaction
from dolphin.operations import (
    apply,
    apply_if,
    filter,
    get_logits,
    get_probs,
    get_tags,
    negate,
    sample,
    union,
)
from dolphin.programs.branches import where
from dolphin.programs.choices import choose, program
from dolphin.programs.folding import reduce
from dolphin.programs.per_sample import Batched, Network, batched, network
from dolphin.programs.recursion import fixpoint
from dolphin.programs.traced import Traced, trace
from dolphin.provenance import (
    DAMP,
    Exact,
    Provenance,
    TopKProofs,
    get_provenance,
    register_provenance,
    using,
)
from dolphin.quantifiers import count, exists, forall, maximum, minimum, total
from dolphin.settings import settings
from dolphin.symbolic.chance import Weighted, weighted
from dolphin.symbolic.identity.purity import pure

__version__ = "0.1.0"

__all__ = [
    "DAMP",
    "Batched",
    "Derivation",
    "Diagnosis",
    "Distribution",
    "DolphinError",
    "Drawing",
    "Exact",
    "Fact",
    "Finding",
    "FixpointError",
    "FunctionError",
    "InputError",
    "MismatchError",
    "Network",
    "Profile",
    "Proof",
    "Proofs",
    "Provenance",
    "SizeError",
    "SymbolError",
    "TopKProofs",
    "Traced",
    "UnsupportedError",
    "Weighted",
    "apply",
    "apply_if",
    "batched",
    "bce_loss",
    "cache_clear",
    "cache_info",
    "choose",
    "condition",
    "count",
    "diagnose",
    "draw",
    "entropy",
    "estimate",
    "exists",
    "expected",
    "filter",
    "fixpoint",
    "forall",
    "get_logits",
    "get_probs",
    "get_provenance",
    "get_tags",
    "maximum",
    "minimum",
    "most_likely",
    "negate",
    "network",
    "nll_loss",
    "normalized",
    "posterior",
    "profile",
    "program",
    "pure",
    "reduce",
    "register_provenance",
    "sample",
    "satisfaction",
    "settings",
    "total",
    "trace",
    "union",
    "using",
    "weighted",
    "where",
]


_SUB_PACKAGES = ("lm", "provenance")


def __dir__() -> list[str]:
    """The public names, and the sub-packages."""
    return [*__all__, "__version__", *_SUB_PACKAGES]


if not TYPE_CHECKING:  # a type checker would take every misspelt name for one

    def __getattr__(name: str) -> ModuleType:
        """A sub-package that is imported when it is first used."""
        if name in _SUB_PACKAGES:
            return import_module(f"dolphin.{name}")
        raise AttributeError(f"module 'dolphin' has no attribute {name!r}")
