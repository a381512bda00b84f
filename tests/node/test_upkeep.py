"""Maintenance of the logs of a serving broker: archiving and retention.

Longer than most files: all tests share one task and its bench.
"""

import errno
import itertools
import os
import random
import time

import attrs
import pytest
import trio
import trio.testing

from pipeline_broker.files.errors import Ended
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.segment_file import file_names
from pipeline_broker.log.errors import DamagedSegment, OffsetOutOfRange
from pipeline_broker.log.journal.writer_room import RESUME_BYTES
from pipeline_broker.log.partition.retention_of_logs import waits_for_archive
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules, RollRules
from pipeline_broker.node.errors import MaintenanceFailedError
from tests.node.upkeep_bench import (
    DIRECTORY,
    HOUR_MS,
    NOW_MS,
    VALUE_BYTES,
    WAIT_SECONDS,
    Bench,
    archived,
    kept,
    retained,
    wait_until,
)

LATER_ID = bytes(reversed(range(16)))
WIDE_PARTITIONS = 30


def retention(**rules):
    return LogPolicies(retention=RetentionRules(**rules), roll=RollRules(segment_bytes=7000), file_delete_delay_ms=0)


def only_cause(failure):
    while isinstance(failure, BaseExceptionGroup):
        (failure,) = failure.exceptions
    return failure


def test_complete_journal_segments_are_archived_and_recycled():
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


def test_readers_see_archived_records_before_the_journal_is_recycled():
    bench = Bench()
    recycle, shown = bench.journal.recycle, []

    def noting(number):
        shown.append(bench.log.archived is not None and bench.log.archived.end_offset)
        recycle(number)

    bench.journal.recycle = noting

    async def main():
        async with kept(bench):
            bench.produce(2)
            assert bench.journal.sealed() == []
            bench.journal.seal()
            await wait_until(lambda: shown and not bench.journal.sealed())

    trio.run(main)
    assert shown == [2]


def test_a_startup_continues_at_the_end_of_the_archive():
    bench = Bench()

    async def main():
        async with kept(bench):
            bench.produce(7)
            await bench.maintenance.archive_all()
            bench.produce(2)
            await bench.maintenance.archive_all()

    trio.run(main)
    bench.start()
    assert bench.logs.batches_replayed == 0
    bench.produce(1)
    assert bench.values() == list(range(10))


@pytest.mark.parametrize("knows_all", [True, False])
def test_unknown_partitions_are_removed_unless_a_topic_may_be_missing(knows_all):
    bench = Bench()
    bench.produce(7)
    trio.run(archived, bench)
    bench.start()
    bench.logs.delete("topic")
    bench.logs.knows_all_topics = knows_all

    async def main():
        async with kept(bench):
            await trio.testing.wait_all_tasks_blocked(0.01)

    trio.run(main)
    assert bool(bench.archive.known()) is not knows_all
    assert bool(bench.archive.store.folders()) is not knows_all


def test_a_log_created_while_a_round_begins_loses_nothing():
    """The search for complete segments runs in a thread while the event loop creates logs."""
    bench = Bench()
    look, made = bench.journal.sealed, []

    def make_a_log():
        (bench.log,) = bench.logs.create("later", LATER_ID, 1)
        made.append(bench.log)
        bench.produce(6)

    def slow_look():
        if not made:
            trio.from_thread.run_sync(make_a_log)
        return look()

    bench.journal.sealed = slow_look

    async def main():
        async with kept(bench):
            await bench.maintenance.archive_all()

    trio.run(main)
    assert bench.values() == list(range(6))
    assert bench.log.archived.end_offset == 6


def archive_on_a_full_disk(monkeypatch, noted=lambda _obstacle, _bench: None):
    """Archive records although the first writes to the archive fail; `noted` is called with each failure."""
    monkeypatch.setattr("pipeline_broker.node.upkeep.RETRY_SECONDS", 0.001)
    bench = Bench()
    failures = iter(range(3))

    def before(operation, path):
        if operation in ("write", "create") and "archive" in path.parts and next(failures, None) is not None:
            obstacle = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            noted(obstacle, bench)
            raise obstacle

    async def main():
        async with kept(bench):
            bench.files.before = before
            bench.produce(5)
            await wait_until(lambda: not bench.journal.sealed())

    trio.run(main)
    return bench


def test_archiving_resumes_after_a_full_disk(monkeypatch, caplog):
    """Case 21."""
    bench = archive_on_a_full_disk(monkeypatch)
    assert bench.values() == list(range(5))
    waits, goes_on = [record.getMessage() for record in caplog.records]
    assert waits.startswith("archiving is suspended: [Errno 28] No space left on device: delete other files")
    assert goes_on == "archiving has resumed"


