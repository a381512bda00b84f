"""The format PBTRACE1: a table and its file, written and read.

Rules of this room: what a trace has is declared here once, and written and read by what is declared; no I/O but that of
whole files. `broker_tables` and `request_rows` know the requests of stages, the others nothing of a broker.

A file is a magic, the length of a JSON header, the header, then little-endian rows without padding. The least value of
a type is null. docs/trace-format.md explains it.
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
"""Version of the tables: it rises when a reader of the former ones would misread these. 1 had no `decided_ns`."""
SCHEMAS_READ = (1, SCHEMA)

FILE_BYTES_MAX = 1 << 30
"""A broker's has 64 MiB; that of a load has some 40 bytes for each request."""

_LENGTH = struct.Struct("<I")
_FORMATS = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "string": "i"}

I1: TypeAlias = Annotated[int, "i1"]
I2: TypeAlias = Annotated[int, "i2"]
I4: TypeAlias = Annotated[int, "i4"]
I8: TypeAlias = Annotated[int, "i8"]
Columns: TypeAlias = tuple[tuple[str, str], ...]


def columns_of(row: type) -> Columns:
    """The columns that a class declares by its own annotations, each an `Annotated` with the type in a file."""
    hints = get_type_hints(row, include_extras=True)
    return tuple((name, hints[name].__metadata__[0]) for name in row.__annotations__)


@attrs.frozen
class Table:
    """One table.

    Attributes:
        name: of the table; a broker's file of it is `<name>.ring`.
        columns: names and types; `string` is an i4 index into strings.jsonl.
        enums: of columns whose numbers stand for words: code -> word.
    """

    name: str
    columns: Columns
    enums: Mapping[str, Mapping[int, str]] = attrs.field(factory=dict)

    @property
    def layout(self) -> struct.Struct:
        """One row."""
        return struct.Struct("<" + "".join(_FORMATS[kind] for _, kind in self.columns))

    @property
    def nulls(self) -> tuple[int, ...]:
        """What stands for null in each column."""
        least = (-(1 << (8 * struct.calcsize(_FORMATS[kind]) - 1)) for _, kind in self.columns)
        return tuple(-1 if kind == "string" else null for (_, kind), null in zip(self.columns, least, strict=True))

    def header(self) -> bytes:
        """What the file begins with."""
        enums = {name: {str(code): word for code, word in codes.items()} for name, codes in self.enums.items()}
        declared = {"table": self.name, "schema": SCHEMA, "columns": self.columns, "enums": enums}
        text = json.dumps(declared).encode()
        return MAGIC + _LENGTH.pack(len(text)) + text


def write(path: Path, table: Table, rows: Sequence[Sequence[int | None]]) -> None:
    """A file with these rows, None for null."""
    columns = [
        [null if value is None else value for value in column] if None in column else column
        for column, null in zip(zip(*rows, strict=True), table.nulls, strict=False)
    ]
    packed = map(table.layout.pack, *columns) if rows else ()
    path.write_bytes(b"".join((table.header(), *packed)))


class RingFileError(ValueError):
    """Not a file of this format; the text is one line without its name."""


@attrs.frozen
class RingFile:
    """What a file holds.

    Attributes:
        table: as its header declares it.
        body: the packed rows.
    """

    table: Table
    body: memoryview

    def rows(self, *wanted: str) -> Iterator[tuple[Any, ...]]:
        """The columns that are wanted of each row, None for null; half a row, as a killed broker may leave it, is none.

        Raises:
            RingFileError: there is no such column.
        """
        names = [name for name, _ in self.table.columns]
        if missing := [name for name in wanted if name not in names]:
            raise RingFileError(f"no column {missing[0]} in {self.table.name}")
        places = [(names.index(name), self.table.nulls[names.index(name)]) for name in wanted]
        layout = self.table.layout
        for row in layout.iter_unpack(self.body[: len(self.body) - len(self.body) % layout.size]):
            yield tuple([None if row[place] == null else row[place] for place, null in places])


def read(path: Path) -> RingFile:
    """What a file holds, under the names that its header declares.

    Raises:
        OSError: it cannot be read.
        RingFileError: it is no such file, or of another schema.
    """
    raw, _ = read_bounded(path, FILE_BYTES_MAX)
    start = len(MAGIC) + _LENGTH.size
    if raw[: len(MAGIC)] != MAGIC or len(raw) < start:
        raise RingFileError("not a trace ring file")
    (length,) = _LENGTH.unpack_from(raw, len(MAGIC))
    try:
        header: Any = json.loads(raw[start : start + length])
        schema = header["schema"]
        columns = tuple((str(name), str(kind)) for name, kind in header["columns"])
        table = Table(str(header["table"]), columns)
        assert table.layout.size
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RingFileError("its header cannot be read") from None
    if schema not in SCHEMAS_READ:
        raise RingFileError(f"schema {schema}, this version reads {' and '.join(map(str, SCHEMAS_READ))}")
    return RingFile(table, memoryview(raw)[start + length :])
