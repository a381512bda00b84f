"""WriteShareGroupState: changes the state of share partitions."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.share.share_states import StateApi, check_known, check_partition, check_start
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended
from pipeline_broker.state.share_coordinator.records import ShareKey, is_possible
from pipeline_broker.state.share_coordinator.share_states import ShareStateError, StateWrite
from pipeline_broker.state.share_partitions.messages import StateBatch
from pipeline_broker.state.share_partitions.record_state import RecordState
from pipeline_broker.wire.messages.share.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)

PartitionResult = WriteShareGroupStateResponse.PartitionResult


def _one(
    call: Call, key: ShareKey, wanted: WriteShareGroupStateRequest.PartitionData, appended: Appended
) -> PartitionResult:
    coordinator = call.broker.share.manager
    check_partition(key)
    check_start(wanted.start_offset)
    change = StateWrite(
        wanted.state_epoch,
        wanted.leader_epoch,
        wanted.start_offset,
        wanted.delivery_complete_count,
        _batches(wanted),
    )
    if coordinator.states.find(key) is not None:  # otherwise `write` refuses the missing state
        check_known(call, key)
    write = coordinator.states.write(key, change, call.now_ms)
    coordinator.drop([key], appended)
    coordinator.append([write], appended, call.now_ms)
    return PartitionResult(wanted.partition)


def _batches(wanted: WriteShareGroupStateRequest.PartitionData) -> list[StateBatch]:
    try:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
            for batch in wanted.state_batches
        ]
    except ValueError as error:
        raise ShareStateError(ErrorCode.INVALID_REQUEST, str(error)) from None
    if not all(map(is_possible, batches)):
        raise ShareStateError(ErrorCode.INVALID_REQUEST, "A batch has invalid offsets or an invalid delivery count.")
    return batches


_API = StateApi(WriteShareGroupStateResponse, WriteShareGroupStateResponse.WriteStateResult, PartitionResult, _one)
handle, error_response = _API.handle, _API.error_response
