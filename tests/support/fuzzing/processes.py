"""Programs in processes of their own.

A process may die of a program: a stack that overflows inside a C library takes it along. Or it
hangs where no alarm of Python's reaches it. Both are noticed, with the seed at which it happened,
and the other programs of the same chunk run again.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Run = Callable[[range, Callable[[int], None]], T]
"""Runs programs; tells the second argument the seed of each one before it starts."""

CHUNKS = 50  # that a process takes before another one replaces it
_NOWHERE = -1


def _work(run: Run[Any], pipe: Connection, at: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that collects results handles it

    def note(seed: int) -> None:
        at.value = seed

    while True:
        try:
            chunk = pipe.recv()
        except EOFError:
            return
        pipe.send(run(chunk, note))


class _Worker(Generic[T]):
    """A process and the chunk that it is at."""

    def __init__(self, run: Run[T]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.at = context.Value("q", _NOWHERE, lock=False)
        self.process = context.Process(target=_work, args=(run, other, self.at), daemon=True)
        self.process.start()
        other.close()  # so that the end of the process is the end of the pipe
        self.chunk, self.chunks = range(0), 0

    def give(self, chunk: range) -> None:
        self.chunk, self.chunks, self.at.value = chunk, self.chunks + 1, _NOWHERE
        self._seen, self._since = _NOWHERE, time.monotonic()
        self.pipe.send(chunk)

    def kill_if_stuck(self, seconds: float | None) -> None:
        """End the process if it has been at one program for longer than this."""
        if self.at.value != self._seen or self._seen == _NOWHERE:  # imports take their time
            self._seen, self._since = self.at.value, time.monotonic()
        elif seconds is not None and time.monotonic() - self._since > seconds:
            self.process.kill()

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def in_processes(
    run: Run[T],
    chunks: Iterable[range],
    jobs: int,
    lost: Callable[[int, int | None], T],
    seconds: float | None = None,
) -> Iterator[T]:
    """The results of all chunks, as they become ready, with this many processes at a time.

    Where a process dies, the result is `lost(seed, exit code)`, and the other seeds of its chunk
    are tried again. One that stays at the same program for more than `seconds` is killed.
    """
    waiting, idle, busy = deque(chunks), [], []
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs:
                worker = idle.pop() if idle else _Worker(run)
                worker.give(waiting.popleft())
                busy.append(worker)
            ready = wait([worker.pipe for worker in busy], timeout=0.2)
            for worker in [*busy]:
                if worker.pipe not in ready:
                    worker.kill_if_stuck(seconds)
                    continue
                busy.remove(worker)
                try:
                    yield worker.pipe.recv()
                except (EOFError, ConnectionError):
                    worker.process.join()
                    seed, chunk = worker.at.value, worker.chunk
                    if seed == _NOWHERE:
                        raise RuntimeError("a process died before its first program") from None
                    rest = (range(chunk.start, seed), range(seed + 1, chunk.stop))
                    waiting.extendleft(part for part in rest if part)
                    yield lost(seed, worker.process.exitcode)
                if worker.process.is_alive() and worker.chunks < CHUNKS:
                    idle.append(worker)
                else:
                    worker.end()
    finally:
        for worker in (*idle, *busy):
            worker.end()
