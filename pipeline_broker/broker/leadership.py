"""The brokers of the cluster, and which of them leads a partition or coordinates a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.leader_epochs import NO_EPOCH

if TYPE_CHECKING:
    from pipeline_broker.state.metadata_records import Topic

__all__ = ["NO_BROKER", "BrokerAddress", "Leader", "Leadership", "epoch_error"]

NO_BROKER = -1


class BrokerAddress(NamedTuple):
    broker_id: int
    host: str
    port: int


class Leader(NamedTuple):
    """The leader of a partition; its id is NO_BROKER if the client cannot reach it."""

    broker_id: int
    epoch: int


class Leadership:
    """The view of one broker on its cluster. This broker is the only member, and leads all partitions.

    `cluster_leadership` has the view of a member among several.

    Args:
        broker_id: id of this broker.
        advertised: returns the host and port that clients of a listener connect to; None if it is not advertised.
        epoch_of: returns the leader epoch of a partition, given its topic and number.
    """

    leads_all = True

    def __init__(
        self,
        broker_id: int,
        advertised: Callable[[str], tuple[str, int] | None],
        epoch_of: Callable[[str, int], int],
    ) -> None:
        self.broker_id = broker_id
        self._advertised = advertised
        self._epoch_of = epoch_of

    def brokers(self, listener: str) -> list[BrokerAddress]:
        address = self._advertised(listener)
        return [] if address is None else [BrokerAddress(self.broker_id, *address)]

    @property
    def members(self) -> Collection[int]:
        """The ids of all brokers of the cluster, also of those that are down."""
        return (self.broker_id,)

    def is_there(self, node_id: int) -> bool:
        return node_id == self.broker_id

    def offline_partitions(self) -> int:
        return 0

    def controller_id(self) -> int:
        return self.broker_id

    def coordinator(self, listener: str, topic: str, partition: int) -> BrokerAddress | None:
        """Return the coordinator with the records of a partition; None if it does not advertise the listener."""
        leader = self.leader_of(topic, partition)
        return next((each for each in self.brokers(listener) if each.broker_id == leader.broker_id), None)

    def led(self, topic: Topic) -> Collection[int]:
        return range(topic.partitions)

    def leader_of(self, topic: str, partition: int) -> Leader:
        return Leader(self.broker_id, self._epoch_of(topic, partition))

    def alike(self, topic: Topic, partitions: range) -> Sequence[int]:  # noqa: ARG002 - the same for all topics
        """Return for each partition the first one with the same leader, epoch and replicas, or the partition itself.

        So callers compute little for a topic of very many partitions.
        """
        return partitions

    def recorded_leader(self, topic: str, partition: int) -> int:
        """Return the leader of a partition, also while it is down."""
        return self.leader_of(topic, partition).broker_id

    def in_sync(self, topic: str, partition: int) -> list[int]:
        return self.replicas_of(topic, partition)

    def replicas_of(self, topic: str, partition: int) -> list[int]:  # noqa: ARG002 - one broker has all partitions
        return [self.broker_id]


def epoch_error(known: int, leader_epoch: int) -> ErrorCode | None:
    """Return the error for the leader epoch that a client knows (KIP-320); None if it is current, or -1 for unknown."""
    if known in {NO_EPOCH, leader_epoch}:
        return None
    return ErrorCode.UNKNOWN_LEADER_EPOCH if known > leader_epoch else ErrorCode.FENCED_LEADER_EPOCH
