"""Requests about groups and transactions that reach a broker before it coordinates any."""

from typing import Any

from pipeline_broker.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from pipeline_broker.wire.messages.share.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from pipeline_broker.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from pipeline_broker.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest


def about_group(group_id: str) -> list[tuple[Any, int]]:
    """Return requests with their versions; none of them begins a membership."""
    leaving, committed = LeaveGroupRequest.MemberIdentity, OffsetCommitRequest.OffsetCommitRequestTopic
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 5, -1, "")
    asked = OffsetFetchRequest.OffsetFetchRequestTopic("one", [0])
    asked_by_group = [OffsetFetchRequest.OffsetFetchRequestTopics("one", partition_indexes=[0])]
    in_group = OffsetFetchRequest.OffsetFetchRequestGroup
    dropped = OffsetDeleteRequest.OffsetDeleteRequestTopic("one", [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)])
    altered = AlterShareGroupOffsetsRequest.Topic("one", [AlterShareGroupOffsetsRequest.Partition(0, 0)])
    return [
        (HeartbeatRequest(group_id, 0, "m"), 4),
        (SyncGroupRequest(group_id, 0, "m"), 3),
        (LeaveGroupRequest(group_id, members=[leaving("m", None)]), 5),
        (LeaveGroupRequest(group_id, member_id="m"), 1),
        *((OffsetCommitRequest(group_id, topics=[committed(it, partitions=[partition])]), 8) for it in ("one", "none")),
        (OffsetCommitRequest(group_id, 0, "m", topics=[committed("one", partitions=[partition])]), 8),
        (OffsetFetchRequest(group_id, topics=[asked]), 1),
        (OffsetFetchRequest(group_id, topics=[asked]), 5),
        (OffsetFetchRequest(group_id, topics=None), 5),
        (OffsetFetchRequest(groups=[in_group(group_id, topics=asked_by_group), in_group("h", topics=None)]), 8),
        (DescribeGroupsRequest([group_id]), 5),
        (DescribeGroupsRequest([group_id]), 6),
        (DeleteGroupsRequest([group_id]), 2),
        (OffsetDeleteRequest(group_id, [dropped]), 0),
        (ConsumerGroupDescribeRequest([group_id]), 1),
        (ShareGroupDescribeRequest([group_id]), 1),
        (DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequest.Group(group_id, None)]), 0),
        (AlterShareGroupOffsetsRequest(group_id, [altered]), 0),
        (DeleteShareGroupOffsetsRequest(group_id, [DeleteShareGroupOffsetsRequest.Topic("one")]), 0),
    ]


def about_transaction(transactional_id: str) -> list[tuple[Any, int]]:
    committed = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
        "one", partitions=[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, 5, -1, "")]
    )
    return [
        (InitProducerIdRequest(transactional_id, 60_000), 5),
        (AddOffsetsToTxnRequest(transactional_id, 1, 0, "g"), 4),
        (EndTxnRequest(transactional_id, 1, 0, True), 5),
        (DescribeTransactionsRequest([transactional_id]), 0),
        (ListTransactionsRequest([], []), 1),
        (TxnOffsetCommitRequest(transactional_id, "g", 1, 0, -1, "", None, [committed]), 5),
    ]


WITHOUT_COORDINATORS = [
    *about_group("g"),
    *about_group(""),
    (ListGroupsRequest(), 5),
    *about_transaction("t"),
]
