"""Codecs of messages: a pair of functions per version, compiled on first use.

Decoders return the position after the message and ignore further bytes. They replace text that is not UTF-8, like Kafka
(`wire/text.py`), unless the caller asks for `utf8_only`.

Counterpart in Kafka: message JSON and its generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.wire.decoding import DecoderWriter
from pipeline_broker.wire.encoding import EncoderWriter
from pipeline_broker.wire.primitives import LARGE_BYTES, DecodeError, EncodeError, NotUtf8Error, ResponseTooLargeError
from pipeline_broker.wire.schema import Schema, parse_versions

__all__ = [
    "LARGE_BYTES",
    "Buffer",
    "DecodeError",
    "EncodeError",
    "NotUtf8Error",
    "ResponseTooLargeError",
    "decode",
    "decoder",
    "encode",
    "encoder",
    "stepwise_decoder",
    "stepwise_encoder",
    "versions_of",
]

Message = TypeVar("Message")
Decoder: TypeAlias = Callable[[Buffer, int], tuple[Message, int]]
Encoder: TypeAlias = Callable[[Message], list[Buffer]]


def versions_of(message: type) -> range:
    schema: Schema = cast("Any", message).SCHEMA
    return parse_versions(schema.versions)


@cache
def _decoder(message: type, version: int, *, in_steps: bool = False, utf8_only: bool = False) -> Any:
    _check_version(message, version)
    return DecoderWriter(message, version, in_steps=in_steps, utf8_only=utf8_only).write()


@cache
def _encoder(message: type, version: int, *, in_steps: bool = False) -> Any:
    _check_version(message, version)
    return EncoderWriter(message, version, in_steps=in_steps).write()


def _check_version(message: type, version: int) -> None:
    if version not in versions_of(message):
        raise ValueError(f"{message.__name__} has no version {version}")


def decoder(message: type[Message], version: int, *, utf8_only: bool = False) -> Decoder[Message]:
    """Return the function `(buffer, position) -> (message, position after it)` of a version.

    The function raises DecodeError for malformed bytes. With `utf8_only`, it raises NotUtf8Error for text that is not
    UTF-8.

    Raises:
        ValueError: the message class does not declare the version.
    """
    return cast("Decoder[Message]", _decoder(cast("Any", message), version, utf8_only=utf8_only))


def stepwise_decoder(
    message: type[Message], version: int, *, utf8_only: bool = False
) -> Callable[[Buffer, int], Generator[None, None, tuple[Message, int, int]]]:
    """Return a generator function like `decoder`, for messages larger than LARGE_BYTES.

    The generator yields after about every ELEMENTS_A_TURN elements, and raises DecodeError above ELEMENTS_MAX. It
    returns the message, the position after it, and the number of elements that were left of ELEMENTS_MAX.

    Raises:
        ValueError: the message class does not declare the version.
    """
    made = _decoder(cast("Any", message), version, in_steps=True, utf8_only=utf8_only)
    return cast("Any", made)  # type: ignore[no-any-return]  # generated


def encoder(message: type[Message], version: int) -> Encoder[Message]:
    """Return the function `message -> parts` of a version. Records are separate parts, which are not copied.

    The function raises EncodeError for a message that the version cannot carry.

    Raises:
        ValueError: the message class does not declare the version.
    """
    return cast("Encoder[Message]", _encoder(cast("Any", message), version))


def stepwise_encoder(message: type[Message], version: int) -> Callable[[Message], Generator[None, None, list[Buffer]]]:
    """Return a generator function like `encoder`, for messages that may be large.

    The generator yields after about every ELEMENTS_A_TURN elements. It raises ResponseTooLargeError above
    RESPONSE_BYTES_MAX, records not counted.

    Raises:
        ValueError: the message class does not declare the version.
    """
    return cast("Any", _encoder(cast("Any", message), version, in_steps=True))  # type: ignore[no-any-return]  # generated


def decode(message: type[Message], version: int, buffer: Buffer, position: int = 0) -> tuple[Message, int]:
    """Decode a message; return it and the position after it. In hot code, keep the function that `decoder` returns.

    Raises:
        DecodeError: the bytes are malformed.
        ValueError: the message class does not declare the version.
    """
    return decoder(message, version)(buffer, position)


def encode(message: Message, version: int) -> list[Buffer]:
    """Encode a message to parts. In hot code, keep the function that `encoder` returns.

    Raises:
        EncodeError: the version cannot carry the message.
        ValueError: the message class does not declare the version.
    """
    return encoder(type(message), version)(message)
