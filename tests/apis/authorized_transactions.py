"""Requests of transactions for the table of rights; see authorized_requests."""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.security.acl import ResourceType
from pipeline_broker.wire.registry import ApiKey
from tests.apis.authorized_requests import CLUSTER_REFUSED, Op, case, cluster, group, inner, rule, topic

TRANSACTION_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
OF_TRANSACTION = build_batch(
    [NewRecord(b"v", None, 0)], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
)


def transaction(operation):
    return rule(ResourceType.TRANSACTIONAL_ID, "x", operation)


TRANSACTION_CASES = [
    case(
        ApiKey.PRODUCE,
        12,
        TRANSACTION_REFUSED,
        [transaction(Op.WRITE), topic(Op.WRITE)],
        transactional_id="x",
        acks=-1,
        topic_data=[
            inner(
                "produce",
                "TopicProduceData",
                "t",
                partition_data=[inner("produce", "PartitionProduceData", 0, OF_TRANSACTION)],
            )
        ],
    ),
    case(
        ApiKey.INIT_PRODUCER_ID,
        2,
        TRANSACTION_REFUSED,
        [transaction(Op.WRITE)],
        transactional_id="x",
        transaction_timeout_ms=1000,
    ),
    case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        TRANSACTION_REFUSED,
        [transaction(Op.WRITE), topic(Op.WRITE)],
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[inner("add_partitions_to_txn", "AddPartitionsToTxnTopic", "t", [0])],
    ),
    case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        5,
        CLUSTER_REFUSED,
        [cluster(Op.CLUSTER_ACTION)],
        transactions=[inner("add_partitions_to_txn", "AddPartitionsToTxnTransaction", "x")],
    ),
    case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        4,
        TRANSACTION_REFUSED,
        [transaction(Op.WRITE), group(Op.READ)],
        transactional_id="x",
        group_id="g",
    ),
    case(ApiKey.END_TXN, 5, TRANSACTION_REFUSED, [transaction(Op.WRITE)], transactional_id="x"),
    case(
        ApiKey.TXN_OFFSET_COMMIT,
        5,
        TRANSACTION_REFUSED,
        [transaction(Op.WRITE), group(Op.READ), topic(Op.READ)],
        transactional_id="x",
        group_id="g",
        topics=[
            inner(
                "txn_offset_commit",
                "TxnOffsetCommitRequestTopic",
                "t",
                partitions=[inner("txn_offset_commit", "TxnOffsetCommitRequestPartition", 0)],
            )
        ],
    ),
    case(ApiKey.DESCRIBE_TRANSACTIONS, 0, TRANSACTION_REFUSED, [transaction(Op.DESCRIBE)], transactional_ids=["x"]),
]
