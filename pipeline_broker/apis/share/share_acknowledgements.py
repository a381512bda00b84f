"""Acknowledgements of acquired records, in both ShareAcknowledge and ShareFetch.

The checks and their order are Kafka's. An invalid batch refuses its whole partition, but no other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from pipeline_broker.apis.authorization import authorize_topic
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.dead_letters import has_room
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_partitions.messages import AcknowledgeError, AcknowledgementBatch
from pipeline_broker.state.share_partitions.record_state import AcknowledgeType

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.broker.appended import Appended

__all__ = ["MEMBER_ID_SIZE_MAX", "RENEW_FROM", "acknowledge", "is_member_id"]

MEMBER_ID_SIZE_MAX = 36
RENEW_FROM = 2


class Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def is_member_id(member_id: str | None) -> bool:
    """Return whether a member id has 1 to MEMBER_ID_SIZE_MAX characters. As in Kafka, the member need not exist."""
    return bool(member_id) and len(member_id or "") <= MEMBER_ID_SIZE_MAX


def acknowledge(
    call: Call, key: ShareKey, member_id: str, batches: Sequence[Batch], appended: Appended, *, is_renewal: bool
) -> tuple[ErrorCode, str | None]:
    """Acknowledge records of one share partition.

    Args:
        member_id: the member that acquired the records.
        appended: receives the entries that must be durable before the response is sent.
        is_renewal: whether the request may renew acquisition locks (KIP-1222).

    Returns:
        the error of the partition, and Kafka's message; None if Kafka has none.
    """
    broker = call.broker
    coordinator = broker.share.manager
    topic = broker.topics.by_id(key.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    may_renew = is_renewal and call.version >= RENEW_FROM
    if not _are_valid(batches, may_renew=may_renew):
        return ErrorCode.INVALID_REQUEST, None
    if not authorize_topic(call, AclOperation.READ, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
    active = coordinator.find(key)
    if not 0 <= key.partition < topic.partitions or (active is None and batches):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if active is None or not batches:
        return ErrorCode.NONE, None
    if not has_room(appended):
        return ErrorCode.REQUEST_TIMED_OUT, None  # clients try again; if they do not, the locks of the records expire
    settings = coordinator.refresh_settings(active)
    if not settings.renew_acknowledge_enable and _renew(batches):
        return ErrorCode.INVALID_REQUEST, None
    now_ms = coordinator.time(call.now_ms)
    acknowledgements = [
        AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches
    ]
    try:
        change = active.partition.acknowledge(member_id, acknowledgements, now_ms)
    except AcknowledgeError as error:
        return error.code, str(error)
    coordinator.locked(active)
    coordinator.append_change(active, change, appended, now_ms)
    return ErrorCode.NONE, None


def _are_valid(batches: Iterable[Batch], *, may_renew: bool) -> bool:
    """Return whether the batches are in order and have valid types: one for all of their offsets, or one per offset."""
    types = {*AcknowledgeType} if may_renew else {*AcknowledgeType} - {AcknowledgeType.RENEW}
    previous_last = -1
    for batch in batches:
        size = batch.last_offset - batch.first_offset + 1
        if size < 1 or batch.first_offset < previous_last or len(batch.acknowledge_types) not in {1, size}:
            return False
        if not types.issuperset(batch.acknowledge_types):
            return False
        previous_last = batch.last_offset
    return True


def _renew(batches: Iterable[Batch]) -> bool:
    return any(AcknowledgeType.RENEW in batch.acknowledge_types for batch in batches)
