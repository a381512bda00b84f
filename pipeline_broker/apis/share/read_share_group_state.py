"""ReadShareGroupState: the state of share partitions for their leader; fences leaders of earlier epochs."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.share.share_states import StateApi, check_known, check_partition
from pipeline_broker.broker.appended import Appended
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.messages.share.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)

PartitionResult = ReadShareGroupStateResponse.PartitionResult


def _one(
    call: Call, key: ShareKey, wanted: ReadShareGroupStateRequest.PartitionData, appended: Appended
) -> PartitionResult:
    coordinator = call.broker.share.manager
    check_partition(key)
    state = coordinator.states.read(key, wanted.leader_epoch)
    check_known(call, key)
    if wanted.leader_epoch > state.leader_epoch_min:
        fence = coordinator.states.set_leader_epoch(key, wanted.leader_epoch, call.now_ms)
        coordinator.append([fence], appended, call.now_ms)
    return PartitionResult(
        partition=wanted.partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[ReadShareGroupStateResponse.StateBatch(*batch) for batch in state.batches],
    )


_API = StateApi(ReadShareGroupStateResponse, ReadShareGroupStateResponse.ReadStateResult, PartitionResult, _one)
handle, error_response = _API.handle, _API.error_response
