"""InitializeShareGroupState: begin the state of share partitions; answered when it is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.share.share_states import Answers, check_known, check_start
from pipeline_broker.broker.appended import Appended
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.share.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = InitializeShareGroupStateRequest
PartitionResult = InitializeShareGroupStateResponse.PartitionResult
ANSWERS = Answers(
    InitializeShareGroupStateResponse, InitializeShareGroupStateResponse.InitializeStateResult, PartitionResult
)


def handle(call: Call, request: InitializeShareGroupStateRequest) -> Result:
    """Answer for each partition."""
    return ANSWERS.each(call, request, _one)


def _one(
    call: Call, key: ShareKey, wanted: InitializeShareGroupStateRequest.PartitionData, appended: Appended
) -> PartitionResult:
    coordinator = call.broker.share.manager
    check_known(call, key)
    check_start(wanted.start_offset)
    write = coordinator.states.initialize(key, wanted.state_epoch, wanted.start_offset, call.now_ms)
    coordinator.drop([key], appended)
    coordinator.append([write], appended, call.now_ms)
    return PartitionResult(wanted.partition)


def error_response(
    request: InitializeShareGroupStateRequest, call: Call, code: ErrorCode
) -> InitializeShareGroupStateResponse:
    """Every partition with the same error."""
    del call
    refused: InitializeShareGroupStateResponse = ANSWERS.refused(request, code)
    return refused
