"""Reads the raw traces of one run: `run.json`, ring files, `strings.jsonl`, `lost.json`.

Rules: bytes are turned into Arrow columns without a Python step per row (no numpy either, it would be one more thing
to install): a packed ring is one fixed-size-binary array, a column is a slice of it seen as integers. What does not
fit the format is a `TraceError` that names the file. Nothing is guessed: a torn row, an unknown code or a string
index without its string refuses the run.

Layout of a ring file (little-endian, no padding):
    "PBTRACE1" | uint32 length of the header | header, JSON | rows
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analysis.errors import TraceError
from spark_analysis.tables import LATER_COLUMNS, LATER_STAMPS, RING_TABLES, SCHEMAS_READ, TABLES, ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RING_MAGIC: Final = b"PBTRACE1"
_PREFIX_BYTES: Final = len(RING_MAGIC) + 4
_HEADER_BYTES_MAX: Final = 1 << 20
_CHUNK_ROWS: Final = 1 << 18  # one row group: small enough that two cores share a table, large enough to compress

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
    """The Arrow schema of one trace table."""
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in TABLES[table].items()])


@attrs.frozen
class RingColumn:
    """Where one column lies inside a packed row, and how its numbers read."""

    name: str
    packed: str
    offset: int
    codes: dict[int, str] | None

    @property
    def width(self) -> int:
        """Bytes of this column in a row."""
        return int(_PACKED_TYPES[self.packed].bit_width // 8)


@attrs.frozen
class Ring:
    """One ring file, its header read and checked, its rows not yet touched."""

    path: Path
    table: str
    columns: tuple[RingColumn, ...]
    row_bytes: int
    rows: int
    rows_at: int


@attrs.frozen
class RawRun:
    """One folder `run-*`: the row of the `runs` table and the ring files beside it."""

    folder: Path
    row: dict[str, Any]
    rings: tuple[Ring, ...]
    strings: pa.Array

    def batches(self, ring: Ring) -> Iterator[pa.RecordBatch]:
        """The rows of one ring as record batches of the declared schema, a bounded number of rows at a time."""
        if ring.rows == 0:
            return
        schema = arrow_schema(ring.table)
        by_name = {column.name: column for column in ring.columns}
        with pa.memory_map(str(ring.path)) as file:
            data = file.read_buffer()
            for first in range(0, ring.rows, _CHUNK_ROWS):
                count = min(_CHUNK_ROWS, ring.rows - first)
                packed = data.slice(ring.rows_at + first * ring.row_bytes, count * ring.row_bytes)
                rows = pa.Array.from_buffers(pa.binary(ring.row_bytes), count, [None, packed])
                arrays = [pa.repeat(pa.scalar(self.row["run"], pa.int32()), count)]
                found = [by_name[name if name in by_name else LATER_STAMPS[name]] for name in schema.names[1:]]
                arrays += [self._column(ring, column, rows) for column in found]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, ring: Ring, column: RingColumn, rows: pa.Array) -> pa.Array:
        kind = TABLES[ring.table][column.name]
        values = pc.binary_slice(rows, column.offset, column.offset + column.width).view(_PACKED_TYPES[column.packed])
        if column.packed == "string":
            return self._resolve(ring, column, values)
        values = _nulls(values)
        if column.codes is not None:
            return _decode(ring, column, values)
        if kind == "boolean":
            return pc.not_equal(values, pa.scalar(0, values.type))
        try:
            return values.cast(ARROW_TYPES[kind])
        except pa.ArrowInvalid as error:
            raise TraceError(f"{ring.path}: a value of {column.name} does not fit {kind}: {error}") from None

    def _resolve(self, ring: Ring, column: RingColumn, indexes: pa.Array) -> pa.Array:
        indexes = _null_where(indexes, pc.equal(indexes, _STRING_NONE))
        bounds = pc.min_max(indexes).as_py()
        if bounds["max"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(self.strings):
            raise TraceError(
                f"{ring.path}: {column.name} refers to string {bounds['max']}, strings.jsonl has {len(self.strings)}"
            )
        return self.strings.take(indexes)


def _null_where(values: pa.Array, mask: pa.Array) -> pa.Array:
    return pc.if_else(mask, pa.scalar(None, values.type), values)


def _nulls(values: pa.Array) -> pa.Array:
    """The least number of a type stands for null; of doubles it is NaN."""
    if pa.types.is_floating(values.type):
        return _null_where(values, pc.is_nan(values))
    least = -(1 << (values.type.bit_width - 1))
    return _null_where(values, pc.equal(values, pa.scalar(least, values.type)))


def _decode(ring: Ring, column: RingColumn, values: pa.Array) -> pa.Array:
    codes = column.codes or {}
    places = pc.index_in(values, value_set=pa.array(list(codes), values.type))
    if places.null_count != values.null_count:
        unknown = values.filter(pc.and_(pc.is_valid(values), pc.is_null(places)))[0]
        raise TraceError(f"{ring.path}: {column.name} has the code {unknown}, which the header does not name")
    return pa.array(list(codes.values()), pa.string()).take(places)


def read_run(folder: Path) -> RawRun:
    """Read one run's small files and the headers of its rings.

    Raises:
        TraceError: a file is missing, damaged or of another schema version.
    """
    row = _run_row(folder)
    rings = tuple(read_ring_header(path) for path in sorted(folder.glob("*.ring")))
    tables = {ring.table for ring in rings}
    wanted = ("client", "requests", "appends", "commits") if row["traced"] else ("client",)
    for table in wanted:
        if table not in tables:
            raise TraceError(f"{folder}: no {table} ring file; was the run interrupted?")
    return RawRun(folder, row, rings, _strings(folder))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TraceError(f"{path}: missing") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TraceError(f"{path}: not readable as JSON: {error}") from None


def _run_row(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    declared = _json(path)
    if not isinstance(declared, dict):
        raise TraceError(f"{path}: not a JSON object")
    _check_schema(path, declared.get("schema", SCHEMAS_READ[-1]))
    declared = {**LATER_COLUMNS, **declared}
    missing = [name for name in TABLES["runs"] if name not in declared]
    if missing:
        raise TraceError(f"{path}: {', '.join(missing)} missing")
    row = {name: declared[name] for name in TABLES["runs"]}
    settings = row["settings"] if isinstance(row["settings"], dict) else {"text": row["settings"]}
    # Parquet has no column for the part of the experiment a run belongs to; it travels with the settings.
    if "experiment" in declared:
        settings = {**settings, "experiment": declared["experiment"]}
    row["settings"] = json.dumps(settings, sort_keys=True, ensure_ascii=False)
    for name in ("machine", "factors"):
        if not isinstance(row[name], str):
            row[name] = json.dumps(row[name], sort_keys=True, ensure_ascii=False)
    row["lost_rows"] = max(row["lost_rows"] or 0, _lost_rows(folder))
    try:
        pa.RecordBatch.from_pylist([row], schema=arrow_schema("runs"))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TraceError(f"{path}: {error}") from None
    return row


def _check_schema(path: Path, schema: Any) -> None:
    if schema not in SCHEMAS_READ:
        raise TraceError(f"{path}: schema {schema}, this version reads {' and '.join(map(str, SCHEMAS_READ))}")


def _lost_rows(folder: Path) -> int:
    path = folder / "lost.json"
    if not path.exists():
        return 0
    lost = _json(path)
    if not isinstance(lost, dict) or not all(type(count) is int for count in lost.values()):
        raise TraceError(f"{path}: not an object of numbers")
    return sum(lost.values())


def _strings(folder: Path) -> pa.Array:
    path = folder / "strings.jsonl"
    if not path.exists():
        return pa.array([], pa.string())
    try:
        strings = [json.loads(line) for line in path.read_bytes().splitlines()]
        return pa.array(strings, pa.string())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TraceError(f"{path}: not one JSON string a line: {error}") from None


def read_ring_header(path: Path) -> Ring:
    """Read and check the header of one ring file.

    Raises:
        TraceError: the file is empty, truncated, not a ring, of another schema version, or its rows are torn.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(_PREFIX_BYTES)
        if size == 0:
            raise TraceError(f"{path}: empty")
        if not prefix.startswith(RING_MAGIC[: len(prefix)]):
            raise TraceError(f"{path}: not a trace ring (it begins with {prefix[:8]!r})")
        if len(prefix) < _PREFIX_BYTES:
            raise TraceError(f"{path}: truncated inside its header")
        (header_bytes,) = struct.unpack_from("<I", prefix, len(RING_MAGIC))
        rows_at = _PREFIX_BYTES + header_bytes
        if header_bytes > _HEADER_BYTES_MAX or rows_at > size:
            raise TraceError(f"{path}: truncated inside its header")
        try:
            header = json.loads(file.read(header_bytes))
        except ValueError as error:
            raise TraceError(f"{path}: header not readable as JSON: {error}") from None
    table, columns = _ring_columns(path, header)
    row_bytes = sum(column.width for column in columns)
    rows, torn_bytes = divmod(size - rows_at, row_bytes)
    if torn_bytes:
        raise TraceError(f"{path}: truncated, the last row has {torn_bytes} of {row_bytes} bytes")
    return Ring(path, table, columns, row_bytes, rows, rows_at)


