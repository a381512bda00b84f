"""DeleteTopics: delete topics by name or id."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string, uuid


@attrs.define
class DeleteTopicsRequest:
    """Request of API key 20: versions 1-6, flexible 4+."""

    SCHEMA: ClassVar[Schema] = Schema(key=20, versions="1-6", flexible="4+")

    @attrs.define
    class DeleteTopicState:
        """One element of `topics`."""

        name: str | None = string("6+", nullable="6+", default=None)
        topic_id: bytes = uuid("6+")

    topics: list[DeleteTopicsRequest.DeleteTopicState] = array("DeleteTopicState", "6+")
    topic_names: list[str] = array("string", "0-5", ignorable=True)
    timeout_ms: int = int32("0+")


@attrs.define
class DeleteTopicsResponse:
    """Response of API key 20: versions 1-6, flexible 4+."""

    SCHEMA: ClassVar[Schema] = Schema(key=20, versions="1-6", flexible="4+")

    @attrs.define
    class DeletableTopicResult:
        """One element of `responses`."""

        name: str | None = string("0+", nullable="6+")
        topic_id: bytes = uuid("6+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = array("DeletableTopicResult", "0+")
