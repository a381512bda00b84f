"""Topics that ask for a codec hold the same batches as Kafka's, and refuse what Kafka refuses for its size."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import CHECKED_FROM, NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.comparison import compare, drawn
from tests.differential.data_requests import NOW_MS, ask, topic_id
from tests.differential.test_sequences import fetched
from tests.kafka_tools import kafka_tool
from tests.records.frames import ROWS, Outcome
from tests.records.test_check import changed

pytestmark = pytest.mark.xdist_group("kafka")
numbers = itertools.count()
TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
CODEC_OF = {name: Compression[name.upper()] for name in TYPES[1:5]} | {"uncompressed": Compression.NONE}
PRODUCE_VERSION, FETCH_VERSION = 9, 12
INCOMPRESSIBLE = random.Random(1).randbytes(3000)


class Topic:
    """One topic of all sides, gone at the end."""

    def __init__(self, sides, **configs):
        self.sides = sides
        self.name = f"codec-{next(numbers)}"
        settings = [
            CreateTopicsRequest.CreatableTopicConfig(name.replace("_", "."), str(value))
            for name, value in configs.items()
        ]
        created = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(self.name, 1, 1, configs=settings)], 20_000)
        self.tell(ApiKey.CREATE_TOPICS, ask(5, created, changes_topics=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        deleted = DeleteTopicsRequest(topic_names=[self.name], timeout_ms=20_000)
        self.tell(ApiKey.DELETE_TOPICS, ask(5, deleted, changes_topics=True))

    def tell(self, api, step):
        found = compare(self.sides, api, step)
        assert not found, "\n".join(found)

    def answer_of(self, side, batch):
        data = ProduceRequest.TopicProduceData(
            self.name, topic_id(side, self.name), [ProduceRequest.PartitionProduceData(0, batch)]
        )
        answer = side.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), PRODUCE_VERSION)
        (partition,) = answer["responses"][0]["partition_responses"]
        return partition

    def produce(self, batch, *, codes_differ=False):
        """Asks all; the error that they agree on. The time of an append is each side's own.

        With `codes_differ` they agree that there is one; the last code of ours is returned.
        """
        answers = []
        for side in self.sides.all:
            partition = self.answer_of(side, batch)
            is_stamped = partition["log_append_time_ms"] not in {None, -1}
            answers.append(
                (partition["error_code"], partition["base_offset"], partition["log_start_offset"], is_stamped)
            )
        if codes_differ:
            assert all(code for code, *_ in answers)
        else:
            assert answers == answers[:1] * len(answers)
        return ErrorCode(answers[-1][0])

    def held(self):
        """What each side has: headers without what depends on the compressor, and records; checksums must be right."""
        step = fetched(self.name, FETCH_VERSION, -1, 0, [0])
        for side in self.sides.all:
            answer = side.ask(step.build(side), step.version)
            batches = list(iterate_batches(answer["responses"][0]["partitions"][0]["records"]))
            assert all(crc32c(batch[CHECKED_FROM:]) == header.crc for header, batch in batches)
            yield (
                [header._replace(crc=0, batch_length=0) for header, _ in batches],
                [list(iterate_records(batch, header)) for header, batch in batches],
            )


def many_batches(producer_id):
    """Every codec, with headers, nulls, times that go back, an idempotent producer, and a base that is no record's."""
    sequence = 0
    for codec in Compression:
        records = [
            NewRecord(b"value " * 50, b"key", NOW_MS + 5, (("a", b"1"), ("a", None))),
            NewRecord(None, b"tombstone", NOW_MS - 3),
            NewRecord(b"", None, NOW_MS + 1),
        ]
        yield build_batch(records, compression=codec, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        yield build_batch(records[:1], compression=codec)
        sequence += len(records)
    plain = build_batch([NewRecord(b"value", timestamp=NOW_MS + 7)])
    yield changed(plain, base_timestamp=NOW_MS + 4, max_timestamp=1)
    yield changed(plain, attributes=0x40)


def test_records_are_accepted_if_kafka_reads_them(sides):
    """Every feature of every codec: Kafka answers as the table says, and so does each mode of ours."""
    with Topic(sides) as topic:
        for name, (outcome, batch) in ROWS.items():
            if outcome is Outcome.LOST:
                continue
            error = topic.produce(batch, codes_differ=outcome is Outcome.REFUSED)
            if outcome is Outcome.REFUSED:
                assert error in {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_RECORD}, name
            else:
                assert error == outcome.value, name


def test_every_acknowledged_batch_is_read_by_a_consumer_in_java(sides, tmp_path):
    """Of our brokers: an acknowledged batch that blocks a consumer for ever is lost, with all that follow it."""
    with Topic(sides) as topic:
        records = 0
        for _, batch in ROWS.values():
            answers = [topic.answer_of(side, batch) for side in sides.ours]
            assert answers[0] == answers[1]
            if answers[0]["error_code"] == 0:
                records += read_header(batch).record_count
        for side in sides.ours:
            read = kafka_tool(tmp_path)(
                "consumer.ConsoleConsumer",
                *("--bootstrap-server", f"127.0.0.1:{side.port}", "--topic", topic.name),
                *("--partition", "0", "--offset", "earliest"),  # no group, which would be one more than Kafka has
                *("--timeout-ms", "5000", "--formatter-property", "print.value=false"),
                *("--formatter-property", "print.offset=true"),
            )
            assert [line.partition(":")[2] for line in read.stdout.splitlines()] == [str(n) for n in range(records)]


@pytest.mark.parametrize("time_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("name", TYPES)
def test_batches_are_held_in_the_codec_that_the_topic_asks_for(sides, name, time_type):
    with Topic(sides, compression_type=name, message_timestamp_type=time_type) as topic:
        for batch in many_batches(4711):
            assert topic.produce(batch) is ErrorCode.NONE
        (kafka_headers, kafka_records), *ours = topic.held()

    if name != "producer":
        assert {header.compression for header in kafka_headers} == {CODEC_OF[name]}
    for headers, records in ours:
        if time_type == "CreateTime":
            assert headers == kafka_headers
            assert records == kafka_records
        else:
            assert [it._replace(max_timestamp=0) for it in headers] == [
                it._replace(max_timestamp=0) for it in kafka_headers
            ]
            assert [[it._replace(timestamp=0) for it in each] for each in records] == [
                [it._replace(timestamp=0) for it in each] for each in kafka_records
            ]


@drawn()
@given(
    st.sampled_from(TYPES[:5]),
    st.sampled_from(TYPES[:5]),
    st.sampled_from([bytes(3000), INCOMPRESSIBLE]),
    st.sampled_from([-1, 0]),
    st.booleans(),
)
def test_sizes_are_limited_before_and_after_as_in_kafka(sides, produced, asked, value, slack, of_plain):
    """By the size as it came, or that of the same records without compression: exact in every implementation."""
    batch = build_batch([NewRecord(value, timestamp=NOW_MS)], compression=CODEC_OF[produced])
    plain = build_batch([NewRecord(value, timestamp=NOW_MS)])
    size_max = len(plain if of_plain else batch) + slack
    with Topic(sides, compression_type=asked, max_message_bytes=size_max) as topic:
        error = topic.produce(batch)
        (_, kafka_records), *ours = topic.held()

    if produced == asked:
        assert (error is ErrorCode.NONE) == (len(batch) <= size_max)
    assert all(records == kafka_records for _, records in ours)


@pytest.mark.parametrize("asked", TYPES[:5])
def test_a_batch_that_grows_beyond_the_limit_is_refused_as_in_kafka(sides, asked):
    value = bytes(3000) if asked == "uncompressed" else INCOMPRESSIBLE
    codec = Compression.GZIP if asked == "uncompressed" else Compression.NONE
    batch = build_batch([NewRecord(value, timestamp=NOW_MS)], compression=codec)
    with Topic(sides, compression_type=asked, max_message_bytes=len(batch)) as topic:
        assert topic.produce(batch) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("setting", ["compression.gzip.level", "compression.lz4.level", "compression.zstd.level"])
def test_batches_of_every_level_are_read(sides, setting):
    name = setting.split(".")[1]
    levels = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-5, 19)}[name]
    for level in levels:
        with Topic(sides, compression_type=name, **{setting.replace(".", "_"): level}) as topic:
            assert topic.produce(build_batch([NewRecord(b"value " * 50, timestamp=NOW_MS)])) is ErrorCode.NONE
            (_, kafka_records), *ours = topic.held()
        assert all(records == kafka_records for _, records in ours)


@pytest.mark.parametrize("version", [4, 9, 10])
@pytest.mark.parametrize("asked", ["zstd", "producer"])
def test_fetches_from_before_zstd_are_answered_as_in_kafka(sides, asked, version):
    with Topic(sides, compression_type=asked) as topic:
        batch = build_batch([NewRecord(b"value", timestamp=NOW_MS)], compression=Compression.ZSTD)
        assert topic.produce(batch) is ErrorCode.NONE
        topic.tell(ApiKey.FETCH, fetched(topic.name, version, -1, 0, [0]))
