"""AlterReplicaLogDirs: move replicas between log directories."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string


@attrs.define
class AlterReplicaLogDirsRequest:
    """Request of API key 34: versions 1-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=34, versions="1-2", flexible="2+")

    @attrs.define
    class AlterReplicaLogDir:
        """One element of `dirs`."""

        path: str = string("0+")
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = array("AlterReplicaLogDirTopic", "0+")

    @attrs.define
    class AlterReplicaLogDirTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = array("AlterReplicaLogDir", "0+")


@attrs.define
class AlterReplicaLogDirsResponse:
    """Response of API key 34: versions 1-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=34, versions="1-2", flexible="2+")

    @attrs.define
    class AlterReplicaLogDirTopicResult:
        """One element of `results`."""

        topic_name: str = string("0+")
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = array(
            "AlterReplicaLogDirPartitionResult", "0+"
        )

    @attrs.define
    class AlterReplicaLogDirPartitionResult:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = array(
        "AlterReplicaLogDirTopicResult", "0+"
    )
