"""Content for a library that reads files only, such as keys for OpenSSL."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["short_lived_file"]


@contextlib.contextmanager
def short_lived_file(content: bytes) -> Iterator[str]:
    """Yield a path to the content, which exists until the context ends.

    The file is in memory if the system supports it, otherwise in a directory that only its owner can read.
    """
    if not hasattr(os, "memfd_create"):  # macOS, Windows
        with tempfile.TemporaryDirectory() as folder:  # its mode is 0700
            path = Path(folder) / "key store"
            path.write_bytes(content)
            yield str(path)
        return
    file = os.memfd_create("key store", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(content)
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)
