"""Requests about transactions, drawn by Hypothesis: each alone, about ids that there may be or not.

What one leads to for the next is told in `test_transactions`.
"""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline_broker.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from pipeline_broker.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.admin_requests import GROUPS
from tests.differential.data_requests import Ask, ask, partitions, topic_id, topics
from tests.differential.oracle import Side

BETWEEN_BROKERS_FROM = 4
DURATION_FROM = 1
PATTERN_FROM = 2
GENERATION_FROM = 3
names = st.sampled_from(["", "nobody", "nobody else"])
producers = st.tuples(st.sampled_from([10**9, 0, -1]), st.sampled_from([0, 1, -1, 2**15 - 1]))
PATTERNS = [
    None,
    "",
    ".*",
    "no.*",
    "(nobody|x)",
    "n[",
    "(?=n)",
    "n{2}{3}",
    r"\pL+",
    "*",
    "n**",
    "(?i)NOBODY",
    r"\Qnobody\E",
]


def wanted_partitions() -> st.SearchStrategy[dict[str, list[int]]]:
    """Kafka does not answer when it is asked to add nothing between brokers."""
    return st.dictionaries(topics, st.lists(partitions, min_size=1, max_size=2, unique=True), min_size=1, max_size=2)


@st.composite
def add_partitions_to_txn(draw: st.DrawFn, version: int) -> Ask:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

    def one() -> tuple[str, int, int, list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]]:
        wanted = draw(wanted_partitions())
        return draw(names), *draw(producers), [topic(name, indexes) for name, indexes in wanted.items()]

    if version < BETWEEN_BROKERS_FROM:
        name, producer_id, epoch, wanted = one()
        return ask(version, AddPartitionsToTxnRequest([], name, producer_id, epoch, wanted))
    transactions = {}
    for _ in range(draw(st.integers(1, 2))):
        name, producer_id, epoch, wanted = one()
        only = draw(st.booleans())
        transactions[name] = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            name, producer_id, epoch, only, wanted
        )
    return ask(version, AddPartitionsToTxnRequest(list(transactions.values())))


@st.composite
def add_offsets_to_txn(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, AddOffsetsToTxnRequest(draw(names), *draw(producers), draw(st.sampled_from(GROUPS))))


@st.composite
def end_txn(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, EndTxnRequest(draw(names), *draw(producers), draw(st.booleans())))


@st.composite
def txn_offset_commit(draw: st.DrawFn, version: int) -> Ask:
    asked = TxnOffsetCommitRequest
    about = draw(names), draw(st.sampled_from(GROUPS)), *draw(producers)
    member = draw(st.sampled_from([(-1, ""), (3, "somebody")])) if version >= GENERATION_FROM else (-1, "")
    wanted = draw(wanted_partitions())

    def build(side: Side) -> TxnOffsetCommitRequest:
        part = asked.TxnOffsetCommitRequestPartition
        listed = [
            asked.TxnOffsetCommitRequestTopic(
                name, topic_id(side, name), [part(index, 7, committed_metadata="m") for index in indexes]
            )
            for name, indexes in wanted.items()
        ]
        return asked(*about, *member, topics=listed)

    return Ask(version, build, text=f"{about} {member} {wanted}")


@st.composite
def describe_transactions(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, DescribeTransactionsRequest(draw(st.lists(names, max_size=3, unique=True))))


@st.composite
def list_transactions(draw: st.DrawFn, version: int) -> Ask:
    """Of ids that other tests do not make."""
    states = st.sampled_from(["Nonsense", "ongoing", "Dead", "PrepareEpochFence"])
    request = ListTransactionsRequest(draw(st.lists(states, min_size=1, max_size=3, unique=True)))
    request.producer_id_filters = draw(st.lists(st.sampled_from([-1, 10**9]), max_size=2, unique=True))
    if version >= DURATION_FROM:
        request.duration_filter = draw(st.sampled_from([-1, 0, 10**6]))
    if version >= PATTERN_FROM:
        request.transactional_id_pattern = draw(st.sampled_from(PATTERNS))
    return ask(version, request)


TRANSACTION_REQUESTS = {
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    ApiKey.END_TXN: end_txn,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
}
