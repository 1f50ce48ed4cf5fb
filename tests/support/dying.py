"""A run of programs in which a process dies; imports nothing large, for processes that are new."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def dying(seeds: range, note: Callable[[int], None]) -> list[int]:
    """The seeds; number 3 ends its process, number 5 hangs."""
    for seed in seeds:
        note(seed)
        if seed == 3:
            os._exit(7)
        while seed == 5:
            time.sleep(1.0)
    return [*seeds]
