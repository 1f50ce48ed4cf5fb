"""Which entries of an array are equal, by place, by a hash, and by sorting."""

import numpy as np
import pytest

from dolphin.symbolic.row_planning import first_appearances


@pytest.mark.parametrize("count", [0, 1, 7, 512, 513, 3000, 20_000])
@pytest.mark.parametrize("bound", [50, 10**6, 2**50])
@pytest.mark.parametrize("distinct", [0.02, 0.5, 1])
def test_same_as_a_loop(count, bound, distinct):
    generator = np.random.default_rng(count)
    some = generator.integers(0, bound, max(1, int(distinct * count)))
    codes = generator.choice(some, count)
    numbers: dict[int, int] = {}
    groups = [numbers.setdefault(code, len(numbers)) for code in codes.tolist()]
    first, group_of = first_appearances(codes, bound)
    assert group_of.tolist() == groups
    assert codes[first].tolist() == list(numbers)
    firsts = {code: place for place, code in reversed([*enumerate(codes.tolist())])}
    assert first.tolist() == [firsts[code] for code in numbers]
