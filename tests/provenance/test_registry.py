"""What type checkers know of provenances by name is what the provenances take."""

from __future__ import annotations

import inspect
from typing import get_args, get_overloads, get_type_hints

import pytest

from dolphin.provenance import registry

NAMES = get_args(registry.ProvenanceName)
BUILT_IN = set(registry._BY_NAME)  # now: other tests register names of their own


def test_every_built_in_name_is_known():
    assert set(NAMES) == BUILT_IN


@pytest.mark.parametrize("function", [registry.get_provenance, registry.using])
@pytest.mark.parametrize("name", NAMES)
def test_overloads_have_the_parameters_of_the_provenance(function, name):
    fitting = [
        overload
        for overload in get_overloads(inspect.unwrap(function))
        if name in get_args(next(iter(get_type_hints(overload).values())))
    ]
    (only,) = fitting
    _, *given = inspect.signature(only).parameters.values()
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in given)
    taken = inspect.signature(registry._BY_NAME[name]).parameters
    assert [one.name for one in given] == list(taken)
    for one in given:
        if one.default is not ...:
            assert one.default == taken[one.name].default
