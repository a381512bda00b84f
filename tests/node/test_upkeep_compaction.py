"""Compaction in a serving broker: selection of logs, remaining records, and deleted files."""

import threading
import time

import trio

from pipeline_broker.log.archive.segment_file import file_names
from pipeline_broker.log.compaction.cleaning import clean
from pipeline_broker.log.partition.compaction_of_logs import next_round
from pipeline_broker.log.segments.policies import CompactionRules, LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules, RollRules
from pipeline_broker.node import upkeep
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from pipeline_broker.records.record import iterate_records
from tests.node.upkeep_bench import (
    DIRECTORY,
    HOUR_MS,
    NOW_MS,
    WAIT_SECONDS,
    Bench,
    archived,
    kept,
    retained,
    wait_until,
)


def compacted(**rules):
    return LogPolicies(
        retention=RetentionRules(delete=False),
        compaction=CompactionRules(**rules),
        roll=RollRules(segment_bytes=2500, compact=True),
        file_delete_delay_ms=0,
    )


def produce_keyed(bench, pairs):
    """Append a batch for each pair of a key and a value; None deletes the key."""
    for key, value in pairs:
        data = None if value is None else f"{value}".encode().ljust(300, b".")
        batch = build_batch([NewRecord(data, key.encode(), bench.clock.now_ms)])
        entry = bench.log.append(read_header(batch), batch, 0).entry
        bench.journal.sync(bench.journal.write([entry]))
        bench.logs.on_durable([entry])


def keyed_records(bench):
    """Return offset, key and value of each record that readers see."""
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
        await bench.maintenance.archive_all()
        return await bench.maintenance.compact(**options)


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


def test_files_that_compaction_replaced_are_deleted_and_new_ones_stay():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])

    async def main():
        async with kept(bench):
            await bench.maintenance.archive_all()
            before = set(bench.names())
            await bench.maintenance.compact()
            segments = bench.log.archived.manifest.segments
            names = {
                name.split("/")[1] for one in segments for name in file_names("topic-0", one.base_offset, one.cleanings)
            }
            await wait_until(lambda: set(bench.names()) <= names)
            assert before - names

    trio.run(main)
    assert any(name.endswith(".1.log") for name in bench.names())


def test_a_shutdown_interrupts_the_compaction_of_a_large_log():
    """It stops at the next checkpoint and leaves the log unchanged; the rest of the round may take minutes."""
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(200)])
    before, reads_after = keyed_records(bench), []

    async def main():
        async with kept(bench):
            await bench.maintenance.archive_all()
            with trio.CancelScope() as scope:

                def slow(operation, _):
                    if operation == "read" and threading.current_thread() is not threading.main_thread():
                        reads_after.append(operation)
                        trio.from_thread.run_sync(scope.cancel)
                        time.sleep(0.001)

                bench.files.before = slow
                await bench.maintenance.compact(is_forced=True)
            bench.files.before = lambda *_: None
            return scope.cancelled_caught

    assert trio.run(main)
    assert 0 < len(reads_after) < 5
    assert keyed_records(bench) == before
    bench.start()
    assert trio.run(cleaned, bench) is True
    assert last_of_each(keyed_records(bench)) == last_of_each(before)


def test_a_second_round_cleans_newer_records():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    for begin in (0, 60):
        produce_keyed(bench, [(f"key {number % 5}", number) for number in range(begin, begin + 60)])
        assert trio.run(cleaned, bench) is True
        bench.start()

    records = keyed_records(bench)
    assert last_of_each(records) == {f"key {number % 5}": str(number) for number in range(115, 120)}
    assert len(records) < 20
    assert {segment.cleanings for segment in bench.log.archived.manifest.segments} == {0, 2}


def test_a_hardly_dirty_log_is_compacted_on_command_only():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=1.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(30)])

    assert trio.run(cleaned, bench) is False
    assert len(keyed_records(bench)) == 30
    assert trio.run(lambda: cleaned(bench, topic="another", is_forced=True)) is False
    assert trio.run(lambda: cleaned(bench, topic="topic", is_forced=True)) is True
    assert len(keyed_records(bench)) < 20


def test_tombstones_are_removed_after_delete_retention_ms():
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


def test_records_archived_during_a_compaction_stay():
    """The archiver appends between the plan of a round and its end."""
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])

    async def main():
        async with kept(bench):
            await bench.maintenance.archive_all()
            plan = next_round([bench.log], NOW_MS)
            result = clean(bench.archive, plan.manifest, plan.plan, plan.last_records, NOW_MS)
            produce_keyed(bench, [("new", number) for number in range(20)])
            await bench.maintenance.archive_all()
            edit, _ = bench.archive.replace(plan.key, result)
            bench.logs.show(edit)

    trio.run(main)
    records = keyed_records(bench)
    assert [record[2] for record in records if record[1] == "new"] == [str(number) for number in range(20)]
    assert len(records) < 45
    bench.start()
    assert keyed_records(bench) == records


def test_compaction_replaces_segments_while_no_other_task_writes_the_archive(monkeypatch):
    """Of two concurrent edits of the manifest each would start from the state before the other."""
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])
    has_begun, has_cleaned, may_end, order = threading.Event(), threading.Event(), threading.Event(), []
    expire, replace = bench.archive.expire, bench.archive.replace

    def noted_clean(*arguments):
        cleaned = clean(*arguments)
        has_cleaned.set()
        return cleaned

    monkeypatch.setattr(upkeep, "load_compaction", lambda: (next_round, noted_clean))

    def slow_expire(expiries):
        has_begun.set()
        may_end.wait(WAIT_SECONDS)
        order.append("expired")
        return expire(expiries)

    def noted_replace(key, result):
        order.append("replaced")
        return replace(key, result)

    async def main():
        async with kept(bench):
            await bench.maintenance.archive_all()
            bench.archive.expire, bench.archive.replace = slow_expire, noted_replace
            bench.log.raise_log_start(30)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.maintenance.retain)
                await wait_until(has_begun.is_set)
                nursery.start_soon(bench.maintenance.compact)
                await wait_until(has_cleaned.is_set)  # otherwise the round would still read the deleted segments
                may_end.set()

    trio.run(main)
    assert order == ["expired", "replaced"]


def test_a_round_with_deleted_segments_changes_nothing():
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])
    trio.run(archived, bench)
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


def test_a_damaged_log_is_excluded_from_compaction_and_others_are_not(caplog):
    bench = Bench(policies=compacted(min_cleanable_dirty_ratio=0.0))
    (other,) = bench.logs.create("other", bytes(16), 1, policies=bench.policies)
    damaged = bench.log
    for bench.log in (other, damaged):
        produce_keyed(bench, [(f"key {number % 5}", number) for number in range(60)])
        trio.run(archived, bench)
    segment = damaged.archived.manifest.segments[0]
    bench.files.open(DIRECTORY / "archive" / "topic-0" / f"{0:020d}.log").write([b"\0"], segment.size_bytes - 20)

    assert trio.run(cleaned, bench) is True
    bench.log = other
    assert len(keyed_records(bench)) < 20
    assert (
        sum("topic-0 is not compacted until the next restart" in record.getMessage() for record in caplog.records) == 1
    )
    assert trio.run(cleaned, bench) is False
