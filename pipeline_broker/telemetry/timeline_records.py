"""Request timelines as records of a topic: which requests have one, and the JSON of many rows.

Rules of this file: docs/live.md and docs/trace-format.md explain the format. A record holds up to ROWS_MAX rows, column
by column: an array a column costs a third of an object a row, both to write and to read. It says itself how many rows
came before it and how many were lost, so that a reader can prove that it missed nothing. Stamps are nanoseconds after
the request was received, except `received_ns` itself.

Encoding runs in a thread, in pieces of less than a millisecond with pauses between them.
"""

from __future__ import annotations

import functools
import itertools
import json
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.compression import Compression
from pipeline_broker.telemetry.timelines_topic import TIMELINES_TOPIC
from pipeline_broker.traces.broker_tables import REQUESTS
from pipeline_broker.traces.request_rows import RequestRows
from pipeline_broker.traces.row_ring import RowRing
from pipeline_broker.wire.registry import ApiKey
from stages.timeline import STAMPS

__all__ = ["RING_ROWS_MAX", "ROWS_MAX", "SCHEMA", "TimelineBatches", "TimelineRows"]

SCHEMA = 2
"""Version of a record's form: it changes when a reader of the former one would misread it. 1 had no `decided_ns`."""
ROWS_MAX = 512
"""Rows of one record: 60 KB."""
RECORDS_MAX = 8
"""Records of one batch: half a megabyte before it is compressed, what consumers take by default."""
RING_ROWS_MAX = 1 << 15
"""Rows that may wait to be published, 4 MB: half a second at 65,000 requests a second, twice what they wait."""
GZIP_LEVEL = 1
"""Every client can read gzip without a further package; the fastest level costs a fifth of the default one."""

_ROW = REQUESTS.layout
_RECEIVED, *_LATER = STAMPS
_encode = json.JSONEncoder(separators=(",", ":")).encode


class TimelineRows(RequestRows):
    """A `stages.timeline.Timeline` of requests only, which are kept until they are published.

    A Fetch that brought records of the topic of timelines, and of no other, has no row: each publication would be the
    reason for the next one for as long as anybody reads.

    Args:
        topic_id: gives the id of the topic, None while there is none.
        rows_max: how many may wait; further ones are lost, and counted.
    """

    def __init__(self, topic_id: Callable[[], bytes | None], rows_max: int = RING_ROWS_MAX) -> None:
        super().__init__(RowRing(REQUESTS.layout, rows_max))
        self._topic_id = topic_id

    @property
    def lost(self) -> int:
        """Rows that found no room."""
        return self.ring.dropped

    def request_ended(self, request: Any) -> None:
        """See Timeline; one that was on its way when this was switched on has no complete timeline."""
        if not request.enqueued_ns or not request.handled_ns:
            return
        if request.api == ApiKey.FETCH and self._is_reader(request.answer):
            return
        self.pack_ended(request)

    def _is_reader(self, answer: Any) -> bool:
        topics = getattr(answer, "responses", None)
        if not topics:
            return False
        topic_id = self._topic_id()
        return all(topic.topic == TIMELINES_TOPIC or topic.topic_id == topic_id for topic in topics)


class TimelineBatches:
    """Makes record batches of rows; the records of one object are one session.

    Args:
        session: tells this publisher's rows from those of others.
        mode: of the broker.
        clock_offset_ns: what is added to a stamp to get nanoseconds since 1970; the same for the whole session, so that
            a wall clock that is set does not tear a request's stamps apart.
        pause: called between two small pieces of work.

    Attributes:
        rows: encoded so far.
        records: encoded so far.
    """

    def __init__(self, session: str, mode: str, clock_offset_ns: int, pause: Callable[[], None] = lambda: None) -> None:
        self.session = session
        self.rows = self.records = 0
        self._head = {"schema": SCHEMA, "session": session, "mode": mode, "clock_offset_ns": clock_offset_ns}
        self._key = session.encode()
        self._pause = pause

    def encode(self, rows: bytes, lost: int, now_ms: int) -> list[bytes]:
        """The batches of rows.

        Args:
            rows: as the ring gave them.
            lost: rows of this session that were lost until now.
            now_ms: wall clock, the timestamp of the records.
        """
        batches = []
        values = self._values(rows, lost)
        while some := list(itertools.islice(values, RECORDS_MAX)):
            records = [NewRecord(value, self._key, now_ms) for value in some]
            batches.append(build_batch(records, compression=Compression.GZIP, compression_level=GZIP_LEVEL))
            self._pause()
        return batches

    def _values(self, rows: bytes, lost: int) -> Iterator[bytes]:
        step = ROWS_MAX * _ROW.size
        for place in range(0, len(rows), step):
            yield self._value(rows[place : place + step], lost)

    def _value(self, rows: bytes, lost: int) -> bytes:
        count = len(rows) // _ROW.size
        head = _encode({**self._head, "first_row": self.rows, "rows": count, "lost": lost})
        parts = [head[:-1]]
        received: Sequence[int] = ()
        for (name, _), least, column in zip(REQUESTS.columns, REQUESTS.nulls, _columns(rows, count), strict=True):
            self._pause()
            if name == _RECEIVED:
                received = column
            parts.append(f'"{_name(name)}":{_array(name, column, least, received)}')
        self.rows += count
        self.records += 1
        return f"{','.join(parts)}}}".encode()


def _columns(rows: bytes, count: int) -> Iterable[Sequence[int]]:
    """The values of each column in turn."""
    if count == ROWS_MAX:
        return (column.unpack(rows) for column in _full_columns())
    return zip(*_ROW.iter_unpack(rows), strict=True)


@functools.cache
def _full_columns() -> tuple[struct.Struct, ...]:
    """For each column what unpacks it from ROWS_MAX rows and skips the others: a third of the time of whole rows."""
    columns, before = [], 0
    for code in _ROW.format.removeprefix("<"):
        size = struct.calcsize(code)
        columns.append(struct.Struct("<" + f"{before}x{code}{_ROW.size - before - size}x" * ROWS_MAX))
        before += size
    return tuple(columns)


def _name(column: str) -> str:
    """What a column of the table is called in a record."""
    return column.removesuffix("_ns") + "_after_ns" if column in _LATER else column


def _array(name: str, column: Sequence[int], least: int, received: Sequence[int]) -> str:
    """The JSON of one column, with words for codes and null where the table has a null."""
    first, is_after = column[0], name in _LATER
    if column.count(first) == len(column) and (first == least or not is_after):
        (readable,) = _readable(name, column[:1], least)  # half of the columns nearly always: encode it once
        return f"[{','.join([_encode(readable)] * len(column))}]"
    if not is_after:
        return _encode(_readable(name, column, least))
    if least not in column:
        return _encode(list(map(operator.sub, column, received)))
    return _encode([None if stamp == least else stamp - began for stamp, began in zip(column, received, strict=True)])


def _readable(name: str, column: Sequence[int], least: int) -> Sequence[Any]:
    words = REQUESTS.enums.get(name)
    if words is not None:
        return [words[value] for value in column]
    return [None if value == least else value for value in column] if least in column else column
