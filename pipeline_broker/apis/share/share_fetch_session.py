"""Validation of ShareFetch requests, and their share sessions. The checks and their order are Kafka's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.share.share_acknowledgements import is_member_id
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.share_partitions.messages import AcquireMode
from pipeline_broker.state.share_partitions.share_sessions import EPOCH_FINAL, EPOCH_INITIAL, ShareSession

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.wire.messages.share.share_fetch import ShareFetchRequest

__all__ = ["refused", "session_of"]


def refused(call: Call, request: ShareFetchRequest) -> ErrorCode:
    """Return the error of an invalid or forbidden request; NONE if it is valid."""
    if request.group_id is None or request.member_id is None:
        return ErrorCode.INVALID_REQUEST
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not request.group_id or not is_member_id(request.member_id):
        return ErrorCode.INVALID_REQUEST
    sizes = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    if request.share_acquire_mode not in set(AcquireMode):
        return ErrorCode.INVALID_REQUEST
    if request.is_renew_ack and any(sizes):  # a renewal must not fetch (KIP-1222)
        return ErrorCode.INVALID_REQUEST
    brings_acknowledgements = any(
        wanted.acknowledgement_batches for topic in request.topics for wanted in topic.partitions
    )
    if request.share_session_epoch == EPOCH_INITIAL and brings_acknowledgements:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def session_of(call: Call, request: ShareFetchRequest) -> ShareSession:
    """Return the session of a request: opened for the initial epoch, found for the final one, and continued otherwise.

    Raises:
        ShareSessionError: the session is unknown, its epoch is wrong, or a limit of sessions or partitions is reached.
    """
    coordinator = call.broker.share.manager
    sessions = coordinator.sessions
    group_id, member_id = request.group_id or "", request.member_id or ""
    places = [(topic.topic_id, wanted.partition_index) for topic in request.topics for wanted in topic.partitions]
    if request.share_session_epoch == EPOCH_FINAL:
        return sessions.find(group_id, member_id)
    if request.share_session_epoch == EPOCH_INITIAL:
        return sessions.open(group_id, member_id, call.request.connection.session, places)
    forgotten = [
        (topic.topic_id, partition) for topic in request.forgotten_topics_data for partition in topic.partitions
    ]
    return sessions.proceed(group_id, member_id, request.share_session_epoch, places, forgotten)