def test_advice_that_the_journal_has_logged_is_not_repeated(monkeypatch, caplog):
    def noted(obstacle, bench):
        bench.journal.room.obstacle = obstacle

    archive_on_a_full_disk(monkeypatch, noted)
    assert "archiving is suspended: [Errno 28] No space left on device" in caplog.messages


class FullDisk:
    """A disk without room for segments of the archive, which counts the attempts to write them."""

    def __init__(self, bench):
        self.bench, self.attempts = bench, 0
        bench.files.free = 0
        bench.files.before = self.before

    def before(self, operation, path):
        if operation == "write" and path.suffix == ".log" and "archive" in path.parts and not self.bench.files.free:
            self.attempts += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_after_a_full_disk_archiving_resumes_once_the_margin_of_the_journal_is_free(monkeypatch, caplog):
    """Otherwise each second would write the same files again, and each freed block end and begin the suspension."""
    monkeypatch.setattr("pipeline_broker.node.upkeep.RETRY_SECONDS", 0.001)
    bench = Bench()
    disk, checks, disk_space = FullDisk(bench), [], bench.journal.disk_space
    monkeypatch.setattr(bench.journal, "disk_space", lambda: checks.append(1) or disk_space())

    async def main():
        async with kept(bench):
            bench.produce(5)
            await wait_until(lambda: len(checks) > 5)
            bench.files.free = RESUME_BYTES - 1
            seen = len(checks)
            await wait_until(lambda: len(checks) > seen + 5)
            assert disk.attempts == 1
            assert bench.journal.sealed()
            bench.files.free = RESUME_BYTES
            await wait_until(lambda: not bench.journal.sealed())

    trio.run(main)
    assert bench.values() == list(range(5))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "archiving is suspended",
        "archiving has resumed",
    ]


def test_retention_deletes_archived_segments_while_archiving_waits_for_space(monkeypatch):
    monkeypatch.setattr("pipeline_broker.node.upkeep.RETRY_SECONDS", 0.001)
    bench = Bench(policies=retention(retention_ms=HOUR_MS))

    async def main():
        async with kept(bench):
            bench.produce(7)
            await bench.maintenance.archive_all()
            disk = FullDisk(bench)
            bench.produce(5)
            await wait_until(lambda: bench.maintenance._waiting_count)
            bench.clock.now_ms += 2 * HOUR_MS
            before = bench.log.log_start_offset
            with trio.fail_after(WAIT_SECONDS):
                assert await bench.maintenance.retain()
            assert bench.log.log_start_offset > before
            assert disk.attempts == 1
            bench.files.free = RESUME_BYTES

    trio.run(main)


def test_work_that_the_shutdown_abandons_is_neither_awaited_nor_logged(caplog):
    """An orderly shutdown that interrupted an upload logged that archiving was suspended and had resumed."""
    bench = Bench()
    given_up = []

    def before(operation, path):
        if operation in ("write", "create") and "archive" in path.parts:
            given_up.append(path)
            raise Ended("the broker ends")

    async def main():
        async with kept(bench):
            bench.files.before = before
            bench.produce(5)
            await wait_until(lambda: given_up)
            await trio.testing.wait_all_tasks_blocked()
            bench.files.before = lambda _operation, _path: None

    trio.run(main)
    assert len(given_up) == 1
    assert caplog.records == []


def test_a_writer_that_waits_for_a_suspended_archive_reports_the_reason(monkeypatch):
    """Case 21."""
    monkeypatch.setattr("pipeline_broker.node.upkeep.RETRY_SECONDS", 0.001)
    bench = Bench()

    def before(operation, path):
        if operation in ("write", "create") and "archive" in path.parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def main():
        async with kept(bench):
            bench.journal.attach_archiver(1)
            bench.files.before = before
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, bench.produce, 5)
                await wait_until(lambda: bench.journal.room.obstacle is not None)
                bench.files.before = lambda _operation, _path: None
            assert bench.journal.room.obstacle is None

    trio.run(main)
    assert bench.values() == list(range(5))


