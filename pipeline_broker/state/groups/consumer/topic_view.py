"""What a group knows of topics: those that exist, by name, with their ids and partitions.

The hash of the topics that a group subscribes to says whether any of them came, went, or grew. Kafka's own hash is of
the same things; the value differs, so a group that Kafka wrote moves on by one epoch when it is first looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from pipeline_broker.state.metadata_records import Topic

__all__ = ["TopicView", "metadata_hash", "topic_ids"]

HASH_BYTES = 8


class TopicView(Protocol):
    """The topics that exist; `state.topics.TopicCatalogue` is one."""

    def get(self, name: str) -> Topic | None:
        """A topic by its name."""

    def by_id(self, topic_id: bytes) -> Topic | None:
        """A topic by its id."""

    def all(self) -> Iterable[Topic]:
        """All topics."""


def topic_ids(topics: TopicView, names: Iterable[str]) -> frozenset[bytes]:
    """The ids of the topics of these names that exist."""
    return frozenset(topic.topic_id for topic in _existing(topics, names))


def metadata_hash(topics: TopicView, names: Iterable[str]) -> int:
    """See the rules of this file; 0 where none of them exists, as in Kafka."""
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
