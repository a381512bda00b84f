"""kio as the oracle: its classes for messages and versions, and its values translated to ours."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from pipeline_broker.wire.schema import Field, fields_of
from tests.wire.generated import primitive

MILLISECOND = dt.timedelta(milliseconds=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TIMESTAMP_SECONDS_MAX = 253_402_300_799
"""Time stamps are datetime objects in kio, which end with the year 9999 and keep whole seconds only."""

ERROR_CODES = st.sampled_from([code.value for code in ErrorCode])
TIMESTAMPS = st.integers(0, TIMESTAMP_SECONDS_MAX).map(lambda seconds: seconds * 1000)
NARROWED = {
    "error_code": ERROR_CODES,
    "datetime_i64": st.just(-1) | TIMESTAMPS,
    "timedelta_i64": st.integers(-(10**13), 10**13),
}


def kio_class(message: type, version: int) -> Any:
    schema = message.SCHEMA  # type: ignore[attr-defined]
    load = load_request_schema if message.__name__.endswith("Request") else load_response_schema
    return load(schema.key, version)


def kio_classes(kio: Any) -> dict[str, Any]:
    """Return the class and all classes nested in it, by name."""
    found = {kio.__name__: kio}
    for field in dataclasses.fields(kio):
        for candidate in (field.type, *(inner for arg in get_args(field.type) for inner in (arg, *get_args(arg)))):
            if dataclasses.is_dataclass(candidate) and isinstance(candidate, type):
                found |= kio_classes(candidate)
    return found


def fields_by_name(kio: Any) -> dict[str, Any]:
    return {field.name: field for field in dataclasses.fields(kio)}


@cache
def narrowing(message: type, version: int) -> Any:
    """Return a function that limits drawn values to the ranges of kio's types."""
    classes = {name: fields_by_name(kio) for name, kio in kio_classes(kio_class(message, version)).items()}

    def narrow(owner: type, field: Field) -> st.SearchStrategy[Any]:
        theirs = classes.get(owner.__name__.removeprefix(shared_prefix(message, owner)), {})
        kio_field = theirs.get(field.name) or theirs.get(field.name.removesuffix("_ms"))
        if kio_field is None:  # of a struct that kio names otherwise
            return ERROR_CODES if field.name.endswith("error_code") else primitive(str(field.type))
        kafka_type = kio_field.metadata.get("kafka_type")
        if kafka_type == "datetime_i64" and type(None) not in get_args(kio_field.type):
            return TIMESTAMPS
        return NARROWED[kafka_type] if kafka_type in NARROWED else primitive(str(field.type))

    return narrow


def shared_prefix(message: type, owner: type) -> str:
    """Return the API name that prefixes a struct declared beside its message."""
    return (
        ""
        if owner is message or "." in owner.__qualname__
        else message.__name__.removesuffix("Request").removesuffix("Response")
    )


def converted(value: Any) -> Any:
    """Translate a value of kio to ours."""
    if isinstance(value, ErrorCode):
        return value.value
    if isinstance(value, dt.timedelta):
        return value // MILLISECOND
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value


def differences(ours: Any, theirs: Any, version: int, path: str = "") -> list[str]:
    """Yield differences in names, order or values between a decoded kio object and our message."""
    fields = [field for field in fields_of(type(ours)) if version in field.versions]
    kio_fields = dataclasses.fields(theirs)
    names = [field.name for field in fields]
    if [field.name.removesuffix("_ms") for field in fields] != [field.name.removesuffix("_ms") for field in kio_fields]:
        return [f"{path}: fields {names} and {[field.name for field in kio_fields]}"]
    found = []
    for field, kio_field in zip(fields, kio_fields, strict=True):
        mine, other = getattr(ours, field.name), getattr(theirs, kio_field.name)
        found += compared(mine, other, field, version, f"{path}.{field.name}")
    return found


def compared(mine: Any, other: Any, field: Field, version: int, path: str) -> list[str]:
    if isinstance(mine, list) and isinstance(other, tuple):
        if len(mine) != len(other):
            return [f"{path}: {len(mine)} and {len(other)} elements"]
        pairs = zip(mine, other, strict=True)
        return [text for a, b in pairs for text in compared(a, b, field, version, path)]
    if dataclasses.is_dataclass(other):
        return differences(mine, other, version, path)
    if other is None and (mine == bytes(16) or (mine == -1 and field.type == "int64")):
        return []  # kio has None for the zero uuid and for the time stamp -1
    return [] if mine == converted(other) else [f"{path}: {mine!r} and {other!r}"]


def written(theirs: Any) -> bytes:
    """Encode with kio."""
    buffer = bytearray()

    class Sink:
        def write(self, data: bytes) -> None:
            buffer.extend(data)

    entity_writer(type(theirs))(Sink(), theirs)
    return bytes(buffer)


DEFAULTS_LEFT_OUT_BY_KIO = {"ConsumerGroupHeartbeatRequest.topic_partitions"}
"""Lists of structures that Kafka declares to be null by default."""


def default_differences(ours: Any, kio: Any, version: int) -> list[str]:
    """Yield differences between the declared defaults of our message, with nested ones, and kio's."""
    found = []
    classes = kio_classes(kio)
    for owner in (ours, *(value for value in vars(ours).values() if hasattr(value, "__attrs_attrs__"))):
        theirs = classes.get(owner.__name__.removeprefix(shared_prefix(ours, owner)))
        if theirs is None:
            continue
        fields = [field for field in fields_of(owner) if version in field.versions]
        for field, kio_field in zip(fields, dataclasses.fields(theirs), strict=True):
            if kio_field.default is dataclasses.MISSING:
                implicit = {"bool": False, "string": "", "bytes": b"", "uuid": bytes(16), "records": None}
                if field.is_array and version in field.nullable:
                    continue  # null or empty: kio has no default for these, whatever the schema says
                expected = () if field.is_array else implicit.get(str(field.type), 0)
            else:
                expected = converted(kio_field.default)
                if expected is None:  # kio has None for the time stamp -1 and for the zero uuid
                    expected = {"int64": -1, "uuid": bytes(16)}.get(str(field.type))
            if f"{owner.__name__}.{field.name}" in DEFAULTS_LEFT_OUT_BY_KIO:
                expected = None
            if not isinstance(field.type, type) and field.default != expected:
                found.append(f"{owner.__name__}.{field.name}: {field.default!r} and {expected!r}")
    return found
