"""Leadership never changes on one broker: every partition is in leader epoch 0, whatever a client believes."""

from __future__ import annotations

from pipeline_broker.wire.error import ErrorCode

__all__ = ["LEADER_EPOCH", "leader_epoch_error"]

LEADER_EPOCH = 0
NO_EPOCH = -1


def leader_epoch_error(current_leader_epoch: int) -> ErrorCode | None:
    """Why a client with this idea of the current epoch is refused (KIP-320); -1 stands for no idea."""
    if current_leader_epoch in {NO_EPOCH, LEADER_EPOCH}:
        return None
    return ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH
