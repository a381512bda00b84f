"""Throttling of connections (KIP-219): the response leaves at once, and the connection is not read for a while."""

from __future__ import annotations

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.quotas.quotas import RequestQuota
from pipeline_broker.state.topic_rules import TopicError
from stages.request import Request

__all__ = ["check_changes", "throttle"]


def throttle(request: Request, throttle_ms: int) -> None:
    """Stop reading the connection of a request for `throttle_ms`. Of several throttles, the longest counts."""
    if throttle_ms > request.throttle_ms:
        request.throttle_ms = throttle_ms
        request.connection.throttle(throttle_ms / 1000)


def check_changes(quota: RequestQuota | None, partitions: int, *, strict: bool, throttles: bool = True) -> None:
    """Charge the client's quota for partitions to create or delete (KIP-599).

    Args:
        quota: the client's quota; None while no quotas are set.
        strict: whether the version knows THROTTLING_QUOTA_EXCEEDED. Otherwise the change is made, and the client waits
            afterwards.
        throttles: whether the client waits; False if the client did not request the change itself.

    Raises:
        TopicError: THROTTLING_QUOTA_EXCEEDED if `strict` and the quota is exceeded.
    """
    if quota is not None and not quota.may_change(partitions, strict=strict, throttles=throttles):
        raise TopicError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
