"""The topics of the broker.

Rules of this file: see `state/outcome.py`. A topic is visible (`get`, `by_id`, `all`) once its record is durable;
what is on its way (`latest`) already decides what may be asked for next: of two requests for the same name one is
refused. A method raises `TopicError` or returns a `Write`; after appending its records the caller hands it to
`durable` or `failed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, ValuesView

import attrs

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
from pipeline_broker.wire.error import ErrorCode

__all__ = ["NewTopic", "TopicCatalogue", "TopicChange", "duplicates"]


@attrs.frozen(kw_only=True)
class NewTopic:
    """A topic that somebody wants; -1 stands for the broker's default. The configs have been checked."""

    name: str
    topic_id: bytes
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str] = attrs.Factory(dict)


@attrs.frozen(eq=False)
class TopicChange:
    """What becomes of a topic when its record is durable: `before` or `after` is None when it comes or goes."""

    name: str
    before: Topic | None
    after: Topic | None


class TopicCatalogue:
    """All topics by name and by id.

    Args:
        partitions_default: for new topics that do not say.
        broker_id: the one broker that manual assignments may name.

    Attributes:
        partitions: of all topics that exist or are on their way.
        not_created: topics that were asked for and not created because there were too many partitions.
    """

    def __init__(self, partitions_default: int, broker_id: int) -> None:
        self.partitions_default = partitions_default
        self.broker_id = broker_id
        self.partitions = self.not_created = 0
        self._counted: dict[str, int] = {}  # what each topic adds to `partitions`
        self._visible: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._pending: Decisions[str, Topic | None] = Decisions()
        self._by_collision_key: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._visible)

    def get(self, name: str) -> Topic | None:
        """A topic that exists."""
        return self._visible.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """A topic that exists, by its id."""
        return self._by_id.get(topic_id)

    def all(self) -> ValuesView[Topic]:
        """The topics that exist, in the order in which they came."""
        return self._visible.values()

    def names(self) -> list[str]:
        """The names of the topics that exist; a copy."""
        return list(self._visible)

    def latest(self, name: str) -> Topic | None:
        """A topic as it will be when everything on its way is durable."""
        return self._pending.latest(name, self._visible.get(name))

    def check_new_name(self, name: str) -> None:
        """Refuse a name that a new topic cannot have."""
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
        """Work out the topic that would come to be, and change nothing (`validate_only`)."""
        self.check_new_name(new.name)
        if new.assignments:
            check_assignments(new.assignments, new.partitions, new.replication_factor, (self.broker_id,))
            partitions = len(new.assignments)
        else:
            check_replication_factor(new.replication_factor)
            check_partitions(new.partitions)
            partitions = self.partitions_default if new.partitions == UNSET else new.partitions
        return Topic(new.name, new.topic_id, partitions, dict(new.configs))

    def check_room(self, added: int, partitions_max: int) -> None:
        """Refuse partitions beyond a bound of all topics together."""
        if self.partitions + added > partitions_max:
            raise TopicError(
                ErrorCode.POLICY_VIOLATION,
                f"This broker has {self.partitions} partitions; with {added} more it would have more than"
                f" {partitions_max}.",
            )

    def create(self, new: NewTopic) -> Write:
        return self._change(new.name, self.check_create(new))

    def delete(self, name: str) -> Write:
        self._existing(name)
        return self._change(name, None)

    def check_add_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> Topic:
        """Work out a topic with `count` partitions in all, and change nothing (`validate_only`)."""
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
            check_added_assignments(assignments, count - topic.partitions, (self.broker_id,))
        return attrs.evolve(topic, partitions=count)

    def add_partitions(self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None) -> Write:
        """Grow a topic to `count` partitions."""
        return self._change(name, self.check_add_partitions(name, count, assignments))

    def alter_configs(self, name: str, changes: Mapping[str, str | None]) -> Write:
        """Set configs of a topic; None takes one back to its default. Values have been checked."""
        topic = self._existing(name)
        configs = {**topic.configs, **changes}
        kept = {config: value for config, value in configs.items() if value is not None}
        return self._change(name, attrs.evolve(topic, configs=kept))

    def durable(self, write: Write) -> TopicChange:
        """The record of a change is durable: it is visible. Returns what changed."""
        change = self._changed(write)
        before = self._visible.get(change.name)
        self._pending.settle(change.name)
        self._show(change.name, change.after)
        return attrs.evolve(change, before=before)

    def failed(self, write: Write) -> None:
        """The record of a change will never be durable: the topic stays as it is."""
        name = self._changed(write).name
        self._pending.settle(name)
        if name not in self._pending:
            self._refresh(name)

    def replay(self, key: bytes, value: bytes | None) -> TopicChange:
        """Take over one durable record of a topic; returns what changed.

        Raises:
            CorruptStateRecordError: it cannot be read.
            MisplacedRecordError: the name or the id is that of another topic.
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

    def _change(self, name: str, after: Topic | None) -> Write:
        change = TopicChange(name, self.latest(name), after)
        self._pending.add(name, after)
        self._refresh(name)
        record = topic_tombstone(name) if after is None else topic_record(after)
        return Write(name, (record,), change)

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
        """Keep the names colliding of topics that exist or are on their way, and how many partitions there are."""
        key, latest = collision_key(name), self.latest(name)
        self.partitions -= self._counted.pop(name, 0)
        if latest is not None:
            self._counted[name] = latest.partitions
            self.partitions += latest.partitions
        colliding = tuple(other for other in self._by_collision_key.pop(key, ()) if other != name)
        if latest is not None or name in self._visible:
            colliding += (name,)
        if colliding:
            self._by_collision_key[key] = colliding


def duplicates(names: Iterable[str]) -> set[str]:
    """The names that a request gives more than once; Kafka refuses all of them."""
    return {name for name, count in Counter(names).items() if count > 1}