def _ring_columns(path: Path, header: Any) -> tuple[str, tuple[RingColumn, ...]]:
    try:
        table, schema, declared = header["table"], header["schema"], header["columns"]
        enums = {
            name: {int(code): str(text) for code, text in codes.items()}
            for name, codes in header.get("enums", {}).items()
        }
        pairs = [(str(name), str(packed)) for name, packed in declared]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path}: header lacks or misspells {error}") from None
    _check_schema(path, schema)
    if table not in RING_TABLES:
        raise TraceError(f"{path}: unknown table {table!r}")
    later = LATER_STAMPS if schema == 1 else ()
    expected = set(TABLES[table]).difference({"run"}, later)
    names = [name for name, _ in pairs]
    if set(names) != expected or len(names) != len(expected):
        wrong = sorted(set(names) ^ expected) or names
        raise TraceError(f"{path}: columns of {table} differ from schema {schema}: {', '.join(wrong)}")
    columns: list[RingColumn] = []
    offset = 0
    for name, packed in pairs:
        text = TABLES[table][name] == "string"
        if packed not in _PACKED_TYPES or text != (packed == "string" or name in enums):
            raise TraceError(f"{path}: {name} is packed as {packed!r}, which is not {TABLES[table][name]}")
        column = RingColumn(name, packed, offset, enums.get(name))
        columns.append(column)
        offset += column.width
    return str(table), tuple(columns)
