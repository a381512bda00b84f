"""The index of aborted transactions that a segment has where any ended in it: written, read, made anew.

Rules of this file: as of all that is in the archive, the manifest says how long it is and which checksum it has. One
that is not so is made anew from the batches, which takes a walk over the log from its start, since a transaction may
have begun in an earlier segment. What compaction has taken away is not found again then, nor is it needed.
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
        before: the same segment earlier; None for a new one.
        load: its entries.
    """

    def __init__(self, before: SegmentInfo | None = None, load: Callable[[], list[AbortedTransaction]] = list) -> None:
        self._before = before
        self._load = load
        self._content: bytearray | None = None  # once something was added
        self._written_bytes = 0

    def add(self, transaction: AbortedTransaction) -> None:
        """Its marker is in the segment; markers come in order."""
        if self._content is None:
            known = [] if self._before is None else self._load()
            self._content = bytearray(encode_entries(known))
        self._content += encode_entries([transaction])

    def write(self, store: SegmentStore, name: str) -> bool:
        """Write the whole of it, which is small, if anything was added; whether the file must be synced."""
        if self._content is None or len(self._content) == self._written_bytes:
            return False
        store.write(name, [bytes(self._content)], 0)
        self._written_bytes = len(self._content)
        return True

    def noted(self, segment: SegmentInfo) -> SegmentInfo:
        """The segment as the manifest is to have it."""
        if self._content is not None:
            return attrs.evolve(segment, aborted_bytes=len(self._content), aborted_crc=crc32c(self._content))
        if self._before is None:
            return segment
        return attrs.evolve(segment, aborted_bytes=self._before.aborted_bytes, aborted_crc=self._before.aborted_crc)


def aborted_in(reader: SegmentReader, manifest: PartitionManifest, segment: SegmentInfo) -> list[AbortedTransaction]:
    """The entries of a segment, from its file or made anew; may block.

    Raises:
        DamagedSegment: a segment that must be walked over is not what was written.
    """
    if not segment.aborted_bytes:
        return []
    content = reader.transaction_index(manifest.folder, segment)
    if content is not None:
        return parse_entries(content)
    name = transaction_index_name(manifest.folder, segment.base_offset, segment.cleanings)
    logger.warning("%s is not as it was written: it is made anew", name)
    return rebuilt_entries(reader, manifest, segment)


def rebuilt_entries(
    reader: SegmentReader, manifest: PartitionManifest, segment: SegmentInfo
) -> list[AbortedTransaction]:
    """What the batches of a segment, and of those before it, say."""
    opened, entries = OpenTransactions(), []
    for each in manifest.segments:
        if each.base_offset > segment.base_offset:
            break
        for header, batch in reader.batches(manifest.folder, each):
            aborted = opened.add(header, batch) if header.is_transactional else None
            if aborted is not None and each.base_offset == segment.base_offset:
                entries.append(aborted)
    return entries
