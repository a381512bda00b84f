"""Connections on the page: clients, addresses and topics."""

import trio
from trio.testing import MockClock

from pipeline_broker.base.steps import finished
from pipeline_broker.dashboard.broker_view import TURNS_SHOWN_MAX, connections
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from stages.mode import PIPELINED
from stages.request import PARKED
from stages.testing.memory_server import open_memory_server
from tests.apis.desk import Desk
from tests.dashboard.board import Board
from tests.stages.connection_bench import ByHand


def test_long_turns_are_listed_by_api_or_task_longest_first():
    async def main():
        async with open_memory_server(PIPELINED, ByHand()) as memory:
            for name, seconds in ((3, 0.024), ("a task", 0.002), (3, 0.007), (999, 0.001)):
                memory.server.turns.note(name, seconds)
            assert finished(connections(memory.server, Desk().broker))["turns"] == [
                {"turn": "Metadata", "longest_us": 24_000, "long_count": 2},
                {"turn": "a task", "longest_us": 2_000, "long_count": 0},
                {"turn": "999", "longest_us": 1_000, "long_count": 0},
                {"turn": "commit", "longest_us": 0, "long_count": 0},
            ]
            for number in range(2 * TURNS_SHOWN_MAX):
                memory.server.turns.note(f"task {number}", 0.1)
            assert len(finished(connections(memory.server, Desk().broker))["turns"]) == TURNS_SHOWN_MAX

    trio.run(main, clock=MockClock(autojump_threshold=0))


class Standing:
    """A connection of a server that does not run."""

    in_flight = received = released = unsent_bytes = 0
    mute_reasons = ("IN_FLIGHT",)


class Server:
    """A server with real statistics and the connections of a test."""

    def __init__(self, server, *connections):
        self.statistics = server.statistics
        self.processors = (self,)
        self.connections = connections


def test_a_connection_has_its_client_port_and_topics():
    board = Board()
    desk, connection = board.desk, board.desk.connection
    desk.create_topic("waited")
    desk.ask(ApiVersionsRequest(client_software_name="lib", client_software_version="2.1"), 4)
    for _ in range(2):
        board.produce((b"k", b"v", ()))
    topic = FetchRequest.FetchTopic("waited", partitions=[FetchRequest.FetchPartition(0, partition_max_bytes=1000)])
    fetch = FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[topic])
    assert desk.decide(fetch, 12) is PARKED
    connection.id, connection.statistics = "127.0.0.1:9092-127.0.0.1:51234-0-7", Standing
    (shown,) = finished(connections(Server(board.server, connection), desk.broker))["connections"]

    assert (shown["client"], shown["from"], shown["software"]) == ("desk", "127.0.0.1:51234", "lib 2.1")
    assert shown["topics"] == ["t", "waited"]
    assert shown["mutes"] == ["in flight"]
    desk.broker.fetches.end()
    (shown,) = finished(connections(Server(board.server, connection), desk.broker))["connections"]
    assert shown["topics"] == ["t"]
