"""Every cache registers how it is counted and cleared."""

from __future__ import annotations

import re
from pathlib import Path

import torch

import dolphin as dl
from dolphin.symbolic.bounded import all_caches

SOURCES = Path(dl.__file__).parent
# A cache at the level of a module: a bounded one, lru_cache, or a dictionary that is filled later.
CACHE = re.compile(
    r"^(?:_\w+(?::[^=\n]+)? = (?:BoundedCache\(|\{\}|weakref\.Weak\w+\()"
    r"|@functools\.(?:lru_)?cache)",
    re.MULTILINE,
)
NOT_CACHES = {"bounded.py", "purity.py"}  # the registry itself, and what users declared


def test_every_cache_is_registered():
    for file in SOURCES.rglob("*.py"):
        text = file.read_text()
        found = CACHE.findall(text)
        if found and file.name not in NOT_CACHES:
            registered = len(re.findall(r"^@?register(?:ed)?\(", text, re.MULTILINE))
            missing = f"{file.name} has {found}: give each a `register(...)` beside it"
            assert registered >= len(found), missing


def test_clear_empties_everything():
    for provenance in (dl.DAMP(), dl.TopKProofs(2), dl.Exact()):
        d, e = (
            dl.Distribution(torch.rand(2, 3).softmax(1), range(3), provenance=provenance)
            for _ in range(2)
        )
        total = dl.apply(d, e, lambda a, b: a + b)
        total.probs()
        dl.count(d).probs()
    counted = dl.cache_info().entries
    assert {"plans", "symbols", "circuits", "formulas"} <= counted.keys() == all_caches().keys()
    assert sum(map(bool, counted.values())) >= 8, counted
    dl.cache_clear()
    left = {name: n for name, n in dl.cache_info().entries.items() if n}
    assert left.keys() <= {"formulas"}  # an empty table has true and false
    assert dl.cache_info().plans == dl.cache_info().remembered == 0
    assert torch.allclose(total.probs().sum(1), torch.ones(2))
