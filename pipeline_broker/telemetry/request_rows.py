"""The rows of requests in a ring: what a timeline keeps of each request that ended.

Rules of this file: on the event loop a request costs one packed row of `trace_tables.REQUESTS` and nothing else. The
values are packed where the row is claimed: passing two dozen of them through one more call costs a third of the whole.
"""

from __future__ import annotations

from typing import Any

from pipeline_broker.telemetry.row_ring import NO_ROOM, RowRing
from pipeline_broker.telemetry.trace_tables import (
    NULL_I4,
    NULL_I8,
    OUTCOME_CLOSE,
    OUTCOME_DROPPED,
    OUTCOME_NO_OP,
    OUTCOME_SEND,
)
from stages.request import NOT_SET, Close, NoOp, Send

__all__ = ["RequestRows"]

_OUTCOMES = {Send: OUTCOME_SEND, NoOp: OUTCOME_NO_OP, Close: OUTCOME_CLOSE}


class RequestRows:
    """That part of a `stages.timeline.Timeline` that is about requests.

    Args:
        ring: of rows of REQUESTS.
    """

    def __init__(self, ring: RowRing) -> None:
        self._requests = ring
        self._claim_request, self._publish_request = ring.claim, ring.publish
        self._pack_request, self._request_buffer = ring.pack_into, ring.buffer

    def request_ended(self, request: Any) -> None:
        """See Timeline: it was in a queue and has every stamp but those of a commit, where it needed none."""
        position = self._claim_request()
        if position == NO_ROOM:
            return
        commit = request.commit
        self._pack_request(
            self._request_buffer,
            position,
            request.connection.index,
            request.sequence,
            request.api,
            request.version,
            request.correlation_id,
            request.queue,
            request.depth,
            request.size_bytes,
            request.response_bytes,
            request.acks,
            commit if commit != NOT_SET else NULL_I8,
            _OUTCOMES[type(request.result)],
            request.received_ns,
            request.enqueued_ns,
            request.dequeued_ns,
            request.handled_ns,
            request.submitted_ns,
            request.durable_ns,
            request.completed_ns,
            request.released_ns,
            request.send_started_ns,
            request.sent_ns,
        )
        self._publish_request()

    def request_dropped(self, request: Any) -> None:
        """See Timeline: a stage that the request did not reach has no stamp."""
        self._requests.append(
            request.connection.index,
            request.sequence,
            request.api,
            request.version,
            request.correlation_id,
            request.queue if request.queue != NOT_SET else NULL_I4,
            request.depth,
            request.size_bytes,
            request.response_bytes,
            request.acks,
            request.commit if request.commit != NOT_SET else NULL_I8,
            OUTCOME_DROPPED,
            request.received_ns,
            request.enqueued_ns or NULL_I8,
            request.dequeued_ns or NULL_I8,
            request.handled_ns or NULL_I8,
            request.submitted_ns,
            request.durable_ns,
            request.completed_ns or NULL_I8,
            request.released_ns or NULL_I8,
            request.send_started_ns or NULL_I8,
            NULL_I8,
        )
