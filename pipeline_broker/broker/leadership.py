"""The brokers of the cluster, and which of them leads a partition or coordinates a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.leader_epochs import NO_EPOCH

__all__ = ["NO_BROKER", "BrokerAddress", "Leader", "Leadership", "epoch_error"]

NO_BROKER = -1


class BrokerAddress(NamedTuple):
    """A broker, as clients of a listener reach it."""

    broker_id: int
    host: str
    port: int


class Leader(NamedTuple):
    """The leader of a partition; its id is NO_BROKER if the client cannot reach it."""

    broker_id: int
    epoch: int


class Leadership:
    """The view of one broker on its cluster. This broker is the only member, and leads all partitions.

    Args:
        broker_id: id of this broker.
        advertised: returns the host and port that clients of a listener connect to; None if it is not advertised.
        epoch_of: returns the leader epoch of a partition, given its topic and number.
    """

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

    def controller_id(self) -> int:
        return self.broker_id

    def coordinator(self, listener: str) -> BrokerAddress | None:
        """Return the coordinator of all groups and transactions; None if it does not advertise the listener."""
        return next(iter(self.brokers(listener)), None)

    def leader_of(self, topic: str, partition: int) -> Leader:
        return Leader(self.broker_id, self._epoch_of(topic, partition))

    def replicas_of(self, topic: str, partition: int) -> list[int]:  # noqa: ARG002 - one broker has all partitions
        return [self.broker_id]


def epoch_error(known: int, leader_epoch: int) -> ErrorCode | None:
    """Return the error for the leader epoch that a client knows (KIP-320); None if it is current, or -1 for unknown."""
    if known in {NO_EPOCH, leader_epoch}:
        return None
    return ErrorCode.UNKNOWN_LEADER_EPOCH if known > leader_epoch else ErrorCode.FENCED_LEADER_EPOCH
