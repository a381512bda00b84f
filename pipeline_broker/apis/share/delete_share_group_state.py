"""DeleteShareGroupState: forget the state of share partitions; answered when that is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.share.share_states import Answers, check_known
from pipeline_broker.broker.appended import Appended
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.share.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = DeleteShareGroupStateRequest
PartitionResult = DeleteShareGroupStateResponse.PartitionResult
ANSWERS = Answers(DeleteShareGroupStateResponse, DeleteShareGroupStateResponse.DeleteStateResult, PartitionResult)


def handle(call: Call, request: DeleteShareGroupStateRequest) -> Result:
    """Answer for each partition."""
    return ANSWERS.each(call, request, _one)


def _one(
    call: Call, key: ShareKey, wanted: DeleteShareGroupStateRequest.PartitionData, appended: Appended
) -> PartitionResult:
    coordinator = call.broker.share.manager
    check_known(call, key)
    coordinator.delete([key], appended, call.now_ms)
    return PartitionResult(wanted.partition)


def error_response(request: DeleteShareGroupStateRequest, call: Call, code: ErrorCode) -> DeleteShareGroupStateResponse:
    """Every partition with the same error."""
    del call
    refused: DeleteShareGroupStateResponse = ANSWERS.refused(request, code)
    return refused
