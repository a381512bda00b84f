"""All declared messages, and Hypothesis strategies for them."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import pipeline_broker.wire.messages as messages_package
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.schema import Field, fields_of, parse_versions, resolve
from tests.tables import each_row

EXAMPLES = int(os.environ.get("WIRE_EXAMPLES", "3"))
"""Examples per message and version; `WIRE_EXAMPLES=500` makes a long run."""

quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def declared() -> list[type]:
    found = []
    for module_info in pkgutil.walk_packages(messages_package.__path__, messages_package.__name__ + "."):
        module = importlib.import_module(module_info.name)
        found += [value for value in vars(module).values() if isinstance(value, type) and hasattr(value, "SCHEMA")]
    return found


MESSAGES = declared()
API_MESSAGES = [message for message in MESSAGES if message.__name__.endswith(("Request", "Response"))]
REQUESTS = [message for message in API_MESSAGES if message.__name__.endswith("Request")]
RESPONSES = [message for message in API_MESSAGES if message.__name__.endswith("Response")]
RECORDS = [message for message in MESSAGES if message not in API_MESSAGES]


def each_version(messages: list[type], *, flexible_only: bool = False, parts: int = 1) -> Callable[[Any], Any]:
    """Parametrize a test by `message` and `version`, for every declared version."""
    pairs = [(message, version) for message in messages for version in versions_of(message)]
    if flexible_only:
        pairs = [(message, version) for message, version in pairs if is_flexible(message, version)]
    names = [f"{message.__name__}-{version}" for message, version in pairs]
    return each_row("message, version", pairs, names, parts=parts)


def each_message(messages: list[type], *, parts: int = 1) -> Callable[[Any], Any]:
    """Parametrize a test by `message`."""
    return each_row("message", messages, [message.__name__ for message in messages], parts=parts)


def is_flexible(message: Any, version: int) -> bool:
    return version in parse_versions(message.SCHEMA.flexible)


@cache
def integers(bits: int) -> st.SearchStrategy[int]:
    high = 2 ** (bits - 1)
    return st.sampled_from([0, 1, -1, high - 1, -high]) | st.integers(-high, high - 1)


TEXTS = st.text(max_size=8) | st.text("ab-é", min_size=130, max_size=150)
BYTES = st.binary(max_size=8) | st.binary(min_size=130, max_size=140)
FLOATS = st.floats(allow_nan=False)
UUIDS = st.just(bytes(16)) | st.binary(min_size=16, max_size=16)


@cache
def primitive(kind: str) -> st.SearchStrategy[Any]:
    if kind in INTEGER_BITS:
        return integers(INTEGER_BITS[kind])
    if kind == "uint16":
        return st.sampled_from([0, 1, 0xFFFF]) | st.integers(0, 0xFFFF)
    return {
        "bool": st.booleans(),
        "float64": FLOATS,
        "string": TEXTS,
        "bytes": BYTES,
        "records": BYTES,
        "uuid": UUIDS,
    }[kind]


Narrow = Callable[[type, Field], st.SearchStrategy[Any]]
"""Chooses the values of a primitive field of a class."""


def values(message: type, owner: type, field: Field, version: int, narrow: Narrow) -> st.SearchStrategy[Any]:
    structure = resolve(message, field.type)
    one = structures(message, structure, version, narrow) if structure else narrow(owner, field)
    if field.is_array:
        one = st.lists(one, max_size=2)
    return st.none() | one if version in field.nullable else one


def structures(message: type, structure: type, version: int, narrow: Narrow) -> st.SearchStrategy[Any]:
    """Objects of a class with drawn fields of this version; other fields have their defaults."""
    drawn = {
        field.name: values(message, structure, field, version, narrow)
        for field in fields_of(structure)
        if version in field.versions
    }
    return st.builds(structure, **drawn)


@cache
def objects(message: type, version: int) -> st.SearchStrategy[Any]:
    """Messages of one version with drawn values."""
    return structures(message, message, version, lambda _owner, field: primitive(str(field.type)))


def sample(message: type, version: int, *, elements: int = 1, text: str = "name") -> Any:
    """Return a message with content in every array and every nullable field."""
    return filled(message, message, version, elements, text)


def filled(message: type, structure: type, version: int, elements: int, text: str) -> Any:
    found: dict[str, Any] = {}
    for field in fields_of(structure):
        if version not in field.versions:
            continue
        nested = resolve(message, field.type)
        plain = {"bool": True, "string": text, "bytes": b"data", "records": b"batch", "uuid": bytes(range(16))}
        one = filled(message, nested, version, elements, text) if nested else plain.get(str(field.type), 7)
        found[field.name] = [one] * elements if field.is_array else one
    return structure(**found)


def plain(value: Any) -> Any:
    """Replace the views of a decoded message by bytes, in place, so that it can be compared and printed."""
    for field in fields_of(type(value)):
        inner = getattr(value, field.name)
        if isinstance(inner, memoryview):
            setattr(value, field.name, inner.tobytes())
        elif isinstance(inner, list) and isinstance(field.type, str):
            for element in inner:
                if hasattr(element, "__attrs_attrs__"):
                    plain(element)
    return value
