"""DeleteShareGroupState: deletes the state of share partitions."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.share.share_states import StateApi, check_known
from pipeline_broker.broker.appended import Appended
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.messages.share.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)

PartitionResult = DeleteShareGroupStateResponse.PartitionResult


def _one(
    call: Call, key: ShareKey, wanted: DeleteShareGroupStateRequest.PartitionData, appended: Appended
) -> PartitionResult:
    coordinator = call.broker.share.manager
    check_known(call, key)
    coordinator.delete([key], appended, call.now_ms)
    return PartitionResult(wanted.partition)


_API = StateApi(DeleteShareGroupStateResponse, DeleteShareGroupStateResponse.DeleteStateResult, PartitionResult, _one)
handle, error_response = _API.handle, _API.error_response
