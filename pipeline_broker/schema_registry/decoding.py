"""Keys and values that a serializer wrote with a schema of the registry, as JSON for a person.

Rules of this file: no I/O. The bytes are a stranger's, so what is made of them is bounded in values and in bytes, and
what cannot be read is nothing. A serializer writes a zero byte, the id of the schema in four bytes, and the content
(Confluent, "Wire format").
"""

from __future__ import annotations

import base64
import io
import json
from typing import Any

from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.formats import Given, parsed
from pipeline_broker.schema_registry.registration import given
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import SchemaType

__all__ = ["Decoded", "decode", "schema_id_of"]

MAGIC = 0
HEAD_BYTES = 5
VALUES_MAX = 10_000
"""Of one content."""
CONTENT_BYTES_MAX = 1 << 20
INDEXES_MAX = 32

Decoded = tuple[int, str]
"""The id of a schema, and JSON."""


class _TooManyValuesError(Exception):
    pass


def schema_id_of(content: bytes) -> int | None:
    """The id in front of a content; None where it has none."""
    if len(content) < HEAD_BYTES or content[0] != MAGIC:
        return None
    return int.from_bytes(content[1:HEAD_BYTES])


def decode(state: RegistryState, content: bytes) -> Decoded | None:
    """What a key or value says; None where no schema of the registry says that."""
    schema_id = schema_id_of(content)
    schema = None if schema_id is None or len(content) > CONTENT_BYTES_MAX else state.schema(schema_id)
    if schema is None or schema_id is None:
        return None
    read = {SchemaType.AVRO: _avro, SchemaType.JSON: _json, SchemaType.PROTOBUF: _protobuf}[schema.type]
    try:
        return schema_id, json.dumps(
            read(given(state, schema), content[HEAD_BYTES:]), ensure_ascii=False, default=_text
        )
    except (RegistryError, _TooManyValuesError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return None
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("avro", "google"):
            return None
        raise


def _text(value: Any) -> str:
    """What JSON has not: bytes, as text where they are."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)


def _json(_: Given, content: bytes) -> Any:
    return json.loads(content)


def _avro(it: Given, content: bytes) -> Any:
    import avro.io  # noqa: PLC0415 - for those who have such records

    class BoundedReader(avro.io.DatumReader):
        """A reader that ends: a few bytes can announce any number of values."""

        left = VALUES_MAX

        def read_data(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise _TooManyValuesError
            return super().read_data(writers_schema, readers_schema, decoder)

    schema = parsed(it)
    return BoundedReader(schema, schema).read(avro.io.BinaryDecoder(io.BytesIO(content)))


def _protobuf(it: Given, content: bytes) -> Any:
    from google.protobuf import json_format, message_factory  # noqa: PLC0415 - see above

    file = parsed(it)
    indexes, content = _indexes(content)
    found = file.root.message_type[indexes[0]]
    name = f"{file.root.package}.{found.name}" if file.root.package else found.name
    for index in indexes[1:]:
        found = found.nested_type[index]
        name = f"{name}.{found.name}"
    pool = file.pool()
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name)).FromString(content)
    return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)


def _indexes(content: bytes) -> tuple[list[int], bytes]:
    """Which message of the file it is, by the numbers of messages from outside in; none stands for the first."""
    count, place = _varint(content, 0)
    if count > INDEXES_MAX:
        raise ValueError("too many indexes")
    indexes = []
    for _ in range(count):
        index, place = _varint(content, place)
        if index < 0:
            raise ValueError("an index is less than 0")
        indexes.append(index)
    return indexes or [0], content[place:]


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number in zigzag, and what comes behind it; raises IndexError or ValueError."""
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), place
        shift += 7
        if shift > 35:
            raise ValueError("a number is too long")
