"""A disk that cannot be read is an error of the partitions that are on it; time passes for silent producers.

In one process, over a file system in memory that fails when it is told to.
"""

import errno
import os
from pathlib import Path

import attrs
import pytest

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import PRODUCERS_CHECK_INTERVAL_MS, Broker
from pipeline_broker.broker.ports import Ports
from pipeline_broker.config.settings import load_settings
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from stages.request import Parked, Pending, Request, Unfinished, go_on
from tests.crashes.wire_client import response_of
from tests.files.memory_file_system import MemoryFileSystem

START_MS = 1_700_000_000_000
VERSIONS = {0: 9, 1: 11, 2: 7, 3: 12}
CACHED, FAILING = 1, 0
"""Partitions: the last batch stays in the tail cache, and an earlier one does not."""
MAX_TIMESTAMP = -3
CACHE_BYTES = 500  # one batch with its overhead


@attrs.define(eq=False)
class Connection:
    """What a dispatcher sees of one."""

    id: str = "1"
    index: int = 1
    peer: str = "127.0.0.1"
    listener: str = "PLAINTEXT"
    session: object = None
    response_room_bytes: int = 1 << 30
    sends_ranges: bool = False


class Bench:
    """A broker whose commits and cold reads happen at once."""

    def __init__(self):
        self.files = MemoryFileSystem()
        self.journal = Journal.open(Path("/data"), files=self.files)
        self.broker = Broker(
            load_settings((), ("num.partitions=2",))[0],
            LogManager(self.journal, cache_bytes_max=CACHE_BYTES),
            ports=Ports(clock_ms=lambda: START_MS),
        )
        self.broker.recover(START_MS)
        self.commit(self.broker.first_entries(START_MS))
        self._dispatcher = Dispatcher(self.broker)
        self._connection = Connection()

    def commit(self, entries):
        self.journal.sync(self.journal.write(entries))
        self.broker.entries_durable(entries)

    def ask(self, request):
        key = request.SCHEMA.key
        header = encode_request_header(RequestHeader(key, VERSIONS[key], 1, "bench"))
        frame = b"".join((header, *encode(request, VERSIONS[key])))
        result = self._dispatcher.handle(Request(self._connection, 0, frame, 0))
        while isinstance(result, Unfinished):
            assert isinstance(result.first, Parked), "requests are small, but some need the disk"
            result = go_on(result.steps, result.first.work())
        if isinstance(result, Pending):
            self.commit(result.entries)
            if result.on_durable is not None:
                result.on_durable()
            result = result.result
        if isinstance(result, Parked):
            result = result.work()
        data = b"".join(result.parts)
        _, position = read_response_header(key, VERSIONS[key], data)
        return decode(response_of(type(request)), VERSIONS[key], data, position)[0]

    def produce(self, partition, **options):
        batch = build_batch([NewRecord(b"value", timestamp=START_MS)], **options)
        data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
        topic = ProduceRequest.TopicProduceData(name="topic", partition_data=[data])
        (answer,) = self.ask(ProduceRequest(acks=-1, topic_data=[topic])).responses[0].partition_responses
        assert answer.error_code == 0

    def fail(self, operation):
        def before(name, _path):
            if name == operation:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.files.before = before

    def fetch(self):
        """Error code and whether there are records, by partition."""
        partitions = [FetchRequest.FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in (0, 1)]
        topic = FetchRequest.FetchTopic(topic="topic", partitions=partitions)
        answer = self.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic]))
        assert answer.error_code == 0
        return {data.partition_index: (data.error_code, bool(data.records)) for data in answer.responses[0].partitions}

    def list_offsets(self, timestamp):
        """Error code and offset, by partition."""
        partitions = [ListOffsetsRequest.ListOffsetsPartition(index, timestamp=timestamp) for index in (0, 1)]
        topic = ListOffsetsRequest.ListOffsetsTopic(name="topic", partitions=partitions)
        answer = self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]))
        return {data.partition_index: (data.error_code, data.offset) for data in answer.topics[0].partitions}


@pytest.fixture
def bench():
    bench = Bench()
    wanted = MetadataRequest.MetadataRequestTopic(name="topic")
    bench.ask(MetadataRequest(topics=[wanted]))
    bench.produce(FAILING)
    bench.produce(CACHED)
    return bench


@pytest.mark.parametrize("is_cold", [False, True], ids=["on the loop", "in a thread"])
def test_a_partition_that_cannot_be_read_says_so_and_the_others_are_served(bench, caplog, is_cold):
    """Case 19."""
    assert bench.fetch() == {FAILING: (0, True), CACHED: (0, True)}
    bench.files.is_cold = is_cold
    bench.fail("read")
    storage_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.fetch() == {FAILING: (storage_error, False), CACHED: (0, True)}
    for timestamp in (START_MS, MAX_TIMESTAMP):
        assert bench.list_offsets(timestamp) == {FAILING: (storage_error, -1), CACHED: (0, 0)}
    assert {(record.message, record.place) for record in caplog.records} == {
        ("topic-0 cannot be read: [Errno 5] Input/output error", "topic-0")
    }


def test_a_partition_is_served_again_when_the_disk_is(bench):
    bench.fail("read")
    bench.fetch()
    bench.files.before = lambda *_: None
    assert bench.fetch() == {FAILING: (0, True), CACHED: (0, True)}


def test_a_producer_is_forgotten_when_it_has_been_silent_for_long(bench):
    bench.produce(FAILING, producer_id=7, producer_epoch=0, base_sequence=0)
    producers = bench.broker.logs.find("topic", FAILING).producers
    expiration_ms = bench.broker.config.producer_id_expiration_ms
    now_ms = bench.broker.next_deadline_ms()
    assert now_ms == START_MS + PRODUCERS_CHECK_INTERVAL_MS
    remembered = []
    while now_ms <= START_MS + expiration_ms:
        bench.broker.advance(now_ms)
        remembered.append(len(producers))
        now_ms = bench.broker.next_deadline_ms()
    assert remembered == [1] * (expiration_ms // PRODUCERS_CHECK_INTERVAL_MS - 1) + [0]
