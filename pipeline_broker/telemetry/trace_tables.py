"""The tables that a broker writes as trace files, and their bytes.

Rules of this file: data and layout only; docs/trace-format.md explains both. Columns stand in the order in which rows
are packed. A file is a magic, the length of a JSON header, the header, then little-endian rows without padding. The
least value of an integer type is null.
"""

import json
import struct
from collections.abc import Mapping

import attrs

__all__ = ["APPENDS", "COMMITS", "MAGIC", "MUTES", "NULL_I8", "QUEUES", "REQUESTS", "SCHEMA", "Table"]

MAGIC = b"PBTRACE1"
SCHEMA = 1
NULL_I4 = -(2**31)
NULL_I8 = -(2**63)

_LENGTH = struct.Struct("<I")
_FORMATS = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "string": "i"}


@attrs.frozen
class Table:
    """One table.

    Attributes:
        name: of the table; its file is `<name>.ring`.
        columns: names and types; `string` is an i4 index into strings.jsonl.
        enums: of columns whose numbers stand for words: code -> word.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    enums: Mapping[str, Mapping[int, str]] = attrs.field(factory=dict)

    @property
    def row_format(self) -> str:
        """One row for `struct`."""
        return "<" + "".join(_FORMATS[kind] for _, kind in self.columns)

    def header(self) -> bytes:
        """What the file begins with."""
        text = json.dumps(
            {
                "table": self.name,
                "schema": SCHEMA,
                "columns": self.columns,
                "enums": {
                    name: {str(code): word for code, word in codes.items()} for name, codes in self.enums.items()
                },
            }
        ).encode()
        return MAGIC + _LENGTH.pack(len(text)) + text


OUTCOME_SEND, OUTCOME_NO_OP, OUTCOME_CLOSE, OUTCOME_DROPPED = range(4)

REQUESTS = Table(
    "requests",
    (
        ("connection", "i4"),
        ("sequence", "i8"),
        ("api", "i2"),
        ("version", "i2"),
        ("correlation_id", "i4"),
        ("queue", "i4"),
        ("depth", "i4"),
        ("request_bytes", "i4"),
        ("response_bytes", "i4"),
        ("acks", "i2"),
        ("commit", "i8"),
        ("outcome", "i1"),
        ("received_ns", "i8"),
        ("enqueued_ns", "i8"),
        ("dequeued_ns", "i8"),
        ("handled_ns", "i8"),
        ("submitted_ns", "i8"),
        ("durable_ns", "i8"),
        ("completed_ns", "i8"),
        ("released_ns", "i8"),
        ("send_started_ns", "i8"),
        ("sent_ns", "i8"),
    ),
    {"outcome": {OUTCOME_SEND: "send", OUTCOME_NO_OP: "noop", OUTCOME_CLOSE: "close", OUTCOME_DROPPED: "dropped"}},
)
APPENDS = Table(
    "appends",
    (
        ("connection", "i4"),
        ("sequence", "i8"),
        ("commit", "i8"),
        ("topic", "string"),
        ("partition", "i4"),
        ("base_offset", "i8"),
        ("last_offset", "i8"),
    ),
)
COMMITS = Table(
    "commits",
    (
        ("commit", "i8"),
        ("entries", "i4"),
        ("bytes", "i8"),
        ("started_ns", "i8"),
        ("written_ns", "i8"),
        ("durable_ns", "i8"),
        ("completed_ns", "i8"),
    ),
)
MUTES = Table("mutes", (("connection", "i4"), ("reason", "i1"), ("began_ns", "i8"), ("ended_ns", "i8")))
QUEUES = Table("queues", (("queue", "i4"), ("at_ns", "i8"), ("depth", "i4")))
