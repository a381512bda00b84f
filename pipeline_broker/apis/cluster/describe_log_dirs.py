"""DescribeLogDirs: the one data directory, the space of its disk, and the sizes of its partitions.

The size of a partition is the size of its visible batches, in the archive or in the journal that all partitions share.
With one broker and one directory, no replica lags or moves. A thread queries the disk.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise, everything
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from stages.request import Parked, Result

Directory = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
Partition = DescribeLogDirsResponse.DescribeLogDirsPartition

NO_LAG = 0


def handle(call: Call, request: DescribeLogDirsRequest) -> Stepwise[Result]:
    if not authorize_cluster(call, AclOperation.DESCRIBE):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    logs = call.broker.logs
    directory = Directory(log_dir=str(logs.journal.data_directory), topics=(yield from _topics(call, request)))
    try:
        directory.total_bytes, directory.usable_bytes = yield Parked(logs.journal.disk_space)
    except OSError:
        directory.error_code, directory.topics = ErrorCode.KAFKA_STORAGE_ERROR, []
    return (yield from call.send_in_steps(DescribeLogDirsResponse(results=[directory])))


def _topics(call: Call, request: DescribeLogDirsRequest) -> Stepwise[list[Topic]]:
    # Null requests all topics.
    if request.topics is None:
        every = yield from everything(call.broker.topics.all())
        wanted = {topic.name: set(range(topic.partitions)) for topic in every}
    else:
        wanted = {}
        for each in request.topics:
            wanted.setdefault(each.topic, set()).update(each.partitions)
    topics = []
    for name, indexes in wanted.items():
        partitions = [
            Partition(log.partition, log.size_bytes, NO_LAG)
            for log in call.broker.logs.partitions(name)
            if log.partition in indexes and call.broker.topics.get(name) is not None
        ]
        if partitions:
            topics.append(Topic(name, partitions))
        if call.spend(ELEMENT_COST * (1 + len(partitions))):
            yield None
    return topics
