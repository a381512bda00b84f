"""Several buffers that stand for one run of bytes.

Rules of this file: nothing is copied.
"""

from collections.abc import Iterable, Iterator, Sequence

from pipeline_broker.files.file_system import Buffer

__all__ = ["cut_parts"]


def cut_parts(parts: Sequence[Buffer], sizes: Iterable[int]) -> Iterator[list[Buffer]]:
    """The same bytes in runs of these sizes, which make up all of them."""
    pending = [memoryview(part) for part in reversed(parts)]
    for size in sizes:
        run: list[Buffer] = []
        while size:
            part = pending.pop()
            if len(part) > size:
                pending.append(part[size:])
                part = part[:size]
            run.append(part)
            size -= len(part)
        yield run
