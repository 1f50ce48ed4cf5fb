"""Exact probabilities: tags are formulas, compiled once into circuits that run on tensors.

* formulas.py: and, or, not over facts, each formula stored once;
* diagrams.py, sentential.py: two compilers, from formulas to sums of products;
* circuits.py: sums of products in layers, evaluated for the whole batch;
* provenance.py: the algebra.
"""

from dolphin.provenance.exact.provenance import Exact

__all__ = ["Exact"]
