"""A whole broker with its journal in a bucket: both modes, empty machines, and an outdated predecessor."""

import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pipeline_broker.apis.dispatch import Dispatcher
from pipeline_broker.apis.fault_switch import FaultSwitch
from pipeline_broker.broker.broker import Broker
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.log.journal.taken_directory import TakenDirectory
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.object_journal.object_journal import ObjectJournal
from pipeline_broker.node.assembly import JournalStorage, compose, run_timer
from pipeline_broker.node.options import ServeOptions
from pipeline_broker.node.surroundings import BrokerWiring
from pipeline_broker.objects.fencing import take_over
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from stages.mode import MODES
from stages.testing.memory_server import MemoryServer
from tests.faults.in_memory import LIMITS, Client, Scene, error_of, produce
from tests.files.memory_file_system import MemoryFileSystem

LOG = "wal/1"
SECONDS_MAX = 60
CLIENTS = 6
ROUNDS = 20
nonces = iter(range(1, 1 << 20))


class SlowStore:
    """A store with slow creates. While it is held, no create ends, as in a stopped process."""

    def __init__(self, store, seconds):
        self._store, self._seconds = store, seconds
        self._go_on = threading.Event()
        self._go_on.set()
        self.under_way = 0
        self._lock = threading.Lock()

    def hold(self):
        self._go_on.clear()

    def release(self):
        self._go_on.set()

    def create(self, name, parts):
        with self._lock:
            self.under_way += 1
        try:
            threading.Event().wait(self._seconds)
            self._go_on.wait(SECONDS_MAX)
            return self._store.create(name, parts)
        finally:
            with self._lock:
                self.under_way -= 1

    def __getattr__(self, name):
        return getattr(self._store, name)


@asynccontextmanager
async def broker_run(store, mode):
    """Run a broker on an empty machine of its own."""
    config, _ = parse_settings([])
    ownership = take_over(store, LOG, 1, lambda: next(nonces).to_bytes(16, "big"))
    journal = ObjectJournal(store, LOG, 1, ownership, TakenDirectory.take(Path("/data"), MemoryFileSystem()))
    wiring = BrokerWiring(MODES[mode])
    broker = Broker(config, LogManager(journal), ports=wiring.ports)
    now_ms = broker.ports.clock_ms()
    broker.recover(now_ms)
    entries = broker.first_entries(now_ms)
    journal.sync(journal.write(entries))
    broker.entries_durable(entries)
    switch = FaultSwitch(Dispatcher(broker), broker)
    options = ServeOptions(mode=MODES[mode], flush="always", data=Path("/data"), config=config)
    server = MemoryServer(
        compose(options, wiring, broker, switch, JournalStorage(journal), switch=switch, limits=LIMITS)
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(run_timer, broker, wiring.timer)
        async with trio.open_nursery() as running:
            await running.start(server.run)
            yield Scene(broker, server, switch)
            server.server.stop()
            broker.end_waiting()
        nursery.cancel_scope.cancel()
    journal.close()


async def produce_one(scene, number, index, acknowledged):
    """Produce one value on a connection of its own."""
    client = Client(await scene.server.connect(), f"client {number}")
    value = b"%d %d" % (number, index)
    try:
        answer = await client.ask(produce(value, partition=number % 2))
    except (trio.BrokenResourceError, trio.EndOfChannel, trio.ClosedResourceError, EOFError):
        return
    if not error_of(answer):
        acknowledged.append(value)


async def produce_all(scene, number, acknowledged):
    """Produce the values of a client one after the other."""
    for index in range(ROUNDS):
        await produce_one(scene, number, index, acknowledged)


async def until(is_so):
    while not is_so():
        await trio.sleep(0.01)


async def values_of(scene):
    """Return all values that consumers read from both partitions, also from the bucket."""
    return [await trio.to_thread.run_sync(read_all, scene.broker.logs.find("t", partition)) for partition in range(2)]


def read_all(log):
    found = []
    while len(found) < log.high_watermark:
        result = log.read(len(found), 1 << 24, at_least_one=True)
        data = b"".join(map(bytes, result.parts or result.cold()))
        for header, batch in iterate_batches(data):
            found += [bytes(record.value) for record in iterate_records(batch, header)]
    return found


def check(values, acknowledged):
    """Check that each acknowledged value exists once, and that those of a client are in order."""
    for partition in range(2):
        there = values[partition]
        assert len(set(there)) == len(there)
        for number in range(partition, CLIENTS, 2):
            own = [value for value in there if value.split()[0] == b"%d" % number]
            assert own == [b"%d %d" % (number, index) for index in range(len(own))]
    missing = [value for value in acknowledged if value not in values[int(value.split()[0]) % 2]]
    assert missing == []


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_acknowledged_records_survive_the_machine_and_a_zombie_acknowledges_none(mode):
    async def main():
        bucket = MemoryStore()
        store = SlowStore(bucket, 0.01)
        acknowledged, late = [], []
        with trio.fail_after(SECONDS_MAX):
            async with broker_run(store, mode) as first:
                client = Client(await first.server.connect())
                await client.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 2, 1)]))
                async with trio.open_nursery() as nursery:
                    for number in range(CLIENTS):
                        nursery.start_soon(produce_all, first, number, acknowledged)
                assert len(acknowledged) == ROUNDS * CLIENTS
                more = []
                try:
                    store.hold()  # in the middle of its work
                    async with trio.open_nursery() as nursery:
                        # Values sent at once may be one commit; on a slow store a further commit begins beside it.
                        nursery.start_soon(produce_one, first, 0, ROUNDS, late)
                        await until(lambda: store.under_way == 1)
                        for number in range(1, CLIENTS):
                            nursery.start_soon(produce_one, first, number, ROUNDS, late)
                        await until(lambda: store.under_way > 1)
                        async with broker_run(bucket, mode) as second:
                            check(await values_of(second), acknowledged)
                            store.release()
                            await until(lambda: first.server.failure is not None)
                            assert late == []
                            for number in range(CLIENTS):
                                await produce_one(second, number, ROUNDS, more)
                            assert len(more) == CLIENTS
                            check(await values_of(second), acknowledged + more)
                        nursery.cancel_scope.cancel()
                finally:
                    store.release()
                assert "another broker took over as generation 2" in str(first.server.failure)
            async with broker_run(bucket, mode) as third:
                check(await values_of(third), acknowledged + more)

    trio.run(main)
