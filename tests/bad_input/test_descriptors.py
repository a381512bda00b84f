"""Strangers who take all the descriptors that they can get: who is connected is served, by every API."""

import contextlib
import socket
import time

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.compression import Compression
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.security.describe_acls import DescribeAclsRequest
from pipeline_broker.wire.registry import ApiKey, message_classes
from tests.crashes.wire_client import WireClient, describe_topics

DESCRIPTORS = 96
WAITING_MAX = 40
"""Connections that the backlog of the listener takes beside them."""
LINE = "WARNING stages.acceptor: listener PLAINTEXT pauses accepting connections: Too many open files"
CLOSING = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
"""Not asked: without SASL they change what the connection may ask next."""


def flood(address, stack):
    """Connect until nothing more is taken; gives the connections."""
    connections = []
    for _ in range(DESCRIPTORS + WAITING_MAX):
        connection = stack.enter_context(socket.socket())
        connection.setblocking(False)
        connection.connect_ex(address)
        connections.append(connection)
    return connections


MEANINGFUL = {
    ApiKey.PRODUCE: ProduceRequest(acks=-1),
    ApiKey.DESCRIBE_ACLS: DescribeAclsRequest(1, None, 3, None, None, 1, 1),
}
"""Requests of those that have no answer to an empty one."""


def answered(client, key):
    """Whether an API answers."""
    request = MEANINGFUL.get(key) or message_classes(key)[0]()
    return client.ask(request) is not None


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_cold_broker_without_descriptors_for_more_serves_every_api(broker_process, mode):
    limited = ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh")
    broker = broker_process(mode=mode, prefix=limited)
    address = (broker.host, broker.port)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(WireClient(address))
        connections = flood(address, stack)
        while LINE not in broker.stderr:
            time.sleep(0.01)

        unanswered = {key.name for key in map(ApiKey, SERVED) if key not in CLOSING and not answered(client, key)}
        assert unanswered == set()

        describe_topics(client, ["t"], create=True)  # the first answer says that it is being created
        topic = describe_topics(client, ["t"])["t"]
        batches = [build_batch([NewRecord(b"x" * 100)], compression=codec) for codec in Compression]
        for batch in batches:
            data = ProduceRequest.PartitionProduceData(index=0, records=batch)
            named = ProduceRequest.TopicProduceData(topic_id=topic.topic_id, partition_data=[data])
            response = client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[named]))
            assert response.responses[0].partition_responses[0].error_code == 0

        for connection in connections:
            connection.close()
        with WireClient(address) as late:  # newcomers are served again
            assert "t" in describe_topics(late)
    broker.stop()
    assert [line.partition(" ")[2] for line in broker.stderr.splitlines()] == [LINE]
