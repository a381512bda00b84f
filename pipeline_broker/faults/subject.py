"""The parts of a request that fault rules compare: API, client, groups, topics and partitions.

Names are found by the common shape of Kafka's messages: arrays of topics with a name or id, which contain arrays of
partitions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from pipeline_broker.faults.names import GROUP_ARRAYS
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.registry import ApiKey

__all__ = ["Subject", "groups_of", "partition_number", "partitions_of"]

# Fields of requests and responses that hold topics. Topics that a fetch session forgets do not count.
TOPIC_ARRAYS = frozenset({"topics", "topic_data", "topic_partitions", "v3_and_below_topics"})
TOPIC_NAMES = ("name", "topic", "topic_name")
TEXT_ARRAYS = frozenset({"topic_names", "subscribed_topic_names"})
PARTITION_ARRAYS = ("partitions", "partition_data", "partition_indexes")
PARTITION_NUMBERS = ("index", "partition", "partition_index")
GROUP_KEY_TYPE = 0  # FindCoordinator: the key is a group id
NO_PARTITION = -1  # a topic that is named without partitions


class Subject:
    """A request as rules and their functions see it. The body is decoded on first use.

    Args:
        api: the API key.
        client_id: from the header; None if it is null.
        connection: the number of the connection, from 0.
        read: decodes the request; called at most once.
        topic_name: returns the name for a topic id; None for an unknown id.
        session_partitions: returns the (name, id, partition) triples of a fetch session by the session's id.
    """

    def __init__(
        self,
        api: int,
        version: int,
        client_id: str | None,
        connection: int,
        read: Callable[[], Any],
        topic_name: Callable[[bytes], str | None],
        session_partitions: Callable[[int], Iterable[tuple[str, bytes, int]]] = lambda _: (),
    ) -> None:
        self.api = api
        self.version = version
        self.client_id = client_id
        self.connection = connection
        self._read = read
        self._topic_name = topic_name
        self._session_partitions = session_partitions

    @functools.cached_property
    def message(self) -> Any:
        """The request, as a message of `pipeline_broker.wire.messages`."""
        return self._read()

    @functools.cached_property
    def groups(self) -> frozenset[str]:
        return frozenset(groups_of(self.message, self.api))

    @functools.cached_property
    def partitions(self) -> frozenset[tuple[str, int]]:
        """The (topic, partition) pairs in the request.

        The partition is -1 for a topic that is named without partitions.
        """
        message = self.message
        found = set(partitions_of(message, self._topic_name))
        if type(message) is FetchRequest and message.session_epoch > 0:
            for name, topic_id, partition in self._session_partitions(message.session_id):
                found.add((name or self._topic_name(topic_id) or "", partition))
        return frozenset(found)


def groups_of(message: Any, api: int) -> Iterator[str]:
    if api == ApiKey.FIND_COORDINATOR:
        if message.key_type == GROUP_KEY_TYPE:
            yield from (message.coordinator_keys or [message.key])
        return
    group_id = getattr(message, "group_id", None)
    if group_id:
        yield group_id
    for name in GROUP_ARRAYS:
        for group in getattr(message, name, None) or ():
            yield group if isinstance(group, str) else group.group_id


def partitions_of(message: Any, topic_name: Callable[[bytes], str | None]) -> Iterator[tuple[str, int]]:
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        if field.name in TEXT_ARRAYS:
            yield from ((name, NO_PARTITION) for name in value or ())
        elif field.name in TOPIC_ARRAYS:
            for topic in value or ():
                yield from _partitions_of_topic(topic, topic_name)
        elif isinstance(value, list) and value and attrs.has(type(value[0])):
            for element in value:
                yield from partitions_of(element, topic_name)


def _partitions_of_topic(topic: Any, topic_name: Callable[[bytes], str | None]) -> Iterator[tuple[str, int]]:
    name = next((found for each in TOPIC_NAMES if (found := getattr(topic, each, None))), None)
    if name is None:
        name = topic_name(getattr(topic, "topic_id", b""))
    if not name:
        return
    for array in PARTITION_ARRAYS:
        partitions = getattr(topic, array, None)
        if isinstance(partitions, list):
            for partition in partitions:
                yield name, partition if isinstance(partition, int) else partition_number(partition)
            return
    yield name, NO_PARTITION


def partition_number(partition: Any) -> int:
    """Return the number of a partition, which has a different field name in each API; -1 without such a field."""
    return next((getattr(partition, name) for name in PARTITION_NUMBERS if hasattr(partition, name)), NO_PARTITION)
