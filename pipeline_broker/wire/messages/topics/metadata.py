"""Metadata: list brokers, topics, partitions and their leaders."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import INT32_MIN, array, boolean, int16, int32, string, uuid


@attrs.define
class MetadataRequest:
    SCHEMA = schema_of(ApiKey.METADATA)

    @attrs.define
    class MetadataRequestTopic:
        topic_id: bytes = uuid("10+", ignorable=True)
        name: str | None = string("0+", nullable="10+")

    topics: list[MetadataRequest.MetadataRequestTopic] | None = array("MetadataRequestTopic", "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@attrs.define
class MetadataResponse:
    SCHEMA = schema_of(ApiKey.METADATA)

    @attrs.define
    class MetadataResponseBroker:
        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)

    @attrs.define
    class MetadataResponseTopic:
        error_code: int = int16("0+")
        name: str | None = string("0+", nullable="12+")
        topic_id: bytes = uuid("10+", ignorable=True)
        is_internal: bool = boolean("1+", ignorable=True)
        partitions: list[MetadataResponse.MetadataResponsePartition] = array("MetadataResponsePartition", "0+")
        topic_authorized_operations: int = int32("8+", default=INT32_MIN)

    @attrs.define
    class MetadataResponsePartition:
        error_code: int = int16("0+")
        partition_index: int = int32("0+")
        leader_id: int = int32("0+")
        leader_epoch: int = int32("7+", default=-1, ignorable=True)
        replica_nodes: list[int] = array("int32", "0+")
        isr_nodes: list[int] = array("int32", "0+")
        offline_replicas: list[int] = array("int32", "5+", ignorable=True)

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponse.MetadataResponseBroker] = array("MetadataResponseBroker", "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponse.MetadataResponseTopic] = array("MetadataResponseTopic", "0+")
    cluster_authorized_operations: int = int32("8-10", default=INT32_MIN)
    error_code: int = int16("13+", ignorable=True)
