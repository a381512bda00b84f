"""Permissions of files and directories that the broker creates: only its own user has access, whatever the umask.

All code that creates files with records, keys, requests or traces must use these functions. Existing files and
directories keep their mode.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["DIRECTORY_MODE", "FILE_MODE", "OTHERS", "exposure", "is_open_to_others", "make_directories", "opener"]

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
OTHERS = 0o077
"""The permission bits of the group and of others."""


def opener(path: str, flags: int) -> int:
    """Open a file, created with FILE_MODE if necessary; for the `opener` argument of `open`.

    Fails for a FIFO without a reader, instead of waiting for one.
    """
    # O_NONBLOCK is only for the open, where a FIFO without a reader would block the startup forever. A slow reader
    # may block writes.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), FILE_MODE)
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(descriptor, True)
    return descriptor


def make_directories(path: Path) -> None:
    """Create a directory and its parents with DIRECTORY_MODE. `Path.mkdir` applies a mode only to the last one."""
    for directory in reversed((path, *path.parents)):
        directory.mkdir(DIRECTORY_MODE, exist_ok=True)


def exposure(path: Path, status: os.stat_result | None = None) -> str | None:
    # A warning if other users can read a file with secrets. The group of another user's file is that of the process, as
    # for PostgreSQL's keys. Other kinds of files, such as pipes, have no lasting content.
    try:
        found = path.stat() if status is None else status
    except (OSError, ValueError):  # a missing file has an error elsewhere; ValueError: a NUL character
        return None
    is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    if not stat.S_ISREG(found.st_mode) or os.name == "nt" or not found.st_mode & (OTHERS if is_own else stat.S_IRWXO):
        return None
    import shlex  # noqa: PLC0415 - for this line only

    change = f"chmod {'600' if is_own else 'o-rwx'} {shlex.quote(str(path))}"
    return f"other users may read {path} (mode {stat.S_IMODE(found.st_mode):04o}). Run {change}"


def is_open_to_others(directory: Path) -> bool:
    return bool(directory.stat().st_mode & OTHERS)
