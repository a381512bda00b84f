"""InitializeShareGroupState: creates the state of share partitions."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.share.share_states import StateApi, check_known, check_start
from pipeline_broker.broker.appended import Appended
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.messages.share.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)

TopicResult = InitializeShareGroupStateResponse.InitializeStateResult
PartitionResult = InitializeShareGroupStateResponse.PartitionResult


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


_API = StateApi(InitializeShareGroupStateResponse, TopicResult, PartitionResult, _one)
handle, error_response = _API.handle, _API.error_response
