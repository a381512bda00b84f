"""What groups have committed for topics that are gone, forgotten some at a time: it may be a hundred thousand offsets.

Rules of this file: an offset waits here until its tombstone is appended. A later one of the same partition is about
another topic of that name: a commit replaces what waits, and a transaction, which may abort, has it forgotten first.
A broker that is killed meanwhile finds the rest at its next start, by the ids of topics that offsets are stored with.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from pipeline_broker.state.group_records import NO_TOPIC_ID, OffsetKey
from pipeline_broker.state.groups.commits import deletion
from pipeline_broker.state.offsets import CommittedOffsets
from pipeline_broker.state.outcome import Outcome
from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["Forgetting"]

GROUPS_AT_ONCE_MAX = 100
OFFSETS_AT_ONCE_MAX = 1_000
"""Of so many groups so many are forgotten in one turn: about 2 ms of work."""


class Forgetting:
    """See the rules of the file.

    Args:
        offsets: of all groups.
    """

    def __init__(self, offsets: CommittedOffsets) -> None:
        self._offsets = offsets
        self._waiting: dict[tuple[str, str], dict[int, None]] = {}  # partitions of the topics of groups

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def topic(self, topic: str) -> Outcome:
        """Forget what was committed for a topic, now or by `some`."""
        for group_id, partitions in self._offsets.of_topic(topic).items():
            self._waiting.setdefault((group_id, topic), {}).update(partitions)
        return self.some()

    def of_missing(self, topics: TopicCatalogue) -> None:
        """Forget by `some` what was committed for any topic but these; older releases left out some of the ids."""
        for key, committed in self._offsets.all():
            topic = topics.get(key.topic)
            if topic is None or committed.topic_id not in {topic.topic_id, NO_TOPIC_ID}:
                self._waiting.setdefault((key.group_id, key.topic), {})[key.partition] = None

    def some(self) -> Outcome:
        """Forget the next ones that wait."""
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

    def before(self, group_id: str, keys: Iterable[OffsetKey]) -> Outcome:
        """Forget those of some offsets of a group that wait, because the next commit is behind them."""
        found = self._remove(keys) if self._waiting else []
        return Outcome(writes=[deletion(self._offsets, group_id, found)] if found else [])

    def replaced(self, keys: Iterable[OffsetKey]) -> None:
        """Others are appended in place of some offsets: what waits of these need not be forgotten."""
        if self._waiting:
            self._remove(keys)

    def _remove(self, keys: Iterable[OffsetKey]) -> list[OffsetKey]:
        """Those of the keys that waited, and wait no more."""
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
