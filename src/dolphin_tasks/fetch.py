"""Files, read and written with clear errors: atomic, JSON without surprises, from the network."""

import contextlib
import hashlib
import http.client
import json
import math
import os
import struct
import sys
import tempfile
import tokenize
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from dolphin import DolphinError

CHUNK = 1 << 16

BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""What reading a zip file raises where it is damaged, encrypted or packed in an unknown way."""

BROKEN_ARRAYS = (
    *BROKEN_ARCHIVE, OSError, ValueError, LookupError, TypeError, AttributeError, SyntaxError,
    MemoryError, OverflowError, SystemError, tokenize.TokenError,
)  # fmt: skip
"""What numpy raises for a file of arrays that is damaged or something else."""
BROKEN_PICTURE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    SyntaxError,
    MemoryError,
    struct.error,
)
"""What PIL raises for a damaged picture, beside `Image.DecompressionBombError`."""

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that have arrived, and the bytes in all (None: unknown)."""


class DataError(DolphinError, OSError):
    """Data is missing, damaged, or can't be fetched."""


class WriteError(DolphinError, OSError):
    """A file can't be written: the disk is full, or the folder is not a folder."""


def cache_dir(name: str) -> Path:
    """The folder in which data set `name` is kept for this user.

    >>> cache_dir("mnist").parts[-2:]
    ('dolphin', 'mnist')
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return root.expanduser() / "dolphin" / name
    except RuntimeError:  # no home directory, as in some containers
        return Path(tempfile.gettempdir()) / "dolphin" / name


def sha256(content: bytes) -> str:
    """The SHA-256 of `content` in hexadecimal.

    >>> sha256(b"dolphin")[:12]
    '532f011ec89f'
    """
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def atomic_write(target: Path) -> Iterator[IO[bytes]]:
    """Write `target` so that it is either whole or as before: a temporary file, then a rename.

    Raises:
        WriteError: it can't be written; what was there before is still there.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as stream:
                yield stream
            temporary.replace(target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
    except DolphinError:
        raise
    except OSError as error:
        raise WriteError(f"{target} can't be written: {error.strerror or error}.") from error


def remove_temporaries(folder: Path) -> None:
    """Remove what `atomic_write` left in a folder when its process was killed."""
    for left in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            left.unlink()


def parse_json(text: str) -> Any:
    """JSON as the standard has it: `Infinity` and `NaN` are refused, as are numbers like 1e999.

    >>> parse_json('{"loss": 0.5}')
    {'loss': 0.5}
    >>> parse_json('{"loss": Infinity}')
    Traceback (most recent call last):
    ...
    ValueError: Infinity is not a JSON number
    """

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a JSON number")

    def number(kind: type[int] | type[float]) -> Callable[[str], int | float]:
        def read(digits: str) -> int | float:
            if math.isinf(float(digits)):
                raise ValueError(f"{digits:.20} is too large a number")
            return kind(digits)

        return read

    try:
        return json.loads(
            text, parse_constant=refuse, parse_int=number(int), parse_float=number(float)
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def fetch_url(url: str, target: Path, *, timeout: float, progress: Progress) -> None:
    """Fetch `url` into `target`, continuing from `target.part` where an earlier attempt stopped.

    `target` appears only when all bytes have arrived. Raises `DataError` otherwise.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url)  # noqa: S310 (the callers' addresses are https constants)
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
            _receive(response, part, done, progress, target.name)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing lies past what we have: start over next time
            part.unlink()
        raise DataError(f"{url}: the server answered {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{url}: {reason}") from error
    part.replace(target)


def _receive(response: IO[bytes], part: Path, done: int, progress: Progress, name: str) -> None:
    """Append the body of `response` to `part`, or start `part` over if the server sends it all."""
    resumed = getattr(response, "status", 200) == 206
    done = done if resumed else 0
    length = response.headers.get("Content-Length")  # type: ignore[attr-defined]
    total = done + int(length) if length else None
    with part.open("ab" if resumed else "wb") as stream:
        while chunk := response.read(CHUNK):
            stream.write(chunk)
            done += len(chunk)
            progress(name, done, total)
    if total is not None and done < total:
        raise OSError(f"the connection ended after {done:,} of {total:,} bytes")


def show_progress(name: str, done: int, total: int | None) -> None:
    """Show a transfer on standard error: a live line on a terminal, otherwise a last line."""
    share = f"{done / total:4.0%} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB"
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{name}: {share}" + ("\n" if done == total else ""))
        sys.stderr.flush()
    elif done == total:
        sys.stderr.write(f"{name}: {share}\n")
