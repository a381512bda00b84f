"""Markers of transactions for partitions that other brokers lead.

Counterpart in Kafka: `TransactionMarkerChannelManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.cluster_members import ClusterMembers
from pipeline_broker.broker.leadership import NO_BROKER, Leadership
from pipeline_broker.broker.ports import ClusterPort
from pipeline_broker.state.internal_topics import TRANSACTIONS_TOPIC
from pipeline_broker.state.topics import TopicCatalogue
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from pipeline_broker.state.transactions.coordinator import Marker
    from pipeline_broker.state.transactions.transaction import Partition

__all__ = ["RemoteMarkers"]

logger = logging.getLogger(__name__)

RETRY_MS = 100
"""Pause before markers are sent again, without end: a partition without its marker would block its readers."""
DONE = frozenset(
    {
        ErrorCode.NONE,
        # A later producer or a later life of this coordinator has ended the transaction there.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
WritableMarker = WriteTxnMarkersRequest.WritableTxnMarker
WritableTopic = WriteTxnMarkersRequest.WritableTxnMarkerTopic


class _Unsent(NamedTuple):
    marker: Marker
    topic_id: bytes
    done: Callable[[], None]
    epoch: int


class RemoteMarkers:
    """Markers on their way to the leaders of their partitions. All of them are sent until they are durable there.

    Args:
        members: the part of this broker in the cluster.
        leadership: leaders of partitions.
        topics: existing topics.
        cluster: sends requests to other brokers.
        wake_timer: called when `next_deadline_ms` has become earlier.
    """

    def __init__(
        self,
        members: ClusterMembers,
        leadership: Leadership,
        topics: TopicCatalogue,
        cluster: ClusterPort,
        wake_timer: Callable[[], None],
    ) -> None:
        self._members = members
        self._leadership = leadership
        self._topics = topics
        self._cluster = cluster
        self._wake_timer = wake_timer
        self._waiting: list[_Unsent] = []
        self._retry_ms = 0

    @property
    def epoch(self) -> int:
        """The epoch of this coordinator, which rises with each process, and with each move to another broker.

        Otherwise a late marker of an earlier coordinator could end a later transaction.
        """
        topic = self._topics.get(TRANSACTIONS_TOPIC)
        led = () if topic is None else self._members.image.partitions(topic.topic_id).values()
        return self._members.generations + sum(record.epoch for record in led)

    def is_here(self, partition: Partition) -> bool:
        """Return whether this broker leads a partition; also True for one of a deleted topic."""
        leader = self._leadership.leader_of(partition.topic, partition.number).broker_id
        return leader == self._members.broker_id or self._topics.get(partition.topic) is None

    def next_deadline_ms(self) -> int | None:
        return self._retry_ms if self._waiting else None

    def send(self, markers: Sequence[tuple[Marker, Callable[[], None]]], now_ms: int) -> None:
        """Send markers to the leaders of their partitions.

        Args:
            markers: each with the function to call once it is durable, or its topic is deleted.
        """
        unsent = []
        for marker, done in markers:
            topic = self._topics.get(marker.partition.topic)
            unsent.append(_Unsent(marker, b"" if topic is None else topic.topic_id, done, self.epoch))
        self._send(unsent, now_ms)

    def advance(self, now_ms: int) -> None:
        """Send again the markers that were refused, or whose leader was out of reach."""
        if self._waiting and now_ms >= self._retry_ms:
            waiting, self._waiting = self._waiting, []
            self._send(waiting, now_ms)

    def _send(self, unsent: Sequence[_Unsent], now_ms: int) -> None:
        by_leader: dict[int, list[_Unsent]] = {}
        for each in unsent:
            name, number = each.marker.partition
            topic = self._topics.get(name)
            if topic is None or topic.topic_id != each.topic_id:
                each.done()  # the topic was deleted, or created again
                continue
            leader = self._leadership.leader_of(name, number).broker_id
            by_leader.setdefault(leader, []).append(each)
        for leader, some in by_leader.items():
            if leader == NO_BROKER:
                self._wait(some, now_ms)
            else:
                self._send_to(leader, some, now_ms)

    def _send_to(self, leader: int, some: list[_Unsent], now_ms: int) -> None:
        def answered(response: WriteTxnMarkersResponse | None) -> None:
            codes = {
                (result.producer_id, topic.name, partition.partition_index): ErrorCode(partition.error_code)
                for result in (() if response is None else response.markers)
                for topic in result.topics
                for partition in topic.partitions
            }
            refused = []
            for each in some:
                key = (each.marker.producer.producer_id, *each.marker.partition)
                if codes.get(key) in DONE:
                    each.done()
                else:
                    refused.append(each)
            if refused:
                self._wait(refused, now_ms)

        self._cluster.ask(leader, self._request(some), WriteTxnMarkersResponse, answered)

    def _request(self, some: Sequence[_Unsent]) -> WriteTxnMarkersRequest:
        markers: dict[tuple[int, int, bool, int, int], dict[str, list[int]]] = {}
        for each in some:
            producer, is_commit, version = each.marker.producer, each.marker.committed, each.marker.version
            topics = markers.setdefault((producer.producer_id, producer.epoch, is_commit, each.epoch, version), {})
            topics.setdefault(each.marker.partition.topic, []).append(each.marker.partition.number)
        return WriteTxnMarkersRequest(
            [
                WritableMarker(
                    producer_id,
                    producer_epoch,
                    is_commit,
                    [WritableTopic(name, numbers) for name, numbers in topics.items()],
                    epoch,
                    version,
                )
                for (producer_id, producer_epoch, is_commit, epoch, version), topics in markers.items()
            ]
        )

    def _wait(self, some: Sequence[_Unsent], now_ms: int) -> None:
        self._waiting += some
        self._retry_ms = now_ms + RETRY_MS
        self._wake_timer()
