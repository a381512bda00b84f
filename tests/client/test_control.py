"""Control connections of the load client."""

import trio

from pipeline_broker.client.control import open_control
from pipeline_broker.embedded.embedded_broker import EmbeddedBroker


def test_the_log_start_of_a_partition_is_asked_for_until_its_leader_knows_that_it_leads():
    """Apache Kafka names the leader of a new partition in Metadata before that broker has opened its log."""
    with EmbeddedBroker() as broker:
        broker.create_topic("t", partitions=2)
        broker.faults.when("ListOffsets", nth=1).error("NOT_LEADER_OR_FOLLOWER")
        host, port = broker.bootstrap_servers.split(":")

        async def ask():
            async with open_control(host, int(port)) as control:
                return await control.log_starts("t", [0, 1])

        assert trio.run(ask) == [0, 0]
        assert len(broker.requests("ListOffsets")) == 2
