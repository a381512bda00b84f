"""The directory of the sockets through which the brokers of an embedded cluster talk to each other."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["peers_directory"]


@contextlib.contextmanager
def peers_directory() -> Iterator[Path]:
    # Its mode is 0700.
    directory, process_id = Path(tempfile.mkdtemp(prefix="embedded-cluster-")), os.getpid()

    def remove() -> None:
        if os.getpid() == process_id:  # a fork must not remove the directory of its parent
            shutil.rmtree(directory, ignore_errors=True)

    # The event loop is in a daemon thread, which may never leave the context.
    atexit.register(remove)
    try:
        yield directory
    finally:
        atexit.unregister(remove)
        remove()
