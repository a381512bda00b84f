"""Leadership never changes on one broker: every partition is in leader epoch 0, whatever a client believes."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.wire.error import ErrorCode

__all__ = ["LEADER_EPOCH", "NO_EPOCH", "leader_epoch_error", "leader_of"]

LEADER_EPOCH = 0
NO_EPOCH = -1
NO_LEADER = -1


def leader_epoch_error(current_leader_epoch: int) -> ErrorCode | None:
    """Why a client with this idea of the current epoch is refused (KIP-320); -1 stands for no idea."""
    if current_leader_epoch in {NO_EPOCH, LEADER_EPOCH}:
        return None
    return ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH


def leader_of(call: Call, *, knows_listeners: bool = True) -> tuple[ErrorCode, int]:
    """The leader of every partition, or why a client cannot reach it: its listener is not advertised."""
    if call.address is not None:
        return ErrorCode.NONE, call.broker.config.node_id
    return ErrorCode.LISTENER_NOT_FOUND if knows_listeners else ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
