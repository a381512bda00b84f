"""Unbuffered standard input and output, and files, without blocking the event loop.

A read or write that may block runs in a thread, which is abandoned when the command ends.
"""

from __future__ import annotations

import contextlib
import select
import sys
from collections.abc import Awaitable, Callable, Iterator
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

import trio

from pipeline_broker.client.errors import ClientError

__all__ = ["Output", "source_of"]

READ_BYTES = 64 << 10


@contextlib.contextmanager
def source_of(path: Path | None) -> Iterator[Callable[[], Awaitable[bytes]]]:
    """Open a file, or standard input for None. Yields an async function that returns the next bytes; b"" at the end.

    Raises:
        ClientError: the file cannot be opened or read.
    """
    try:
        source = _standard_input() if path is None else path.open("rb", buffering=0)
    except OSError as error:
        raise ClientError(f"cannot read {path}: {error.strerror or error}") from None

    async def read() -> bytes:
        try:
            data = await trio.to_thread.run_sync(source.read, READ_BYTES, abandon_on_cancel=True)
        except OSError as error:
            raise ClientError(f"cannot read {path or 'standard input'}: {error.strerror or error}") from None
        return data or b""

    try:
        yield read
    finally:
        if path is not None:
            source.close()


def _standard_input() -> RawIOBase | BinaryIO:
    # The raw stream: the buffered one waits until its buffer is full, and an abandoned thread would keep its lock.
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


class Output:
    def __init__(self) -> None:
        sys.stdout.flush()
        self._stream: BinaryIO = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        self.is_terminal = sys.stdout.isatty()

    async def write(self, data: bytes) -> None:
        """Write all bytes.

        Raises:
            BrokenPipeError: the reader of the output closed it.
            ClientError: the bytes cannot be written.
        """
        if not data:
            return
        try:
            # A thread per write would be slow for small ones.
            if self._is_ready(len(data)):
                self._write(data)
            else:
                await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ClientError(f"cannot write to standard output: {error.strerror or error}") from None

    def _is_ready(self, size: int) -> bool:
        # A writable pipe takes up to PIPE_BUF bytes without blocking.
        try:
            descriptor = self._stream.fileno()
        except OSError:  # an in-memory stream of a test
            return True
        return size <= select.PIPE_BUF and bool(select.select([], [descriptor], [], 0)[1])

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._stream.write(view) or 0 :]
