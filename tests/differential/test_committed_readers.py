"""What readers of a partition with transactions get from Apache Kafka and from us, fetch by fetch."""

import itertools
import time
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.control_batch import read_marker
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from tests.differential.comparison import drawn
from tests.differential.data_requests import NOW_MS

pytestmark = pytest.mark.xdist_group("kafka")
numbers = itertools.count()
LATEST = -1
IDS = ("a", "b", "c")
PASSING = {3, 6, 14, 15, 16, 51}
"""Errors while a topic or a coordinator comes up, or a transaction ends."""
SECONDS_MAX = 30.0
READ_COMMITTED = 1
TIMEOUT_MS = 900_000
"""Of transactions: those that a plan leaves open are not aborted while the tests of this folder run."""


class Consumed(NamedTuple):
    """What a reader got: offsets and values, and by fetch from where to where, and who was listed as aborted."""

    records: list
    fetches: list
    last_stable_offset: int
    high_watermark: int


class Writer:
    """One side, and the transactions that are written to one of its topics."""

    def __init__(self, side, topic):
        self.side, self.topic = side, topic
        self.producers, self.sequences, self.added = {}, {}, set()

    def ask(self, message, version):
        answer = self.side.ask(message, version)
        assert answer != "closed"
        return answer

    def begin(self):
        topics = [CreateTopicsRequest.CreatableTopic(self.topic, 1, 1)]
        self.ask(CreateTopicsRequest(topics, 20_000), 5)
        for name in IDS:
            answer = self.until_ready(
                InitProducerIdRequest(f"{self.topic}-{name}", TIMEOUT_MS), 1, lambda it: it["error_code"]
            )
            self.producers[name] = answer["producer_id"], answer["producer_epoch"]

    def until_ready(self, message, version, code_of):
        """The first answer that is not about something which passes: Kafka does much behind its answers."""
        deadline = time.monotonic() + SECONDS_MAX
        while code_of(answer := self.ask(message, version)) in PASSING:
            assert time.monotonic() < deadline
        return answer

    def write(self, name, size):
        """A record, in a transaction or, without a name, in none."""
        records = [NewRecord((name or "-").encode() * size, b"k", NOW_MS)]
        if name is None:
            return self.produce(build_batch(records), None)
        if name not in self.added:
            self.add(name)
        sequence = self.sequences.get(name, 0)
        self.sequences[name] = sequence + 1
        producer_id, epoch = self.producers[name]
        producer = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        return self.produce(build_batch(records, transactional=True, **producer), f"{self.topic}-{name}")

    def add(self, name):
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(self.topic, [0])
        request = AddPartitionsToTxnRequest([], f"{self.topic}-{name}", *self.producers[name], [topic])
        self.until_ready(
            request,
            2,
            lambda it: it["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"],
        )
        self.added.add(name)

    def produce(self, batch, transactional_id):
        data = ProduceRequest.TopicProduceData(self.topic, bytes(16), [ProduceRequest.PartitionProduceData(0, batch)])
        request = ProduceRequest(transactional_id, -1, 10_000, [data])

        def code_of(answer):
            return answer["responses"][0]["partition_responses"][0]["error_code"]

        return code_of(self.until_ready(request, 9, code_of))

    def end(self, name, committed):
        if name not in self.added:
            return 0
        self.added.discard(name)
        answer = self.ask(EndTxnRequest(f"{self.topic}-{name}", *self.producers[name], committed), 2)
        prepared = ListTransactionsRequest(["PrepareCommit", "PrepareAbort"])
        deadline = time.monotonic() + SECONDS_MAX
        while any(it["transactional_id"].startswith(self.topic) for it in self.ask(prepared, 0)["transaction_states"]):
            assert time.monotonic() < deadline
        return answer["error_code"]

    def fetch(self, offset, isolation_level, bytes_max):
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
        topics = [FetchRequest.FetchTopic(self.topic, bytes(16), [wanted])]
        request = FetchRequest(
            max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, isolation_level=isolation_level, topics=topics
        )
        (partition,) = self.ask(request, 11)["responses"][0]["partitions"]
        names = {producer[0]: name for name, producer in self.producers.items()}
        listed = partition["aborted_transactions"]
        aborted = None if listed is None else [(names[it["producer_id"]], it["first_offset"]) for it in listed]
        return partition, aborted

    def latest(self, isolation_level):
        partition = ListOffsetsRequest.ListOffsetsPartition(0, -1, LATEST)
        request = ListOffsetsRequest(
            -1, isolation_level, [ListOffsetsRequest.ListOffsetsTopic(self.topic, [partition])]
        )
        (found,) = self.ask(request, 3)["topics"][0]["partitions"]
        return found["error_code"], found["offset"]

    def consume(self, bytes_max):
        """As Kafka's consumer."""
        offset, found, fetches = 0, [], []
        while True:
            partition, aborted = self.fetch(offset, READ_COMMITTED, bytes_max)
            names = {producer[0]: name for name, producer in self.producers.items()}
            waiting, aborting = sorted(aborted or [], key=lambda it: it[1]), set()
            start = offset
            for header, batch in iterate_batches(partition["records"]):
                while waiting and waiting[0][1] <= header.last_offset:
                    aborting.add(waiting.pop(0)[0])
                name = names.get(header.producer_id)
                if header.is_control:
                    if not read_marker(header, batch).is_commit:
                        aborting.discard(name)
                elif name not in aborting:
                    found += [(record.offset, bytes(record.value)) for record in iterate_records(batch, header)]
                offset = header.last_offset + 1
            fetches.append((start, offset, aborted))
            if offset == start:
                return Consumed(found, fetches, partition["last_stable_offset"], partition["high_watermark"])


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from([None, *IDS, *IDS]), st.sampled_from([1, 1, 700])),
        st.tuples(st.just("end"), st.sampled_from(IDS), st.booleans()),
    ),
    min_size=10,
    max_size=40,
)


@drawn(12)
@given(plan=steps, bytes_max=st.sampled_from([1, 1000, 1 << 20]))
def test_readers_of_committed_records_get_what_kafka_gives_them(sides, plan, bytes_max):
    """Kafka lists aborted transactions up to the next entry of its offset index; ours are among them."""
    topic = f"readers-{next(numbers)}"
    writers = [Writer(side, topic) for side in sides.all]
    for writer in writers:
        writer.begin()
    for kind, *arguments in plan:
        codes = [getattr(writer, kind)(*arguments) for writer in writers]
        assert codes == [codes[0]] * 3
        for isolation_level in (0, READ_COMMITTED):
            assert len({writer.latest(isolation_level) for writer in writers}) == 1
    kafka, *ours = [writer.consume(bytes_max) for writer in writers]
    for mine in ours:
        assert (mine.records, mine.last_stable_offset, mine.high_watermark) == (
            kafka.records,
            kafka.last_stable_offset,
            kafka.high_watermark,
        )
        for theirs, own in zip(kafka.fetches, mine.fetches, strict=True):
            assert theirs[:2] == own[:2]
            assert set(own[2]) <= set(theirs[2] or ())
    told = [writer.fetch(0, 0, 1 << 20) for writer in writers]
    assert [aborted for _, aborted in told] == [None] * 3
    assert len({partition["last_stable_offset"] for partition, _ in told}) == 1
