"""The stages of a request, each the difference of two stamps.

The formulas are declared here only; spark_analysis, which must not import this package, has the same table. The names
are those of Kafka's request metrics:

| stage | in Kafka |
|---|---|
| RequestQueue | RequestQueueTimeMs |
| Local | LocalTimeMs |
| LaterSteps, in Local: callbacks, and the steps of a request that takes several turns | none |
| Remote | RemoteTimeMs |
| CommitWait, in Remote | none |
| ResponseQueue | ResponseQueueTimeMs |
| ResponseOrderWait, in ResponseQueue | none |
| ResponseSend | ResponseSendTimeMs |
| Total | TotalTimeMs |

Counterpart in Kafka: `RequestChannel.Request` and its times.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, NamedTuple, get_type_hints

from stages.timeline import STAMPS, Stamps

__all__ = ["PARTS", "STAGES", "StageDurations", "stage_durations"]


class StageDurations(NamedTuple):
    """Durations of the stages in nanoseconds, each at least 0. The annotations name the two stamps of each stage."""

    request_queue_ns: Annotated[int, "received_ns", "dequeued_ns"]
    local_ns: Annotated[int, "dequeued_ns", "decided_ns"]
    later_steps_ns: Annotated[int, "handled_ns", "decided_ns"]
    remote_ns: Annotated[int, "decided_ns", "completed_ns"]
    commit_wait_ns: Annotated[int, "submitted_ns", "durable_ns"]
    response_order_wait_ns: Annotated[int, "completed_ns", "released_ns"]
    response_queue_ns: Annotated[int, "completed_ns", "send_started_ns"]
    response_send_ns: Annotated[int, "send_started_ns", "sent_ns"]
    total_ns: Annotated[int, "received_ns", "sent_ns"]

    @property
    def parts(self) -> tuple[int, ...]:
        """The durations of PARTS, in that order. They add up to the whole time of the request."""
        # A handler that waits for its own commit has that wait in Local, so CommitWait can exceed Remote.
        commit_ns = min(self.remote_ns, self.commit_wait_ns)
        return (
            self.request_queue_ns,
            self.local_ns,
            commit_ns,
            self.remote_ns - commit_ns,
            self.response_order_wait_ns,
            max(0, self.response_queue_ns - self.response_order_wait_ns),
            self.response_send_ns,
        )


PARTS = ("request queue", "handler", "commit wait", "other wait", "order wait", "response queue", "send")
"""The parts of a request's time in drawings. CommitWait is taken out of Remote, ResponseOrderWait out of
ResponseQueue, so that the parts add up."""

STAGES: dict[str, tuple[str, str]] = {
    name.removesuffix("_ns").title().replace("_", ""): hint.__metadata__
    for name, hint in get_type_hints(StageDurations, include_extras=True).items()
}
"""The first and last stamp of each stage."""
_INDEXES = [(STAMPS.index(began), STAMPS.index(ended)) for began, ended in STAGES.values()]
_stamps_of = attrgetter(*STAMPS)


def stage_durations(stamps: Stamps, ended_ns: int = 0) -> StageDurations:
    """Return the durations between the stamps of a request.

    Args:
        ended_ns: replaces the missing stamps of an unanswered request, so that the stages it did not reach take no
            time.
    """
    received_ns, *later = _stamps_of(stamps)
    at = [received_ns, *[stamp or ended_ns for stamp in later]]
    return StageDurations(*[max(0, at[ended] - at[began]) for began, ended in _INDEXES])
