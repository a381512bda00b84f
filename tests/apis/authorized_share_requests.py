"""The rights that APIs of share groups require; see authorized_requests."""

from pipeline_broker.wire.registry import ApiKey
from tests.apis.access_cases import CLUSTER_REFUSED, GROUP_REFUSED, Op, case, cluster, group, inner, topic

SHARE_CASES = [
    case(
        ApiKey.FIND_COORDINATOR,
        6,
        CLUSTER_REFUSED,
        [cluster(Op.CLUSTER_ACTION)],
        key_type=2,
        coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"],
    ),
    case(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        GROUP_REFUSED,
        [group(Op.READ), topic(Op.DESCRIBE)],
        group_id="g",
        member_id="m",
        subscribed_topic_names=["t"],
    ),
    case(ApiKey.SHARE_GROUP_DESCRIBE, 1, GROUP_REFUSED, [group(Op.DESCRIBE)], group_ids=["g"]),
    case(
        ApiKey.SHARE_FETCH,
        2,
        GROUP_REFUSED,
        [group(Op.READ), topic(Op.READ)],
        group_id="g",
        member_id="m",
        topics=[inner("share_fetch", "FetchTopic", b"t" * 16, [inner("share_fetch", "FetchPartition", 0)])],
    ),
    case(
        ApiKey.SHARE_ACKNOWLEDGE,
        2,
        GROUP_REFUSED,
        [group(Op.READ), topic(Op.READ)],
        group_id="g",
        member_id="m",
        share_session_epoch=1,
    ),
    *(
        case(
            key,
            0,
            CLUSTER_REFUSED,
            [cluster(Op.CLUSTER_ACTION)],
            group_id="g",
            topics=[inner(module, data, b"t" * 16, [inner(module, "PartitionData", 0)])],
        )
        for key, module, data in (
            (ApiKey.INITIALIZE_SHARE_GROUP_STATE, "initialize_share_group_state", "InitializeStateData"),
            (ApiKey.READ_SHARE_GROUP_STATE, "read_share_group_state", "ReadStateData"),
            (ApiKey.WRITE_SHARE_GROUP_STATE, "write_share_group_state", "WriteStateData"),
            (ApiKey.DELETE_SHARE_GROUP_STATE, "delete_share_group_state", "DeleteStateData"),
            (ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "read_share_group_state_summary", "ReadStateSummaryData"),
        )
    ),
    case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        GROUP_REFUSED,
        [group(Op.DESCRIBE), topic(Op.DESCRIBE)],
        groups=[
            inner(
                "describe_share_group_offsets", "Group", "g", [inner("describe_share_group_offsets", "Topic", "t", [0])]
            )
        ],
    ),
    *(
        case(
            key,
            0,
            GROUP_REFUSED,
            [group(operation), topic(Op.READ)],
            group_id="g",
            topics=[inner(module, "Topic", "t")],
        )
        for key, module, operation in (
            (ApiKey.ALTER_SHARE_GROUP_OFFSETS, "alter_share_group_offsets", Op.READ),
            (ApiKey.DELETE_SHARE_GROUP_OFFSETS, "delete_share_group_offsets", Op.DELETE),
        )
    ),
]
