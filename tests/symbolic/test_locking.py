"""What could make a process stand still: locks at a fork and in finalizers, and the watchman."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dolphin.symbolic import endless, locking
from dolphin.symbolic.bounded import BoundedCache

SOURCES = Path(locking.__file__).parents[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes don't fork here")
def test_a_forked_process_has_its_locks_free():
    # In a process of its own, without torch: nothing forks a process that has other threads.
    code = f"""
import os, runpy, threading
made = runpy.run_path({locking.__file__!r})
ready, go_on = threading.Event(), threading.Event()
def hold():
    with made["lock"]:
        ready.set()
        go_on.wait(0.2)
thread = threading.Thread(target=hold)
thread.start()
ready.wait()
child = os.fork()
if not child:
    os._exit(0 if made["lock"].acquire(timeout=5) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), made["lock"].acquire(timeout=5))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "True"], done.stderr


def test_every_lock_is_free_in_a_forked_process():
    """All locks are made by `held_at_fork`, but for the gates of `crew`, which live in one call."""
    makers = {
        path.name
        for path in SOURCES.rglob("*.py")
        if re.search(r"threading\.(R?Lock|Condition|Semaphore|Event)\(", path.read_text("utf-8"))
    }
    assert makers == {"locking.py", "crew.py"}


def test_a_finalizer_may_use_what_is_being_changed():
    cache: BoundedCache[int, object] = BoundedCache(limit=1)
    seen = []

    class Value:
        def __del__(self):
            seen.append(len(cache.values()))

    def work():
        with locking.lock:  # as if the collector ran in the middle of an operation
            cache.put(1, Value())
            cache.put(2, 2)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    assert seen == [1]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="collects between two lines only")
def test_nothing_is_collected_while_the_watchman_looks_at_frames(monkeypatch):
    enabled = []
    frames = sys._current_frames
    monkeypatch.setattr(sys, "_current_frames", lambda: enabled.append(gc.isenabled()) or frames())
    assert threading.get_ident() in endless._frames()
    assert enabled == [False]
    assert gc.isenabled()


def test_code_is_no_longer_watched_even_if_its_end_is_interrupted(monkeypatch):
    watchman = endless._watchman
    end, interrupts = watchman.end, [KeyboardInterrupt]

    def interrupted(watched):
        if interrupts:
            raise interrupts.pop()
        end(watched)

    monkeypatch.setattr(watchman, "end", interrupted)
    with pytest.raises(KeyboardInterrupt), endless.watched(10):
        pass
    assert not watchman._watched


def test_code_ends_in_a_process_that_was_forked_inside_it():
    with endless.watched(10):
        endless._watchman.start_anew()
    assert not endless._watchman._watched


def test_without_another_thread_a_program_runs_unwatched(monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    watchman = endless._Watchman()
    monkeypatch.setattr(threading.Thread, "start", refused)
    watchman.end(watchman.begin(10))
    assert not watchman._watched
