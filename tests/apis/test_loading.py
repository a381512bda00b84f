"""The first request of an API: its modules are loaded in a thread while other requests are served."""

import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pipeline_broker.apis import dispatch, loading
from pipeline_broker.apis.dispatch import LEASE_RUN_OUT, Dispatcher
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.broker.broker import Broker
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.node.assembly import JournalStorage
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from stages.mode import MODES
from stages.request import Close, Parked, Send, Unfinished
from stages.testing.memory_server import open_memory_server
from tests.apis.desk import Desk
from tests.files.memory_file_system import MemoryFileSystem

WAIT_SECONDS = 30
SLOW, QUICK = DescribeClusterRequest, MetadataRequest


def test_every_module_that_an_api_needs_exists():
    needs = {need for served in SERVED.values() for need in served.needs}
    assert len({need().__name__ for need in needs}) == len(needs) > 0


def test_a_first_request_loads_nothing_on_the_event_loop():
    """Otherwise an import inside a function would block the event loop again."""
    command = [sys.executable, "-m", "tests.apis.first_requests"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == ""


class ThreadedDesk(Desk):
    """A desk that loads in threads, like a broker that serves."""

    def __init__(self, *settings, **more):
        super().__init__(*settings, **more)
        self.dispatcher = Dispatcher(self.broker, loads_in_threads=True)


def test_only_the_first_request_of_a_version_waits_for_a_thread():
    desk = ThreadedDesk()
    first = desk.decide(SLOW(), 0)
    assert isinstance(first, Unfinished)
    assert isinstance(first.first, Parked)
    assert desk.finish(SLOW(), 0, first).cluster_id == desk.broker.cluster_id
    assert isinstance(desk.decide(SLOW(), 0), Send)
    assert isinstance(desk.decide(SLOW(), 1), Unfinished)
    assert isinstance(desk.decide(QUICK(topics=None), 5), Unfinished)


def test_two_first_requests_at_once_are_both_answered():
    desk = ThreadedDesk()
    results = [desk.decide(SLOW(), 0) for _ in range(2)]
    assert [type(result) for result in results] == [Unfinished] * 2
    for result in results:
        assert desk.finish(SLOW(), 0, result).cluster_id == desk.broker.cluster_id


@pytest.mark.parametrize("version", [-1, 99])
def test_nothing_is_loaded_for_a_version_that_is_not_served(version):
    desk = ThreadedDesk()
    header = encode_request_header(RequestHeader(SLOW.SCHEMA.key, 0, 1, "desk"))
    frame = header[:2] + version.to_bytes(2, signed=True) + header[4:]
    request = dispatch.Request(desk.connection, 1, frame, 0)
    assert isinstance(desk.dispatcher.handle(request), Close)


def test_a_failed_import_closes_the_connection_and_the_next_request_tries_again(monkeypatch):
    desk = ThreadedDesk()

    def refuse(*_):
        raise OSError("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(loading, "import_module", refuse)
        assert isinstance(desk.do_steps(desk.decide(SLOW(), 0)), Close)
    assert desk.ask(SLOW(), 0).cluster_id == desk.broker.cluster_id


def test_a_lease_that_runs_out_during_an_import_counts(monkeypatch):
    desk = ThreadedDesk()
    result = desk.decide(SLOW(), 0)
    monkeypatch.setattr(desk.dispatcher, "_is_owner", lambda: False)
    assert desk.do_steps(result) is LEASE_RUN_OUT


def frame(message, version):
    return encode_request_header(RequestHeader(type(message).SCHEMA.key, version, 1, "client")) + b"".join(
        map(bytes, encode(message, version))
    )


@asynccontextmanager
async def serving(mode):
    journal = Journal.open(Path("/data"), flush="always", segment_bytes=1 << 20, files=MemoryFileSystem())
    broker = Broker(BrokerConfig(), LogManager(journal))
    broker.recover(1)
    journal.sync(journal.write(broker.first_entries(1)))
    application = Dispatcher(broker, loads_in_threads=True)
    async with open_memory_server(MODES[mode], application, storage=JournalStorage(journal)) as server:
        yield server
    journal.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_other_requests_are_answered_while_one_waits_for_an_import(mode, monkeypatch):
    """Also on a queue that all connections share; later requests of its own connection are answered after it."""
    may_load, asked = threading.Event(), []

    def load(served, version):
        asked.append(served.key)
        assert served.key != SLOW.SCHEMA.key or may_load.wait(WAIT_SECONDS)
        return loading.load(served, version)

    monkeypatch.setattr(dispatch, "load", load)

    async def main():
        async with serving(mode) as server:
            slow, quick = await server.connect(), await server.connect()
            slow.send(frame(SLOW(), 0))
            slow.send(frame(ListGroupsRequest(), 0))
            with trio.fail_after(WAIT_SECONDS):
                for _ in range(3):
                    quick.send(frame(QUICK(topics=None), 5))
                    assert await quick.receive()
                assert ListGroupsRequest.SCHEMA.key not in asked
                may_load.set()
                answers = [await slow.receive(), await slow.receive()]
            assert len(answers[0]) > len(answers[1]), "a description of the cluster is longer than a list of no groups"
            assert asked[-1] == ListGroupsRequest.SCHEMA.key

    trio.run(main)
