"""The trace file format PBTRACE1: a magic, the length of a JSON header, the header, then packed rows.

Rows are little-endian without padding. The least value of a type is null. docs/reference/trace-format.md describes the
format.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

import attrs

from pipeline_broker.files.bounded_file import read_bounded

__all__ = [
    "I1",
    "I2",
    "I4",
    "I8",
    "MAGIC",
    "SCHEMA",
    "RingFile",
    "RingFileError",
    "Table",
    "columns_of",
    "read",
    "write",
]

MAGIC = b"PBTRACE1"
SCHEMA = 2
"""Version of the tables. Raise it when a reader of the previous version would misread the new tables."""
# Schema 1 has no `decided_ns`; spark_analysis uses `handled_ns` instead.
SCHEMAS_READ = (1, SCHEMA)

FILE_BYTES_MAX = 1 << 30
"""Size of a trace file that is read. A broker's file has at most 64 MiB; a client's file 40 bytes per request."""

_LENGTH = struct.Struct("<I")
_FORMATS = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "string": "i"}

I1: TypeAlias = Annotated[int, "i1"]
I2: TypeAlias = Annotated[int, "i2"]
I4: TypeAlias = Annotated[int, "i4"]
I8: TypeAlias = Annotated[int, "i8"]
Columns: TypeAlias = tuple[tuple[str, str], ...]


def columns_of(row: type) -> Columns:
    """Return the columns that a class declares in its own annotations, each an `Annotated` with the type in a file."""
    hints = get_type_hints(row, include_extras=True)
    return tuple((name, hints[name].__metadata__[0]) for name in row.__annotations__)


@attrs.frozen
class Table:
    """A trace table.

    Attributes:
        name: a broker's file is `<name>.ring`.
        columns: names and types; `string` is an i4 index into strings.jsonl.
        enums: the words of coded columns, by column and code.
    """

    name: str
    columns: Columns
    enums: Mapping[str, Mapping[int, str]] = attrs.field(factory=dict)

    @property
    def layout(self) -> struct.Struct:
        return struct.Struct("<" + "".join(_FORMATS[kind] for _, kind in self.columns))

    @property
    def nulls(self) -> tuple[int, ...]:
        """The null value of each column: the least value of its type, and -1 for `string`."""
        least = (-(1 << (8 * struct.calcsize(_FORMATS[kind]) - 1)) for _, kind in self.columns)
        return tuple(-1 if kind == "string" else null for (_, kind), null in zip(self.columns, least, strict=True))

    def header(self) -> bytes:
        enums = {name: {str(code): word for code, word in codes.items()} for name, codes in self.enums.items()}
        declared = {"table": self.name, "schema": SCHEMA, "columns": self.columns, "enums": enums}
        text = json.dumps(declared).encode()
        return MAGIC + _LENGTH.pack(len(text)) + text


def write(path: Path, table: Table, rows: Sequence[Sequence[int | None]]) -> None:
    columns = [
        [null if value is None else value for value in column] if None in column else column
        for column, null in zip(zip(*rows, strict=True), table.nulls, strict=False)
    ]
    packed = map(table.layout.pack, *columns) if rows else ()
    path.write_bytes(b"".join((table.header(), *packed)))


class RingFileError(ValueError):
    """The file is not a valid trace ring file. The message is one line."""


@attrs.frozen
class RingFile:
    """The content of a file.

    Attributes:
        table: the table that the header declares.
        body: the packed rows.
    """

    table: Table
    body: memoryview

    def rows(self, *wanted: str) -> Iterator[tuple[Any, ...]]:
        """Yield the wanted columns of each row; null becomes None.

        Raises:
            RingFileError: a wanted column is missing.
        """
        names = [name for name, _ in self.table.columns]
        if missing := [name for name in wanted if name not in names]:
            raise RingFileError(f"the table {self.table.name} has no column {missing[0]}")
        indexes = [(names.index(name), self.table.nulls[names.index(name)]) for name in wanted]
        layout = self.table.layout
        # A broker that was killed may leave an incomplete last row.
        for row in layout.iter_unpack(self.body[: len(self.body) - len(self.body) % layout.size]):
            yield tuple([None if row[index] == null else row[index] for index, null in indexes])


def read(path: Path) -> RingFile:
    """Read a file.

    Raises:
        OSError: the file cannot be read.
        RingFileError: the file has another format or schema.
    """
    raw, _ = read_bounded(path, FILE_BYTES_MAX)
    start = len(MAGIC) + _LENGTH.size
    if raw[: len(MAGIC)] != MAGIC or len(raw) < start:
        raise RingFileError("the file is not a trace ring file")
    (length,) = _LENGTH.unpack_from(raw, len(MAGIC))
    try:
        header: Any = json.loads(raw[start : start + length])
        schema = header["schema"]
        columns = tuple((str(name), str(kind)) for name, kind in header["columns"])
        table = Table(str(header["table"]), columns)
        assert table.layout.size
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RingFileError("the file header cannot be read") from None
    if schema not in SCHEMAS_READ:
        raise RingFileError(
            f"the file has schema {schema}, but this version reads {' and '.join(map(str, SCHEMAS_READ))}. Use the "
            "version that wrote the file"
        )
    return RingFile(table, memoryview(raw)[start + length :])
