"""Committed offsets of all groups.

Counterpart in Kafka: `OffsetMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from sys import getsizeof

import attrs

from pipeline_broker.state.groups.memory import OFFSET_BYTES, GroupMemory
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.pending_offsets import PendingOffsets, growth_of_offset, size_of_offset

__all__ = ["CommittedOffsets", "OffsetChange"]


@attrs.frozen(eq=False)
class OffsetChange:
    """A change of one group's offsets that is not durable yet; None deletes an offset.

    Attributes:
        producer_id: producer of the transaction that the offsets belong to. They become visible once it commits.
    """

    changes: tuple[tuple[OffsetKey, CommittedOffset | None], ...]
    producer_id: int | None = None

    @property
    def group_id(self) -> str:
        return self.changes[0][0].group_id


class CommittedOffsets:
    """The durable offsets: group -> topic -> partition -> committed offset.

    `change` prepares a change, the caller appends its records and then calls `apply` or `drop`. Changes become durable
    in the order in which they were prepared, so applying them in that order equals a replay of the records. Offsets of
    a transaction stay hidden until it ends (`PendingOffsets`).

    Args:
        memory: accounts for the memory of the offsets.
    """

    def __init__(self, memory: GroupMemory) -> None:
        self.memory = memory
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._unsettled: dict[str, list[OffsetChange]] = {}
        self._pending = PendingOffsets(memory)

    def change(
        self, changes: Iterable[tuple[OffsetKey, CommittedOffset | None]], producer_id: int | None = None
    ) -> OffsetChange:
        """Prepare a change of one group's offsets. The caller passes it once to `apply` or to `drop`.

        Args:
            changes: offsets of a single group; None deletes one.
            producer_id: producer of the transaction; None outside of transactions.
        """
        change = OffsetChange(tuple(changes), producer_id)
        if not change.changes:
            return change
        if producer_id is not None:
            self._pending.append([key for key, _ in change.changes])
        # Deletion and expiration must cover offsets that are not durable yet.
        self._unsettled.setdefault(change.group_id, []).append(change)
        return change

    def apply(self, change: OffsetChange) -> None:
        """Make a durable change visible, or hold it until its transaction ends."""
        if change.producer_id is not None:
            self._pending.hold(change.producer_id, ((key, it) for key, it in change.changes if it is not None))
        else:
            self._apply_durable(change.changes)
        self._settle(change)

    def drop(self, change: OffsetChange) -> None:
        if change.producer_id is not None and change.changes:
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
        return {key: None for change in self._unsettled.get(group_id, ()) for key, _ in change.changes}

    def replay_held(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """Hold one durable record of a transaction until its marker is replayed."""
        # Unstable until the marker is replayed, like before the restart.
        self._pending.append([key])
        self._pending.hold(producer_id, [(key, committed)])

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply or discard the offsets of a transaction whose marker is durable."""
        stored = self._pending.end(producer_id)
        if committed:
            self._apply_durable(stored)

    def is_unstable(self, key: OffsetKey) -> bool:
        return self._pending.is_unstable(key)

    def replay(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        self._apply_durable(((key, committed),))

    def _apply_durable(self, changes: Iterable[tuple[OffsetKey, CommittedOffset | None]]) -> None:
        # One commit may have thousands of offsets, usually of one topic: lookups are reused while the topic stays the
        # same, and the memory is accounted once.
        overtakes, growth, new_bytes = bool(self._pending), 0, 0
        # The removal may delete the dictionaries that the cached `partitions` belongs to.
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

    def admits(self, changes: Iterable[tuple[OffsetKey, CommittedOffset]], producer_id: int | None) -> bool:
        """Return whether the memory suffices for a commit; otherwise count a refusal.

        Args:
            changes: the offsets to commit.
            producer_id: producer of the transaction, or None outside of transactions. Offsets of a transaction add to
                the committed ones until it ends, instead of replacing them.
        """
        added = 0
        for key, committed in changes:
            before = self.get(key) if producer_id is None else self._pending.get(producer_id, key)
            added += growth_of_offset(key, before, committed)
        return self.memory.has_room(added)

    def get(self, key: OffsetKey) -> CommittedOffset | None:
        return self._groups.get(key.group_id, {}).get(key.topic, {}).get(key.partition)

    def count(self, group_id: str) -> int:
        return sum(map(len, self._groups.get(group_id, {}).values()))

    def partitions_of_group(self, group_id: str, topic: str | None = None) -> dict[str, list[int]]:
        """Return the partitions in which a group has a committed offset, by topic.

        Args:
            topic: the only topic to return; None for all.
        """
        found = self._groups.get(group_id, {})
        topics = found if topic is None else [topic] * (topic in found)
        return {each: list(found[each]) for each in topics}

    def of_group(self, group_id: str) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield OffsetKey(group_id, topic, partition), committed

    def all(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """Yield the committed offsets of all groups and the offsets of open transactions."""
        for group_id in self._groups:
            yield from self.of_group(group_id)
        yield from self._pending.all()

    def deletable(self, group_id: str) -> list[OffsetKey]:
        """Return every offset that the deletion of a group must cover.

        These include the offsets of pending changes and open transactions, which would otherwise appear after the
        deletion.
        """
        keys = dict.fromkeys(key for key, _ in self.of_group(group_id))
        keys.update(self._unsettled_keys(group_id))
        keys.update(dict.fromkeys(self._pending.of_group(group_id)))
        return list(keys)

    def some_deletable(self, group_id: str, wanted: Iterable[OffsetKey]) -> list[OffsetKey]:
        """Return the offsets in `wanted` that `deletable` would return, without a pass over all others."""
        unsettled = self._unsettled_keys(group_id)
        return [
            key
            for key in dict.fromkeys(wanted)
            if self.get(key) is not None or key in unsettled or self._pending.is_unstable(key)
        ]

    def expired(self, group_id: str, is_expired: Callable[[OffsetKey, CommittedOffset], bool]) -> list[OffsetKey]:
        """Return the offsets of a group that `is_expired` accepts.

        Offsets with pending changes or in open transactions are left out.
        """
        unsettled = self._unsettled_keys(group_id)
        return [
            key
            for key, committed in self.of_group(group_id)
            if key not in unsettled and not self._pending.is_unstable(key) and is_expired(key, committed)
        ]

    def of_topic(self, topic: str) -> dict[str, dict[int, None]]:
        """Return the partitions of a topic with offsets, by group.

        These include the offsets of pending changes and open transactions.
        """
        found = {group_id: dict.fromkeys(topics[topic]) for group_id, topics in self._groups.items() if topic in topics}
        unsettled = (key for group_id in self._unsettled for key in self._unsettled_keys(group_id))
        pending = (key for group_id in self._pending.groups() for key in self._pending.of_group(group_id))
        for key in chain(unsettled, pending):
            if key.topic == topic:
                found.setdefault(key.group_id, {})[key.partition] = None
        return found
