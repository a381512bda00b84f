"""Calls of the operating system that tests of files make again and again.

Rules of this file: descriptors are closed where they were opened; errors are given as their number.
"""

import contextlib
import os

import pytest


@contextlib.contextmanager
def opened(path, flags=os.O_RDWR):
    descriptor = os.open(path, flags, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_directory(path):
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def write_durably(path, data):
    """A file whose name and data are safe."""
    with opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        os.write(descriptor, data)
        os.fdatasync(descriptor)
    sync_directory(path.parent)


def errno_of(call, *arguments):
    with pytest.raises(OSError) as caught:
        call(*arguments)
    return caught.value.errno


def list_names(path):
    """The names in a directory, in order."""
    return sorted(entry.name for entry in path.iterdir())
