"""What can go wrong with files, beside what the system says.

Rules of this file: it imports nothing of ours.
"""

import errno

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


class SyncError(OSError):
    """A sync failed, for whatever reason: what it was to write is lost, and one that succeeds later proves nothing."""


class DirectoryLocked(Exception):
    """Another process uses the data directory."""


def is_passing(error: OSError) -> bool:
    """Whether there was no space or no descriptor: what was refused has not happened, and may be tried again."""
    return error.errno in _PASSING and not isinstance(error, SyncError)
