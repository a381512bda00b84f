"""Leader epochs of a single broker: leadership never changes, so every partition stays in leader epoch 0."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode

__all__ = ["LEADER_EPOCH", "NO_EPOCH", "leader_epoch_error", "leader_of"]

LEADER_EPOCH = 0
NO_EPOCH = -1
NO_LEADER = -1


def leader_epoch_error(current_leader_epoch: int) -> ErrorCode | None:
    """Return the error for a client's current leader epoch (KIP-320); None if it is 0, or -1 for unknown."""
    if current_leader_epoch in {NO_EPOCH, LEADER_EPOCH}:
        return None
    return ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH


def leader_of(call: Call, *, knows_listeners: bool = True) -> tuple[ErrorCode, int]:
    """Return NONE and the leader of every partition, or an error and -1 if the client's listener is not advertised.

    Args:
        knows_listeners: whether the version of the request knows LISTENER_NOT_FOUND.
    """
    if call.address is not None:
        return ErrorCode.NONE, call.broker.config.node_id
    return ErrorCode.LISTENER_NOT_FOUND if knows_listeners else ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
