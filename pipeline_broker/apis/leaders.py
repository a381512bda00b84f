"""The leader of a partition, as the listener of a client shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.leadership import NO_BROKER, BrokerAddress, Leader

__all__ = ["Replicas", "current_leaders", "leader_for", "replicas_for"]


def leader_for(call: Call, topic: str, partition: int, *, knows_listeners: bool = True) -> tuple[ErrorCode, Leader]:
    """Return NONE and the leader of a partition, if the leader advertises the client's listener.

    Otherwise return LISTENER_NOT_FOUND and a leader with the id NO_BROKER. The error is LEADER_NOT_AVAILABLE for older
    versions, and while the partition has no leader.

    Args:
        knows_listeners: whether the version of the request knows LISTENER_NOT_FOUND.
    """
    leadership = call.broker.leadership
    leader = leadership.leader_of(topic, partition)
    if any(each.broker_id == leader.broker_id for each in leadership.brokers(call.session.listener)):
        return ErrorCode.NONE, leader
    is_there = leader.broker_id != NO_BROKER
    code = ErrorCode.LISTENER_NOT_FOUND if knows_listeners and is_there else ErrorCode.LEADER_NOT_AVAILABLE
    return code, leader._replace(broker_id=NO_BROKER)


class Replicas(NamedTuple):
    """The replicas of a partition. The offline ones are down, or do not advertise the client's listener."""

    all: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


def replicas_for(call: Call, topic: str, partition: int) -> Replicas:
    leadership = call.broker.leadership
    replicas = leadership.replicas_of(topic, partition)
    there = {each.broker_id for each in leadership.brokers(call.session.listener)}
    in_sync = leadership.in_sync(topic, partition)
    return Replicas(tuple(replicas), tuple(in_sync), tuple(node for node in replicas if node not in there))


def current_leaders(
    call: Call, partitions: Sequence[tuple[str, int]]
) -> tuple[Sequence[Leader], Sequence[BrokerAddress]]:
    """Return the leaders of partitions, and the addresses of these brokers, for a client with stale ones (KIP-951)."""
    leadership = call.broker.leadership
    leaders = [leadership.leader_of(*each) for each in partitions]
    ids = {leader.broker_id for leader in leaders}
    return leaders, [each for each in leadership.brokers(call.session.listener) if each.broker_id in ids]
