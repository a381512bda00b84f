"""Reads with isolation level read_committed: cutting at the last stable offset, and aborted transactions."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.read_result import ColdRead, ReadResult
from pipeline_broker.records.batch import HEADER, LENGTH_OVERHEAD

__all__ = ["AbortedView", "cut_at", "end_of"]

_HEAD = struct.Struct(">qi11xi")  # base offset, batch length, last offset delta
assert _HEAD.size < HEADER.size


def _batches(parts: Sequence[Buffer]) -> Iterator[tuple[int, int, int, int]]:
    """Yield part number, position in the part, base offset and last offset of each batch.

    A batch that begins in one part may continue in the next; its header never does.
    """
    position = 0
    for number, part in enumerate(parts):
        while position < len(part):
            base_offset, length, last_delta = _HEAD.unpack_from(part, position)
            yield number, position, base_offset, base_offset + last_delta
            position += LENGTH_OVERHEAD + length
        position -= len(part)


def end_of(parts: Sequence[Buffer]) -> int:
    """Return the offset after the last batch; 0 without batches."""
    end_offset = 0
    for _, _, _, last_offset in _batches(parts):
        end_offset = last_offset + 1
    return end_offset


def _cut(parts: Sequence[Buffer], end_offset: int) -> list[Buffer]:
    for number, position, base_offset, _ in _batches(parts):
        if base_offset >= end_offset:
            return [*parts[:number], memoryview(parts[number])[:position]] if position else list(parts[:number])
    return list(parts)


def cut_at(result: ReadResult, end_offset: int) -> ReadResult:
    """Return the same read without batches that begin at or above `end_offset`."""
    cold = result.cold
    if cold is None:
        return ReadResult(_cut(result.parts, end_offset))
    return ReadResult(cold=ColdRead(lambda: _cut(cold(), end_offset), cold.size_bytes))


@attrs.frozen(eq=False)
class AbortedView:
    """The aborted transactions of a log at one moment. Any thread may use it while the log changes.

    Args:
        archived: the archived part of the log.
        recent: aborted transactions with a marker that is in the journal only.
    """

    _archived: ArchivedLog | None
    _recent: Sequence[AbortedTransaction]

    def find(self, offset: int, end_offset: int) -> list[AbortedTransaction] | ColdRead[list[AbortedTransaction]]:
        """Return the transactions with a record below `end_offset` and their marker at or above `offset`.

        They are in marker order. If the archive may have some of them, the result is the ColdRead that reads them.
        """
        recent = [it for it in self._recent if it.first_offset < end_offset and it.last_offset >= offset]
        archived = None if self._archived is None else self._archived.aborted_transactions(offset, end_offset)
        if archived is None:
            return recent
        return ColdRead(lambda: archived() + recent, archived.size_bytes)
