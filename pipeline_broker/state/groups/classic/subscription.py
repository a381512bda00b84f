"""Decoding of the subscribed topics from consumer protocol metadata. The coordinator reads nothing else of it.

Layout: int16 version, array (int32 count) of strings (int16 length, UTF-8), then fields that are ignored here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from pipeline_broker.wire.text import text_of

__all__ = ["subscribed_topics"]

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return all topics that the members subscribe to; None if a subscription cannot be decoded."""
    topics: set[str] = set()
    for subscription in set(subscriptions):  # most members subscribe to the same topics
        try:
            topics.update(_read(subscription))
        except (struct.error, ValueError):
            return None
    return frozenset(topics)


def _read(subscription: bytes) -> list[str]:
    _, count = _HEAD.unpack_from(subscription)
    if count < 0:
        raise ValueError("negative number of topics")
    position, topics = _HEAD.size, []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, position)
        position += _LENGTH.size
        if not 0 <= length <= len(subscription) - position:
            raise ValueError("a topic name exceeds the data")
        topics.append(text_of(subscription[position : position + length]))
        position += length
    return topics
