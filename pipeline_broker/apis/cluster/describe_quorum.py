"""DescribeQuorum: the metadata partition with this broker as its only voter, which has every durable record."""

from __future__ import annotations

import base64

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.cluster.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Send

Topic = DescribeQuorumResponse.TopicData
Partition = DescribeQuorumResponse.PartitionData
METADATA_TOPIC = "__cluster_metadata"
NOT_HOSTED = "This server does not host this topic-partition."
# The first version with the endpoints of voters.
NODES_FROM = 2
# A quorum of one voter keeps its first leader.
LEADER_EPOCH = 1


def handle(call: Call, request: DescribeQuorumRequest) -> Send:
    if not authorize_cluster(call, AclOperation.DESCRIBE):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_TOPIC, [0])]:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topics = [Topic(name, [Partition(index, code, NOT_HOSTED) for index in indexes]) for name, indexes in asked]
        return call.send(DescribeQuorumResponse(topics=topics))
    leadership = call.broker.leadership
    leader_id = leadership.controller_id()
    log = call.broker.logs.find(METADATA_TOPIC, 0)
    assert log is not None, "a broker creates the metadata log first"
    voter = DescribeQuorumResponse.ReplicaState(
        leader_id,
        _directory_id(call) if call.version >= NODES_FROM else UUID_ZERO,
        log_end_offset=log.high_watermark,
        last_fetch_timestamp=call.now_ms,
        last_caught_up_timestamp=call.now_ms,
    )
    partition = Partition(
        0,
        leader_id=leader_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=log.high_watermark,
        current_voters=[voter],
    )
    response = DescribeQuorumResponse(topics=[Topic(METADATA_TOPIC, [partition])])
    if call.version >= NODES_FROM:
        name = call.session.listener
        response.nodes = [
            DescribeQuorumResponse.Node(each.broker_id, [DescribeQuorumResponse.Listener(name, each.host, each.port)])
            for each in leadership.brokers(name)
        ]
    return call.send(response)


def _directory_id(call: Call) -> bytes:
    # The cluster has one directory, so the cluster id also identifies the directory.
    return base64.urlsafe_b64decode(call.broker.cluster_id + "==")
