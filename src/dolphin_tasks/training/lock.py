"""A lock on a run folder: two runs in one folder would overwrite each other.

The operating system holds the lock for an open file and gives it up when the process ends, however
it ends: a crash leaves no lock behind.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import IO

LOCK_NAME = ".lock"


class FolderLock:
    """Holds the lock of a folder from `take` to `release`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     first, second = FolderLock(Path(name)), FolderLock(Path(name))
    ...     taken = first.take(), second.take()
    ...     first.release()
    ...     print(taken, second.take())
    ...     second.release()
    (True, False) True
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_NAME
        self._stream: IO[bytes] | None = None

    def take(self) -> bool:
        """Lock the folder, which must exist. False if another process (or object) holds it."""
        while True:
            stream = self.path.open("ab", buffering=0)
            if not _lock(stream):
                stream.close()
                return False
            if self._is_current(stream):
                self._stream = stream
                self._sign(stream)
                return True
            stream.close()  # its last holder removed the file between our opening and locking it

    def release(self) -> None:
        """Give the lock up, and remove its file."""
        if self._stream is not None:
            self.path.unlink(missing_ok=True)
            self._stream.close()
            self._stream = None

    def holder(self) -> str:
        """The process that signed the lock, to name it in a message."""
        try:
            return self.path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return ""

    def _is_current(self, stream: IO[bytes]) -> bool:
        try:
            return os.path.samestat(os.fstat(stream.fileno()), self.path.stat())
        except FileNotFoundError:
            return False

    def _sign(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError):  # the lock holds on a full disk, too
            stream.truncate(0)
            stream.write(f"process {os.getpid()}\n".encode())


if sys.platform == "win32":
    import msvcrt

    def _lock(stream: IO[bytes]) -> bool:
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(stream: IO[bytes]) -> bool:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
