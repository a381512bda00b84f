"""Lists of buffers that together form one run of bytes."""

from collections.abc import Iterable, Iterator, Sequence

from pipeline_broker.base.buffer import Buffer

__all__ = ["cut_parts"]


def cut_parts(parts: Sequence[Buffer], sizes: Iterable[int]) -> Iterator[list[Buffer]]:
    """Yield the bytes of parts in runs of the given sizes, without copying.

    Args:
        sizes: the sizes of the runs in bytes; their sum is the size of all parts.
    """
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
