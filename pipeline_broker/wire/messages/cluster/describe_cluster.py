"""DescribeCluster: describe the cluster and its brokers."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import INT32_MIN, array, boolean, int8, int16, int32, string


@attrs.define
class DescribeClusterRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_CLUSTER)

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


@attrs.define
class DescribeClusterResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_CLUSTER)

    @attrs.define
    class DescribeClusterBroker:
        broker_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", nullable="0+", default=None)
        is_fenced: bool = boolean("2+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = array("DescribeClusterBroker", "0+")
    cluster_authorized_operations: int = int32("0+", default=INT32_MIN)
