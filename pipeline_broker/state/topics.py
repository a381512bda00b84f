"""The catalogue of topics.

Counterpart in Kafka: `MetadataImage`, `QuorumController` of KRaft; one partition in the broker's journal instead of a
quorum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, ValuesView

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.base.steps import Steps, finished
from pipeline_broker.records.batch import NewRecord
from pipeline_broker.state.decisions import Decisions
from pipeline_broker.state.errors import MisplacedRecordError
from pipeline_broker.state.internal_topics import METADATA_TOPIC
from pipeline_broker.state.metadata_records import (
    METADATA_TOPIC_ID,
    Topic,
    read_topic_record,
    topic_record,
    topic_tombstone,
)
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.placed_partitions import PlacedPartitions, Placement
from pipeline_broker.state.topic_rules import (
    UNSET,
    TopicError,
    check_added_assignments,
    check_allowed,
    check_assignments,
    check_name,
    check_partitions,
    check_replication_factor,
    collision_key,
)

__all__ = ["NewTopic", "TopicCatalogue", "TopicChange", "duplicates"]


@attrs.frozen(kw_only=True)
class NewTopic:
    """A topic to create; UNSET (-1) means the broker's default. The caller has validated `configs`."""

    name: str
    topic_id: bytes
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str] = attrs.Factory(dict)

    @property
    def replicas(self) -> list[Sequence[int]]:
        return [replicas for _, replicas in sorted(self.assignments)]


@attrs.frozen(eq=False)
class TopicChange:
    """The effect of a durable topic record. `before` is None for a new topic, `after` for a deleted one."""

    name: str
    before: Topic | None
    after: Topic | None
    placed: PlacedPartitions | None = None


