"""Records whose timestamps are none, of 1970, of the year 9999 or as large as can be: kept, found and archived."""

import random

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.node.admin_socket import ask
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from tests.crashes.kept import COMPACTED, RETAINED, KeptPartition
from tests.crashes.kept_client import read_held, write
from tests.crashes.scene import Scene
from tests.crashes.wire_client import WireClient, describe_topics

pytestmark = [pytest.mark.faults]
YEAR_9999_MS = 253_402_300_799_000
LARGEST_MS = 2**63 - 1
TIMESTAMPS_MS = (-1, 0, 1, YEAR_9999_MS, LARGEST_MS, YEAR_9999_MS, 0, -1)
VALUE_BYTES = 160_000
ROUNDS = 3
MAX_TIMESTAMP = -3
SETTINGS = (
    f"log.message.timestamp.after.max.ms={LARGEST_MS}",
    "log.segment.bytes=1048576",
    "log.segment.delete.delay.ms=0",
    "num.partitions=1",
)


def offset_for(client, topic, timestamp):
    """(timestamp, offset) that ListOffsets tells."""
    partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])])
    (found,) = client.ask(request).topics[0].partitions
    assert found.error_code == ErrorCode.NONE
    return found.timestamp, found.offset


def fill(client, topic_ids, kept):
    dice = random.Random(0)
    for _ in range(ROUNDS):
        for number, timestamp_ms in enumerate(TIMESTAMPS_MS):
            write(client, topic_ids, kept, b"%d" % number, dice.randbytes(VALUE_BYTES), timestamp_ms)


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_records_of_any_time_are_kept_found_archived_and_compacted(tmp_path, mode):
    """Case 42."""
    settings = (*SETTINGS, "log.retention.ms=-1", "log.cleanup.policy=compact")
    with Scene(1, tmp_path, mode=mode, settings=settings, variant="small-segments") as scene:
        scene.start()
        with WireClient(scene.broker.address) as client:
            topic_ids = create(client)
            kept = KeptPartition("odd", 0, COMPACTED)
            fill(client, topic_ids, kept)
            for work in (lambda: None, lambda: ask(scene.broker.data, "compact")):
                work()
                held = read_held(client, topic_ids["odd"], kept)
                assert kept.violations(held) == []
                assert offset_for(client, "odd", MAX_TIMESTAMP)[0] == LARGEST_MS
                timestamp, offset = offset_for(client, "odd", YEAR_9999_MS)
                assert timestamp >= YEAR_9999_MS
                assert offset in {record.offset for record in held.records}
                assert offset_for(client, "odd", LARGEST_MS)[0] == LARGEST_MS
        scene.broker.kill()
        scene.start()
        with WireClient(scene.broker.address) as client:
            assert read_held(client, topic_ids["odd"], kept).records == held.records
            assert offset_for(client, "odd", LARGEST_MS)[0] == LARGEST_MS
        assert scene.broker.stop() == 0
        assert scene.broker.stderr == ""


def create(client):
    while (topic := describe_topics(client, ["odd"], create=True)["odd"]).error_code != ErrorCode.NONE:
        pass
    return {"odd": topic.topic_id}


def test_retention_by_time_goes_by_the_largest_timestamp_of_a_segment(tmp_path):
    """A record of the year 9999 keeps its segment; nothing that was acknowledged goes for a time of -1 alone.

    Case 42.
    """
    settings = (*SETTINGS, "log.retention.ms=3600000")
    with Scene(2, tmp_path, settings=settings, variant="small-segments") as scene:
        scene.start()
        with WireClient(scene.broker.address) as client:
            topic_ids = create(client)
            kept = KeptPartition("odd", 0, RETAINED)
            fill(client, topic_ids, kept)
            ask(scene.broker.data, "retain")
            held = read_held(client, topic_ids["odd"], kept)
            assert kept.violations(held) == []
            assert held.start_after == 0
        assert scene.broker.stop() == 0


def test_a_time_too_far_ahead_is_refused_where_it_is_not_allowed(tmp_path):
    """Case 42."""
    with Scene(3, tmp_path, settings=("num.partitions=1",)) as scene:
        scene.start()
        with WireClient(scene.broker.address) as client:
            topic_ids = create(client)
            kept = KeptPartition("odd", 0)
            for timestamp_ms in (YEAR_9999_MS, LARGEST_MS):
                with pytest.raises(AssertionError, match=f"got error {ErrorCode.INVALID_TIMESTAMP.value}"):
                    write(client, topic_ids, kept, None, b"value", timestamp_ms)
            write(client, topic_ids, kept, None, b"value", -1)
            assert read_held(client, topic_ids["odd"], kept).end == 1
