"""The subscribed topics of a share group, and a hash that detects their changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pipeline_broker.state.groups.share.messages import FindTopic, FoundTopic
from pipeline_broker.state.groups.share.share_group import ShareGroup

__all__ = ["hash_of", "subscribed_topics"]


def subscribed_topics(group: ShareGroup, find_topic: FindTopic) -> dict[str, FoundTopic]:
    names = sorted({name for member in group.members.values() for name in member.topics})
    found = ((name, find_topic(name)) for name in names)
    return {name: topic for name, topic in found if topic is not None}


def hash_of(topics: Mapping[str, FoundTopic]) -> int:
    """Return a hash of the names, ids and partition counts of topics; 0 without topics."""
    if not topics:
        return 0
    text = repr([(name, topic.topic_id, topic.partitions) for name, topic in sorted(topics.items())])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
