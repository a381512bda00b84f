"""Decoding of keys and values that a serializer wrote with a registered schema, for display.

A payload starts with a zero byte and a schema id of four bytes (Confluent's "Wire Format"). Any client may have written
it, so the worker process decodes it, within bounds of size, values and time.
"""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from pipeline_broker.base.schema_id import HEAD_BYTES, read_message_path, read_schema_id
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.formats import TEXT_CHARACTERS_MAX, ResolvedSchema, parsed
from pipeline_broker.schema_registry.references import resolve
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import SchemaType

__all__ = [
    "CONTENTS_BYTES_MAX",
    "CONTENT_BYTES_MAX",
    "Coded",
    "Decoded",
    "coded",
    "decode_all",
    "decoded_json",
    "schema_id_of",
]

# Values in one payload. A few bytes of Avro can announce any number of values.
VALUES_MAX = 10_000
CONTENT_BYTES_MAX = 256 << 10
CONTENTS_BYTES_MAX = 4 << 20
"""Bytes of all payloads of one `decode_all`."""
# Characters of all schemas of one `decode_all`.
SCHEMAS_CHARACTERS_MAX = 2 * TEXT_CHARACTERS_MAX
# Time limit of one `decode_all`. Later payloads are not decoded.
DECODING_SECONDS_MAX = 2.0
# Characters of the JSON of one payload. A page shows less.
SHOWN_CHARACTERS_MAX = 4096

Decoded = tuple[int, str, int]
"""The schema id, the JSON up to SHOWN_CHARACTERS_MAX, and the length of the whole JSON in characters."""


class Coded(NamedTuple):
    schema_id: int
    resolved: ResolvedSchema
    content: bytes


class _TooManyValuesError(Exception):
    pass


def schema_id_of(content: bytes | None) -> int | None:
    """Return the schema id at the start of a payload; None without one, or if the payload is too large."""
    return None if content is None or len(content) > CONTENT_BYTES_MAX else read_schema_id(content)


def coded(state: RegistryState, contents: Sequence[bytes]) -> list[Coded | None]:
    """Return payloads with their schemas; None for one without a known schema, or beyond the bounds."""
    schemas: dict[int, ResolvedSchema | None] = {}
    found: list[Coded | None] = []
    size = characters = 0
    for content in contents:
        schema_id = schema_id_of(content)
        if schema_id is None:
            found.append(None)
            continue
        if schema_id not in schemas:
            its = schemas[schema_id] = _resolve(state, schema_id)
            characters += 0 if its is None else its.text_characters
        its = schemas[schema_id] if characters <= SCHEMAS_CHARACTERS_MAX else None
        size += len(content)
        has_room = its is not None and size <= CONTENTS_BYTES_MAX
        found.append(Coded(schema_id, its, content) if its is not None and has_room else None)
    return found


def _resolve(state: RegistryState, schema_id: int) -> ResolvedSchema | None:
    schema = state.schema(schema_id)
    try:
        return None if schema is None else resolve(state, schema)
    except RegistryError:
        return None


def decode_all(contents: Sequence[Coded | None]) -> list[Decoded | None]:
    """Return payloads as JSON; None for each that cannot be decoded, or not within DECODING_SECONDS_MAX."""
    end = time.monotonic() + DECODING_SECONDS_MAX
    unreadable: set[int] = set()  # ids of invalid schemas, which are parsed once only
    found: list[Decoded | None] = []
    for each in contents:
        if each is None or each.schema_id in unreadable or time.monotonic() > end:
            found.append(None)
            continue
        try:
            parsed(each.resolved)
        except RegistryError:
            unreadable.add(each.schema_id)
            found.append(None)
        else:
            text = decoded_json(each.resolved, each.content)
            found.append(None if text is None else (each.schema_id, text[:SHOWN_CHARACTERS_MAX], len(text)))
    return found


def decoded_json(resolved: ResolvedSchema, content: bytes) -> str | None:
    """Return a payload as JSON; None if it does not fit its schema."""
    read = {SchemaType.AVRO: _avro, SchemaType.JSON: _json, SchemaType.PROTOBUF: _protobuf}[resolved.schema.type]
    try:
        return json.dumps(read(resolved, content), ensure_ascii=False, default=_text)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the libraries raise anything; an undecodable payload is shown as bytes
        return None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)


def _json(_: ResolvedSchema, content: bytes) -> Any:
    return json.loads(content[HEAD_BYTES:])


def _avro(it: ResolvedSchema, content: bytes) -> Any:
    import avro.io  # noqa: PLC0415 - an extra, only needed for Avro

    class BoundedReader(avro.io.DatumReader):
        left = VALUES_MAX

        def read_data(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise _TooManyValuesError
            return super().read_data(writers_schema, readers_schema, decoder)

    schema = parsed(it)
    return BoundedReader(schema, schema).read(avro.io.BinaryDecoder(io.BytesIO(content[HEAD_BYTES:])))


def _protobuf(it: ResolvedSchema, content: bytes) -> Any:
    from google.protobuf import json_format, message_factory  # noqa: PLC0415 - an extra, only needed for Protobuf

    file = parsed(it)
    indexes, position = read_message_path(content)
    found = file.root.message_type[indexes[0]]
    name = f"{file.root.package}.{found.name}" if file.root.package else found.name
    for index in indexes[1:]:
        found = found.nested_type[index]
        name = f"{name}.{found.name}"
    pool = file.pool()
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name)).FromString(content[position:])
    return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
