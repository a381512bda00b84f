"""The manifest of the archive and its edits: values and encoding.

An edit counts as a whole or not at all. It has the complete new state of each changed partition, so the last edit of a
partition replaces all earlier ones.

Layout of a frame (little-endian): magic 4, CRC-32C 4 (of all following bytes), body length 4, then the body: LSN 8,
count of partitions 4. Per partition: topic id 16, partition 4, length 4 (-1: removed), then that many bytes:

* length of the folder name 2, the name, log start offset 8, end offset 8, first dirty offset 8, count of segments 4,
  the segments (see _SEGMENT), length of the producers 4, the producers;
* only with transactions or later leader epochs: count of open transactions 4, count of segments with aborted ones 4,
  per open transaction producer id 8 and first offset 8, per segment its number 4, size of its index 4 and CRC-32C of
  that index 4;
* only with later leader epochs than 0: per epoch 4, and its first offset 8.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.index_files import IndexState
from pipeline_broker.log.archive.segment_file import SegmentInfo
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.leader_epochs import FIRST_EPOCH, LeaderEpochs
from pipeline_broker.records.checksum import crc32c

__all__ = [
    "CHECKED_FROM",
    "FRAME_HEADER_SIZE",
    "MAGIC_BYTES",
    "Edit",
    "Manifest",
    "PartitionManifest",
    "decode_frame",
    "encode_frame",
    "frame_bytes",
    "frame_crc",
]

MAGIC_BYTES = b"PBMF"
KEY_SIZE = 20
GONE = -1

_FRAME = struct.Struct("<4sII")
_CRC = struct.Struct("<I")
_BODY = struct.Struct("<qI")
_KEY = struct.Struct(f"<{KEY_SIZE}si")
_FOLDER = struct.Struct("<H")
_PARTITION = struct.Struct("<qqqI")
_SEGMENT = struct.Struct("<qqqqqqBII" + "I" * len(IndexState._fields))
_SEALED, _INDEXED = 1, 2
_PRODUCERS = struct.Struct("<I")
_TRANSACTIONS = struct.Struct("<II")
_OPEN_TRANSACTION = struct.Struct("<qq")
_ABORTED_INDEX = struct.Struct("<III")
_EPOCH = struct.Struct("<iq")

FRAME_HEADER_SIZE = _FRAME.size
CHECKED_FROM = len(MAGIC_BYTES) + _CRC.size


@attrs.frozen
class PartitionManifest:
    """The archived part of one partition.

    Attributes:
        log_start_offset: records below it are not visible.
        end_offset: the offset after the last archived record, whether or not that record still exists.
        segments: in offset order. Only the last one may be unsealed.
        producers: idempotent producers at `end_offset`; see `producer_snapshot`.
        first_dirty_offset: start of the next compaction.
        open_transactions: producer id and first offset of the transactions that are open at `end_offset`.
        epochs: the leader epochs of the log, from its first stored record.
    """

    folder: str
    log_start_offset: int = 0
    end_offset: int = 0
    segments: tuple[SegmentInfo, ...] = ()
    producers: bytes = b""
    first_dirty_offset: int = 0
    open_transactions: tuple[tuple[int, int], ...] = ()
    epochs: LeaderEpochs = FIRST_EPOCH

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def first_offset(self) -> int:
        """Return the offset from which records are stored; the end if none is archived."""
        return self.segments[0].base_offset if self.segments else self.end_offset


class Edit(NamedTuple):
    """One change of the manifest.

    Attributes:
        lsn: after the edit, all entries below it are archived.
        partitions: new states by journal key; None for removed partitions.
    """

    lsn: int
    partitions: Mapping[bytes, PartitionManifest | None]


@attrs.define
class Manifest:
    """The archived partitions by journal key, and the LSN below which everything is archived."""

    lsn: int = 0
    partitions: dict[bytes, PartitionManifest] = attrs.field(factory=dict)

    def apply(self, edit: Edit) -> None:
        self.lsn = edit.lsn
        for key, partition in edit.partitions.items():
            if partition is None:
                self.partitions.pop(key, None)
            else:
                self.partitions[key] = partition

    def as_edit(self) -> Edit:
        return Edit(self.lsn, dict(self.partitions))


def encode_frame(edit: Edit) -> bytes:
    body = bytearray(_BODY.pack(edit.lsn, len(edit.partitions)))
    for key, partition in edit.partitions.items():
        if partition is None:
            body += _KEY.pack(key, GONE)
        else:
            piece = _encode_partition(partition)
            body += _KEY.pack(key, len(piece))
            body += piece
    length = struct.pack("<I", len(body))
    return MAGIC_BYTES + _CRC.pack(crc32c(body, crc32c(length))) + length + bytes(body)


def _encode_partition(partition: PartitionManifest) -> bytes:
    name = partition.folder.encode()
    head = _FOLDER.pack(len(name)) + name
    head += _PARTITION.pack(
        partition.log_start_offset, partition.end_offset, partition.first_dirty_offset, len(partition.segments)
    )
    segments = b"".join(_encode_segment(segment) for segment in partition.segments)
    producers = _PRODUCERS.pack(len(partition.producers)) + partition.producers
    epochs = b"" if partition.epochs == FIRST_EPOCH else b"".join(_EPOCH.pack(*it) for it in partition.epochs.starts)
    return head + segments + producers + _encode_transactions(partition, is_required=bool(epochs)) + epochs


def _encode_transactions(partition: PartitionManifest, *, is_required: bool) -> bytes:
    with_aborted = [(number, it) for number, it in enumerate(partition.segments) if it.aborted_bytes]
    if not with_aborted and not partition.open_transactions and not is_required:
        return b""
    opened = b"".join(_OPEN_TRANSACTION.pack(*each) for each in partition.open_transactions)
    aborted = b"".join(_ABORTED_INDEX.pack(number, it.aborted_bytes, it.aborted_crc) for number, it in with_aborted)
    return _TRANSACTIONS.pack(len(partition.open_transactions), len(with_aborted)) + opened + aborted


def _encode_segment(segment: SegmentInfo) -> bytes:
    indexes = segment.indexes
    flags = _SEALED * segment.is_sealed + _INDEXED * (indexes is not None)
    state = IndexState() if indexes is None else indexes
    return _SEGMENT.pack(
        segment.base_offset,
        segment.last_offset,
        segment.size_bytes,
        segment.max_timestamp,
        segment.first_timestamp,
        segment.modified_ms,
        flags,
        segment.generation,
        segment.cleanings,
        *state,
    )


def frame_bytes(buffer: Buffer, position: int) -> int | None:
    """Return the size that the edit at a position declares; None if no edit begins there."""
    if len(buffer) - position < FRAME_HEADER_SIZE or buffer[position : position + len(MAGIC_BYTES)] != MAGIC_BYTES:
        return None
    return FRAME_HEADER_SIZE + int(_FRAME.unpack_from(buffer, position)[2])


def frame_crc(buffer: Buffer, position: int) -> int:
    """Return the checksum that an edit declares for its bytes from `CHECKED_FROM`."""
    return int(_FRAME.unpack_from(buffer, position)[1])


def decode_frame(buffer: Buffer, position: int) -> Edit | None:
    """Return the edit at a position; None if it is damaged or missing.

    Raises:
        ManifestDamaged: the checksum matches, but the content is invalid.
    """
    size_bytes = frame_bytes(buffer, position)
    if size_bytes is None or position + size_bytes > len(buffer):
        return None
    frame = memoryview(buffer)[position : position + size_bytes]
    if crc32c(frame[CHECKED_FROM:]) != frame_crc(frame, 0):
        return None
    body = frame[FRAME_HEADER_SIZE:]
    try:
        lsn, count = _BODY.unpack_from(body)
        return Edit(lsn, dict(_partitions(body, _BODY.size, count)))
    except (struct.error, ValueError, IndexError) as error:
        raise ManifestDamaged(f"an edit with a correct checksum cannot be decoded: {error}") from error


def _partitions(body: memoryview, position: int, count: int) -> Iterator[tuple[bytes, PartitionManifest | None]]:
    for _ in range(count):
        key, length = _KEY.unpack_from(body, position)
        position += _KEY.size
        if length == GONE:
            yield key, None
            continue
        if not 0 <= length <= len(body) - position:
            raise ValueError("a partition is longer than its edit")
        yield key, _decode_partition(body[position : position + length])
        position += length


def _decode_segment(values: tuple[int, ...]) -> SegmentInfo:
    base_offset, last_offset, size_bytes, max_timestamp, first_timestamp, modified_ms, *rest = values
    flags, generation, cleanings, *state = rest
    return SegmentInfo(
        base_offset,
        last_offset,
        size_bytes,
        max_timestamp,
        first_timestamp,
        is_sealed=bool(flags & _SEALED),
        indexes=IndexState(*state) if flags & _INDEXED else None,
        generation=generation,
        modified_ms=modified_ms,
        cleanings=cleanings,
    )


def _decode_partition(piece: memoryview) -> PartitionManifest:
    (name_length,) = _FOLDER.unpack_from(piece)
    position = _FOLDER.size
    folder = str(piece[position : position + name_length], "utf-8")
    position += name_length
    log_start_offset, end_offset, first_dirty_offset, count = _PARTITION.unpack_from(piece, position)
    position += _PARTITION.size
    end = position + count * _SEGMENT.size
    segments = tuple(_decode_segment(values) for values in _SEGMENT.iter_unpack(piece[position:end]))
    (producers_length,) = _PRODUCERS.unpack_from(piece, end)
    end += _PRODUCERS.size
    producers = bytes(piece[end : end + producers_length])
    end += producers_length
    partition = PartitionManifest(folder, log_start_offset, end_offset, segments, producers, first_dirty_offset)
    return _with_additions(partition, piece[end:]) if end < len(piece) else partition


def _with_additions(partition: PartitionManifest, piece: memoryview) -> PartitionManifest:
    open_count, aborted_count = _TRANSACTIONS.unpack_from(piece)
    start = _TRANSACTIONS.size
    middle = start + open_count * _OPEN_TRANSACTION.size
    end = middle + aborted_count * _ABORTED_INDEX.size
    starts = tuple((epoch, offset) for epoch, offset in _EPOCH.iter_unpack(piece[end:]))
    epochs, segments = FIRST_EPOCH, list(partition.segments)
    if starts:
        epochs = LeaderEpochs(starts)
        segments = [attrs.evolve(segment, epochs=epochs) for segment in segments]
    for number, aborted_bytes, crc in _ABORTED_INDEX.iter_unpack(piece[middle:end]):
        segments[number] = attrs.evolve(segments[number], aborted_bytes=aborted_bytes, aborted_crc=crc)
    opened = tuple((producer_id, offset) for producer_id, offset in _OPEN_TRANSACTION.iter_unpack(piece[start:middle]))
    return attrs.evolve(partition, segments=tuple(segments), open_transactions=opened, epochs=epochs)
