"""A journal, its archive and one log with its maintenance, without a broker."""

from contextlib import asynccontextmanager
from pathlib import Path

import trio

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.journal.journal import Journal, JournalPorts
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.node.thread_wakeup import ThreadWakeup
from pipeline_broker.node.upkeep import LogMaintenance
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.record import iterate_records
from tests.files.memory_file_system import MemoryFileSystem

DIRECTORY = Path("/data")
TOPIC_ID = bytes(range(16))
SEGMENT_BYTES = 12 << 10
VALUE_BYTES = 3000
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
WAIT_SECONDS = 20.0


class Clock:
    now_ms = NOW_MS

    def __call__(self):
        return self.now_ms


class Bench:
    def __init__(self, files=None, policies=None, directory=DIRECTORY, randomness=None):
        self.directory = directory
        self.files = MemoryFileSystem() if files is None else files
        self.policies = policies or LogPolicies()
        self.randomness = randomness
        self.clock = Clock()
        self.raised = []
        self.start()

    def start(self):
        if isinstance(self.files, MemoryFileSystem):
            self.files.kill()
        self.files.make_directory(self.directory)
        sealed = ThreadWakeup()
        ports = JournalPorts(segment_sealed=sealed)
        self.journal = Journal.open(self.directory, segment_bytes=SEGMENT_BYTES, files=self.files, ports=ports)
        self.archive = open_local_archive(self.directory, self.files)
        self.logs = LogManager(self.journal, 0, self.archive, self.randomness)
        (self.log,) = self.logs.create("topic", TOPIC_ID, 1, policies=self.policies)
        self.logs.recover(lambda *_: None, self.clock.now_ms)
        self.maintenance = LogMaintenance(
            self.logs,
            self.archive,
            lambda: BrokerConfig(log_initial_task_delay_ms=10**9),
            self.clock,
            sealed,
            self.raised.append,
        )

    def produce(self, count, *, timestamp=None, size=VALUE_BYTES):
        for _ in range(count):
            number = self.log.log_end_offset
            value = f"{number}:".encode().ljust(size, b"v")
            batch = build_batch([NewRecord(value, timestamp=self.clock.now_ms if timestamp is None else timestamp)])
            entry = self.log.append(read_header(batch), batch, self.clock.now_ms).entry
            self.journal.sync(self.journal.write([entry]))
            self.logs.on_durable([entry])

    def values(self, offset=None):
        log, found = self.log, []
        offset = log.log_start_offset if offset is None else offset
        while offset < log.high_watermark:
            result = log.read(offset, 1 << 20, at_least_one=True)
            for header, batch in iterate_batches(b"".join(result.cold() if result.cold else result.parts)):
                found += [int(bytes(record.value).split(b":")[0]) for record in iterate_records(batch, header)]
                offset = header.last_offset + 1
        return [number for number in found if number >= log.log_start_offset]

    def names(self):
        return self.archive.store.names("topic-0")


@asynccontextmanager
async def kept(bench):
    with trio.fail_after(WAIT_SECONDS):
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.maintenance.run)
            yield
            nursery.cancel_scope.cancel()


async def wait_until(is_so):
    while not is_so():
        await trio.sleep(0.001)


async def retained(bench):
    async with kept(bench):
        found = await bench.maintenance.retain()
        await trio.sleep(0.01)
        return found


async def archived(bench):
    async with kept(bench):
        await bench.maintenance.archive_all()
