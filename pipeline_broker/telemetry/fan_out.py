"""A timeline that forwards events to several timelines."""

from collections.abc import Sequence

from stages.timeline import Timeline

__all__ = ["FanOut"]


class FanOut(Timeline):
    """A `stages.timeline.Timeline` that forwards each event to `timelines`, in their order."""

    def __init__(self, timelines: Sequence[Timeline]) -> None:
        self._timelines = tuple(timelines)
        self.samples_queues = any(timeline.samples_queues for timeline in self._timelines)

    @property
    def times_requests(self) -> bool:
        return any(timeline.times_requests for timeline in self._timelines)

    def request_ended(self, request: object) -> None:
        for timeline in self._timelines:
            timeline.request_ended(request)

    def request_dropped(self, request: object) -> None:
        for timeline in self._timelines:
            timeline.request_dropped(request)

    def commit_ended(self, commit: object) -> None:
        for timeline in self._timelines:
            timeline.commit_ended(commit)

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        for timeline in self._timelines:
            timeline.mute_ended(connection_index, reason, began_ns, ended_ns)

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        for timeline in self._timelines:
            timeline.queue_sampled(queue, at_ns, depth)
