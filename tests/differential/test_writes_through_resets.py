"""A producer with several requests in flight over a network that breaks: Kafka and both modes store each record once,
in its order.

The topics and producers of these tests differ from side to side, so this file comes last: others compare all of them.
"""

import secrets

import pytest
import trio

from pipeline_broker.client import cluster_client as cluster_module
from pipeline_broker.client import producer as producer_module
from pipeline_broker.client.cluster_client import connected
from pipeline_broker.client.consumer import Position, Reader
from pipeline_broker.client.offsets import bounds_of
from pipeline_broker.client.produce_requests import ProducerOptions
from pipeline_broker.client.producer import producing
from pipeline_broker.client.topics import create_topic
from pipeline_broker.records.batch import NewRecord
from tests.breaking_proxy import Proxy

pytestmark = pytest.mark.xdist_group("kafka")
PARTITIONS = 2
RECORDS = 500
LATENCY_SECONDS = 0.004
PAUSE_SECONDS = 0.001
CHUNKS_PER_RESET = 23
SECONDS_MAX = 20.0
RESETS_MIN = 1
"""A slow machine sends fewer and larger chunks, so fewer connections break."""


async def write(port, topic, in_flight_max):
    """Write numbers to the partitions in turn."""
    options = ProducerOptions(in_flight_max=in_flight_max)
    async with (
        connected([("127.0.0.1", port)], SECONDS_MAX) as cluster,
        producing(cluster, topic, options, lambda *_: None) as producer,
    ):
        for number in range(RECORDS):
            producer.add(NewRecord(b"%d" % number, timestamp=1), number, number % PARTITIONS)
            await producer.wait_for_capacity()
            await trio.sleep(PAUSE_SECONDS)


async def create(port, topic):
    async with connected([("127.0.0.1", port)], SECONDS_MAX) as cluster:
        await create_topic(cluster, topic, PARTITIONS)
        await cluster.ready([topic], is_new=True)


async def read(port, topic):
    """Return the numbers of each partition."""
    found = [[] for _ in range(PARTITIONS)]

    async def take(partition, batch):
        found[partition[1]].extend(int(record.value) for record in batch.records)
        return batch.next_offset

    async with connected([("127.0.0.1", port)], SECONDS_MAX) as cluster:
        bounds = await bounds_of(cluster, [(topic, partition) for partition in range(PARTITIONS)])
        await Reader(cluster, {it: Position(bound.start, bound.end) for it, bound in bounds.items()}, take).run()
    return found


@pytest.mark.parametrize("name", ["kafka", "classic", "pipelined"])
@pytest.mark.parametrize("in_flight_max", [1, 5])
def test_over_connections_that_break_each_record_is_stored_once_and_in_its_order(
    sides, name, in_flight_max, monkeypatch
):
    for module in (cluster_module, producer_module):
        monkeypatch.setattr(module, "RETRY_S_MAX", module.RETRY_S_MIN)
    (port,) = (side.port for side in sides.all if side.name == name)
    topic = f"order-{secrets.token_hex(6)}"
    trio.run(create, port, topic)
    with Proxy(LATENCY_SECONDS, chunks_per_reset=CHUNKS_PER_RESET, target_port=port) as proxy:
        trio.run(write, proxy.port, topic, in_flight_max)
    assert proxy.resets >= RESETS_MIN
    assert trio.run(read, port, topic) == [list(range(start, RECORDS, PARTITIONS)) for start in range(PARTITIONS)]
