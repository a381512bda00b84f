"""The brokers of the cluster, and which of them leads a partition or coordinates a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pipeline_broker.base.error_code import ErrorCode

__all__ = ["LEADER_EPOCH", "NO_BROKER", "NO_EPOCH", "BrokerAddress", "Leader", "Leadership"]

LEADER_EPOCH = 0
NO_EPOCH = -1
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
    """The view of one broker on its cluster. This broker is the only member, and leads all partitions in epoch 0.

    Args:
        broker_id: id of this broker.
        advertised: returns the host and port that clients of a listener connect to; None if it is not advertised.
    """

    def __init__(self, broker_id: int, advertised: Callable[[str], tuple[str, int] | None]) -> None:
        self.broker_id = broker_id
        self._advertised = advertised

    def brokers(self, listener: str) -> list[BrokerAddress]:
        """Return the brokers that advertise a listener."""
        address = self._advertised(listener)
        return [] if address is None else [BrokerAddress(self.broker_id, *address)]

    def controller_id(self) -> int:
        return self.broker_id

    def coordinator(self, listener: str) -> BrokerAddress | None:
        """Return the coordinator of all groups and transactions; None if it does not advertise the listener."""
        return next(iter(self.brokers(listener)), None)

    def leader_of(self, topic: str, partition: int) -> Leader:  # noqa: ARG002 - one broker leads all partitions
        return Leader(self.broker_id, LEADER_EPOCH)

    def replicas_of(self, topic: str, partition: int) -> list[int]:  # noqa: ARG002 - see `leader_of`
        return [self.broker_id]

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode | None:
        """Return the error for a client's current leader epoch (KIP-320); None if it is current, or -1 for unknown."""
        if current_leader_epoch in {NO_EPOCH, LEADER_EPOCH}:
            return None
        return ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH
