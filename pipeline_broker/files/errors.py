"""Errors of files beyond those of the operating system, and advice for operators."""

import errno
from pathlib import Path

# Temporary errors, with advice for the operator.
_REMEDIES = {
    errno.ENOSPC: "delete other files on the file system of the data directory, or enlarge it;"
    " deleting topics or records needs space, too",
    errno.EDQUOT: "raise the quota of the broker's user, or delete other files of this user",
    errno.EMFILE: "raise the limit of open files of this process (ulimit -n, or LimitNOFILE= of its unit)",
    errno.ENFILE: "raise the limit of open files of this machine (fs.file-max)",
}
_UNFIT_REMEDY = "move it out of the directory, and restore a lost file of this name from a backup"


class SyncError(OSError):
    """A failed sync. The data may be lost even if a later sync succeeds: the kernel may have dropped it."""


class Obstacle(OSError):
    """A temporary failure that changed nothing, such as a remote store that does not answer."""


class Ended(Obstacle):
    """An obstacle for the rest of this process, which is closing. The next process may succeed."""


class UnfitFileError(OSError):
    """A path that names no regular file, names a file that is too large, or has a link that is not allowed."""


# Errors of a path that names something else than the broker's file or directory.
_UNFIT = (UnfitFileError, IsADirectoryError, NotADirectoryError, FileExistsError)


class DirectoryLocked(Exception):
    pass


class FencedError(Exception):
    """Another broker has taken the log over. Unconfirmed writes never will be confirmed."""


def is_passing(error: OSError) -> bool:
    """Return whether the failure is temporary and changed nothing, so the call may be retried."""
    return (error.errno in _REMEDIES and not isinstance(error, SyncError)) or isinstance(error, Obstacle)


def with_remedy(error: OSError) -> str:
    """Return the text of an error, with advice if the operator can do something on this machine."""
    remedy = _UNFIT_REMEDY if isinstance(error, _UNFIT) else _REMEDIES.get(error.errno or 0)
    return str(error) if remedy is None else f"{error}: {remedy}"


def reason_of(error: OSError, directory: Path) -> str:
    """Return in one line why a file or directory cannot be used, with advice.

    Args:
        error: about `directory`, or a file in it, which the text then names.
        directory: the directory that the caller's message names.
    """
    name = error.filename
    is_inside = isinstance(name, str) and Path(name) != directory
    reason = error.strerror or str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        reason = "it is not a directory" if is_inside else "not a directory"
    if isinstance(error, UnfitFileError) or (isinstance(error, _UNFIT) and is_inside):
        reason += f": {_UNFIT_REMEDY}"
    return f"{name!r}: {reason}" if is_inside else reason