class TopicCatalogue:
    """All topics, by name and by id.

    A topic is visible to `get`, `by_id` and `all` once its record is durable. Pending changes (`latest`) already count
    for the next request: of two concurrent requests to create the same name, the second is rejected. Methods that
    change a topic raise `TopicError` or return a `Write` for `durable` or `failed`.

    Args:
        partitions_default: number of partitions of new topics that do not specify it.
        placement: chooses the brokers of partitions.

    Attributes:
        partitions: partitions of all topics, with pending creations.
        not_created: topics that were not created because of the limit of partitions; callers count them.
    """

    def __init__(self, partitions_default: int, placement: Placement) -> None:
        self.partitions_default = partitions_default
        self._placement = placement
        self.partitions = self.not_created = 0
        self._counted: dict[str, int] = {}  # each topic's contribution to `partitions`
        self._visible: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._pending: Decisions[str, Topic | None] = Decisions()
        self._by_collision_key: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._visible)

    def get(self, name: str) -> Topic | None:
        return self._visible.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> ValuesView[Topic]:
        return self._visible.values()

    def names(self) -> list[str]:
        return list(self._visible)

    def latest(self, name: str) -> Topic | None:
        """Return a topic as it will be once all pending changes are durable; None if it will not exist."""
        return self._pending.latest(name, self._visible.get(name))

    def check_new_name(self, name: str) -> None:
        check_allowed(name)
        check_name(name)
        if self.latest(name) is not None:
            raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        others = [other for other in self._by_collision_key.get(collision_key(name), ()) if other != name]
        if others:
            raise TopicError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {others[0]}",
            )

    def check_create(self, new: NewTopic) -> Topic:
        """Validate a new topic and return it, without creating it (`validate_only`).

        Raises:
            TopicError: the name is invalid, taken or collides with another, or the partitions, the replication factor
                or the assignments are invalid.
        """
        self.check_new_name(new.name)
        # A manual assignment determines the number of partitions.
        if new.assignments:
            check_assignments(new.assignments, new.partitions, new.replication_factor, self._placement.broker_ids)
            partitions = len(new.assignments)
        else:
            factor = self._placement.factor_of(new.name, new.replication_factor)
            check_replication_factor(factor, len(self._placement.broker_ids), self._placement.replicas_max)
            check_partitions(new.partitions)
            partitions = self.partitions_default if new.partitions == UNSET else new.partitions
        return Topic(new.name, new.topic_id, partitions, dict(new.configs))

    def factor_of(self, new: NewTopic) -> int:
        if new.assignments:
            return len(new.assignments[0][1])
        return self._placement.factor_of(new.name, new.replication_factor)

    def check_room(self, added: int, partitions_max: int) -> None:
        """Raise TopicError if all topics together would have more than `partitions_max` partitions."""
        if self.partitions + added > partitions_max:
            raise TopicError(
                ErrorCode.POLICY_VIOLATION,
                f"This broker has {self.partitions} partitions; with {added} more it would have more than"
                f" {partitions_max}.",
            )

    def place(
        self, name: str, after: Topic | None, assignments: Sequence[Sequence[int]] = (), wanted: int = UNSET
    ) -> Steps[PlacedPartitions]:
        """Choose the brokers of a large topic in steps, before its change is decided; see `Placement`.

        `create`, `add_partitions` and `delete` use the result, unless the topic has changed since.
        """
        return self._placement.place(self.latest(name), after, assignments, wanted)

    def create(self, new: NewTopic, placed: PlacedPartitions | None = None) -> Write:
        return self._change(new.name, self.check_create(new), new.replicas, placed, new.replication_factor)

    def delete(self, name: str, placed: PlacedPartitions | None = None) -> Write:
        self._existing(name)
        return self._change(name, None, (), placed)

    def check_add_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> Topic:
        """Validate a new partition count and return the grown topic, without changing it (`validate_only`).

        Args:
            count: number of partitions afterwards, including the existing ones.
            assignments: broker ids of each added partition; None for no manual assignment.

        Raises:
            TopicError: the topic is unknown, the count is too large or not an increase, or an assignment is invalid.
        """
        topic = self._existing(name)
        if count == topic.partitions:
            raise TopicError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
        if count < topic.partitions:
            raise TopicError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {name} currently has {topic.partitions} partition(s); {count} would not be an increase.",
            )
        check_partitions(count)
        if assignments is not None:
            check_added_assignments(assignments, count - topic.partitions, self._placement.broker_ids)
        return attrs.evolve(topic, partitions=count)

    def add_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        placed: PlacedPartitions | None = None,
    ) -> Write:
        return self._change(name, self.check_add_partitions(name, count, assignments), assignments or (), placed)

    def alter_configs(self, name: str, changes: Mapping[str, str | None]) -> Write:
        """Set configs of a topic; None resets a config to its default. The caller has validated the values.

        Raises:
            TopicError: the topic is unknown.
        """
        topic = self._existing(name)
        configs = {**topic.configs, **changes}
        kept = {config: value for config, value in configs.items() if value is not None}
        return self._change(name, attrs.evolve(topic, configs=kept))

    def durable(self, write: Write) -> TopicChange:
        change = self._changed(write)
        before = self._visible.get(change.name)
        assert change.placed is not None, "decided changes have it"
        self._placement.durable(change.placed)
        self._pending.settle(change.name)
        self._show(change.name, change.after)
        return attrs.evolve(change, before=before)

    def failed(self, write: Write) -> None:
        """Discard a change whose record was not written; the topic stays as it is."""
        name = self._changed(write).name
        self._pending.settle(name)
        # Later decisions of the topic are still pending and determine its collisions and its partition count.
        if name not in self._pending:
            self._refresh(name)

    def replay(self, key: bytes, value: bytes | None) -> TopicChange:
        """Apply one durable record of a topic and return the change.

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
            MisplacedRecordError: another topic has the id, or the name or the id is that of the metadata topic.
        """
        name, after = read_topic_record(key, value)
        if after is not None:
            other = self._by_id.get(after.topic_id)
            is_taken = other is not None and other.name != name
            if is_taken or name == METADATA_TOPIC or after.topic_id == METADATA_TOPIC_ID:
                raise MisplacedRecordError(f"topic {name!r} has the name or the id of another topic")
        before = self._visible.get(name)
        self._show(name, after)
        return TopicChange(name, before, after)

    def _existing(self, name: str) -> Topic:
        topic = self.latest(name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def _change(
        self,
        name: str,
        after: Topic | None,
        assignments: Sequence[Sequence[int]] = (),
        placed: PlacedPartitions | None = None,
        wanted: int = UNSET,
    ) -> Write:
        before = self.latest(name)
        if placed is None or not placed.is_of(before, after):
            placed = finished(self._placement.place(before, after, assignments, wanted))
        self._placement.decided(placed)
        # Counts at once: later requests build on it before it is durable.
        self._pending.add(name, after)
        self._refresh(name)
        record = topic_tombstone(name) if after is None else topic_record(after)
        # The leaders first: a broker that applies the topic's record then knows the partitions that it leads.
        if placed.body is not None:
            placed.body.add(NewRecord(record.value, record.key, placed.body.base_timestamp))
        return Write(name, (*placed.records, record), TopicChange(name, before, after, placed), placed.body)

    def _changed(self, write: Write) -> TopicChange:
        assert isinstance(write.change, TopicChange)
        return write.change

    def _show(self, name: str, topic: Topic | None) -> None:
        old = self._visible.get(name)
        if old is not None:
            del self._by_id[old.topic_id]
        if topic is None:
            self._visible.pop(name, None)
        else:
            self._visible[name] = topic
            self._by_id[topic.topic_id] = topic
        self._refresh(name)

    def _refresh(self, name: str) -> None:
        key, latest = collision_key(name), self.latest(name)
        self.partitions -= self._counted.pop(name, 0)
        if latest is not None:
            self._counted[name] = latest.partitions
            self.partitions += latest.partitions
        colliding = tuple(other for other in self._by_collision_key.pop(key, ()) if other != name)
        # A topic keeps its name blocked until its deletion is durable: if that fails, the topic stays.
        if latest is not None or name in self._visible:
            colliding += (name,)
        if colliding:
            self._by_collision_key[key] = colliding


def duplicates(names: Iterable[str]) -> set[str]:
    """Return the names that occur more than once in a request; Kafka rejects every occurrence."""
    return {name for name, count in Counter(names).items() if count > 1}
