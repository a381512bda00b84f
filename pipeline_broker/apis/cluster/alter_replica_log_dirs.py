"""AlterReplicaLogDirs: validates each partition; the broker has one log directory, so nothing moves."""

from __future__ import annotations

from collections.abc import Callable

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from stages.request import Send

# Kafka's suffix of a partition's directory while it is copied: a dot, 32 digits and `-future`.
FUTURE_BYTES = 40
NAME_BYTES_MAX = 255
TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


def handle(call: Call, request: AlterReplicaLogDirsRequest) -> Send:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    directory = str(call.broker.logs.journal.data_directory)

    def code_of(path: str, topic: str, partition: int) -> ErrorCode:
        if len(f"{topic}-{partition}") + FUTURE_BYTES > NAME_BYTES_MAX:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if path != directory:
            return ErrorCode.LOG_DIR_NOT_FOUND
        known = call.broker.topics.get(topic)
        is_there = known is not None and 0 <= partition < known.partitions
        return ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    response = _response(request, code_of)
    response.results = [topic for topic in response.results if topic.partitions]
    return call.send(response)


def _response(
    request: AlterReplicaLogDirsRequest, code_of: Callable[[str, str, int], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            for partition in topic.partitions:
                # The last directory counts if a partition is named twice.
                codes[partition] = code_of(directory.path, topic.name, partition)
    return AlterReplicaLogDirsResponse(
        results=[
            TopicResult(topic, [PartitionResult(partition, code) for partition, code in codes.items()])
            for topic, codes in results.items()
        ]
    )


def error_response(request: AlterReplicaLogDirsRequest, call: Call, code: ErrorCode) -> AlterReplicaLogDirsResponse:
    return _response(request, lambda _path, _topic, _partition: code)
