"""What becomes of logs while a broker serves: the archive takes them over, and retention lets the old ones go."""

import errno
import os
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from pipeline_broker.config.settings import BrokerConfig
from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.cleaning import clean
from pipeline_broker.log.archive.segment_file import file_names
from pipeline_broker.log.compaction.schedule import CompactionRules
from pipeline_broker.log.compaction_of_logs import next_round
from pipeline_broker.log.errors import OffsetOutOfRange
from pipeline_broker.log.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.policies import LogPolicies
from pipeline_broker.log.retention import RetentionRules, RollRules
from pipeline_broker.log.testing import MemoryFileSystem
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.record import iterate_records
from pipeline_broker.upkeep import Upkeep, UpkeepFailedError

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
    """A journal, its archive and one log, without a broker around them."""

    def __init__(self, files=None, policies=None):
        self.files = MemoryFileSystem() if files is None else files
        self.policies = policies or LogPolicies()
        self.clock = Clock()
        self.start()

    def start(self):
        self.files.kill()
        self.journal = Journal.open(DIRECTORY, segment_bytes=SEGMENT_BYTES, files=self.files)
        self.archive = Archive.open(DIRECTORY, self.files)
        self.logs = LogManager(self.journal, 0, self.archive)
        (self.log,) = self.logs.create("topic", TOPIC_ID, 1, policies=self.policies)
        self.logs.recover(lambda *_: None, 0)
        self.upkeep = Upkeep(self.logs, self.archive, lambda: BrokerConfig(log_initial_task_delay_ms=10**9), self.clock)

    def produce(self, count, *, timestamp=None, size=VALUE_BYTES):
        for _ in range(count):
            number = self.log.log_end_offset
            value = f"{number}:".encode().ljust(size, b"v")
            batch = build_batch([NewRecord(value, timestamp=self.clock.now_ms if timestamp is None else timestamp)])
            entry = self.log.append(read_header(batch), batch, 0).entry
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
            await nursery.start(bench.upkeep.run)
            yield
            nursery.cancel_scope.cancel()


async def wait_until(is_so):
    while not is_so():
        await trio.sleep(0.001)


def retention(**rules):
    return LogPolicies(retention=RetentionRules(**rules), roll=RollRules(segment_bytes=7000), file_delete_delay_ms=0)


def test_complete_journal_segments_are_archived_and_their_space_is_used_again():
    bench = Bench()

    async def main():
        async with kept(bench):
            for _ in range(10):
                bench.produce(2)
                await wait_until(lambda: not bench.journal.sealed())

    trio.run(main)
    assert bench.values() == list(range(20))
    assert bench.log.archived.end_offset == 18
    assert bench.journal.segment_count == 1
    assert len(bench.log.index) == 2


def test_a_start_goes_on_where_the_archive_ends():
    bench = Bench()

    async def main():
        async with kept(bench):
            bench.produce(7)
            await bench.upkeep.archive_all()
            bench.produce(2)
            await bench.upkeep.archive_all()

    trio.run(main)
    bench.start()
    assert bench.logs.batches_replayed == 0
    bench.produce(1)
    assert bench.values() == list(range(10))


def test_a_full_disk_is_waited_for(monkeypatch, caplog):
    monkeypatch.setattr("pipeline_broker.upkeep.RETRY_SECONDS", 0.001)
    bench = Bench()
    failures = iter(range(3))

    def before(operation, path):
        if operation in ("write", "create") and "archive" in path.parts and next(failures, None) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def main():
        async with kept(bench):
            bench.files.before = before
            bench.produce(5)
            await wait_until(lambda: not bench.journal.sealed())

    trio.run(main)
    assert bench.values() == list(range(5))
    assert [record.getMessage() for record in caplog.records] == [
        "the archive waits for space: [Errno 28] No space left on device",
        "the archive has space again",
    ]


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_a_failing_disk_ends_the_upkeep(operation):
    bench = Bench()

    def before(name, path):
        if name == operation and "archive" in path.parts:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def main():
        async with kept(bench):
            bench.files.before = before
            bench.produce(5)
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as raised:
        trio.run(main)
    failure = raised.value
    while isinstance(failure, BaseExceptionGroup):
        (failure,) = failure.exceptions
    assert isinstance(failure, UpkeepFailedError)
    assert "Input/output error" in str(failure)


async def retained(bench):
    async with kept(bench):
        found = await bench.upkeep.retain()
        await trio.sleep(0.01)
        return found


