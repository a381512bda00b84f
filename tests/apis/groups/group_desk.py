"""A desk with the topic of groups and a topic `t` of four partitions. Parked requests are read once answered."""

from __future__ import annotations

from typing import Any

from pipeline_broker.state.topics import NewTopic
from stages.request import Parked
from tests.apis.desk import Desk


class GroupDesk(Desk):
    """A desk for groups; `held` holds commits back."""

    def __init__(self, *settings: str, **more: Any) -> None:
        self.held: list[Any] | None = None
        super().__init__("offsets.topic.num.partitions=1", *settings, **more)
        if self.broker.topics.get("__consumer_offsets") is None:
            self.create(self.broker.new_topic("__consumer_offsets"))
            self.create(NewTopic(name="t", topic_id=self.broker.new_id().bytes, partitions=4))

    def restart(self, *settings: str) -> GroupDesk:
        self.journal.close()
        return GroupDesk(*(settings or self.settings[1:]), files=self.files)

    def create(self, new: NewTopic) -> None:
        broker = self.broker
        result = broker.commit_metadata([(broker.topics.create(new), broker.topic_durable)], self.now_ms, None)
        self.commit(list(result.entries))
        result.on_durable()

    def submit(self, entries: list[Any], on_durable: Any) -> None:
        if self.held is not None:
            self.held.append((entries, on_durable))
            return
        self.commit(entries)
        on_durable()

    def release(self) -> None:
        """Make held commits durable."""
        held, self.held = self.held, None
        for entries, on_durable in held:
            self.submit(entries, on_durable)

    def finish(self, message: Any, version: int, result: Any) -> Any:
        """Like `Desk.finish`; a parked request must have been answered."""
        if isinstance(result, Parked) and result.work is None:
            ((_, result),) = [each for each in self.connection.completed if each[0].sequence == self.asked]
        return super().finish(message, version, result)

    def later(self, sequence: int) -> Any:
        """Return the result of an earlier request; None while it is parked."""
        return next((result for request, result in self.connection.completed if request.sequence == sequence), None)