class FullDiskWork:
    """Work of the maintenance that fails for lack of space until the test provides some."""

    has_room = False

    async def __call__(self):
        await trio.lowlevel.checkpoint()
        if not self.has_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_archiving_resumes_when_all_its_tasks_have_space(monkeypatch):
    monkeypatch.setattr("pipeline_broker.node.upkeep.RETRY_SECONDS", 0.001)
    bench, first, second, told = Bench(), FullDiskWork(), FullDiskWork(), []
    monkeypatch.setattr(bench.journal, "archive_waits", told.append)

    async def main():
        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.maintenance._retried, first)
                await wait_until(lambda: told)
                async with trio.open_nursery() as others:
                    others.start_soon(bench.maintenance._retried, second)
                    await wait_until(lambda: bench.maintenance._waiting_count == 2)
                    second.has_room = True
                assert [type(each) for each in told] == [OSError]
                first.has_room = True

    trio.run(main)
    assert [type(each) for each in told] == [OSError, type(None)]


def test_a_shutdown_while_archiving_is_suspended_releases_waiting_writers(monkeypatch):
    bench, told = Bench(), []
    monkeypatch.setattr(bench.journal, "archive_waits", told.append)

    async def main():
        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.maintenance._retried, FullDiskWork())
                await wait_until(lambda: told)
                nursery.cancel_scope.cancel()

    trio.run(main)
    assert [type(each) for each in told] == [OSError, type(None)]


def test_maintenance_records_the_free_disk_space(monkeypatch):
    monkeypatch.setattr("pipeline_broker.node.upkeep.WATCH_SECONDS", 0.001)
    bench = Bench()
    space = [1000, 300]
    monkeypatch.setattr(bench.journal, "disk_space", lambda: tuple(space))

    def refuses():
        raise OSError(errno.EIO, "the disk does not tell")

    async def main():
        async with kept(bench):
            await wait_until(lambda: bench.logs.disk_space == (1000, 300))
            space[1] = 200
            await wait_until(lambda: bench.logs.disk_space == (1000, 200))
            monkeypatch.setattr(bench.journal, "disk_space", refuses)
            await wait_until(lambda: bench.logs.disk_space is None)

    trio.run(main)


def test_a_removed_or_replaced_data_directory_ends_the_maintenance(tmp_path, monkeypatch):
    """Case 25."""
    monkeypatch.setattr("pipeline_broker.node.upkeep.WATCH_SECONDS", 0.001)
    bench = Bench(SystemFileSystem(), directory=tmp_path / "data")

    async def main():
        async with kept(bench):
            await trio.testing.wait_all_tasks_blocked()
            async with bench.maintenance._writing:  # until the checks of the startup are over
                await trio.to_thread.run_sync((tmp_path / "data").rename, tmp_path / "elsewhere")
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as raised:
        trio.run(main)
    failure = only_cause(raised.value)
    assert "was removed or replaced while it was in use" in str(failure)
    bench.journal.close()


@pytest.mark.parametrize("operation", ["write", "sync", "sync directory"])
def test_a_shutdown_waits_for_the_archive_of_a_few_partitions_only(operation, monkeypatch):
    """A round takes several syncs for each partition in a segment of the journal."""
    monkeypatch.setattr("pipeline_broker.log.archive.archiver.FILES_SYNCED_AT_ONCE", 2)
    bench, slowed = Bench(), []
    wide = bench.logs.create("wide", LATER_ID, WIDE_PARTITIONS)

    async def main():
        async with kept(bench):
            for bench.log in wide:
                bench.produce(1, size=10)
            with trio.CancelScope() as scope:

                def slow(name, path):
                    if name == operation and any(part.startswith("wide-") for part in path.parts):
                        slowed.append(path)
                        trio.from_thread.run_sync(scope.cancel)
                        time.sleep(0.001)

                bench.files.before = slow
                await bench.maintenance.archive_all()
            bench.files.before = lambda *_: None
            assert scope.cancelled_caught
            assert 0 < len(slowed) <= 4
            assert not any(log.entry_key in bench.archive.known() for log in wide)
            assert bench.journal.sealed()
            await bench.maintenance.archive_all()

    trio.run(main)
    for bench.log in wide:
        assert bench.log.archived.end_offset == 1
        assert bench.values() == [0]


def test_a_shutdown_does_not_wait_for_the_removal_of_all_leftovers():
    bench, folders = Bench(), [f"gone-{number}" for number in range(WIDE_PARTITIONS)]
    for folder in folders:
        bench.archive.store.write(f"{folder}/00000000000000000000.log", [b"x"], 0)
    deleted = []

    async def main():
        async with trio.open_nursery() as nursery:

            def slow(name, path):
                if name == "unlink" and path.parent.name in folders:
                    deleted.append(path)
                    trio.from_thread.run_sync(nursery.cancel_scope.cancel)

            bench.files.before = slow
            nursery.start_soon(bench.maintenance.run)

    trio.run(main)
    assert len(deleted) == 1
    bench.files.before = lambda *_: None
    bench.start()
    bench.archive.remove_unknown({bench.log.entry_key})
    assert not bench.archive.store.folders()