def test_old_segments_go_with_their_files_and_the_start_rises():
    """Two records in a segment; of the third one a record is young."""
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(5, timestamp=NOW_MS - 2 * HOUR_MS)
    bench.produce(4)

    async def main():
        async with kept(bench):
            await bench.upkeep.archive_all()
            before = bench.names()
            await bench.upkeep.retain()
            await wait_until(lambda: len(bench.names()) < len(before))

    trio.run(main)
    assert bench.log.log_start_offset == 4
    assert bench.values() == [4, 5, 6, 7, 8]
    assert not any(name.startswith(("0" * 20, "0" * 19 + "2")) for name in bench.names())
    with pytest.raises(OffsetOutOfRange):
        bench.log.read(3, 1000, at_least_one=True)


def test_what_retention_let_go_stays_gone_after_a_restart():
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(3, timestamp=NOW_MS - 2 * HOUR_MS)
    bench.produce(1)
    trio.run(bench_archive, bench)
    trio.run(retained, bench)
    start = bench.log.log_start_offset

    bench.start()
    assert bench.log.log_start_offset == start == 2
    assert bench.values() == [2, 3]


async def bench_archive(bench):
    async with kept(bench):
        await bench.upkeep.archive_all()


def test_a_log_that_is_in_the_journal_only_expires_as_a_whole():
    """Its offsets go on; its records are not archived later."""
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(2, timestamp=NOW_MS - 2 * HOUR_MS)
    trio.run(retained, bench)
    assert (bench.log.log_start_offset, bench.values()) == (2, [])

    bench.produce(1)
    trio.run(bench_archive, bench)
    bench.start()
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.values()) == (2, 3, [2])


def test_young_records_in_the_journal_stay():
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(2)
    assert trio.run(retained, bench) is False
    assert bench.values() == [0, 1]


def test_what_should_have_rolled_is_archived_before_retention_looks():
    """Half of what the journal holds is old, and the segments of the topic are small."""
    policies = retention(retention_ms=HOUR_MS)
    bench = Bench(policies=attrs.evolve(policies, roll=RollRules(segment_bytes=3000)))
    bench.produce(4, timestamp=NOW_MS - 2 * HOUR_MS, size=600)
    bench.produce(4, size=600)
    assert bench.journal.sealed() == []
    trio.run(retained, bench)

    assert bench.values() == [4, 5, 6, 7]
    assert bench.log.archived.end_offset == 8


def test_only_so_many_bytes_are_kept():
    bench = Bench(policies=retention(retention_ms=-1, retention_bytes=13_000))
    bench.produce(12)
    trio.run(bench_archive, bench)
    trio.run(retained, bench)

    kept_bytes = bench.log.size_bytes
    assert 13_000 <= kept_bytes < 13_000 + 2 * (VALUE_BYTES + 100)
    assert bench.values() == list(range(bench.log.log_start_offset, 12))


def test_a_compacted_log_keeps_everything_above_its_start():
    bench = Bench(policies=retention(delete=False, retention_ms=0, retention_bytes=0))
    bench.produce(6, timestamp=1)
    trio.run(bench_archive, bench)

    assert trio.run(retained, bench) is False
    assert bench.values() == list(range(6))


def test_a_raised_log_start_lets_whole_segments_go():
    bench = Bench(policies=retention(retention_ms=-1))
    bench.produce(6)
    trio.run(bench_archive, bench)
    bench.log.raise_log_start(3)
    trio.run(retained, bench)

    assert bench.log.log_start_offset == 3
    assert [segment.base_offset for segment in bench.log.archived.manifest.segments] == [2, 4]


def test_files_of_a_deleted_topic_go_before_another_one_of_its_name_is_archived():
    bench = Bench()
    bench.produce(3)
    trio.run(bench_archive, bench)
    bench.logs.delete("topic")
    (bench.log,) = bench.logs.create("topic", bytes(16), 1)
    bench.produce(2)
    trio.run(bench_archive, bench)

    assert bench.values() == [0, 1]
    assert list(bench.archive.known()) == [bench.log.entry_key]


def compacted(**rules):
    return LogPolicies(
        retention=RetentionRules(delete=False),
        compaction=CompactionRules(**rules),
        roll=RollRules(segment_bytes=2500, compact=True),
        file_delete_delay_ms=0,
    )


def produce_keyed(bench, pairs):
    """A batch for each pair of a key and a value; None deletes the key."""
    for key, value in pairs:
        data = None if value is None else f"{value}".encode().ljust(300, b".")
        batch = build_batch([NewRecord(data, key.encode(), bench.clock.now_ms)])
        entry = bench.log.append(read_header(batch), batch, 0).entry
        bench.journal.sync(bench.journal.write([entry]))
        bench.logs.on_durable([entry])


def keyed_records(bench):
    """Offset, key and value of every record that a reader sees."""
    log, found, offset = bench.log, [], bench.log.log_start_offset
    while offset < log.high_watermark:
        result = log.read(offset, 1 << 20, at_least_one=True)
        parts = result.cold() if result.cold else result.parts
        if not parts:
            break
        for header, batch in iterate_batches(b"".join(parts)):
            for record in iterate_records(batch, header):
                value = None if record.value is None else bytes(record.value).rstrip(b".").decode()
                found.append((record.offset, bytes(record.key).decode(), value))
            offset = header.last_offset + 1
    return found


