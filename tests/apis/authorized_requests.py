"""A table with a request for each right that an API requires: its refusal, and the ACLs that are just sufficient.

If several ACLs are needed, each of them except the first is insufficient alone.
"""

from pipeline_broker.wire.registry import ApiKey
from tests.apis.access_cases import (
    BATCH,
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    REFUSALS,
    TOPIC_REFUSED,
    Op,
    case,
    cluster,
    group,
    inner,
    make,
    rule,
    topic,
)
from tests.apis.authorized_cluster_requests import CLUSTER_CASES
from tests.apis.authorized_share_requests import SHARE_CASES

__all__ = ["BATCH", "CASES", "REFUSALS", "TOPIC_REFUSED", "Op", "cluster", "group", "inner", "make", "rule", "topic"]

MARKERS = {
    "markers": [
        inner(
            "write_txn_markers",
            "WritableTxnMarker",
            7,
            0,
            True,
            [inner("write_txn_markers", "WritableTxnMarkerTopic", "t", [0])],
        )
    ]
}
PARTITIONS = {
    "topics": [inner("list_offsets", "ListOffsetsTopic", "t", [inner("list_offsets", "ListOffsetsPartition")])]
}
SUBTOPOLOGY = inner("streams_group_heartbeat", "Subtopology", "0", ["t"])
CASES = [
    case(
        ApiKey.PRODUCE,
        9,
        TOPIC_REFUSED,
        [topic(Op.WRITE)],
        acks=-1,
        topic_data=[
            inner(
                "produce", "TopicProduceData", "t", partition_data=[inner("produce", "PartitionProduceData", 0, BATCH)]
            )
        ],
    ),
    case(
        ApiKey.FETCH,
        12,
        TOPIC_REFUSED,
        [topic(Op.READ)],
        topics=[inner("fetch", "FetchTopic", "t", partitions=[inner("fetch", "FetchPartition", 0)])],
    ),
    case(ApiKey.LIST_OFFSETS, 6, TOPIC_REFUSED, [topic(Op.DESCRIBE)], **PARTITIONS),
    case(
        ApiKey.DELETE_RECORDS,
        2,
        TOPIC_REFUSED,
        [topic(Op.DELETE)],
        topics=[
            inner("delete_records", "DeleteRecordsTopic", "t", [inner("delete_records", "DeleteRecordsPartition")])
        ],
    ),
    *(
        case(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            version,
            TOPIC_REFUSED,
            [right],
            topics=[
                inner(
                    "offset_for_leader_epoch",
                    "OffsetForLeaderTopic",
                    "t",
                    [inner("offset_for_leader_epoch", "OffsetForLeaderPartition")],
                )
            ],
        )
        for version, right in ((3, topic(Op.DESCRIBE)), (4, cluster(Op.CLUSTER_ACTION)))
    ),
    case(ApiKey.DESCRIBE_LOG_DIRS, 5, CLUSTER_REFUSED, [cluster(Op.DESCRIBE)], topics=None),
    case(
        ApiKey.METADATA,
        9,
        TOPIC_REFUSED,
        [topic(Op.DESCRIBE)],
        topics=[inner("metadata", "MetadataRequestTopic", name="t")],
    ),
    case(ApiKey.INIT_PRODUCER_ID, 4, CLUSTER_REFUSED, [cluster(Op.IDEMPOTENT_WRITE)], transactional_id=None),
    case(ApiKey.INIT_PRODUCER_ID, 5, CLUSTER_REFUSED, [topic(Op.WRITE)], transactional_id=None),
    case(ApiKey.FIND_COORDINATOR, 4, GROUP_REFUSED, [group(Op.DESCRIBE)], coordinator_keys=["g"]),
    case(ApiKey.FIND_COORDINATOR, 3, GROUP_REFUSED, [group(Op.DESCRIBE)], key="g"),
    case(ApiKey.JOIN_GROUP, 9, GROUP_REFUSED, [group(Op.READ)], group_id="g", session_timeout_ms=10000),
    case(ApiKey.SYNC_GROUP, 5, GROUP_REFUSED, [group(Op.READ)], group_id="g", protocol_type="c", protocol_name="p"),
    case(ApiKey.HEARTBEAT, 4, GROUP_REFUSED, [group(Op.READ)], group_id="g"),
    case(ApiKey.LEAVE_GROUP, 4, GROUP_REFUSED, [group(Op.READ)], group_id="g"),
    case(
        ApiKey.OFFSET_COMMIT,
        8,
        GROUP_REFUSED,
        [group(Op.READ), topic(Op.READ)],
        group_id="g",
        topics=[
            inner(
                "offset_commit",
                "OffsetCommitRequestTopic",
                "t",
                partitions=[inner("offset_commit", "OffsetCommitRequestPartition", 0)],
            )
        ],
    ),
    case(
        ApiKey.OFFSET_FETCH,
        8,
        GROUP_REFUSED,
        [group(Op.DESCRIBE), topic(Op.DESCRIBE)],
        groups=[
            inner(
                "offset_fetch",
                "OffsetFetchRequestGroup",
                group_id="g",
                topics=[inner("offset_fetch", "OffsetFetchRequestTopics", "t", partition_indexes=[0])],
            )
        ],
    ),
    case(ApiKey.DESCRIBE_GROUPS, 5, GROUP_REFUSED, [group(Op.DESCRIBE)], groups=["g"]),
    case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        GROUP_REFUSED,
        [group(Op.READ), topic(Op.DESCRIBE)],
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
    ),
    case(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, GROUP_REFUSED, [group(Op.DESCRIBE)], group_ids=["g"]),
    case(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        1,
        GROUP_REFUSED,
        [group(Op.READ), topic(Op.DESCRIBE)],
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        topology=inner("streams_group_heartbeat", "Topology", 1, [SUBTOPOLOGY]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    ),
    case(ApiKey.STREAMS_GROUP_DESCRIBE, 1, GROUP_REFUSED, [group(Op.DESCRIBE)], group_ids=["g"]),
    case(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, GROUP_REFUSED, [group(Op.READ)], group_id="g"),
    case(
        ApiKey.OFFSET_DELETE,
        0,
        GROUP_REFUSED,
        [group(Op.DELETE), topic(Op.READ)],
        group_id="g",
        topics=[
            inner(
                "offset_delete",
                "OffsetDeleteRequestTopic",
                "t",
                [inner("offset_delete", "OffsetDeleteRequestPartition", 0)],
            )
        ],
    ),
    case(ApiKey.DELETE_GROUPS, 2, GROUP_REFUSED, [group(Op.DELETE)], groups_names=["g"]),
    case(
        ApiKey.CREATE_TOPICS,
        5,
        TOPIC_REFUSED,
        [cluster(Op.CREATE), topic(Op.DESCRIBE_CONFIGS)],
        topics=[inner("create_topics", "CreatableTopic", "t", 1, 1)],
    ),
    case(
        ApiKey.CREATE_TOPICS,
        4,
        TOPIC_REFUSED,
        [topic(Op.CREATE)],
        topics=[inner("create_topics", "CreatableTopic", "t", 1, 1)],
    ),
    case(ApiKey.DELETE_TOPICS, 5, TOPIC_REFUSED, [topic(Op.DELETE)], topic_names=["t"], timeout_ms=1000),
    case(
        ApiKey.CREATE_PARTITIONS,
        3,
        TOPIC_REFUSED,
        [topic(Op.ALTER)],
        topics=[inner("create_partitions", "CreatePartitionsTopic", "t", 9)],
        timeout_ms=1000,
    ),
    case(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        TOPIC_REFUSED,
        [topic(Op.DESCRIBE_CONFIGS)],
        resources=[inner("describe_configs", "DescribeConfigsResource", 2, "t")],
    ),
    case(
        ApiKey.DESCRIBE_CONFIGS,
        3,
        CLUSTER_REFUSED,
        [cluster(Op.DESCRIBE_CONFIGS)],
        resources=[inner("describe_configs", "DescribeConfigsResource", 4, "1")],
    ),
    case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        TOPIC_REFUSED,
        [topic(Op.ALTER_CONFIGS)],
        resources=[inner("incremental_alter_configs", "AlterConfigsResource", 2, "t")],
    ),
    case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        0,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER_CONFIGS)],
        resources=[inner("incremental_alter_configs", "AlterConfigsResource", 4, "1")],
    ),
    case(ApiKey.WRITE_TXN_MARKERS, 1, CLUSTER_REFUSED, [cluster(Op.CLUSTER_ACTION)], **MARKERS),
    case(ApiKey.WRITE_TXN_MARKERS, 2, CLUSTER_REFUSED, [cluster(Op.ALTER)], **MARKERS),
    case(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        TOPIC_REFUSED,
        [topic(Op.READ)],
        topics=[inner("describe_producers", "TopicRequest", "t", [0])],
    ),
    case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        TOPIC_REFUSED,
        [topic(Op.DESCRIBE)],
        topics=[inner("describe_topic_partitions", "TopicRequest", "t")],
    ),
    case(
        ApiKey.DESCRIBE_ACLS,
        3,
        CLUSTER_REFUSED,
        [cluster(Op.DESCRIBE)],
        resource_type_filter=1,
        pattern_type_filter=1,
        operation=1,
        permission_type=1,
    ),
    case(
        ApiKey.CREATE_ACLS,
        3,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER)],
        creations=[inner("create_acls", "AclCreation", 2, "x", 3, "User:x", "*", 3, 3)],
    ),
    case(
        ApiKey.DELETE_ACLS,
        3,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER)],
        filters=[inner("delete_acls", "DeleteAclsFilter", 2, "x", 3, None, None, 1, 1)],
    ),
    case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, CLUSTER_REFUSED, [cluster(Op.DESCRIBE)]),
    case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER)],
        deletions=[inner("alter_user_scram_credentials", "ScramCredentialDeletion", "u", 1)],
    ),
    case(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, CLUSTER_REFUSED, [cluster(Op.DESCRIBE_CONFIGS)]),
    case(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER_CONFIGS)],
        entries=[inner("alter_client_quotas", "EntryData", [inner("alter_client_quotas", "EntityData", "user", "u")])],
    ),
    *CLUSTER_CASES,
    *SHARE_CASES,
]
