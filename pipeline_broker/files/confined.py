"""Directories that no link leads out of.

Rules of this file: a program that may change such a directory while it is read could as well change what is in it, so
a name is looked at once.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pipeline_broker.files.errors import UnfitFileError

__all__ = ["ConfinedDirectories"]


class ConfinedDirectories:
    """See the rules of the file."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}  # a directory with a separator at its end: where it really is

    def add(self, directory: Path) -> None:
        """Add a directory, which may be a link itself."""
        self._real = {**self._real, f"{directory}{os.sep}": f"{os.path.realpath(directory)}{os.sep}"}

    def resolve(self, path: Path) -> Path:
        """Return where a path leads, without a link in it if it is below one of the directories.

        Raises:
            UnfitFileError: a link leads out of the directory.
        """
        name = str(path)
        for inside, real in self._real.items():
            if name.startswith(inside):
                if not _has_link(inside, name):
                    return path
                found = os.path.realpath(name)
                if not f"{found}{os.sep}".startswith(real):
                    raise UnfitFileError(errno.ELOOP, f"a link leads out of {inside.rstrip(os.sep)}", name)
                return Path(found)
        return path


def _has_link(inside: str, name: str) -> bool:
    """Return whether a part of a name below a directory is a link: much less work than where it leads."""
    end = len(inside)
    while (end := name.find(os.sep, end)) >= 0:
        if os.path.islink(name[:end]):  # noqa: PTH114 - of a text
            return True
        end += 1
    return os.path.islink(name)  # noqa: PTH114 - of a text