async def cleaned(bench, **options):
    async with kept(bench):
        await bench.upkeep.archive_all()
        return await bench.upkeep.compact(**options)


def last_of_each(records):
    latest = {key: value for _, key, value in records}
    return {key: value for key, value in latest.items() if value is not None}


def test_compaction_keeps_the_last_value_of_each_key_and_every_offset():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])
    before = keyed_records(bench)
    size_bytes = bench.log.size_bytes
    assert trio.run(cleaned, bench) is True

    after = keyed_records(bench)
    assert set(after) <= set(before)
    assert last_of_each(after) == last_of_each(before)
    assert len(after) < 20
    assert bench.log.size_bytes < size_bytes / 2
    assert bench.log.log_end_offset == 60
    bench.start()
    assert keyed_records(bench) == after
    assert bench.log.archived.manifest.first_dirty_offset > 0


def test_files_that_compaction_replaced_are_deleted_and_its_own_stay():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])

    async def main():
        async with kept(bench):
            await bench.upkeep.archive_all()
            before = set(bench.names())
            await bench.upkeep.compact()
            segments = bench.log.archived.manifest.segments
            names = {
                name.split("/")[1] for one in segments for name in file_names("topic-0", one.base_offset, one.cleanings)
            }
            await wait_until(lambda: set(bench.names()) <= names)
            assert before - names

    trio.run(main)
    assert any(name.endswith(".1.log") for name in bench.names())


def test_a_second_round_cleans_what_came_since():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    for begin in (0, 60):
        produce_keyed(bench, [(f"key {number % 5}", number) for number in range(begin, begin + 60)])
        assert trio.run(cleaned, bench) is True
        bench.start()

    records = keyed_records(bench)
    assert last_of_each(records) == {f"key {number % 5}": str(number) for number in range(115, 120)}
    assert len(records) < 20
    assert {segment.cleanings for segment in bench.log.archived.manifest.segments} == {0, 2}


def test_a_log_that_is_hardly_dirty_is_cleaned_on_command_only():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=1.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(30)])

    assert trio.run(cleaned, bench) is False
    assert len(keyed_records(bench)) == 30
    assert trio.run(lambda: cleaned(bench, topic="another", is_forced=True)) is False
    assert trio.run(lambda: cleaned(bench, topic="topic", is_forced=True)) is True
    assert len(keyed_records(bench)) < 20


def test_deleted_keys_are_gone_after_their_time():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0, delete_retention_ms=HOUR_MS))
    produce_keyed(bench, [("key 0", 1), ("key 1", 1), ("key 0", None)] + [("filler", 1)] * 20)
    trio.run(cleaned, bench)
    assert (2, "key 0", None) in keyed_records(bench)

    bench.clock.now_ms += 2 * HOUR_MS
    bench.start()
    produce_keyed(bench, [("filler", 2)] * 20)
    trio.run(cleaned, bench)
    assert "key 0" not in {key for _, key, _ in keyed_records(bench)}
    assert "key 1" in {key for _, key, _ in keyed_records(bench)}


def test_what_is_archived_while_a_log_is_cleaned_stays():
    """The archiver appends between the plan of a round and its end."""
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])

    async def main():
        async with kept(bench):
            await bench.upkeep.archive_all()
            plan = next_round([bench.log], NOW_MS)
            result = clean(bench.archive, plan.manifest, plan.plan, plan.last_records, NOW_MS)
            produce_keyed(bench, [("new", number) for number in range(20)])
            await bench.upkeep.archive_all()
            edit, _ = bench.archive.replace(plan.key, result)
            bench.logs.show(edit)

    trio.run(main)
    records = keyed_records(bench)
    assert [record[2] for record in records if record[1] == "new"] == [str(number) for number in range(20)]
    assert len(records) < 45
    bench.start()
    assert keyed_records(bench) == records


def test_a_round_whose_segments_are_gone_meanwhile_changes_nothing():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])
    trio.run(bench_archive, bench)
    plan = next_round([bench.log], NOW_MS)
    result = clean(bench.archive, plan.manifest, plan.plan, plan.last_records, NOW_MS)
    bench.log.raise_log_start(30)
    trio.run(retained, bench)
    before = keyed_records(bench)
    edit, deleted = bench.archive.replace(plan.key, result)
    bench.archive.delete_files(deleted)

    assert edit.partitions == {}
    assert keyed_records(bench) == before
    bench.start()
    bench.archive.remove_unknown({bench.log.entry_key})
    assert keyed_records(bench) == before
