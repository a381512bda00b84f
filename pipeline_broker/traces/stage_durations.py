"""The stages of a request: which one is the difference of which two stamps.

Rules of this file: these are the formulas, and there are no others; spark_analysis, which knows trace files only, has
the same table. The names are Kafka's, which measures all but three of them:

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
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, NamedTuple, get_type_hints

from stages.timeline import STAMPS, Stamps

__all__ = ["PARTS", "STAGES", "StageDurations", "stage_durations"]


class StageDurations(NamedTuple):
    """Durations of the stages in nanoseconds, each at least 0; each is declared with its two stamps."""

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
        """The same as PARTS, one after the other: together they are the whole."""
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
"""What a request's time is split into in drawings: the wait for the commit is taken out of Remote, the wait for earlier
responses out of ResponseQueue."""

STAGES: dict[str, tuple[str, str]] = {
    name.removesuffix("_ns").title().replace("_", ""): hint.__metadata__
    for name, hint in get_type_hints(StageDurations, include_extras=True).items()
}
"""The two stamps that each stage lies between."""
_PLACES = [(STAMPS.index(began), STAMPS.index(ended)) for began, ended in STAGES.values()]
_stamps_of = attrgetter(*STAMPS)


def stage_durations(stamps: Stamps, ended_ns: int = 0) -> StageDurations:
    """The durations between the stamps of a request.

    Args:
        stamps: its own.
        ended_ns: when it ended, if it was not answered: what it did not pass ended then, after no time.
    """
    received_ns, *later = _stamps_of(stamps)
    at = [received_ns, *[stamp or ended_ns for stamp in later]]
    return StageDurations(*[max(0, at[ended] - at[began]) for began, ended in _PLACES])