def test_an_index_that_meets_a_full_disk_hides_no_batches(monkeypatch):
    """The round was committed before the index failed, and its edit was never shown to the logs."""
    monkeypatch.setattr("pipeline_broker.node.upkeep.RETRY_SECONDS", 0.001)
    bench = Bench(policies=retention())
    refusals = iter([OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))])
    monkeypatch.setattr(bench.archive.reader, "write_repairs", lambda: refuse(refusals))

    async def main():
        async with kept(bench):
            bench.produce(3)
            await wait_until(lambda: not bench.journal.sealed())

    trio.run(main)
    assert bench.values() == list(range(3))
    assert bench.log.archived is not None
    assert next(refusals, None) is None


def refuse(refusals):
    for refusal in refusals:
        raise refusal


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_a_failing_disk_ends_the_maintenance(operation):
    """Case 17."""
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
    failure = only_cause(raised.value)
    assert isinstance(failure, MaintenanceFailedError)
    assert "Input/output error" in str(failure)


def test_expired_segments_are_deleted_and_the_log_start_rises():
    """With two records in a segment, a record of the third segment is not expired."""
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(5, timestamp=NOW_MS - 2 * HOUR_MS)
    bench.produce(4)

    async def main():
        async with kept(bench):
            await bench.maintenance.archive_all()
            await bench.maintenance.retain()
            await wait_until(lambda: not any(name.startswith(("0" * 20, "0" * 19 + "2")) for name in bench.names()))

    trio.run(main)
    assert bench.log.log_start_offset == 4
    assert bench.raised == [bench.log], "its waiting fetches are answered"
    assert bench.values() == [4, 5, 6, 7, 8]
    with pytest.raises(OffsetOutOfRange):
        bench.log.read(3, 1000, at_least_one=True)


def test_each_log_with_a_raised_start_is_reported():
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    first, second = bench.log, *bench.logs.create("other", bytes(16), 1, policies=bench.policies)
    for bench.log in (first, second):
        bench.produce(5, timestamp=NOW_MS - 2 * HOUR_MS)
    trio.run(archived, bench)
    trio.run(retained, bench)
    assert sorted(log.topic for log in bench.raised) == ["other", "topic"]


def test_expired_records_stay_deleted_after_a_restart():
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(3, timestamp=NOW_MS - 2 * HOUR_MS)
    bench.produce(1)
    trio.run(archived, bench)
    trio.run(retained, bench)
    start = bench.log.log_start_offset

    bench.start()
    assert bench.log.log_start_offset == start == 2
    assert bench.values() == [2, 3]


def test_a_log_without_archived_segments_expires_as_a_whole():
    """Its offsets continue, and its records are not archived later."""
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(2, timestamp=NOW_MS - 2 * HOUR_MS)
    trio.run(retained, bench)
    assert (bench.log.log_start_offset, bench.values()) == (2, [])

    bench.produce(1)
    trio.run(archived, bench)
    bench.start()
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.values()) == (2, 3, [2])


def test_retention_lowers_the_largest_timestamp_of_a_log():
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(2, timestamp=NOW_MS - 2 * HOUR_MS)
    assert bench.log.max_timestamp() == (NOW_MS - 2 * HOUR_MS, 0, 0)
    trio.run(retained, bench)
    assert bench.log.max_timestamp() is None
    bench.start()
    assert bench.log.max_timestamp() is None
    bench.produce(1, timestamp=5)
    assert bench.log.max_timestamp() == (5, 2, 0)


def test_young_records_in_the_journal_stay():
    bench = Bench(policies=retention(retention_ms=HOUR_MS))
    bench.produce(2)
    assert trio.run(retained, bench) is False
    assert bench.values() == [0, 1]


def test_segments_that_should_have_rolled_are_archived_before_retention():
    """Half of the records in the journal are expired, and the segments of the topic are small."""
    policies = retention(retention_ms=HOUR_MS)
    bench = Bench(policies=attrs.evolve(policies, roll=RollRules(segment_bytes=3000)))
    bench.produce(4, timestamp=NOW_MS - 2 * HOUR_MS, size=600)
    bench.produce(4, size=600)
    assert bench.journal.sealed() == []
    trio.run(retained, bench)

    assert bench.values() == [4, 5, 6, 7]
    assert bench.log.archived.end_offset == 8


