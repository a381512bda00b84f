"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int16, int32, string


@attrs.define
class CreatePartitionsRequest:
    """Request of API key 37: versions 0-3, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=37, versions="0-3", flexible="2+")

    @attrs.define
    class CreatePartitionsTopic:
        """One element of `topics`."""

        name: str = string("0+")
        count: int = int32("0+")
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = array(
            "CreatePartitionsAssignment", "0+", nullable="0+"
        )

    @attrs.define
    class CreatePartitionsAssignment:
        """One element of `assignments`."""

        broker_ids: list[int] = array("int32", "0+")

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = array("CreatePartitionsTopic", "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


@attrs.define
class CreatePartitionsResponse:
    """Response of API key 37: versions 0-3, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=37, versions="0-3", flexible="2+")

    @attrs.define
    class CreatePartitionsTopicResult:
        """One element of `results`."""

        name: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = array("CreatePartitionsTopicResult", "0+")
