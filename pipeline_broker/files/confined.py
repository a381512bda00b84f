"""Directories that symbolic links may not lead out of."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pipeline_broker.files.errors import UnfitFileError

__all__ = ["ConfinedDirectories"]


class ConfinedDirectories:
    """A set of directories, with a check that paths below them stay inside.

    The check happens once per name. A program that could swap a link afterwards could change the files as well.
    """

    def __init__(self) -> None:
        self._real: dict[str, str] = {}  # directory -> its real path, both ending with a separator

    def add(self, directory: Path) -> None:
        self._real = {**self._real, f"{directory}{os.sep}": f"{os.path.realpath(directory)}{os.sep}"}

    def resolve(self, path: Path) -> Path:
        """Return the path, with its links resolved if it is below one of the directories.

        Raises:
            UnfitFileError: a link leads out of the directory.
        """
        name = str(path)
        for directory, real in self._real.items():
            if name.startswith(directory):
                if not _has_link(directory, name):
                    return path
                found = os.path.realpath(name)
                if not f"{found}{os.sep}".startswith(real):
                    raise UnfitFileError(errno.ELOOP, f"a link leads out of {directory.rstrip(os.sep)}", name)
                return Path(found)
        return path


def _has_link(directory: str, name: str) -> bool:
    # Much cheaper than os.path.realpath, which only names with links need.
    end = len(directory)
    while (end := name.find(os.sep, end)) >= 0:
        if os.path.islink(name[:end]):  # noqa: PTH114 - the path is a string
            return True
        end += 1
    return os.path.islink(name)  # noqa: PTH114 - the path is a string
