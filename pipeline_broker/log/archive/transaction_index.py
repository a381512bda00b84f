"""The index of aborted transactions of a segment (`.txnindex`): writing, reading and rebuilding.

The manifest has its size and checksum. A damaged index is rebuilt from the batches of the segment and of all earlier
ones, because a transaction may begin in an earlier segment. A rebuilt index lacks transactions whose records compaction
has removed, which no reader needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs

from pipeline_broker.log.archive.manifest import PartitionManifest
from pipeline_broker.log.archive.segment_file import SegmentInfo, transaction_index_name
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.archive.store import SegmentStore
from pipeline_broker.log.producers.aborted_transactions import (
    AbortedTransaction,
    OpenTransactions,
    encode_entries,
    parse_entries,
)
from pipeline_broker.records.checksum import crc32c

__all__ = ["TransactionIndex", "aborted_in", "rebuilt_entries"]

logger = logging.getLogger(__name__)


class TransactionIndex:
    """The index of a segment that is being written.

    Args:
        before: the segment's earlier metadata; None for a new segment.
        load: returns the earlier entries.
    """

    def __init__(self, before: SegmentInfo | None = None, load: Callable[[], list[AbortedTransaction]] = list) -> None:
        self._before = before
        self._load = load
        self._content: bytearray | None = None  # None until an entry is added
        self._written_bytes = 0

    def load(self) -> None:
        """Read the earlier entries, if they were not; raises what the argument `load` raises."""
        if self._content is None:
            # Only before the first `add`, because most segments never get an entry.
            known = [] if self._before is None else self._load()
            self._content = bytearray(encode_entries(known))

    def add(self, transaction: AbortedTransaction) -> None:
        """Add a transaction whose marker is in the segment, in the order of the markers; may raise as `load` does."""
        self.load()
        assert self._content is not None, "it was loaded"
        self._content += encode_entries([transaction])

    def write(self, store: SegmentStore, name: str) -> bool:
        """Write the whole index, which is small, if entries were added.

        Returns whether the index was written and needs a sync.
        """
        if self._content is None or len(self._content) == self._written_bytes:
            return False
        store.write(name, [bytes(self._content)], 0)
        self._written_bytes = len(self._content)
        return True

    def noted(self, segment: SegmentInfo) -> SegmentInfo:
        """Return the segment's metadata with size and checksum of the index."""
        if self._content is not None:
            return attrs.evolve(segment, aborted_bytes=len(self._content), aborted_crc=crc32c(self._content))
        if self._before is None:
            return segment
        return attrs.evolve(segment, aborted_bytes=self._before.aborted_bytes, aborted_crc=self._before.aborted_crc)


def aborted_in(reader: SegmentReader, manifest: PartitionManifest, segment: SegmentInfo) -> list[AbortedTransaction]:
    """Return the aborted transactions of a segment, from its index file or rebuilt. Blocks.

    Raises:
        DamagedSegment: a segment needed for the rebuild is damaged.
        SegmentGone: a segment needed for the rebuild was deleted or replaced.
    """
    if not segment.aborted_bytes:
        return []
    content = reader.transaction_index(manifest.folder, segment)
    if content is not None:
        return parse_entries(content)
    name = transaction_index_name(manifest.folder, segment.base_offset, segment.cleanings)
    logger.warning("%s is missing or damaged; it is rebuilt from the batches", name)
    return rebuilt_entries(reader, manifest, segment)


def rebuilt_entries(
    reader: SegmentReader, manifest: PartitionManifest, segment: SegmentInfo
) -> list[AbortedTransaction]:
    """Return the aborted transactions of a segment from its batches and those of all earlier segments. Blocks.

    Raises:
        DamagedSegment: one of these segments is damaged.
        SegmentGone: one of these segments was deleted or replaced.
    """
    opened, entries = OpenTransactions(), []
    for each in manifest.segments:
        if each.base_offset > segment.base_offset:
            break
        for header, batch in reader.batches(manifest.folder, each):
            aborted = opened.add(header, batch) if header.is_transactional else None
            if aborted is not None and each.base_offset == segment.base_offset:
                entries.append(aborted)
    return entries
