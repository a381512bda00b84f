"""Committed offsets of all groups.

Rules of this file: an offset is visible once its record is durable. A change is prepared (`change` gives it a
handle), appended by the caller, and then applied or dropped. Changes become durable in the order in which they were
prepared, so applying them in that order gives what a replay of the records gives. What a transaction stores is held
back until the transaction ends (`PendingOffsets`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from sys import getsizeof

import attrs

from pipeline_broker.state.group_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.memory import OFFSET_BYTES, GroupMemory
from pipeline_broker.state.pending_offsets import Holder, PendingOffsets, growth_of_offset, size_of_offset

__all__ = ["CommittedOffsets", "OffsetChange"]


@attrs.frozen(eq=False)
class OffsetChange:
    """What becomes visible when its records are durable; None is a deletion.

    Attributes:
        holder: whose transaction they are part of: they are visible once that has committed.
    """

    changes: tuple[tuple[OffsetKey, CommittedOffset | None], ...]
    holder: Holder | None = None

    @property
    def group_id(self) -> str:
        """Whose offsets they are."""
        return self.changes[0][0].group_id


class CommittedOffsets:
    """group -> topic -> partition -> committed offset, the durable ones.

    Args:
        memory: what they hold is counted there.
    """

    def __init__(self, memory: GroupMemory) -> None:
        self.memory = memory
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._unsettled: dict[str, list[OffsetChange]] = {}
        self._pending = PendingOffsets(memory)

    def change(
        self, changes: Iterable[tuple[OffsetKey, CommittedOffset | None]], holder: Holder | None = None
    ) -> OffsetChange:
        """Prepare a change of one group's offsets; the caller settles it by `apply` or `drop`, once."""
        change = OffsetChange(tuple(changes), holder)
        if not change.changes:
            return change
        if holder is not None:
            self._pending.append([key for key, _ in change.changes])
        self._unsettled.setdefault(change.group_id, []).append(change)
        return change

    def apply(self, change: OffsetChange) -> None:
        """The records of the change are durable."""
        if change.holder is not None:
            self._pending.hold(change.holder, ((key, it) for key, it in change.changes if it is not None))
        else:
            self._apply_durable(change.changes)
        self._settle(change)

    def drop(self, change: OffsetChange) -> None:
        """The records of the change never became durable: it stays invisible."""
        if change.holder is not None and change.changes:
            self._pending.drop(change.group_id, [key for key, _ in change.changes])
        self._settle(change)

    def _settle(self, change: OffsetChange) -> None:
        if not change.changes:
            return
        unsettled = self._unsettled[change.group_id]
        unsettled.remove(change)
        if not unsettled:
            del self._unsettled[change.group_id]

    def _unsettled_keys(self, group_id: str) -> dict[OffsetKey, None]:
        """The offsets of a group that are being changed."""
        return {key: None for change in self._unsettled.get(group_id, ()) for key, _ in change.changes}

    def replay_held(self, holder: Holder, key: OffsetKey, committed: CommittedOffset) -> None:
        """Take over one durable record of a transaction."""
        self._pending.append([key])
        self._pending.hold(holder, [(key, committed)])

    def end_transaction(self, holder: Holder, *, committed: bool) -> None:
        """The marker of a transaction is durable."""
        stored = self._pending.end(holder)
        if committed:
            self._apply_durable(stored)

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether a transaction that is open may change the offset."""
        return self._pending.is_unstable(key)

    def replay(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Take over one durable record."""
        self._apply_durable(((key, committed),))

    def _apply_durable(self, changes: Iterable[tuple[OffsetKey, CommittedOffset | None]]) -> None:
        """Durable records, in their order: thousands may come at once, most of them of one topic."""
        overtakes, growth, new_bytes = bool(self._pending), 0, 0
        latest_group = latest_topic = None
        partitions: dict[int, CommittedOffset] = {}
        for key, committed in changes:
            if overtakes:
                self._pending.overtake(key)
            if committed is None:
                latest_group = latest_topic = None
                self._remove(key)
                continue
            group_id, topic, partition = key
            if topic is not latest_topic or group_id is not latest_group:
                latest_group, latest_topic = group_id, topic
                partitions = self._groups.setdefault(group_id, {}).setdefault(topic, {})
                new_bytes = OFFSET_BYTES + getsizeof(topic)
            before = partitions.get(partition)
            if before is None:
                growth += new_bytes + getsizeof(committed.metadata)
            else:
                growth += growth_of_offset(key, before, committed)
            partitions[partition] = committed
        self.memory.bytes_held += growth

    def _remove(self, key: OffsetKey) -> None:
        topics = self._groups.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        self.memory.bytes_held -= size_of_offset(key, partitions.pop(key.partition, None))
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._groups.pop(key.group_id, None)

    def admits(self, changes: Iterable[tuple[OffsetKey, CommittedOffset]], holder: Holder | None) -> bool:
        """Whether there is memory for what a commit adds: one of a transaction replaces nothing until that ends."""
        added = 0
        for key, committed in changes:
            before = self.get(key) if holder is None else self._pending.get(holder, key)
            added += growth_of_offset(key, before, committed)
        return self.memory.has_room(added)

    def get(self, key: OffsetKey) -> CommittedOffset | None:
        return self._groups.get(key.group_id, {}).get(key.topic, {}).get(key.partition)

    def count(self, group_id: str) -> int:
        """In how many partitions a group has committed."""
        return sum(map(len, self._groups.get(group_id, {}).values()))

    def partitions_of_group(self, group_id: str, topic: str | None = None) -> dict[str, list[int]]:
        """In which partitions a group has committed, by topic; of one topic, or of all."""
        found = self._groups.get(group_id, {})
        topics = found if topic is None else [topic] * (topic in found)
        return {each: list(found[each]) for each in topics}

    def of_group(self, group_id: str) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """All that a group has committed, by topic."""
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield OffsetKey(group_id, topic, partition), committed

    def all(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """All that groups have committed, and what transactions that are open have stored."""
        for group_id in self._groups:
            yield from self.of_group(group_id)
        yield from self._pending.all()

    def deletable(self, group_id: str) -> list[OffsetKey]:
        """Everything that must be deleted for nothing to be left: also what is on its way or in a transaction."""
        keys = dict.fromkeys(key for key, _ in self.of_group(group_id))
        keys.update(self._unsettled_keys(group_id))
        keys.update(dict.fromkeys(self._pending.of_group(group_id)))
        return list(keys)

    def some_deletable(self, group_id: str, wanted: Iterable[OffsetKey]) -> list[OffsetKey]:
        """Those of some offsets of a group that are among the deletable; the group may have very many others."""
        unsettled = self._unsettled_keys(group_id)
        return [
            key
            for key in dict.fromkeys(wanted)
            if self.get(key) is not None or key in unsettled or self._pending.is_unstable(key)
        ]

    def expired(self, group_id: str, is_expired: Callable[[OffsetKey, CommittedOffset], bool]) -> list[OffsetKey]:
        """What may be deleted for its age; an offset that is being changed is not old."""
        unsettled = self._unsettled_keys(group_id)
        return [
            key
            for key, committed in self.of_group(group_id)
            if key not in unsettled and not self._pending.is_unstable(key) and is_expired(key, committed)
        ]

    def of_topic(self, topic: str) -> dict[str, dict[int, None]]:
        """The partitions of a topic that each group has committed for, those on their way included."""
        found = {group_id: dict.fromkeys(topics[topic]) for group_id, topics in self._groups.items() if topic in topics}
        unsettled = (key for group_id in self._unsettled for key in self._unsettled_keys(group_id))
        pending = (key for group_id in self._pending.groups() for key in self._pending.of_group(group_id))
        for key in chain(unsettled, pending):
            if key.topic == topic:
                found.setdefault(key.group_id, {})[key.partition] = None
        return found
