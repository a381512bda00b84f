"""A complete broker with fault rules in memory, on a virtual clock, as clients see it.

The server is real, and rules are in the same place as in a broker process. Time passes only while all tasks wait.
Commits run on the event loop, so rules about files are tested elsewhere.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio
from trio.testing import MockClock

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.apis.fault_switch import FaultSwitch
from pipeline_broker.broker.broker import Broker
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.node.assembly import JournalStorage, compose, run_timer
from pipeline_broker.node.options import ServeOptions
from pipeline_broker.node.surroundings import BrokerWiring
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.codec import decode, encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, read_response_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.registry import message_classes
from stages.connection_limits import ConnectionLimits
from stages.mode import MODES
from stages.request_handler import Application
from stages.server_limits import ServerLimits
from stages.testing.memory_server import MemoryServer
from stages.testing.memory_transport import MemoryClient
from stages.testing.scripted_commits import ScriptedCommits
from tests.files.memory_file_system import MemoryFileSystem

VERSIONS = {0: 9, 1: 11, 16: 4, 19: 7}
LIMITS = ServerLimits(connection=ConnectionLimits(idle_seconds_max=float("inf"), slot_seconds_max=float("inf")))
WEDGED_SECONDS = 1_000_000.0


def run(main, *arguments):
    """Run a test on a virtual clock with a time limit."""

    async def limited():
        with trio.fail_after(WEDGED_SECONDS):
            await main(*arguments)

    trio.run(limited, clock=MockClock(autojump_threshold=0))


def now_ms():
    return round(trio.current_time() * 1000) + 1


def produce(*values, topic="t", partition=0, acks=-1):
    batch = build_batch([NewRecord(value, None, 1) for value in values])
    data = ProduceRequest.PartitionProduceData(partition, batch)
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData(topic, partition_data=[data])])


def fetch(topic="t", partition=0, offset=0, wait_ms=0, **more):
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics, **more)


def list_groups():
    return ListGroupsRequest()


@attrs.define
class Client:
    """A connection that checks that responses are in the order of its requests."""

    memory: MemoryClient
    client_id: str = "client"
    _sent: list = attrs.field(factory=list)
    _received: int = 0

    def send(self, *messages):
        frames = []
        for message in messages:
            key = type(message).SCHEMA.key
            number, version = len(self._sent), VERSIONS[key]
            self._sent.append((key, version))
            header = encode_request_header(RequestHeader(key, version, number, self.client_id))
            frames.append(header + b"".join(map(bytes, encode(message, version))))
        self.memory.send(*frames)

    async def receive(self):
        frame = await self.memory.receive()
        key, version = self._sent[self._received]
        number, position = read_response_header(key, version, frame)
        assert number == self._received, f"the answer to {self._received} was due, that to {number} came"
        self._received += 1
        return decode(message_classes(key)[1], version, frame, position)[0]

    async def ask(self, message):
        self.send(message)
        return await self.receive()

    async def ask_is_unanswered(self, message, seconds=100.0):
        """Send a request; return whether no response arrives within `seconds`."""
        self.send(message)
        await self.nothing_comes(seconds)

    async def nothing_comes(self, seconds=100.0):
        with trio.move_on_after(seconds) as waiting:
            await self.receive()
        assert waiting.cancelled_caught, "an answer came"


def error_of(answer):
    """Return the error of the only partition of a produce or fetch response."""
    (topic,) = answer.responses
    (partition,) = topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions
    return partition.error_code


@attrs.define
class Scene:
    """A serving broker."""

    broker: Broker
    server: object
    application: Application

    @property
    def faults(self):
        return self.broker.faults

    async def connect(self, client_id="client", **arguments):
        return Client(await self.server.connect(**arguments), client_id)

    def values(self, topic="t", partition=0):
        """Return the values in a log, in order."""
        log = self.broker.logs.find(topic, partition)
        found = []
        while len(found) < log.high_watermark:
            data = b"".join(map(bytes, log.read(len(found), 1 << 24, at_least_one=True).parts))
            for header, batch in iterate_batches(data):
                found += [bytes(record.value) for record in iterate_records(batch, header)]
        return found


@asynccontextmanager
async def serving(mode, *settings, wrap=lambda application: application, **arguments):
    """Serve a broker with a topic `t` of two partitions and a topic `u`; `wrap` wraps its application."""
    config, _ = parse_settings([tuple(setting.split("=", 1)) for setting in settings])
    journal = Journal.open(Path("/data"), flush="always", segment_bytes=1 << 20, files=MemoryFileSystem())
    wiring = BrokerWiring(MODES[mode], clock_ms=now_ms)
    broker = Broker(config, LogManager(journal), ports=wiring.ports)
    broker.recover(1)
    journal.sync(journal.write(broker.first_entries(1)))
    switch = FaultSwitch(Dispatcher(broker), broker)
    application = wrap(switch)
    options = ServeOptions(mode=MODES[mode], flush="always", data=Path("/data"), config=config)
    arguments.setdefault("limits", LIMITS)
    arguments.setdefault("executor", ScriptedCommits())
    storage = JournalStorage(journal)
    server = MemoryServer(compose(options, wiring, broker, application, storage, switch=switch, **arguments))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_timer, broker, wiring.timer)
        async with trio.open_nursery() as running:
            await running.start(server.run)
            client = Client(await server.connect())
            topics = [CreateTopicsRequest.CreatableTopic("t", 2, 1), CreateTopicsRequest.CreatableTopic("u", 1, 1)]
            await client.ask(CreateTopicsRequest(topics))
            yield Scene(broker, server, application)
            server.server.stop()
            broker.end_waiting()
        nursery.cancel_scope.cancel()
    journal.close()
