"""The view of existing topics that consumer groups use, and a hash of their metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from pipeline_broker.state.metadata_records import Topic

__all__ = ["TopicView", "metadata_hash", "topic_ids"]

HASH_BYTES = 8


class TopicView(Protocol):
    def get(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: bytes) -> Topic | None: ...

    def all(self) -> Iterable[Topic]: ...


def topic_ids(topics: TopicView, names: Iterable[str]) -> frozenset[bytes]:
    return frozenset([topic.topic_id for topic in _existing(topics, names)])


def metadata_hash(topics: TopicView, names: Iterable[str]) -> int:
    """Return a hash of the named topics that exist: it changes if one is created, deleted or gets more partitions.

    As in Kafka, the hash is 0 if none exists. Otherwise its value differs from Kafka's. So the epoch of a group that
    Kafka wrote is bumped once, when this broker first checks it.
    """
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
    count = 0
    for topic in _existing(topics, sorted(names)):
        digest.update(f"{topic.name}\0{topic.topic_id.hex()}\0{topic.partitions}\0".encode())
        count += 1
    return int.from_bytes(digest.digest(), signed=True) if count else 0


def _existing(topics: TopicView, names: Iterable[str]) -> Iterator[Topic]:
    for name in names:
        topic = topics.get(name)
        if topic is not None:
            yield topic
