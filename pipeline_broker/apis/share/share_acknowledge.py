"""ShareAcknowledge: accepts, releases or rejects acquired records.

The request belongs to the member's share session and cannot open one. The final epoch closes the session and releases
all records that the member still has acquired.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.share.share_acknowledgements import RENEW_FROM, acknowledge, is_member_id
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_partitions.share_sessions import EPOCH_FINAL, EPOCH_INITIAL, ShareSessionError
from pipeline_broker.wire.messages.share.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from stages.request import Pending, Result

Topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
PartitionData = ShareAcknowledgeResponse.PartitionData


def handle(call: Call, request: ShareAcknowledgeRequest) -> Result:
    group_id, member_id = request.group_id, request.member_id
    if group_id is None or member_id is None:
        return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
    if not authorize_group(call, AclOperation.READ, group_id):
        return call.send(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not group_id or not is_member_id(member_id):
        return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
    coordinator = call.broker.share.manager
    is_final = request.share_session_epoch == EPOCH_FINAL
    if request.share_session_epoch == EPOCH_INITIAL:  # only a fetch opens a session
        return call.send(error_response(request, call, ErrorCode.INVALID_SHARE_SESSION_EPOCH))
    try:
        if is_final:
            session = coordinator.sessions.find(group_id, member_id)
        else:
            session = coordinator.sessions.proceed(group_id, member_id, request.share_session_epoch)
    except ShareSessionError as error:
        return call.send(error_response(request, call, error.code))
    appended = Appended()
    has_batches = any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions)
    topics = request.topics if has_batches else ()  # as in Kafka, an empty request gets an empty response
    responses = [_topic(call, request, topic, appended) for topic in topics]
    if is_final:
        coordinator.close_session(session, appended, coordinator.time(call.now_ms))
    response = ShareAcknowledgeResponse(responses=responses)
    if call.version >= RENEW_FROM:
        response.acquisition_lock_timeout_ms = coordinator.settings(group_id).record_lock_duration_ms
    answer = call.send(response)
    return Pending(appended.entries, answer, appended.durable) if appended.entries else answer


def _topic(
    call: Call, request: ShareAcknowledgeRequest, topic: ShareAcknowledgeRequest.AcknowledgeTopic, appended: Appended
) -> Topic:
    partitions = []
    for wanted in topic.partitions:
        key = ShareKey(request.group_id or "", topic.topic_id, wanted.partition_index)
        code, text = acknowledge(
            call,
            key,
            request.member_id or "",
            wanted.acknowledgement_batches,
            appended,
            is_renewal=request.is_renew_ack,
        )
        partitions.append(PartitionData(wanted.partition_index, code, text))
    return Topic(topic.topic_id, partitions)


def error_response(request: ShareAcknowledgeRequest, call: Call, code: ErrorCode) -> ShareAcknowledgeResponse:
    del request, call
    return ShareAcknowledgeResponse(error_code=code)
