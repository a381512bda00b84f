"""Files that a setting names, read within bounds.

Rules of this file: only a regular file is opened, since a device or a pipe may never end or may act when it is opened.
A link to a regular file is followed: Kubernetes mounts secrets by links. The size is checked before a byte is read, and
not more than that is read, so a file of `/proc`, which has no size, is empty.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["read_bounded"]

_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))


def read_bounded(path: Path, bytes_max: int) -> tuple[bytes, os.stat_result]:
    """Read all of a file.

    Returns:
        its content, and its status when it was opened.

    Raises:
        OSError: it cannot be read, is not a regular file, or has more than `bytes_max` bytes; `strerror` says which.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a path has no NUL characters")
    _check(path.stat(), bytes_max)  # a device is not even opened
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        _check(status, bytes_max)  # the path may lead elsewhere by now
        pieces, left_bytes = [], status.st_size
        while left_bytes and (piece := os.read(descriptor, left_bytes)):
            pieces.append(piece)
            left_bytes -= len(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces), status


def _check(status: os.stat_result, bytes_max: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size > bytes_max:
        raise OSError(errno.EFBIG, f"it has {status.st_size} bytes, and {bytes_max} are allowed")
