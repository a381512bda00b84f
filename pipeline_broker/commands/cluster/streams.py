"""Standard input and output, and files, without holding up the event loop.

Rules of this file: a read or a write that may wait is done in a thread, which is left behind when the command ends; a
write that a pipe takes at once is done at once. Nothing is buffered here, so that what was written is written.
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
    """A function that gives the next bytes of a file, or of standard input, as they come; none at the end.

    Raises:
        ClientError: it cannot be read.
    """
    try:
        source = _standard_input() if path is None else path.open("rb", buffering=0)
    except OSError as error:
        raise ClientError(f"{path}: {error.strerror or error}") from None

    async def read() -> bytes:
        try:
            data = await trio.to_thread.run_sync(source.read, READ_BYTES, abandon_on_cancel=True)
        except OSError as error:
            raise ClientError(f"{path or 'standard input'}: {error.strerror or error}") from None
        return data or b""

    try:
        yield read
    finally:
        if path is not None:
            source.close()


def _standard_input() -> RawIOBase | BinaryIO:
    """Without the buffer, which would wait until it is full, and whose lock a thread left behind would keep."""
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


class Output:
    """Standard output as bytes."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._stream: BinaryIO = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        self.is_terminal = sys.stdout.isatty()

    async def write(self, data: bytes) -> None:
        """Write all of it.

        Raises:
            BrokenPipeError: nobody reads any more.
            ClientError: it cannot be written.
        """
        if not data:
            return
        try:
            if self._is_ready(len(data)):
                self._write(data)
            else:
                await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ClientError(f"standard output: {error.strerror or error}") from None

    def _is_ready(self, size: int) -> bool:
        """Whether so much can be written without waiting."""
        try:
            descriptor = self._stream.fileno()
        except OSError:  # it is memory
            return True
        return size <= select.PIPE_BUF and bool(select.select([], [descriptor], [], 0)[1])

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._stream.write(view) or 0 :]
