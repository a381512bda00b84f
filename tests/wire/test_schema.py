"""Declarations: annotations agree with the decoded values."""

from __future__ import annotations

import subprocess
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.wire.schema import fields_of, parse_versions, resolve
from tests.wire.generated import MESSAGES, each_message

ROOT = Path(__file__).parents[2]
PRIMITIVES = {"float64": float, "bool": bool, "string": str, "bytes": bytes, "uuid": bytes, "records": Buffer}


def structures_of(message: type) -> list[type]:
    return [message, *(value for value in vars(message).values() if isinstance(value, type) and attrs.has(value))]


@each_message(MESSAGES)
def test_annotations_say_what_is_decoded(message):
    """Covers type, list and nullability of every field."""
    module = vars(sys.modules[message.__module__])
    for structure in structures_of(message):
        hints = typing.get_type_hints(structure, module)
        for field in fields_of(structure):
            expected: Any = resolve(message, field.type) or PRIMITIVES.get(str(field.type), int)
            if field.is_array:
                expected = list[expected]
            if field.type == "records" and message.__name__.endswith("Response"):
                expected = expected | Sequence[Buffer]
            if len(field.nullable):
                expected = expected | None
            assert hints[field.name] == expected, f"{structure.__qualname__}.{field.name}"


@each_message(MESSAGES)
def test_declared_versions_are_consistent(message):
    """Tags are unique and belong to flexible versions; struct fields are frozen."""
    versions, flexible = parse_versions(message.SCHEMA.versions), parse_versions(message.SCHEMA.flexible)
    for structure in structures_of(message):
        tags = [field.tag for field in fields_of(structure) if field.tag is not None]
        assert len(set(tags)) == len(tags)
        for field in fields_of(structure):
            assert any(version in versions for version in field.versions)
            if field.tag is not None:
                assert all(version in flexible for version in field.versions if version in versions)
            if isinstance(field.type, type) and not field.is_array:
                with pytest.raises(attrs.exceptions.FrozenInstanceError):
                    setattr(field.type(), fields_of(field.type)[0].name, 0)


@pytest.mark.parametrize(("text", "first", "last"), [("3+", 3, 0x7FFF), ("0-12", 0, 12), ("4", 4, 4), ("0", 0, 0)])
def test_version_texts(text, first, last):
    assert parse_versions(text) == range(first, last + 1)


def test_no_versions():
    assert len(parse_versions("none")) == 0


def test_importing_a_message_and_the_codec_is_cheap():
    """They import attrs, the standard library, buffers and the API table, but no other message and no other package."""
    script = """
import sys
import pipeline_broker.wire.codec, pipeline_broker.wire.messages.data.produce
print(sorted(name for name in sys.modules if name.startswith(("pipeline_broker", "stages", "trio"))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    wire = "pipeline_broker.wire"
    rooms = [
        f"{wire}.{name}"
        for name in ("codec", "decoding", "encoding", "primitives", "registry", "schema", "source", "text")
    ]
    messages = [f"{wire}.messages", f"{wire}.messages.data", f"{wire}.messages.data.produce"]
    base = ["pipeline_broker.base", "pipeline_broker.base.buffer"]
    assert eval(done.stdout) == sorted(["pipeline_broker", *base, wire, *rooms, *messages])
