"""Archived batches that a broker sends from their file, also while the file is deleted."""

import select
import socket
import time
from pathlib import Path

from pipeline_broker.log.archive.segment_reader import LENT_BYTES_MIN
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.crashes.wire_client import WireClient

VERSION = 12
RECORD_BYTES = 900_000
BATCHES = 80  # more than a journal segment, so that the first ones are archived
WANTED = 3 * RECORD_BYTES + 1000
SECONDS_MAX = 20.0
"""Time until files are archived or deleted."""


def batch(number):
    return build_batch([NewRecord(bytes([number]) * RECORD_BYTES, timestamp=time.time_ns() // 1_000_000)])


def fill(client):
    client.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)], 10_000), 4)
    for number in range(BATCHES):
        data = [ProduceRequest.PartitionProduceData(0, batch(number))]
        topics = [ProduceRequest.TopicProduceData("t", partition_data=data)]
        client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), 9)


def fetch():
    partitions = [FetchRequest.FetchPartition(0, fetch_offset=0, partition_max_bytes=WANTED)]
    topics = [FetchRequest.FetchTopic("t", partitions=partitions)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=WANTED, session_epoch=-1, topics=topics)


def records(response):
    return bytes(response.responses[0].partitions[0].records)


def until(condition):
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def open_names(pid):
    """Return the files that a process has open."""
    names = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            names.append(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    return names


def test_a_response_that_is_not_read_survives_the_deletion_of_its_segment_and_keeps_no_deleted_file_open(
    broker_process,
):
    settings = ["log.initial.task.delay.ms=0", "log.retention.check.interval.ms=100", "log.segment.bytes=10000000"]
    broker = broker_process(settings=[*settings, "log.segment.delete.delay.ms=0"])
    address = (broker.host, broker.port)
    folder = broker.data / "archive" / "t-0"
    with WireClient(address) as slow, WireClient(address) as other:
        slow._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # most of a response stays in the broker
        fill(other)
        first = folder / f"{0:020d}.log"
        until(lambda: len(list(folder.glob("*.log"))) > 1)  # the first one is complete
        wanted = records(slow.ask(fetch(), VERSION))
        # The journal serves them until the archive counts them.
        until(lambda: records(slow.ask(fetch(), VERSION)) == wanted and str(first) in open_names(broker.pid))
        assert records(slow.ask(fetch(), VERSION)) == wanted
        assert len(wanted) > 2 * RECORD_BYTES > LENT_BYTES_MIN
        slow.send(fetch(), VERSION)
        assert select.select([slow], [], [], SECONDS_MAX)[0]  # the broker has begun to send
        partitions = [DeleteRecordsRequest.DeleteRecordsPartition(0, BATCHES // 2)]
        other.ask(DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic("t", partitions)], 10_000), 2)
        until(lambda: not first.exists())
        until(lambda: not any(str(first) in name for name in open_names(broker.pid)))
        assert records(slow.receive()) == wanted
