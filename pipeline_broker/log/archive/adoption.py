"""Copying partitions from the archive of their former leader to that of the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import attrs

from pipeline_broker.log.archive.manifest import Edit, PartitionManifest
from pipeline_broker.log.archive.segment_file import counted_names

if TYPE_CHECKING:
    from pipeline_broker.log.archive.archive import Archive
    from pipeline_broker.log.archive.store import SegmentStore

__all__ = ["HandedLog", "adopt"]

COPIED_BYTES_MAX = 1 << 20
"""Bytes in memory while a file is copied."""


class HandedLog(NamedTuple):
    """A partition of which no record is in the journal of the former leader any more.

    Attributes:
        log_start_offset: also of records that a client deleted and the archive still has.
    """

    folder: str
    log_start_offset: int


def adopt(
    target: Archive, source: Archive, handed: Mapping[bytes, HandedLog], check: Callable[[], object] = lambda: None
) -> None:
    """Copy partitions, with offsets, producers, open and aborted transactions, and leader epochs.

    One edit makes all of them count. Files that an earlier, interrupted copy left are replaced.

    Args:
        handed: by journal key.
        check: called between files. An exception from it ends the work without effect.

    Raises:
        OSError: a disk failed; nothing counts.
    """
    target.remove({key: each.folder for key, each in handed.items()})
    partitions: dict[bytes, PartitionManifest | None] = {}
    for key, each in handed.items():
        manifest = source.find(key)
        if manifest is None:  # no client has written to it
            continue
        present = frozenset(f"{manifest.folder}/{name}" for name in source.store.names(manifest.folder))
        # An index file may be missing, because it is rebuilt.
        names = [name for it in manifest.segments for name in counted_names(manifest.folder, it) if name in present]
        for name in names:
            _copy(source.store, target.store, name, check)
        target.store.sync(names)
        partitions[key] = attrs.evolve(
            manifest,
            log_start_offset=max(manifest.log_start_offset, each.log_start_offset),
            segments=tuple(attrs.evolve(it, generation=target.new_generation()) for it in manifest.segments),
        )
    if partitions:
        target.commit(Edit(target.lsn, partitions))


def _copy(source: SegmentStore, target: SegmentStore, name: str, check: Callable[[], object]) -> None:
    for position, part in _parts(source, name):
        check()
        target.write(name, [part], position)


def _parts(store: SegmentStore, name: str) -> Iterator[tuple[int, bytes]]:
    size_bytes = store.size_bytes(name)
    for position in range(0, max(size_bytes, 1), COPIED_BYTES_MAX):
        yield position, bytes(store.read(name, min(COPIED_BYTES_MAX, size_bytes - position), position))
