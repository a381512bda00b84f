"""DeleteShareGroupOffsets: deletes the offsets of a share group without members.

As in Apache Kafka, the response lists forbidden topics, then deleted ones, then unknown ones.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_group, authorize_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.share.share_group_changes import UNKNOWN_TEXT, check_empty, commit
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.share.messages import ShareGroupError
from pipeline_broker.wire.messages.share.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Result

Topic = DeleteShareGroupOffsetsResponse.Topic
NOTHING_TEXT = "There is no offset information to delete."


def handle(call: Call, request: DeleteShareGroupOffsetsRequest) -> Result:
    if not authorize_group(call, AclOperation.DELETE, request.group_id):
        return call.send(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    groups, coordinator = call.broker.groups.coordinator_of_named(request.group_id), call.broker.share.manager
    if isinstance(groups, ErrorCode):
        return call.send(error_response(request, call, groups))
    share = groups.coordinator.share
    try:
        check_empty(share.find(request.group_id))
        group = share.existing(request.group_id)
    except ShareGroupError as error:
        return call.send(DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=str(error)))
    now_ms = groups.time(call.now_ms)
    forbidden: list[Topic] = []
    forgotten: list[Topic] = []
    unknown: list[Topic] = []
    for wanted in request.topics:
        name, topic = wanted.topic_name, call.broker.topics.get(wanted.topic_name)
        if not authorize_topic(call, AclOperation.READ, name):
            forbidden.append(_refusal(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic is None:
            unknown.append(_refusal(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TEXT))
        elif topic.topic_id not in group.initialized:
            unknown.append(_refusal(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TEXT))
        else:
            forgotten.append(Topic(name, topic.topic_id))
    deleted_ids = {topic.topic_id for topic in forgotten}
    appended = Appended()
    keys = [key for key in coordinator.states.keys_of_group(request.group_id) if key.topic_id in deleted_ids]
    coordinator.delete(keys, appended, now_ms)
    answer = call.send(DeleteShareGroupOffsetsResponse(responses=[*forbidden, *forgotten, *unknown]))
    return commit(groups, group, share.forget(group, deleted_ids), appended, answer, now_ms)


def _refusal(name: str, code: ErrorCode, text: str | None = None) -> Topic:
    return Topic(name, UUID_ZERO, code, text or REFUSAL_TEXTS[code])


def error_response(
    request: DeleteShareGroupOffsetsRequest, call: Call, code: ErrorCode
) -> DeleteShareGroupOffsetsResponse:
    del request, call
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=REFUSAL_TEXTS.get(code))
