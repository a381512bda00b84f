"""Unix sockets in a directory, for the owner of the directory only."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

__all__ = ["listen_in", "short_path"]

# The open files of a process, on Linux.
DESCRIPTORS = Path("/proc/self/fd")
# The umask that gives a socket mode 0600.
OWNER_ONLY = 0o177
ALL = 0o777


@contextlib.contextmanager
def short_path(directory: Path, name: str) -> Iterator[str]:
    # The address of a Unix socket has at most 108 bytes, and the path of a data directory may be longer. On Linux the
    # directory's descriptor makes it short. Elsewhere the system refuses long paths.
    if not DESCRIPTORS.is_dir():
        yield min(str(directory / name), os.path.relpath(directory / name), key=len)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield str(DESCRIPTORS / str(descriptor) / name)
    finally:
        os.close(descriptor)


def listen_in(directory: Path, name: str, backlog: int) -> socket.socket:
    """Listen on a socket, and replace the file of an ended process.

    Args:
        directory: the caller holds its lock, so that no other process listens there.

    Raises:
        OSError: the socket cannot be made.
    """
    with short_path(directory, name) as path, contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):
            (directory / name).unlink()
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.setblocking(False)
        if DESCRIPTORS.is_dir():
            # Linux gives the file the mode of the socket. The umask would also apply to files of other threads.
            os.fchmod(listener.fileno(), ALL & ~OWNER_ONLY)
            listener.bind(path)
        else:
            before = os.umask(OWNER_ONLY)
            try:
                listener.bind(path)
            finally:
                os.umask(before)
        listener.listen(backlog)
        stack.pop_all()
    return listener
