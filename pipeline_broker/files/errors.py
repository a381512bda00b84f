"""What can go wrong with files, beside what the system says.

Rules of this file: it imports nothing of ours.
"""

import errno
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "delete other files on the file system of the data directory, or enlarge it;"
    " deleting topics or records is a write too",
    errno.EDQUOT: "raise the quota of the broker's user, or delete other files of this user",
    errno.EMFILE: "raise the limit of open files of this process (ulimit -n, or LimitNOFILE= of its unit)",
    errno.ENFILE: "raise the limit of open files of this machine (fs.file-max)",
}
"""What passes, and what a person does so that it does."""
_UNFIT_REMEDY = "move it out of the directory, and restore the file of this name from a backup if there was one"


class SyncError(OSError):
    """A sync failed, for whatever reason: what it was to write is lost, and one that succeeds later proves nothing."""


class Obstacle(OSError):
    """What was asked for has not happened, for a reason that passes: a store far away does not answer."""


class Ended(Obstacle):
    """What was asked for will not happen any more in this process, which ends; the next one may do it."""


class UnfitFileError(OSError):
    """A name leads to something that no file of ours is: a pipe, a device, a directory, or a file that is too large."""


_UNFIT = (UnfitFileError, IsADirectoryError, NotADirectoryError, FileExistsError)
"""Something else has the name of a file, or a directory, of the broker."""


class DirectoryLocked(Exception):
    """Another process uses the data directory."""


class FencedError(Exception):
    """Another broker goes on with the log: what was not confirmed never will be."""


def is_passing(error: OSError) -> bool:
    """Whether space, a descriptor or an answer lacks: what was refused has not happened, and may be tried again."""
    return (error.errno in _REMEDIES and not isinstance(error, SyncError)) or isinstance(error, Obstacle)


def with_remedy(error: OSError) -> str:
    """An error for a person, with what to do about it where something can be done on this machine."""
    remedy = _UNFIT_REMEDY if isinstance(error, _UNFIT) else _REMEDIES.get(error.errno or 0)
    return str(error) if remedy is None else f"{error}: {remedy}"


def reason_of(error: OSError, directory: Path) -> str:
    """Return why something in a directory cannot be used, with its name and what to do, in one line."""
    name = error.filename
    is_inside = isinstance(name, str) and Path(name) != directory
    reason = error.strerror or str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        reason = "it is not a directory" if is_inside else "not a directory"
    if isinstance(error, UnfitFileError) or (isinstance(error, _UNFIT) and is_inside):
        reason += f": {_UNFIT_REMEDY}"
    return f"{name!r}: {reason}" if is_inside else reason
