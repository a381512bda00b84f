"""ReadShareGroupStateSummary: the durable start offsets and epochs of share partitions, without their batches."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.share.share_states import StateApi, check_known
from pipeline_broker.broker.appended import Appended
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_coordinator.share_states import UNINITIALIZED
from pipeline_broker.wire.messages.share.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)

TopicResult = ReadShareGroupStateSummaryResponse.ReadStateSummaryResult
PartitionResult = ReadShareGroupStateSummaryResponse.PartitionResult


def _one(
    call: Call, key: ShareKey, wanted: ReadShareGroupStateSummaryRequest.PartitionData, _appended: Appended
) -> PartitionResult:
    coordinator = call.broker.share.manager
    check_known(call, key)
    summary = coordinator.states.summary(key)
    if summary is None:
        return PartitionResult(partition=wanted.partition, start_offset=UNINITIALIZED)
    return PartitionResult(
        partition=wanted.partition,
        state_epoch=summary.state_epoch,
        leader_epoch=summary.leader_epoch,
        start_offset=summary.start_offset,
        delivery_complete_count=summary.delivery_complete_count,
    )


_API = StateApi(ReadShareGroupStateSummaryResponse, TopicResult, PartitionResult, _one)
handle, error_response = _API.handle, _API.error_response
