"""Aborted transactions of a log, and Kafka's `.txnindex` format.

A read_committed consumer drops a producer's records between the two offsets of an entry.

Layout of an entry (big-endian): version 2, producer id 8, first offset 8, last offset 8 (of the marker), last stable
offset 8.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.errors import DamagedIndexError
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.control_batch import ABORT, COMMIT, control_type

ENTRY = struct.Struct(">hqqqq")
VERSION = 0


class AbortedTransaction(NamedTuple):
    """One entry of the index.

    Attributes:
        producer_id: the producer of the transaction.
        first_offset: offset of the transaction's first batch.
        last_offset: offset of the transaction's marker.
        last_stable_offset: every transaction with records below this offset had ended when this one did.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int = -1


class OpenTransactions:
    """The open transactions of a log while its batches are read in order, by producer id.

    As in Apache Kafka's recovery, the first transactional batch opens a transaction, and its marker ends it.
    """

    def __init__(self, first_offsets: Iterable[tuple[int, int]] = ()) -> None:
        self._first_offsets = dict(first_offsets)

    @property
    def first_offsets(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._first_offsets.items())

    def add(self, header: BatchHeader, batch: Buffer) -> AbortedTransaction | None:
        """Apply the next batch; return the transaction that it aborts.

        Returns None if it aborts none, or one without data.

        Raises:
            RecordError: a control batch is damaged.
        """
        producer_id = header.producer_id
        if producer_id < 0:  # as in Apache Kafka, a transactional batch without a producer belongs to no transaction
            return None
        if not header.is_control:
            if header.is_transactional:
                self._first_offsets.setdefault(producer_id, header.base_offset)
            return None
        kind = control_type(header, batch)
        if kind not in {ABORT, COMMIT}:
            return None
        first_offset = self._first_offsets.pop(producer_id, None)
        if first_offset is None or kind == COMMIT:
            return None
        last_stable_offset = min(self._first_offsets.values(), default=header.last_offset + 1)
        return AbortedTransaction(producer_id, first_offset, header.last_offset, last_stable_offset)


def encode_entries(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        ENTRY.pack(VERSION, it.producer_id, it.first_offset, it.last_offset, it.last_stable_offset) for it in entries
    )


def parse_entries(data: Buffer) -> list[AbortedTransaction]:
    """Decode entries.

    Raises:
        DamagedIndexError: an entry is cut off or has an unknown version.
    """
    if len(data) % ENTRY.size:
        raise DamagedIndexError(f"{len(data)} bytes are not whole entries of {ENTRY.size}")
    entries = []
    for version, *fields in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise DamagedIndexError(f"an entry has version {version}")
        entries.append(AbortedTransaction(*fields))
    return entries
