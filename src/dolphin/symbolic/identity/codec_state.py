"""Codecs and handlers of encoding errors that are registered in this process.

Which codec a name stands for is decided by functions that any code may register, with
`codecs.register`, and their answers may change. Python has no function that lists them, but it
keeps them in a list, and the handlers in a dictionary, which the garbage collector finds.
"""

from __future__ import annotations

import codecs
import encodings
import encodings.aliases
import gc
from typing import Any

from dolphin.symbolic.bounded import register
from dolphin.symbolic.identity.library_state import LibraryState
from dolphin.symbolic.identity.reach import is_foreign
from dolphin.symbolic.identity.snapshots import Snapshot

_HANDLERS = ("ignore", "namereplace", "strict")  # some of those that Python has


class _Registered:
    """Python's own list of search functions and dictionary of handlers, as they were last seen."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._snapshot = Snapshot()
        self._names = 0
        self._state: LibraryState | None = None

    def __len__(self) -> int:
        return int(self._state is not None)

    def state(self) -> LibraryState:
        names = len(encodings.aliases.aliases)  # only a new one matters: others were looked up
        if self._state is None or names != self._names or not self._snapshot.unchanged():
            self._names = names
            self._state = self._look()
        return self._state

    def _look(self) -> LibraryState:
        if _PLACES is None:
            return LibraryState("unknown", (self,))
        searches, handlers = _PLACES
        parts = (searches, handlers.keys(), handlers.values())
        self._snapshot = Snapshot(whole={(n, "values"): part for n, part in enumerate(parts)})
        foreign = tuple(filter(is_foreign, (*searches, *handlers.values())))
        return LibraryState((self._names, self._snapshot.mark()), foreign)


def _find() -> tuple[list[Any], dict[str, Any]] | None:
    """Where Python keeps them; None if that is hidden (`gc.freeze`). Takes 15 milliseconds."""
    known = {name: codecs.lookup_error(name) for name in _HANDLERS}
    searches, handlers = None, None
    for each in gc.get_referrers(encodings.search_function, *known.values()):
        if type(each) is list and each and each[0] is encodings.search_function:
            searches = each
        elif type(each) is dict and each is not known and known.keys() <= each.keys():
            handlers = each
    return None if searches is None or handlers is None else (searches, handlers)


_PLACES = _find()  # now: programs may freeze what they have imported
_registered = _Registered()
register("codecs", _registered.__len__, _registered.clear)


def state_of_codecs() -> LibraryState:
    """What decides how texts are encoded; user code among it is `foreign`.

    >>> before = state_of_codecs()
    >>> def search(name): return None
    >>> codecs.register(search)
    >>> state_of_codecs() == before
    False
    >>> codecs.unregister(search)
    >>> state_of_codecs() == before
    True
    """
    return _registered.state()
