"""Dolphin: put an ordinary Python program behind a neural network, and train through it."""

from dolphin.caching import cache_clear, cache_info
from dolphin.context import using
from dolphin.distribution import Distribution
from dolphin.errors import DolphinError
from dolphin.estimation import estimate
from dolphin.execution.profiling import profile
from dolphin.execution.tracing import trace
from dolphin.losses import bce_loss, nll_loss
from dolphin.operations import (
    apply,
    apply_if,
    filter,
    fixpoint,
    get_logits,
    get_probs,
    negate,
    reduce,
    sample,
    union,
)
from dolphin.provenance import DAMP, Exact, Provenance, TopKProofs, get_provenance
from dolphin.settings import settings

__version__ = "0.1.0"

__all__ = [
    "DAMP",
    "Distribution",
    "DolphinError",
    "Exact",
    "Provenance",
    "TopKProofs",
    "apply",
    "apply_if",
    "bce_loss",
    "cache_clear",
    "cache_info",
    "estimate",
    "filter",
    "fixpoint",
    "get_logits",
    "get_probs",
    "get_provenance",
    "negate",
    "nll_loss",
    "profile",
    "reduce",
    "sample",
    "settings",
    "trace",
    "union",
    "using",
]
