"""The rights that APIs of the cluster and its settings require; see authorized_requests."""

from pipeline_broker.wire.registry import ApiKey
from tests.apis.access_cases import (
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    TOPIC_REFUSED,
    Op,
    case,
    cluster,
    group,
    inner,
    topic,
)

CLUSTER_CASES = [
    case(
        ApiKey.ALTER_CONFIGS,
        2,
        TOPIC_REFUSED,
        [topic(Op.ALTER_CONFIGS)],
        resources=[inner("alter_configs", "AlterConfigsResource", 2, "t", [])],
    ),
    case(
        ApiKey.ALTER_CONFIGS,
        1,
        GROUP_REFUSED,
        [group(Op.ALTER_CONFIGS)],
        resources=[inner("alter_configs", "AlterConfigsResource", 32, "g", [])],
    ),
    case(
        ApiKey.DESCRIBE_CONFIGS,
        2,
        GROUP_REFUSED,
        [group(Op.DESCRIBE_CONFIGS)],
        resources=[inner("describe_configs", "DescribeConfigsResource", 32, "g")],
    ),
    case(ApiKey.LIST_CONFIG_RESOURCES, 1, CLUSTER_REFUSED, [cluster(Op.DESCRIBE_CONFIGS)]),
    case(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER)],
        dirs=[
            inner(
                "alter_replica_log_dirs",
                "AlterReplicaLogDir",
                "/nowhere",
                [inner("alter_replica_log_dirs", "AlterReplicaLogDirTopic", "t", [0])],
            )
        ],
    ),
    case(
        ApiKey.ELECT_LEADERS,
        2,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER)],
        topic_partitions=[inner("elect_leaders", "TopicPartitions", "t", [0])],
    ),
    case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER)],
        topics=[
            inner(
                "alter_partition_reassignments",
                "ReassignableTopic",
                "t",
                [inner("alter_partition_reassignments", "ReassignablePartition", 0, [1])],
            )
        ],
    ),
    case(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, CLUSTER_REFUSED, [cluster(Op.DESCRIBE)]),
    case(
        ApiKey.DESCRIBE_QUORUM,
        2,
        CLUSTER_REFUSED,
        [cluster(Op.DESCRIBE)],
        topics=[
            inner("describe_quorum", "TopicData", "__cluster_metadata", [inner("describe_quorum", "PartitionData", 0)])
        ],
    ),
    case(
        ApiKey.UPDATE_FEATURES,
        2,
        CLUSTER_REFUSED,
        [cluster(Op.ALTER)],
        feature_updates=[inner("update_features", "FeatureUpdateKey", "metadata.version", 33)],
        validate_only=True,
    ),
    case(ApiKey.UNREGISTER_BROKER, 0, CLUSTER_REFUSED, [cluster(Op.ALTER)], broker_id=99),
    case(ApiKey.UNREGISTER_CONTROLLER, 0, CLUSTER_REFUSED, [cluster(Op.ALTER)], controller_id=99),
    case(ApiKey.ADD_RAFT_VOTER, 1, CLUSTER_REFUSED, [cluster(Op.ALTER)], cluster_id=None, voter_id=2),
    case(ApiKey.REMOVE_RAFT_VOTER, 0, CLUSTER_REFUSED, [cluster(Op.ALTER)], cluster_id=None, voter_id=2),
]
