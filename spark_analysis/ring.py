"""Decoding of ring files to Arrow columns, in Spark's workers.

No Python code runs per row: the rows are one array of fixed-size binaries, and a column is a slice of it, viewed as
integers. A torn row, an unknown code or a string index without its string is a `TraceError`; nothing is guessed.

Layout of a ring file (little-endian, no padding):
    "PBTRACE1" | uint32 length of the header | header, JSON | rows
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

# This module, `errors` and `tables` are pickled by value for Spark's workers, which may lack this package. So they
# import only the standard library and PyArrow; numpy would be one more package to install there.
from spark_analysis.errors import TraceError
from spark_analysis.tables import LATER_STAMPS, OPTIONAL_COLUMNS, SCHEMAS_READ, TABLES, ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterator

RING_MAGIC: Final = b"PBTRACE1"
CHUNK_ROWS: Final = 1 << 16
"""Number of rows that are decoded together, which bounds the memory of a task."""
_PREFIX_BYTES: Final = len(RING_MAGIC) + 4
_HEADER_BYTES_MAX: Final = 1 << 20
_REMEDY: Final = "Remove the folder of the run"

ARROW_TYPES: Final[dict[ColumnType, pa.DataType]] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "string": pa.string(),
}
_PACKED_TYPES: Final[dict[str, pa.DataType]] = {
    "i1": pa.int8(),
    "i2": pa.int16(),
    "i4": pa.int32(),
    "i8": pa.int64(),
    "f8": pa.float64(),
    "string": pa.int32(),
}
_STRING_NONE: Final = -1


def arrow_schema(table: str) -> pa.Schema:
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in TABLES[table].items()])


class RingColumn(NamedTuple):
    """The position of a column in a packed row, and its type."""

    name: str
    packed: str
    offset: int
    codes: dict[int, str] | None

    @property
    def width(self) -> int:
        return int(_PACKED_TYPES[self.packed].bit_width // 8)


class RingFile(NamedTuple):
    path: str
    table: str
    run: int
    strings: pa.Array
    content: pa.Buffer

    def batches(self, chunk_rows: int = CHUNK_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches of the declared schema, at most `chunk_rows` rows each.

        Raises:
            TraceError: the file is empty, truncated, not a ring file, or of another schema version; its columns differ
                from the table's, or a value is invalid.
        """
        columns, rows_at = self._header()
        row_bytes = sum(column.width for column in columns)
        rows, torn_bytes = divmod(len(self.content) - rows_at, row_bytes)
        if torn_bytes:
            raise TraceError(f"{self.path} is truncated: the last row has {torn_bytes} of {row_bytes} bytes. {_REMEDY}")
        schema = arrow_schema(self.table)
        by_name = {column.name: column for column in columns}
        for first in range(0, rows, chunk_rows):
            count = min(chunk_rows, rows - first)
            packed = self.content.slice(rows_at + first * row_bytes, count * row_bytes)
            # Without a copy: the rows of the file are the buffer of the array.
            cells = pa.Array.from_buffers(pa.binary(row_bytes), count, [None, packed])
            arrays = [pa.repeat(pa.scalar(self.run, pa.int32()), count)]
            for field in list(schema)[1:]:
                column = by_name.get(field.name) or by_name.get(LATER_STAMPS.get(field.name, ""))
                arrays.append(pa.nulls(count, field.type) if column is None else self._column(column, cells))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _header(self) -> tuple[tuple[RingColumn, ...], int]:
        prefix = self.content[:_PREFIX_BYTES].to_pybytes()
        if not prefix:
            raise TraceError(f"{self.path} is empty. {_REMEDY}")
        if not prefix.startswith(RING_MAGIC[: len(prefix)]):
            raise TraceError(f"{self.path} is not a trace ring: it begins with {prefix[:8]!r}. {_REMEDY}")
        if len(prefix) < _PREFIX_BYTES:
            raise TraceError(f"{self.path} is truncated inside its header. {_REMEDY}")
        (header_bytes,) = struct.unpack_from("<I", prefix, len(RING_MAGIC))
        rows_at = _PREFIX_BYTES + header_bytes
        if header_bytes > _HEADER_BYTES_MAX or rows_at > len(self.content):
            raise TraceError(f"{self.path} is truncated inside its header. {_REMEDY}")
        try:
            header = json.loads(self.content[_PREFIX_BYTES:rows_at].to_pybytes())
        except ValueError as error:
            raise TraceError(f"{self.path} has a header that is not readable as JSON: {error}. {_REMEDY}") from None
        return _ring_columns(self.path, self.table, header), rows_at

    def _column(self, column: RingColumn, rows: pa.Array) -> pa.Array:
        kind = TABLES[self.table][column.name]
        values = pc.binary_slice(rows, column.offset, column.offset + column.width).view(_PACKED_TYPES[column.packed])
        if column.packed == "string":
            return self._resolve(column, values)
        values = _nulls(values)
        if column.codes is not None:
            return self._decode(column, values)
        if kind == "boolean":
            return pc.not_equal(values, pa.scalar(0, values.type))
        try:
            return values.cast(ARROW_TYPES[kind])
        except pa.ArrowInvalid as error:
            raise TraceError(f"{self.path}: a value of {column.name} does not fit {kind}: {error}. {_REMEDY}") from None

    def _resolve(self, column: RingColumn, indexes: pa.Array) -> pa.Array:
        indexes = _null_where(indexes, pc.equal(indexes, _STRING_NONE))
        bounds = pc.min_max(indexes).as_py()
        if bounds["max"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(self.strings):
            raise TraceError(
                f"{self.path}: {column.name} refers to string {bounds['max']}, but strings.jsonl has "
                f"{len(self.strings)} strings. {_REMEDY}"
            )
        return self.strings.take(indexes)

    def _decode(self, column: RingColumn, values: pa.Array) -> pa.Array:
        codes = column.codes or {}
        places = pc.index_in(values, value_set=pa.array(list(codes), values.type))
        if places.null_count != values.null_count:
            unknown = values.filter(pc.and_(pc.is_valid(values), pc.is_null(places)))[0]
            raise TraceError(
                f"{self.path}: {column.name} has the code {unknown}, which the header does not name. {_REMEDY}"
            )
        return pa.array(list(codes.values()), pa.string()).take(places)


def _null_where(values: pa.Array, mask: pa.Array) -> pa.Array:
    return pc.if_else(mask, pa.scalar(None, values.type), values)


def _nulls(values: pa.Array) -> pa.Array:
    """Replace the null markers by nulls: the least integer of a type, and NaN for doubles."""
    if pa.types.is_floating(values.type):
        return _null_where(values, pc.is_nan(values))
    least = -(1 << (values.type.bit_width - 1))
    return _null_where(values, pc.equal(values, pa.scalar(least, values.type)))


def check_schema(path: object, schema: Any) -> None:
    if schema not in SCHEMAS_READ:
        known = " and ".join(map(str, SCHEMAS_READ))
        raise TraceError(
            f"{path} has schema {schema}, but this version reads {known}. Use the version that wrote the file"
        )


def _ring_columns(path: str, table: str, header: Any) -> tuple[RingColumn, ...]:
    try:
        named, schema, declared = header["table"], header["schema"], header["columns"]
        enums = {
            name: {int(code): str(text) for code, text in codes.items()}
            for name, codes in header.get("enums", {}).items()
        }
        pairs = [(str(name), str(packed)) for name, packed in declared]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path} has an invalid header: {type(error).__name__}: {error}. {_REMEDY}") from None
    check_schema(path, schema)
    if named != table:
        raise TraceError(f"{path} contains rows of the table {named!r}, not of {table}. {_REMEDY}")
    # Only schema 1 may lack the later stamps; a newer file without them is damaged.
    later = LATER_STAMPS if schema == 1 else ()
    names = [name for name, _ in pairs]
    optional = set(OPTIONAL_COLUMNS.get(table, ())).difference(names)
    expected = set(TABLES[table]).difference({"run"}, later, optional)
    if set(names) != expected or len(names) != len(expected):
        wrong = sorted(set(names) ^ expected) or names
        raise TraceError(f"{path}: the columns of {table} differ from schema {schema}: {', '.join(wrong)}. {_REMEDY}")
    columns: list[RingColumn] = []
    offset = 0
    for name, packed in pairs:
        text = TABLES[table][name] == "string"
        if packed not in _PACKED_TYPES or text != (packed == "string" or name in enums):
            raise TraceError(f"{path}: {name} is packed as {packed!r}, which is not {TABLES[table][name]}. {_REMEDY}")
        column = RingColumn(name, packed, offset, enums.get(name))
        columns.append(column)
        offset += column.width
    return tuple(columns)
