"""AlterReplicaLogDirs: move replicas between log directories."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string


@attrs.define
class AlterReplicaLogDirsRequest:
    SCHEMA = schema_of(ApiKey.ALTER_REPLICA_LOG_DIRS)

    @attrs.define
    class AlterReplicaLogDir:
        path: str = string("0+")
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = array("AlterReplicaLogDirTopic", "0+")

    @attrs.define
    class AlterReplicaLogDirTopic:
        name: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = array("AlterReplicaLogDir", "0+")


@attrs.define
class AlterReplicaLogDirsResponse:
    SCHEMA = schema_of(ApiKey.ALTER_REPLICA_LOG_DIRS)

    @attrs.define
    class AlterReplicaLogDirTopicResult:
        topic_name: str = string("0+")
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = array(
            "AlterReplicaLogDirPartitionResult", "0+"
        )

    @attrs.define
    class AlterReplicaLogDirPartitionResult:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = array(
        "AlterReplicaLogDirTopicResult", "0+"
    )
