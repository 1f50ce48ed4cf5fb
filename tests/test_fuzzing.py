"""Two thousand random programs, each against the definitions in plain Python.

`tests/support/fuzzing` makes them, runs them twice and compares whatever can be read of the
results; `benchmarks/fuzz.py` runs as many more as there is time for.
"""

from __future__ import annotations

import pytest

from fuzzing import campaign

PROGRAMS, CHUNK = 2000, 40


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_random_programs_do_what_the_definitions_say(start):
    tally = campaign.run(range(start, start + CHUNK))
    assert not tally.failures, "\n".join(campaign.report(tally))
    # A program that the definitions leave open, or refuse, compares nothing.
    assert tally.outcomes["compared"] >= 0.7 * CHUNK
