"""CreateTopics: create topics."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int8, int16, int32, string, uuid


@attrs.define
class CreateTopicsRequest:
    SCHEMA = schema_of(ApiKey.CREATE_TOPICS)

    @attrs.define
    class CreatableTopic:
        name: str = string("0+")
        num_partitions: int = int32("0+")
        replication_factor: int = int16("0+")
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = array("CreatableReplicaAssignment", "0+")
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = array("CreatableTopicConfig", "0+")

    @attrs.define
    class CreatableReplicaAssignment:
        partition_index: int = int32("0+")
        broker_ids: list[int] = array("int32", "0+")

    @attrs.define
    class CreatableTopicConfig:
        name: str = string("0+")
        value: str | None = string("0+", nullable="0+")

    topics: list[CreateTopicsRequest.CreatableTopic] = array("CreatableTopic", "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


@attrs.define
class CreateTopicsResponse:
    SCHEMA = schema_of(ApiKey.CREATE_TOPICS)

    @attrs.define
    class CreatableTopicResult:
        name: str = string("0+")
        topic_id: bytes = uuid("7+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("1+", nullable="0+", ignorable=True)
        topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
        num_partitions: int = int32("5+", default=-1, ignorable=True)
        replication_factor: int = int16("5+", default=-1, ignorable=True)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = array(
            "CreatableTopicConfigs", "5+", nullable="5+", ignorable=True
        )

    @attrs.define
    class CreatableTopicConfigs:
        name: str = string("5+")
        value: str | None = string("5+", nullable="5+")
        read_only: bool = boolean("5+")
        config_source: int = int8("5+", default=-1, ignorable=True)
        is_sensitive: bool = boolean("5+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreateTopicsResponse.CreatableTopicResult] = array("CreatableTopicResult", "0+")
