"""An in-memory segment store of immutable chunks, like an object store, for tests.

A file is a tuple of chunks. Code that relies on abilities of disk files only fails here. Writes without a sync are lost
with the power.
"""

from collections.abc import Iterable, Sequence

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.store import split_name
from pipeline_broker.log.errors import ShortFile


class ChunkStore:
    """See SegmentStore."""

    def __init__(self) -> None:
        #: Whether everything must be fetched from afar.
        self.is_cold = False
        self.free = 1 << 40
        # The read-ahead hints: name, size, position.
        self.read_aheads: list[tuple[str, int, int]] = []
        self._files: dict[str, tuple[bytes, ...]] = {}
        self._durable: dict[str, tuple[bytes, ...]] = {}

    def power_cut(self) -> None:
        self._files = dict(self._durable)

    def folders(self) -> list[str]:
        """See SegmentStore."""
        return sorted({split_name(name)[0] for name in self._files})

    def names(self, folder: str) -> list[str]:
        """See SegmentStore."""
        return sorted(split_name(name)[1] for name in self._files if split_name(name)[0] == folder)

    def size_bytes(self, name: str) -> int:
        """See SegmentStore."""
        return sum(map(len, self._chunks(name)))

    def write(self, name: str, parts: Sequence[Buffer], position: int, origins: object = ()) -> None:
        """See SegmentStore."""
        kept: list[bytes] = []
        end = 0
        for chunk in self._files.get(name, ()):
            if end < position:
                kept.append(chunk[: position - end])
                end += len(kept[-1])
        if position > end:
            raise ShortFile(f"{name} ends at byte {end}: it cannot be continued at {position}")
        self._files[name] = (*kept, b"".join(parts))

    def sync(self, names: Iterable[str]) -> None:
        """See SegmentStore."""
        self._durable.update((name, self._chunks(name)) for name in names)

    def read(self, name: str, size_bytes: int, position: int) -> Buffer:
        """See SegmentStore."""
        found: list[bytes] = []
        start, stop = position, position + size_bytes
        begin = 0
        for chunk in self._chunks(name):
            found.append(chunk[max(0, start - begin) : max(0, stop - begin)])
            begin += len(chunk)
        return b"".join(found)

    def read_cached(self, name: str, size_bytes: int, position: int) -> Buffer | None:
        """See SegmentStore."""
        if self.is_cold or name not in self._files:
            return None
        data = self.read(name, size_bytes, position)
        return data if len(data) == size_bytes else None

    def lend(self, name: str, size_bytes: int, position: int) -> None:
        """See SegmentStore."""

    def read_ahead(self, name: str, size_bytes: int, position: int) -> None:
        """See SegmentStore."""
        self.read_aheads.append((name, size_bytes, position))

    def replace(self, source: str, target: str) -> None:
        """See SegmentStore."""
        assert split_name(target)[0] == split_name(source)[0], "a file stays in its folder"
        self._files[target] = self._durable[target] = self._chunks(source)
        self.delete([source])

    def delete(self, names: Iterable[str]) -> None:
        """See SegmentStore."""
        for name in names:
            self._files.pop(name, None)
            self._durable.pop(name, None)

    def delete_folder(self, folder: str, names: Iterable[str]) -> None:
        """See SegmentStore."""
        self.delete(names)

    def free_bytes(self) -> int:
        """See SegmentStore."""
        return self.free

    def close(self) -> None:
        pass

    def _chunks(self, name: str) -> tuple[bytes, ...]:
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(name) from None
