"""Archived batches with extreme timestamps, epochs and sequences can be read after a restart."""

import functools

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, assembled, build_batch, read_header
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from tests.broker.replay_desk import SETTINGS, ReplayDesk
from tests.crashes.lengths import examples

INT64_MAX, INT32_MAX, INT16_MAX = 2**63 - 1, 2**31 - 1, 2**15 - 1
UNLIMITED = {
    "message.timestamp.before.max.ms": str(INT64_MAX),
    "message.timestamp.after.max.ms": str(INT64_MAX),
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0",
}
TOPICS = {"kept": UNLIMITED, "compacted": {**UNLIMITED, "cleanup.policy": "compact"}}
OLDEST = -(2**63) + 10**10
"""As far from the delete horizon that compaction writes as 64 bits can say."""
TIMES = st.sampled_from(
    [OLDEST, 0, -1, -2, INT64_MAX, INT64_MAX - 1, -(2**63), -(2**62), 2**62, 1_000_000]
) | st.integers(-(2**63), INT64_MAX)
DELTAS = st.sampled_from([0, 1, -1, 2**62, -(2**62), INT64_MAX, -(2**63)])


@functools.cache
def empty():
    desk = ReplayDesk(*SETTINGS)
    for name, configs in TOPICS.items():
        new = NewTopic(name=name, topic_id=name.encode().ljust(16), partitions=1, configs=configs)
        write = desk.broker.topics.create(new)
        result = desk.broker.commit_metadata([(write, desk.broker.topic_durable)], 0, None)
        desk.submit(result.entries, result.on_durable)
    return desk


@st.composite
def batches(draw):
    deltas = draw(st.lists(DELTAS, min_size=1, max_size=3))
    records = [NewRecord(draw(st.sampled_from([b"v", None])), b"key%d" % draw(st.integers(0, 3)), 0) for _ in deltas]
    built = bytearray(build_batch([records[0]]))
    built = build_batch([record._replace(timestamp=delta) for record, delta in zip(records, deltas, strict=True)])
    header = read_header(built)
    idempotent = draw(st.booleans())
    header = header._replace(
        base_timestamp=draw(TIMES),
        max_timestamp=draw(TIMES),
        producer_id=draw(st.sampled_from([0, 5, INT64_MAX])) if idempotent else -1,
        producer_epoch=draw(st.sampled_from([-1, 0, INT16_MAX])) if idempotent else -1,
        base_sequence=draw(st.sampled_from([0, 1, INT32_MAX])) if idempotent else -1,
    )
    return assembled(header, built[HEADER_SIZE:])[1]


def produced(desk, topic, batch):
    data = ProduceRequest.PartitionProduceData(0, batch)
    request = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(topic, partition_data=[data])])
    return desk.ask(request, 9).responses[0].partition_responses[0].error_code


def wrapped(timestamp):
    """As consumers add up base and delta: in 64 bits."""
    return (timestamp + 2**63) % 2**64 - 2**63


def read(desk, topic):
    """Return offset, key, value and timestamp of all records, and the results of some ListOffsets searches."""
    found, offset = [], 0
    end = desk.broker.logs.find(topic, 0).high_watermark
    while offset < end:
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchRequest.FetchTopic(topic=topic, partitions=[wanted])]
        answer = desk.ask(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=topics), 11)
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == 0
        data = bytes(partition.records or b"")
        if not data:
            break
        while data:
            header = read_header(data)
            records = iterate_records(data[: header.size_bytes])
            found += [(record.offset, record.key, (record.value, wrapped(record.timestamp))) for record in records]
            data = data[header.size_bytes :]
            offset = header.last_offset + 1
    for time_ms in (0, -1, -2, -3, INT64_MAX, 2**62):
        partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=time_ms)
        answer = desk.ask(ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])]), 7)
        assert answer.topics[0].partitions[0].error_code == 0
    return found


@settings(max_examples=examples(150), deadline=None)
@given(plan=st.lists(batches(), min_size=1, max_size=12), clean=st.booleans())
def test_extreme_client_batches_survive_archive_compaction_and_restart(plan, clean):
    desk = empty().copy()
    for batch in plan:
        for topic in TOPICS:
            assert produced(desk, topic, batch) in {0, 32, 45, 47, 87}
    expected = read(desk, "kept")
    for _ in range(2):
        desk.compact_all()
        assert read(desk, "kept") == expected
        latest = {key: (offset, value) for offset, key, value in read(desk, "compacted")}
        desk = desk.restart(clean=clean)
        assert read(desk, "kept") == expected
        again = {key: (offset, value) for offset, key, value in read(desk, "compacted")}
        assert again == latest
    said = {offset: said for offset, _, said in expected}
    assert all(said[offset] == found for offset, found in latest.values())
