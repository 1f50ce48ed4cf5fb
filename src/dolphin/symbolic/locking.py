"""Locks around what is remembered between operations.

There is a single lock for all tables and caches, so that no two can be taken in different orders.
It is held for moments only, never while a user function runs. A thread may take it again: the
garbage collector can run a finalizer anywhere, and a finalizer may use Dolphin.
"""

from __future__ import annotations

import os
import threading


def held_at_fork() -> threading.RLock:
    """A new lock that is free in a forked process, where what it protects is complete.

    A forked process has none of its parent's other threads, but all locks as they were: one that
    was taken by another thread would stay taken. So a process forks while it holds the lock. Of
    several locks, the newest is taken first.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock


lock = held_at_fork()
