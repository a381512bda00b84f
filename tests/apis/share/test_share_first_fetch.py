"""A first ShareFetch of several partitions returns as many as it needs, one by one, and initializes all of them.

So does Apache Kafka: SharePartitionManager reads the states of share partitions one by one, and retries the fetch after
each (DelayedShareFetch). librdkafka's test 0179 depends on it.
"""

from __future__ import annotations

import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.config import resources
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.share.share_desk import GROUP, ShareDesk
from tests.bad_input.raw_client import RawClient, batch_of, produce_request

NEVER_MS = 60_000


def brought(response):
    """Return the partitions whose records a fetch returned."""
    return {data.partition_index for topic in response.responses for data in topic.partitions if data.acquired_records}


def test_the_other_partitions_come_next_from_their_start_offsets():
    desk = ShareDesk(partitions=4)
    desk.heartbeat()
    desk.reset("earliest")
    for partition in range(1, 4):
        desk.produce(2, partition)
    first = brought(desk.fetch(0, range(4)))
    assert len(first) == 1
    desk.reset("latest")
    assert [start for start, _ in desk.offsets()] == [0] * 4
    assert brought(desk.fetch(1)) == {1, 2, 3} - first, "all were begun with the first fetch"
    assert brought(desk.fetch(2)) == set()


def test_a_fetch_with_larger_limits_returns_more_partitions():
    desk = ShareDesk(partitions=3)
    desk.reset("earliest")
    desk.heartbeat()
    for partition in range(3):
        desk.produce(1, partition, size=100)
    assert len(brought(desk.fetch(0, range(3), min_bytes=250))) == 2


def test_partitions_in_use_come_first():
    """A later member gets records of loaded partitions first, then those of new ones."""
    desk = ShareDesk(partitions=2)
    desk.reset("earliest")
    desk.heartbeat()
    desk.fetch(0, [0])
    for partition in range(2):
        desk.produce(1, partition)
    desk.member_id = "other"
    desk.heartbeat()
    assert brought(desk.fetch(0, [0, 1])) == {0}
    assert brought(desk.fetch(1)) == {1}


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_over_the_wire(mode):
    """In both modes: no fetch with available records waits, and every record is delivered once."""
    with EmbeddedBroker(mode=mode) as broker, RawClient(int(broker.bootstrap_servers.rpartition(":")[2])) as client:
        desk = ShareDesk.__new__(ShareDesk)
        desk.topic, desk.member_id, desk.ask = "t", "m", client.ask
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        desk.topic_id = client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].topic_id
        client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
        for partition in range(2):
            client.ask(produce_request((partition, batch_of(b"v")), topic="t"), 9)
        changed = IncrementalAlterConfigsRequest.AlterableConfig("share.auto.offset.reset", 0, "earliest")
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resources.GROUP, GROUP, [changed])
        client.ask(IncrementalAlterConfigsRequest([resource], validate_only=False), 1)
        assert desk.heartbeat().error_code == 0
        first = brought(desk.fetch(0, [0, 1], wait_ms=NEVER_MS))
        assert (len(first), brought(desk.fetch(1, wait_ms=NEVER_MS))) == (1, {0, 1} - first)
        assert brought(desk.fetch(2)) == set()
