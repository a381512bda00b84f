"""The directory of a cluster: one data directory for each broker, named after its id.

    DIR/.lock               held by the supervisor, and by a broker without a cluster
    DIR/1, DIR/2, ...       data directories
    DIR/1.socket, ...       see `peer_socket`

The directory of a single broker becomes DIR/1 at the first start as a cluster, and DIR/1 becomes the directory of a
single broker again if no other broker has data. Each step is a rename, so that a crash loses nothing and the next start
continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.files.errors import DirectoryLocked
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME, LOCK_NAME
from pipeline_broker.node.errors import StartBlockedError, StartError

__all__ = ["become_cluster", "become_single", "brokers_in", "leave_cluster", "locked"]

MOVING_NAME = ".moving"
"""The data directory of broker 1 while its files are moved into it or out of it."""
STAYING = frozenset({LOCK_NAME, MOVING_NAME})
FIRST = "1"
FILES = SystemFileSystem()


def brokers_in(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    return sorted(int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal() and entry.is_dir())


def become_cluster(directory: Path, brokers: int) -> bool:
    """Make the directory of a single broker that of a cluster. The caller holds its lock.

    Returns:
        whether a single broker's data was moved.

    Raises:
        StartError: more brokers have data than are to be started.
        OSError: a file cannot be moved.
    """
    known = brokers_in(directory)
    if known and known[-1] > brokers:
        raise StartError(
            f"{directory} holds the data of {known[-1]} brokers, and {brokers} would leave some of it out. Start with"
            f" --brokers {known[-1]} or more"
        )
    moving = directory / MOVING_NAME
    if not moving.is_dir() and not (directory / JOURNAL_NAME).is_dir():
        return False
    moving.mkdir(mode=0o700, exist_ok=True)
    # The journal last: until it is moved, the directory still counts as that of a single broker.
    entries = [it for it in directory.iterdir() if it.name not in STAYING and not it.stem.isdecimal()]
    for entry in sorted(entries, key=lambda it: it.name == JOURNAL_NAME):
        entry.rename(moving / entry.name)
    FILES.sync_directory(moving)
    FILES.sync_directory(directory)
    moving.rename(directory / FIRST)
    FILES.sync_directory(directory)
    return True


def become_single(directory: Path) -> None:
    """Make the directory of a cluster whose only broker is broker 1 that of a single broker.

    Raises:
        StartError: other brokers have data, too.
        OSError: a file cannot be moved.
    """
    known = brokers_in(directory)
    if not known and not (directory / MOVING_NAME).is_dir():
        return
    if known and known != [1]:
        raise StartError(f"{directory} holds the data of {known[-1]} brokers. Start with --brokers {known[-1]}")
    moving = directory / MOVING_NAME
    if known:
        (directory / FIRST).rename(moving)
        FILES.sync_directory(directory)
    # The journal last, as above: a start in between finds `.moving` without it and continues.
    for entry in sorted(moving.iterdir(), key=lambda it: it.name == JOURNAL_NAME):
        if entry.name != LOCK_NAME:
            entry.rename(directory / entry.name)
    FILES.sync_directory(directory)
    (moving / LOCK_NAME).unlink(missing_ok=True)
    moving.rmdir()
    FILES.sync_directory(directory)


def leave_cluster(directory: Path) -> None:
    """Prepare a directory for a broker without a cluster; see `become_single`.

    Raises:
        StartError: the directory is in use or not usable, or brokers other than broker 1 have data there.
    """
    if brokers_in(directory) or (directory / MOVING_NAME).is_dir():
        with locked(directory):
            become_single(directory)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Create a directory if it is missing, and hold its lock.

    Raises:
        StartError: the directory is in use or not usable.
    """
    try:
        FILES.make_directory(directory)
        directory.chmod(0o700)
        lock = FILES.lock(directory / LOCK_NAME)
    except DirectoryLocked as error:
        raise StartBlockedError(f"{error}. Stop that broker, or choose another data directory") from None
    except OSError as error:
        raise StartError(f"cannot use the data directory {directory}: {error.strerror}") from None
    try:
        yield
    finally:
        lock.release()