def test_retention_bytes_limits_the_size():
    bench = Bench(policies=retention(retention_ms=-1, retention_bytes=13_000))
    bench.produce(12)
    trio.run(archived, bench)
    trio.run(retained, bench)

    kept_bytes = bench.log.size_bytes
    assert 13_000 <= kept_bytes < 13_000 + 2 * (VALUE_BYTES + 100)
    assert bench.values() == list(range(bench.log.log_start_offset, 12))


def test_a_compacted_log_keeps_everything_above_its_start():
    bench = Bench(policies=retention(delete=False, retention_ms=0, retention_bytes=0))
    bench.produce(6, timestamp=1)
    trio.run(archived, bench)

    assert trio.run(retained, bench) is False
    assert bench.values() == list(range(6))


def test_a_raised_log_start_deletes_whole_segments():
    bench = Bench(policies=retention(retention_ms=-1))
    bench.produce(6)
    trio.run(archived, bench)
    bench.log.raise_log_start(3)
    trio.run(retained, bench)

    assert bench.log.log_start_offset == 3
    assert [segment.base_offset for segment in bench.log.archived.manifest.segments] == [2, 4]


def test_files_of_a_deleted_topic_are_removed_before_a_new_topic_of_its_name_is_archived():
    bench = Bench()
    bench.produce(3)
    trio.run(archived, bench)
    bench.logs.delete("topic")
    (bench.log,) = bench.logs.create("topic", bytes(16), 1)
    bench.produce(2)
    trio.run(archived, bench)

    assert bench.values() == [0, 1]
    assert list(bench.archive.known()) == [bench.log.entry_key]


def damage(bench, base_offset):
    """Change a byte of a record in the segment with this base offset."""
    segment = next(one for one in bench.log.archived.manifest.segments if one.base_offset == base_offset)
    file = bench.files.open(DIRECTORY / "archive" / file_names("topic-0", base_offset, segment.cleanings)[0])
    file.write([b"\0"], segment.size_bytes - 100)


def test_a_log_continues_in_a_new_segment_if_the_last_one_is_damaged():
    """Its index is missing, too, so that the archiver meets the damage when it appends."""
    bench = Bench()
    bench.produce(3)
    trio.run(archived, bench)
    damage(bench, 0)
    bench.files.before = no_index
    bench.start()
    bench.produce(2)
    trio.run(archived, bench)

    bases = [segment.base_offset for segment in bench.log.archived.manifest.segments]
    assert bases == [0, 3]
    assert bench.values(3) == [3, 4]
    with pytest.raises(DamagedSegment):
        bench.values(2)


def no_index(operation, path):
    if operation == "open" and path.suffix in (".index", ".timeindex"):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def rolled_at(seed, jitter_ms, segment_ms=1000):
    """Return the base offsets of the segments of a record in each millisecond."""
    roll = RollRules(segment_ms=segment_ms, segment_jitter_ms=jitter_ms)
    bench = Bench(policies=LogPolicies(roll=roll), randomness=random.Random(seed))
    for number in range(40):
        bench.produce(1, timestamp=NOW_MS + 100 * number, size=10)
    trio.run(archived, bench)
    return [segment.base_offset for segment in bench.log.archived.manifest.segments]


def test_segments_end_earlier_by_a_jitter_of_their_own():
    """With a record every 100 ms, a segment of 1 s has eleven records or fewer, and not always the same number."""
    assert rolled_at(1, 0) == [0, 11, 22, 33]
    drawn = {tuple(rolled_at(seed, 900)) for seed in range(5)}
    assert len(drawn) > 1, "each startup draws a new jitter"
    for bases in drawn:
        sizes = {after - base for base, after in itertools.pairwise(bases)}
        assert all(2 <= size <= 11 for size in sizes)
        assert len(sizes) > 1, "each segment has its own"
    assert rolled_at(1, 900) == rolled_at(1, 900), "and the same randomness gives the same"


def test_journal_and_archiver_use_the_same_segment_jitter():
    """Records in the journal are archived because of their age exactly when the archiver would end the segment."""
    roll = RollRules(segment_ms=1000, segment_jitter_ms=900)
    bench = Bench(policies=LogPolicies(roll=roll), randomness=random.Random(3))
    bench.produce(1, size=10)
    jitter_ms = roll.jitter_ms(bench.log.roll_seed, 0)
    assert 0 < jitter_ms < 900
    due_ms = NOW_MS + 1000 - jitter_ms
    assert not waits_for_archive(bench.log, due_ms)
    assert waits_for_archive(bench.log, due_ms + 1)
    bench.produce(1, timestamp=due_ms, size=10)
    bench.produce(1, timestamp=due_ms + 1, size=10)
    trio.run(archived, bench)
    assert [segment.base_offset for segment in bench.log.archived.manifest.segments] == [0, 2]
