"""DeleteTopics: delete topics by name or id."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string, uuid


@attrs.define
class DeleteTopicsRequest:
    SCHEMA = schema_of(ApiKey.DELETE_TOPICS)

    @attrs.define
    class DeleteTopicState:
        name: str | None = string("6+", nullable="6+", default=None)
        topic_id: bytes = uuid("6+")

    topics: list[DeleteTopicsRequest.DeleteTopicState] = array("DeleteTopicState", "6+")
    topic_names: list[str] = array("string", "0-5", ignorable=True)
    timeout_ms: int = int32("0+")


@attrs.define
class DeleteTopicsResponse:
    SCHEMA = schema_of(ApiKey.DELETE_TOPICS)

    @attrs.define
    class DeletableTopicResult:
        name: str | None = string("0+", nullable="6+")
        topic_id: bytes = uuid("6+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = array("DeletableTopicResult", "0+")
