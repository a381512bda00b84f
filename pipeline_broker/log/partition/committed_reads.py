"""Reads for those who want committed records only: where such a read ends, and which transactions it must leave out.

Rules of this file: no state of its own; batches are looked at by their headers, and not copied. What a view of aborted
transactions finds may be asked for in any thread, while the event loop goes on with the log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import attrs

from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.journal.entry import Buffer
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.read_result import ColdRead, ReadResult
from pipeline_broker.records.batch import HEADER, LENGTH_OVERHEAD

__all__ = ["AbortedView", "end_of", "in_front_of"]

_HEAD = struct.Struct(">qi11xi")  # base offset, batch length, last offset delta
assert _HEAD.size < HEADER.size


def _batches(parts: Sequence[Buffer]) -> Iterator[tuple[int, int, int, int]]:
    """The batches that lie in parts one behind the other: part and place, base offset, last offset.

    A batch that is a part of its own may go on in the next one; its head never does.
    """
    position = 0
    for number, part in enumerate(parts):
        while position < len(part):
            base_offset, length, last_delta = _HEAD.unpack_from(part, position)
            yield number, position, base_offset, base_offset + last_delta
            position += LENGTH_OVERHEAD + length
        position -= len(part)


def end_of(parts: Sequence[Buffer]) -> int:
    """The offset behind the last batch of what was read; 0 for nothing."""
    end_offset = 0
    for _, _, _, last_offset in _batches(parts):
        end_offset = last_offset + 1
    return end_offset


def _cut(parts: Sequence[Buffer], end_offset: int) -> list[Buffer]:
    """The batches that begin in front of an offset."""
    for number, position, base_offset, _ in _batches(parts):
        if base_offset >= end_offset:
            return [*parts[:number], memoryview(parts[number])[:position]] if position else list(parts[:number])
    return list(parts)


def in_front_of(result: ReadResult, end_offset: int) -> ReadResult:
    """The same read, ending in front of an offset."""
    cold = result.cold
    if cold is None:
        return ReadResult(_cut(result.parts, end_offset))
    return ReadResult(cold=ColdRead(lambda: _cut(cold(), end_offset), cold.size_bytes))


@attrs.frozen(eq=False)
class AbortedView:
    """The aborted transactions of a log as of one moment.

    Args:
        archived: what the archive holds of the log.
        recent: those whose marker only the journal holds.
    """

    _archived: ArchivedLog | None
    _recent: Sequence[AbortedTransaction]

    def find(self, offset: int, end_offset: int) -> list[AbortedTransaction] | ColdRead[list[AbortedTransaction]]:
        """Those with records in front of `end_offset` and a marker not in front of `offset`, in marker order."""
        recent = [it for it in self._recent if it.first_offset < end_offset and it.last_offset >= offset]
        archived = None if self._archived is None else self._archived.aborted_transactions(offset, end_offset)
        if archived is None:
            return recent
        return ColdRead(lambda: archived() + recent, archived.size_bytes)
