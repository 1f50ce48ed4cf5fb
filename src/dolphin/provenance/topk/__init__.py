"""The likeliest proofs."""

from dolphin.provenance.topk.provenance import TopKProofs

__all__ = ["TopKProofs"]
