"""Deletion of offsets that groups have committed for deleted topics, in batches."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from pipeline_broker.state.groups.commits import deletion
from pipeline_broker.state.groups.offset_records import NO_TOPIC_ID, OffsetKey
from pipeline_broker.state.groups.offsets import CommittedOffsets
from pipeline_broker.state.outcome import Outcome
from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["Forgetting"]

# Deleting this much takes about 2 ms of a turn. Deleting 5,000 offsets at once blocked the event loop for 19 ms.
GROUPS_AT_ONCE_MAX = 100
OFFSETS_AT_ONCE_MAX = 1_000


class Forgetting:
    """A queue of committed offsets to delete because their topics were deleted.

    An offset stays in the queue until its tombstone is appended. A commit to a queued partition belongs to a new topic
    of the same name. A later tombstone must not delete its record. So a plain commit removes the partition from the
    queue (`discard`). A transaction may abort, so its commit appends the tombstone first (`delete_before_commit`).

    If the broker is killed, the next startup finds the queued offsets again (`forget_missing`). Each offset is stored
    with the id of its topic.

    Args:
        offsets: the offsets of all groups.
    """

    def __init__(self, offsets: CommittedOffsets) -> None:
        self._offsets = offsets
        self._waiting: dict[tuple[str, str], dict[int, None]] = {}  # partitions of the topics of groups

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def forget_topic(self, topic: str) -> Outcome:
        for group_id, partitions in self._offsets.of_topic(topic).items():
            self._waiting.setdefault((group_id, topic), {}).update(partitions)
        return self.delete_batch()

    def forget_missing(self, topics: TopicCatalogue) -> None:
        """Queue the offsets of all topics but the existing `topics`."""
        for key, committed in self._offsets.all():
            topic = topics.get(key.topic)
            # Older releases stored some offsets without a topic id; the name decides for those.
            if topic is None or committed.topic_id not in {topic.topic_id, NO_TOPIC_ID}:
                self._waiting.setdefault((key.group_id, key.topic), {})[key.partition] = None

    def delete_batch(self) -> Outcome:
        outcome = Outcome()
        left = OFFSETS_AT_ONCE_MAX
        for group_id, topic in list(islice(self._waiting, GROUPS_AT_ONCE_MAX)):
            partitions = islice(self._waiting[group_id, topic], left)
            keys = [OffsetKey(group_id, topic, partition) for partition in partitions]
            self._remove(keys)
            outcome.writes.append(deletion(self._offsets, group_id, keys))
            left -= len(keys)
            if not left:
                break
        return outcome

    def delete_before_commit(self, group_id: str, keys: Iterable[OffsetKey]) -> Outcome:
        """Delete the queued ones of these offsets, so that the group can commit to their partitions afterwards."""
        found = self._remove(keys) if self._waiting else []
        return Outcome(writes=[deletion(self._offsets, group_id, found)] if found else [])

    def discard(self, keys: Iterable[OffsetKey]) -> None:
        """Remove offsets from the queue because a commit replaces them."""
        if self._waiting:
            self._remove(keys)

    def _remove(self, keys: Iterable[OffsetKey]) -> list[OffsetKey]:
        removed = []
        for key in keys:
            of_topic = key.group_id, key.topic
            partitions = self._waiting.get(of_topic)
            if partitions is not None and key.partition in partitions:
                removed.append(key)
                del partitions[key.partition]
                if not partitions:
                    del self._waiting[of_topic]
        return removed
