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

from typing import Any

import attrs

from stages.timeline import STAMPS, Stamps

__all__ = ["PARTS", "STAGES", "StageDurations", "stage_durations"]


def _between(began: str, ended: str) -> Any:
    return attrs.field(metadata={"stamps": (f"{began}_ns", f"{ended}_ns")})


@attrs.frozen
class StageDurations:
    """Durations of the stages in nanoseconds, each at least 0."""

    request_queue_ns: int = _between("received", "dequeued")
    local_ns: int = _between("dequeued", "decided")
    later_steps_ns: int = _between("handled", "decided")
    remote_ns: int = _between("decided", "completed")
    commit_wait_ns: int = _between("submitted", "durable")
    response_order_wait_ns: int = _between("completed", "released")
    response_queue_ns: int = _between("completed", "send_started")
    response_send_ns: int = _between("send_started", "sent")
    total_ns: int = _between("received", "sent")

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
    field.name.removesuffix("_ns").title().replace("_", ""): field.metadata["stamps"]
    for field in attrs.fields(StageDurations)
}
"""The two stamps that each stage lies between."""


def stage_durations(stamps: Stamps, ended_ns: int = 0) -> StageDurations:
    """The durations between the stamps of a request.

    Args:
        stamps: its own.
        ended_ns: when it ended, if it was not answered: what it did not pass ended then, after no time.
    """
    at = {name: getattr(stamps, name) or ended_ns for name in STAMPS} | {"received_ns": stamps.received_ns}
    return StageDurations(*[max(0, at[ended] - at[began]) for began, ended in STAGES.values()])
