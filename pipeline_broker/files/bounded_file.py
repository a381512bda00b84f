"""Bounded reading of files that other programs or users may have put in place: regular files only.

Links to regular files are followed, because Kubernetes mounts secrets as links.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TypeAlias

from pipeline_broker.base.owner_only import FILE_MODE
from pipeline_broker.files.errors import UnfitFileError

__all__ = ["Stamp", "current_stamp", "open_regular", "read_bounded", "stamp_of"]

Stamp: TypeAlias = "tuple[int, ...]"
"""Numbers that differ after a file was changed or replaced; empty for a file that cannot be found."""

_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, or create it with O_CREAT, and return its descriptor.

    Raises:
        UnfitFileError: the path names something else, has a NUL character, or has links that lead to each other.
        OSError: it cannot be opened.
    """
    if "\0" in str(path):
        raise UnfitFileError(errno.EINVAL, "a path must not contain NUL characters")
    try:
        _check_kind(path.stat(), path)  # opening a device may already act, and opening a pipe may block
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnfitFileError(errno.ELOOP, "its symbolic links form a loop", os.fspath(path)) from None
        raise
    descriptor = os.open(path, flags | _FLAGS, FILE_MODE)
    try:
        _check_kind(os.fstat(descriptor), path)  # another file may have the name by now
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_bounded(path: Path, bytes_max: int) -> tuple[bytes, os.stat_result]:
    """Read a whole file; return its content and its status when it was opened.

    Files in `/proc` report a size of 0, and are read as empty.

    Raises:
        OSError: it cannot be read, is not a regular file, or has more than `bytes_max` bytes; `strerror` says which.
    """
    descriptor = open_regular(path)
    try:
        status = os.fstat(descriptor)
        if status.st_size > bytes_max:
            raise UnfitFileError(
                errno.EFBIG, f"it has {status.st_size} bytes, but at most {bytes_max} are allowed", os.fspath(path)
            )
        pieces, left_bytes = [], status.st_size
        while left_bytes and (piece := os.read(descriptor, left_bytes)):
            pieces.append(piece)
            left_bytes -= len(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces), status


def _check_kind(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnfitFileError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def stamp_of(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def current_stamp(path: str) -> Stamp:
    try:
        return stamp_of(Path(path).stat())
    except (OSError, ValueError):  # ValueError: a NUL character
        return ()
