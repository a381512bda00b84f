"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, string


@attrs.define
class CreatePartitionsRequest:
    SCHEMA = schema_of(ApiKey.CREATE_PARTITIONS)

    @attrs.define
    class CreatePartitionsTopic:
        name: str = string("0+")
        count: int = int32("0+")
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = array(
            "CreatePartitionsAssignment", "0+", nullable="0+"
        )

    @attrs.define
    class CreatePartitionsAssignment:
        broker_ids: list[int] = array("int32", "0+")

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = array("CreatePartitionsTopic", "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


@attrs.define
class CreatePartitionsResponse:
    SCHEMA = schema_of(ApiKey.CREATE_PARTITIONS)

    @attrs.define
    class CreatePartitionsTopicResult:
        name: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = array("CreatePartitionsTopicResult", "0+")
