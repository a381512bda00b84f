"""The modes of what the broker makes on a disk: for its own user and nobody else, whatever the umask is.

Rules of this file: whoever makes a file or directory for records, keys, requests or traces makes it by these. What is
there already keeps its mode.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["DIRECTORY_MODE", "FILE_MODE", "is_open_to_others", "make_directories", "opener"]

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
OTHERS = 0o077
"""The bits of a mode that let the group or everybody in."""


def opener(path: str, flags: int) -> int:
    """Open a file with FILE_MODE if this makes it; for the `opener` of Python's `open`.

    A pipe that no process reads is refused by the system: to wait for a reader would stop a start for ever.
    """
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), FILE_MODE)
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(descriptor, True)  # a slow reader is waited for
    return descriptor


def make_directories(path: Path) -> None:
    """Make a directory and its parents with DIRECTORY_MODE; `Path.mkdir` gives a mode to the last one only."""
    for directory in reversed((path, *path.parents)):
        directory.mkdir(DIRECTORY_MODE, exist_ok=True)


def is_open_to_others(directory: Path) -> bool:
    """Whether users other than the owner may list, enter or change a directory."""
    return bool(directory.stat().st_mode & OTHERS)
