"""What one request of a transactional producer leads to for the next: epochs, fences, partitions, offsets."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from pipeline_broker.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.comparison import drawn
from tests.differential.data_requests import NOW_MS, TOPICS, Ask, topic_id
from tests.differential.oracle import Side
from tests.differential.test_sequences import Story

pytestmark = pytest.mark.xdist_group("kafka")
numbers = itertools.count()
TOPIC = "three"
SECONDS_MAX = 30.0
TIMEOUT_MS = 900_000
"""Of transactions: none ends of itself while the tests of this folder run."""
STEPS = 14


class Transactions:
    """The requests about one transactional id; each side has its own producers, which it was told in the same order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.group = f"group of {name}"

    def producer(self, side: Side, back: int) -> tuple[int, int]:
        """The latest one, or one before."""
        told = side.told.get(self.name, [(-1, -1)])
        return told[max(-len(told), -1 - back)]

    def remember(self, side: Side, answer: Any) -> None:
        if not answer["error_code"] and answer.get("producer_id", -1) >= 0:
            side.told.setdefault(self.name, []).append((answer["producer_id"], answer["producer_epoch"]))

    def init(self, version: int, back: int | None) -> Ask:
        def build(side: Side) -> InitProducerIdRequest:
            producer = (-1, -1) if back is None or version < 3 else self.producer(side, back)
            return InitProducerIdRequest(self.name, TIMEOUT_MS, *producer)

        return Ask(version, build, text=f"init of {back}")

    def add(self, version: int, back: int, indexes: list[int]) -> Ask:
        def build(side: Side) -> AddPartitionsToTxnRequest:
            topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TOPIC, indexes)]
            if version < 4:
                return AddPartitionsToTxnRequest([], self.name, *self.producer(side, back), topics)
            one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
            return AddPartitionsToTxnRequest([one(self.name, *self.producer(side, back), version == 4, topics)])

        return Ask(version, build, text=f"add {indexes} of {back}")

    def produce(self, version: int, back: int, index: int) -> Ask:
        def build(side: Side) -> ProduceRequest:
            producer_id, epoch = self.producer(side, back)
            key = (self.name, producer_id, epoch, index)
            side.told["produced"] = key
            data = build_batch(
                [NewRecord(b"value", b"key", NOW_MS)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=side.told.get(key, 0),
                transactional=True,
            )
            partition = ProduceRequest.PartitionProduceData(index, data)
            topic = ProduceRequest.TopicProduceData(TOPIC, topic_id(side, TOPIC), [partition])
            return ProduceRequest(self.name, -1, 10_000, [topic])

        return Ask(version, build, text=f"produce to {index} by {back}")

    @staticmethod
    def count(side: Side, answer: Any) -> None:
        ((partition,),) = ([data] for topic in answer["responses"] for data in topic["partition_responses"])
        if not partition["error_code"]:
            side.told[side.told["produced"]] = side.told.get(side.told["produced"], 0) + 1

    def end(self, version: int, back: int, *, committed: bool) -> Ask:
        return Ask(
            version,
            lambda side: EndTxnRequest(self.name, *self.producer(side, back), committed),
            text=f"end of {back} committed={committed}",
        )

    def offsets(self, version: int, back: int, offset: int) -> Ask:
        asked = TxnOffsetCommitRequest

        def build(side: Side) -> TxnOffsetCommitRequest:
            partition = asked.TxnOffsetCommitRequestPartition(0, offset, committed_metadata="m")
            topics = [asked.TxnOffsetCommitRequestTopic(TOPIC, topic_id(side, TOPIC), [partition])]
            return asked(self.name, self.group, *self.producer(side, back), topics=topics)

        return Ask(version, build, text=f"offsets of {back}")

    def add_offsets(self, version: int, back: int) -> Ask:
        return Ask(
            version,
            lambda side: AddOffsetsToTxnRequest(self.name, *self.producer(side, back), self.group),
            text=f"add offsets of {back}",
        )

    def fetch_offsets(self, version: int, *, stable: bool) -> Ask:
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(TOPIC, partition_indexes=[0, 1])]
        groups = [OffsetFetchRequest.OffsetFetchRequestGroup(self.group, topics=topics)]
        return Ask(version, lambda _: OffsetFetchRequest(groups=groups, require_stable=stable), text=f"stable={stable}")

    def describe(self) -> Ask:
        return Ask(0, lambda _: DescribeTransactionsRequest([self.name]), text="describe")

    def fetch(self, version: int, isolation: int) -> Ask:
        def build(side: Side) -> FetchRequest:
            wanted = [
                FetchRequest.FetchPartition(partition=index, partition_max_bytes=1 << 20)
                for index in range(TOPICS[TOPIC])
            ]
            topics = [FetchRequest.FetchTopic(TOPIC, topic_id(side, TOPIC), wanted)]
            return FetchRequest(
                max_wait_ms=0, session_epoch=-1, isolation_level=isolation, max_bytes=1 << 20, topics=topics
            )

        return Ask(version, build, text=f"fetch with isolation {isolation}")

    def settle(self, sides: Any) -> None:
        """Wait until Kafka has written its markers; ours are written when the end is answered."""
        prepared = ListTransactionsRequest(["PrepareCommit", "PrepareAbort"])
        for side in sides.ours:
            assert not side.ask(prepared, 0)["transaction_states"]
        deadline = time.monotonic() + SECONDS_MAX
        while any(it["transactional_id"] == self.name for it in sides.kafka.ask(prepared, 0)["transaction_states"]):
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def abort(self, sides: Any) -> None:
        """End what is open: Kafka lists what others abort behind it (see test_committed_readers), ours do not."""
        for side in sides.all:
            side.ask(InitProducerIdRequest(self.name, TIMEOUT_MS), 5)
        self.settle(sides)


