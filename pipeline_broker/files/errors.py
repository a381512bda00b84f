"""What can go wrong with files, beside what the system says.

Rules of this file: it imports nothing of ours.
"""

import errno

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


class SyncError(OSError):
    """A sync failed, for whatever reason: what it was to write is lost, and one that succeeds later proves nothing."""


class Obstacle(OSError):
    """What was asked for has not happened, for a reason that passes: a store far away does not answer."""


class Ended(Obstacle):
    """What was asked for will not happen any more in this process, which ends; the next one may do it."""


class DirectoryLocked(Exception):
    """Another process uses the data directory."""


class FencedError(Exception):
    """Another broker goes on with the log: what was not confirmed never will be."""


def is_passing(error: OSError) -> bool:
    """Whether space, a descriptor or an answer lacks: what was refused has not happened, and may be tried again."""
    return (error.errno in _PASSING and not isinstance(error, SyncError)) or isinstance(error, Obstacle)
