"""Aborted transactions of a log: found while its batches come by in order, and kept in Kafka's `.txnindex`.

Rules of this file: no I/O. Batches are shown in offset order, each once, as Apache Kafka's recovery walks over them:
the first batch of a transaction opens it, its marker ends it, and what an abort marker ends becomes an entry if it had
data. A reader of committed records leaves out the records of a producer that lie between the two offsets of an entry.

Layout of an entry (big-endian): version 2, producer id 8, first offset 8, last offset 8 (of the marker), last stable
offset 8.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from pipeline_broker.log.errors import DamagedIndexError
from pipeline_broker.records.batch import BatchHeader, Buffer
from pipeline_broker.records.control_batch import ABORT, COMMIT, control_type

ENTRY = struct.Struct(">hqqqq")
VERSION = 0


class AbortedTransaction(NamedTuple):
    """One entry.

    Attributes:
        producer_id: whose records count as never written.
        first_offset: of its first batch.
        last_offset: of its marker.
        last_stable_offset: up to where every transaction had ended when this one did.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int = -1


class OpenTransactions:
    """The transactions that have begun and not ended, by the first offset of each producer's."""

    def __init__(self, first_offsets: Iterable[tuple[int, int]] = ()) -> None:
        self._first_offsets = dict(first_offsets)

    @property
    def first_offsets(self) -> tuple[tuple[int, int], ...]:
        """Producer ids and offsets."""
        return tuple(self._first_offsets.items())

    def add(self, header: BatchHeader, batch: Buffer) -> AbortedTransaction | None:
        """A batch follows; the transaction that it aborts, if it had data."""
        producer_id = header.producer_id
        if producer_id < 0:  # a batch that says so and has no producer belongs to no transaction, as in Apache Kafka
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
    """The bytes of entries, in the order of their markers."""
    return b"".join(
        ENTRY.pack(VERSION, it.producer_id, it.first_offset, it.last_offset, it.last_stable_offset) for it in entries
    )


def parse_entries(data: Buffer) -> list[AbortedTransaction]:
    """The entries; raises DamagedIndexError for what is none."""
    if len(data) % ENTRY.size:
        raise DamagedIndexError(f"{len(data)} bytes are not whole entries of {ENTRY.size}")
    entries = []
    for version, *fields in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise DamagedIndexError(f"an entry has version {version}")
        entries.append(AbortedTransaction(*fields))
    return entries
