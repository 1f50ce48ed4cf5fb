"""Speed: programs of the benchmark, what they cost beside their networks, and `dolphin bench`.

Each program is a short file that uses the public interface only, the way a user would write it:
`sums`, `addition`, `formulas`, `paths`, `kinship`, `actions` and `one_sample`.
"""

from dolphin_tasks.bench.command import Measurement, main, measure

__all__ = ["Measurement", "main", "measure"]
