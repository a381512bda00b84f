"""Decode and encode functions of declared messages, one pair per version, compiled on first use.

Rules of this room: bytes in, messages out, no I/O. A message is declared once with its version ranges
(`wire/messages`); the first use of a version writes a Python function for it and compiles it. Whatever is wrong
with input is a DecodeError; what cannot be written is an EncodeError, a mistake of ours. Bytes behind a message
are the caller's business: a decoder returns the position after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

from pipeline_broker.wire.decoding import DecoderWriter
from pipeline_broker.wire.encoding import EncoderWriter
from pipeline_broker.wire.primitives import LARGE_BYTES, Buffer, DecodeError, EncodeError
from pipeline_broker.wire.schema import Schema, parse_versions

__all__ = [
    "LARGE_BYTES",
    "Buffer",
    "DecodeError",
    "EncodeError",
    "counting_decoder",
    "decode",
    "decoder",
    "encode",
    "encoder",
    "versions_of",
]

Message = TypeVar("Message")
Decoder: TypeAlias = Callable[[Buffer, int], tuple[Message, int]]
Encoder: TypeAlias = Callable[[Message], list[Buffer]]


def versions_of(message: type) -> range:
    """All versions that a message class declares."""
    schema: Schema = cast("Any", message).SCHEMA
    return parse_versions(schema.versions)


@cache
def _decoder(message: type, version: int, *, counted: bool = False) -> Any:
    _check_version(message, version)
    return DecoderWriter(message, version, counted=counted).write()


@cache
def _encoder(message: type, version: int) -> Any:
    _check_version(message, version)
    return EncoderWriter(message, version).write()


def _check_version(message: type, version: int) -> None:
    if version not in versions_of(message):
        raise ValueError(f"{message.__name__} has no version {version}")


def decoder(message: type[Message], version: int) -> Decoder[Message]:
    """Return the function `(buffer, position) -> (message, position after it)` of a version."""
    return cast("Decoder[Message]", _decoder(cast("Any", message), version))


def counting_decoder(message: type[Message], version: int) -> Decoder[Message]:
    """Like `decoder`, for a stranger's messages above LARGE_BYTES: it refuses more than ELEMENTS_MAX elements."""
    return cast("Decoder[Message]", _decoder(cast("Any", message), version, counted=True))


def encoder(message: type[Message], version: int) -> Encoder[Message]:
    """Return the function `message -> parts` of a version; records are parts of their own, not copied."""
    return cast("Encoder[Message]", _encoder(cast("Any", message), version))


def decode(message: type[Message], version: int, buffer: Buffer, position: int = 0) -> tuple[Message, int]:
    """Read a message; for occasional use, where a looked-up `decoder` is not worth keeping."""
    return decoder(message, version)(buffer, position)


def encode(message: Message, version: int) -> list[Buffer]:
    """Write a message as parts; for occasional use, where a looked-up `encoder` is not worth keeping."""
    return encoder(type(message), version)(message)
