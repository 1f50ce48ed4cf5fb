"""Add-mult probabilities."""

from dolphin.provenance.damp.provenance import DAMP

__all__ = ["DAMP"]
