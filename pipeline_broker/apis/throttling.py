"""Throttles, as they are told and done (KIP-219): the answer leaves at once, the connection is not read for a while.

Rules of this file: a request is throttled once, by the longest of its throttles; what began before and ends later
stays.
"""

from __future__ import annotations

from pipeline_broker.quotas.quotas import RequestQuota
from pipeline_broker.state.topic_rules import TopicError
from pipeline_broker.wire.error import ErrorCode
from stages.request import Request

__all__ = ["check_changes", "throttle"]


def throttle(request: Request, throttle_ms: int) -> None:
    """Do not read from the connection of a request for so long."""
    if throttle_ms > request.throttle_ms:
        request.throttle_ms = throttle_ms
        request.connection.throttle(throttle_ms / 1000)


def check_changes(quota: RequestQuota | None, partitions: int, *, strict: bool, throttles: bool = True) -> None:
    """Ask the client's quota for partitions to be created or deleted.

    Args:
        quota: what the request counts for; None while no quotas are set.
        strict: its version knows the error; otherwise they are created or deleted, and the client waits afterwards.
        throttles: whether the client has to wait; not where it has not asked for the change itself.

    Raises:
        TopicError: not now.
    """
    if quota is not None and not quota.may_change(partitions, strict=strict, throttles=throttles):
        raise TopicError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
