"""Creation of the internal topics of streams groups, in the background of heartbeats.

Counterpart in Kafka: `AutoTopicCreationManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pipeline_broker.base.error_code import ErrorCode, text_of
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from pipeline_broker.state.groups.streams.topology import TopicInfo

__all__ = ["AskController", "StreamsTopics"]

AskController = Callable[[Any, type[CreateTopicsResponse], Callable[[CreateTopicsResponse | None], None]], None]
"""Sends a request to the controller, which may be this broker, and calls the function with its response, or None."""

TIMEOUT_MS = 30_000
ERRORS_MAX = 1_000
"""Topics that could not be created, with their errors. The oldest errors are dropped first, as in Kafka."""
CREATED = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}


class StreamsTopics:
    """The creation of internal topics: each topic is requested at most once at a time."""

    def __init__(self, ask: AskController) -> None:
        self._ask = ask
        self._requested: set[str] = set()
        self._errors: dict[str, str] = {}

    def create(self, topics: Iterable[TopicInfo]) -> dict[str, str]:
        """Begin to create topics, unless that has begun; return the errors of earlier attempts, by topic."""
        topics = list(topics)
        failed = {topic.name: self._errors[topic.name] for topic in topics if topic.name in self._errors}
        wanted = [topic for topic in topics if topic.name not in self._requested]
        if not wanted:
            return failed
        names = [topic.name for topic in wanted]
        self._requested.update(names)

        def answered(response: CreateTopicsResponse | None) -> None:
            self._requested.difference_update(names)
            for result in () if response is None else response.topics:
                self._settle(result)

        request = CreateTopicsRequest(topics=[_creatable(topic) for topic in wanted], timeout_ms=TIMEOUT_MS)
        self._ask(request, CreateTopicsResponse, answered)
        return failed

    def _settle(self, result: CreateTopicsResponse.CreatableTopicResult) -> None:
        code = ErrorCode(result.error_code)
        self._errors.pop(result.name, None)
        if code not in CREATED:
            self._errors[result.name] = result.error_message or text_of(code) or code.name
            while len(self._errors) > ERRORS_MAX:
                del self._errors[next(iter(self._errors))]


def _creatable(topic: TopicInfo) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[CreateTopicsRequest.CreatableTopicConfig(*pair) for pair in topic.configs],
    )
