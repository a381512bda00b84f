"""Request timelines as JSON records of a topic.

docs/guides/live.md and docs/reference/trace-format.md describe the format. A record holds up to ROWS_MAX rows by
column. To write and to read, an array per column costs a third of an object per row. A record has the number of earlier
rows and of lost rows, so a reader can prove that it missed none. Stamps are nanoseconds after `received_ns`.
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
"""Version of the record format; raise it if an existing reader would misread a record. 1 had no `decided_ns`."""
ROWS_MAX = 512
"""Maximum number of rows in a record: 60 KB."""
RECORDS_MAX = 8
"""Maximum number of records in a batch: half a megabyte uncompressed, which consumers accept by default."""
RING_ROWS_MAX = 1 << 15
"""Maximum number of rows waiting for publication, 4 MB: half a second at 65,000 requests per second."""
# Every client reads gzip without another package. The fastest level takes a fifth of the time of the default one.
GZIP_LEVEL = 1

_ROW = REQUESTS.layout
_RECEIVED, *_LATER = STAMPS
_encode = json.JSONEncoder(separators=(",", ":")).encode


class TimelineRows(RequestRows):
    """A `stages.timeline.Timeline` that keeps rows of requests until they are published.

    A Fetch that returned only records of the timelines topic has no row. Otherwise each publication would cause the
    next one while a client reads the topic.

    Args:
        topic_id: returns the id of the timelines topic, or None if it does not exist.
        rows_max: the maximum number of waiting rows; further ones are lost and counted.
    """

    def __init__(self, topic_id: Callable[[], bytes | None], rows_max: int = RING_ROWS_MAX) -> None:
        super().__init__(RowRing(REQUESTS.layout, rows_max))
        self._topic_id = topic_id

    @property
    def lost(self) -> int:
        return self.ring.dropped

    def request_ended(self, request: Any) -> None:
        # A request that arrived before timelines were switched on has incomplete stamps.
        if not request.enqueued_ns or not request.handled_ns:
            return
        if request.api == ApiKey.FETCH and self._is_reader(request.answer):
            return
        self.pack_ended(request)

    def _is_reader(self, answer: Any) -> bool:
        topics = getattr(answer, "responses", None)
        if not topics:
            return False
        # A Fetch response has the name or the id of a topic, depending on its version.
        topic_id = self._topic_id()
        return all(topic.topic == TIMELINES_TOPIC or topic.topic_id == topic_id for topic in topics)


class TimelineBatches:
    """An encoder of rows to record batches; the records of one object form a session.

    Call `encode` in a thread. It works in pieces of less than a millisecond.

    Args:
        session: the id of the session.
        mode: the name of the broker's mode, for the records.
        clock_offset_ns: the difference between nanoseconds since 1970 and a stamp. It is fixed for the session, so that
            setting the wall clock does not separate the stamps of a request.
        pause: called between two pieces of work.

    Attributes:
        rows: the number of encoded rows.
        records: the number of encoded records.
    """

    def __init__(self, session: str, mode: str, clock_offset_ns: int, pause: Callable[[], None] = lambda: None) -> None:
        self.session = session
        self.rows = self.records = 0
        self._head = {"schema": SCHEMA, "session": session, "mode": mode, "clock_offset_ns": clock_offset_ns}
        self._key = session.encode()
        self._pause = pause

    def encode(self, rows: bytes, lost: int, now_ms: int) -> list[bytes]:
        """Return the record batches of rows, with up to RECORDS_MAX records each; no batches without rows.

        Args:
            rows: packed rows from the ring.
            lost: the number of lost rows in this session so far.
            now_ms: the timestamp of the records, in milliseconds since 1970.
        """
        batches = []
        values = self._values(rows, lost)
        while chunk := list(itertools.islice(values, RECORDS_MAX)):
            records = [NewRecord(value, self._key, now_ms) for value in chunk]
            batches.append(build_batch(records, compression=Compression.GZIP, compression_level=GZIP_LEVEL))
            self._pause()
        return batches

    def _values(self, rows: bytes, lost: int) -> Iterator[bytes]:
        step = ROWS_MAX * _ROW.size
        for begin in range(0, len(rows), step):
            yield self._value(rows[begin : begin + step], lost)

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
    if count == ROWS_MAX:
        return (column.unpack(rows) for column in _full_columns())
    return zip(*_ROW.iter_unpack(rows), strict=True)


@functools.cache
def _full_columns() -> tuple[struct.Struct, ...]:
    """Return for each column a struct that unpacks it from ROWS_MAX rows and skips the other columns.

    This takes a third of the time of unpacking whole rows.
    """
    columns, before = [], 0
    for code in _ROW.format.removeprefix("<"):
        size = struct.calcsize(code)
        columns.append(struct.Struct("<" + f"{before}x{code}{_ROW.size - before - size}x" * ROWS_MAX))
        before += size
    return tuple(columns)


def _name(column: str) -> str:
    """Return a column's name in a published record: stamps after the receipt become `..._after_ns`."""
    return column.removesuffix("_ns") + "_after_ns" if column in _LATER else column


def _array(name: str, column: Sequence[int], least: int, received: Sequence[int]) -> str:
    """Return the JSON of a column, with words for codes and null for the table's null value."""
    first, is_after = column[0], name in _LATER
    if column.count(first) == len(column) and (first == least or not is_after):
        (readable,) = _readable(name, column[:1], least)  # about half of the columns are constant: encode once
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
