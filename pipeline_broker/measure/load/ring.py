"""What a client measured, as rows of the trace table `client`.

Rules of this file: rows are packed after a run, never in it; the layout is that of docs/trace-format.md (a magic, the
length of a JSON header, the header, little-endian rows without padding; the least value of a type is null).
"""

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

RING_MAGIC = b"PBTRACE1"
SCHEMA = 1
COLUMNS = (
    ("connection", "i4"),
    ("sequence", "i8"),
    ("correlation_id", "i4"),
    ("intended_ns", "i8"),
    ("sent_ns", "i8"),
    ("answered_ns", "i8"),
    ("error", "i2"),
    ("measured", "i1"),
)
_ROW = struct.Struct("<iqiqqqhb")
_NULLS = {"i4": -(1 << 31), "i8": -(1 << 63)}
_LENGTH = struct.Struct("<I")


class ClientRow(NamedTuple):
    """One request (of confluent-kafka: one message); None where something does not apply or never came."""

    connection: int
    sequence: int
    correlation_id: int | None
    intended_ns: int | None
    sent_ns: int
    answered_ns: int | None
    error: int
    measured: bool


def write_ring(path: Path, rows: Sequence[ClientRow]) -> None:
    """One ring file with these rows."""
    header = json.dumps({"table": "client", "schema": SCHEMA, "columns": COLUMNS, "enums": {}}).encode()
    body = bytearray(len(rows) * _ROW.size)
    null4, null8 = _NULLS["i4"], _NULLS["i8"]
    position = 0
    for connection, sequence, correlation_id, intended_ns, sent_ns, answered_ns, error, measured in rows:
        _ROW.pack_into(
            body,
            position,
            connection,
            sequence,
            null4 if correlation_id is None else correlation_id,
            null8 if intended_ns is None else intended_ns,
            sent_ns,
            null8 if answered_ns is None else answered_ns,
            error,
            measured,
        )
        position += _ROW.size
    path.write_bytes(b"".join((RING_MAGIC, _LENGTH.pack(len(header)), header, body)))


def read_ring(path: Path) -> list[ClientRow]:
    """The rows of a ring file that `write_ring` has written."""
    raw = path.read_bytes()
    start = len(RING_MAGIC) + _LENGTH.size
    if raw[: len(RING_MAGIC)] != RING_MAGIC:
        raise ValueError(f"{path} is not a trace ring file")
    (length,) = _LENGTH.unpack_from(raw, len(RING_MAGIC))
    columns = json.loads(raw[start : start + length])["columns"]
    if tuple(map(tuple, columns)) != COLUMNS:
        raise ValueError(f"{path} has other columns than the client table")
    return list(_unpack(raw[start + length :]))


def _unpack(body: bytes) -> Iterable[ClientRow]:
    null4, null8 = _NULLS["i4"], _NULLS["i8"]
    for connection, sequence, correlation_id, intended_ns, sent_ns, answered_ns, error, measured in _ROW.iter_unpack(
        body
    ):
        yield ClientRow(
            connection,
            sequence,
            None if correlation_id == null4 else correlation_id,
            None if intended_ns == null8 else intended_ns,
            sent_ns,
            None if answered_ns == null8 else answered_ns,
            error,
            bool(measured),
        )
