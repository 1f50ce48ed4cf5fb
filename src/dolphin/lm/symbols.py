"""The symbol for everything a model may say that is not listed."""

from __future__ import annotations

import enum


class Other(enum.Enum):
    """The type of `OTHER`; an enumeration, so that copies and pickles are the same object.

    >>> import copy
    >>> from dolphin.lm import OTHER
    >>> copy.deepcopy(OTHER) is OTHER, OTHER
    (True, OTHER)
    """

    OTHER = "other"

    def __repr__(self) -> str:
        return "OTHER"

    __str__ = __repr__


OTHER = Other.OTHER
"""What doesn't parse, and what was not explored: the rest of the probability."""