def steps(story: Story, it: Transactions, draw: Callable[[Any], Any]) -> dict[str, Callable[[], None]]:
    """What a producer, or somebody who was one, may ask next."""
    back = st.sampled_from([0, 0, 0, 1, 2])
    index = st.sampled_from([0, 0, 1])
    ask = story.tell
    return {
        "init": lambda: ask(
            ApiKey.INIT_PRODUCER_ID,
            it.init(story.version(ApiKey.INIT_PRODUCER_ID), draw(st.sampled_from([None, 0, 0, 1]))),
            it.remember,
        ),
        "add": lambda: ask(
            ApiKey.ADD_PARTITIONS_TO_TXN, it.add(story.version(ApiKey.ADD_PARTITIONS_TO_TXN), draw(back), [draw(index)])
        ),
        "produce": lambda: ask(
            ApiKey.PRODUCE,
            it.produce(draw(st.sampled_from([3, 9, 10, 11, 12, 12, 13])), draw(back), draw(index)),
            it.count,
        ),
        "end": lambda: ask(
            ApiKey.END_TXN,
            it.end(draw(st.sampled_from([0, 1, 2, 3, 4, 5, 5, 5])), draw(back), committed=draw(st.booleans())),
            it.remember,
        ),
        "offsets": lambda: ask(
            ApiKey.TXN_OFFSET_COMMIT,
            it.offsets(story.version(ApiKey.TXN_OFFSET_COMMIT), draw(back), draw(st.integers(0, 99))),
        ),
        "add offsets": lambda: ask(
            ApiKey.ADD_OFFSETS_TO_TXN, it.add_offsets(story.version(ApiKey.ADD_OFFSETS_TO_TXN), draw(back))
        ),
        "fetch offsets": lambda: ask(
            ApiKey.OFFSET_FETCH, it.fetch_offsets(draw(st.sampled_from([8, 9])), stable=draw(st.booleans()))
        ),
        "fetch": lambda: ask(ApiKey.FETCH, it.fetch(draw(st.sampled_from([4, 12, 17])), draw(st.integers(0, 1)))),
    }


WEIGHTED = ["init", "add", "produce", "produce", "produce", "end", "end", "offsets", "offsets", "add offsets"]


@drawn(12)
@given(data=st.data())
def test_a_transactional_id_lives_as_in_kafka(sides, data):
    """Its producers in turn, the one before too, in both ways to write transactions."""
    it = Transactions(f"transactions-{next(numbers)}")
    try:
        live(Story(sides, data.draw), it, data.draw)
    finally:
        it.abort(sides)  # Hypothesis gives some examples up amid their life


def live(story: Story, it: Transactions, draw: Callable[[Any], Any]) -> None:
    """Ask what is drawn, and in the end for all that came of it."""
    possible, sides = steps(story, it, draw), story.sides
    possible["init"]()
    for _ in range(STEPS):
        possible[draw(st.sampled_from([*WEIGHTED, "fetch offsets", "fetch"]))]()
        it.settle(sides)
        story.tell(ApiKey.LIST_TRANSACTIONS, listed(it.name))
    begin = it.init(5, None)
    for _ in range(2):
        story.tell(ApiKey.INIT_PRODUCER_ID, begin, it.remember)
        it.settle(sides)
    story.tell(ApiKey.PRODUCE, it.produce(12, 0, 0), it.count)
    story.tell(ApiKey.DESCRIBE_TRANSACTIONS, it.describe())
    story.tell(ApiKey.END_TXN, it.end(5, 0, committed=True), it.remember)
    it.settle(sides)
    story.tell(ApiKey.DESCRIBE_TRANSACTIONS, it.describe())
    for stable in (True, False):
        story.tell(ApiKey.OFFSET_FETCH, it.fetch_offsets(9, stable=stable))
    for isolation in (0, 1):
        story.tell(ApiKey.FETCH, it.fetch(17, isolation))
    story.end()


def test_to_add_no_partition_does_what_it_does_in_kafka(sides):
    story, it = Story(sides, None), Transactions(f"transactions-{next(numbers)}")
    story.tell(ApiKey.INIT_PRODUCER_ID, it.init(4, None), it.remember)
    story.tell(ApiKey.ADD_PARTITIONS_TO_TXN, it.add(3, 0, []))
    story.tell(ApiKey.LIST_TRANSACTIONS, listed(it.name))
    story.tell(ApiKey.END_TXN, it.end(3, 0, committed=True))
    it.settle(sides)
    story.tell(ApiKey.LIST_TRANSACTIONS, listed(it.name))
    story.end()


def listed(name: str) -> Ask:
    request = ListTransactionsRequest([], [], -1, name)
    return Ask(2, lambda _: request, text="list")
