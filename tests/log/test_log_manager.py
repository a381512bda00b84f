"""The logs of a broker: lookups, totals, replay and deletion."""

from contextlib import suppress
from pathlib import Path
from random import Random

import attrs

from pipeline_broker.base.steps import finished
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.archive.manifest import Edit
from pipeline_broker.log.journal.frame import entry_key
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import ROLL_SEED_BYTES, LogManager, LogTotals
from pipeline_broker.log.segments.policies import DEFAULT_POLICIES
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.check import DEFAULT_RULES
from tests.archiving import archive_all
from tests.files.memory_file_system import MemoryFileSystem
from tests.node.upkeep_bench import NOW_MS, Bench

ONE, TWO, THREE = bytes(16), bytes(15) + b"\1", bytes(15) + b"\3"


def made():
    journal = Journal.open(Path("/d"), files=MemoryFileSystem())
    manager = LogManager(journal)
    manager.create("one", ONE, 2)
    manager.create("two", TWO, 1)
    manager.recover(lambda *_: None, 0)
    return journal, manager


def append(journal, manager, topic, partition, count):
    """Append a batch of `count` records; return its size."""
    batch = build_batch([NewRecord(b"value")] * count)
    entry = manager.find(topic, partition).append(read_header(batch), batch, 0).entry
    journal.sync(journal.write([entry]))
    manager.on_durable([entry])
    return len(batch)


def test_totals_are_of_each_topic_and_deleted_ones_are_counted_together():
    """A counter that clients scrape never falls."""
    journal, manager = made()
    size_bytes = [append(journal, manager, "one", partition, count) for partition, count in ((0, 1), (1, 2), (1, 3))]
    other = append(journal, manager, "two", 0, 4)
    for partition in range(2):
        manager.find("one", partition).duplicates = 5
    nothing = LogTotals()
    one, two = LogTotals(6, sum(size_bytes), 3, 10), LogTotals(4, other, 1, 0)
    assert finished(manager.totals()) == {("", b""): nothing, ("one", ONE): one, ("two", TWO): two}
    manager.delete("one")
    assert finished(manager.totals()) == {("", b""): one, ("two", TWO): two}
    finished(manager.totals())["", b""].batches = 99
    assert finished(manager.totals())["", b""] == one, "the argument belongs to the caller"
    manager.delete("two")
    assert finished(manager.totals()) == {("", b""): LogTotals(10, sum(size_bytes) + other, 4, 10)}


def test_all_topics_are_known_unless_recovery_missed_a_record():
    _, manager = made()
    assert manager.knows_all_topics


def test_only_existing_partitions_are_found_by_number_and_by_key():
    """Python would take -1 for the last one."""
    _, manager = made()
    logs = manager.partitions("one")
    for partition, found in ((-2, None), (-1, None), (0, logs[0]), (1, logs[1]), (2, None), (3, None)):
        assert manager.find("one", partition) is found
        assert manager.find_by_key(entry_key(ONE, partition)) is found
        assert manager.find("none", partition) is None
        assert manager.find_by_key(entry_key(THREE, partition)) is None


def test_a_topic_grows_and_is_deleted_with_all_partitions():
    _, manager = made()
    first, second = manager.partitions("one")
    assert manager.create("one", ONE, 3)[:2] == (first, second)
    assert [log.partition for log in manager.partitions("one")] == [0, 1, 2]
    assert (len(manager), len(list(manager))) == (4, 4)
    manager.delete("one")
    manager.delete("none")
    assert (len(manager), manager.partitions("one"), manager.find("one", 0)) == (1, (), None)
    (again,) = manager.create("one", bytes(15) + b"\2", 1)
    assert again is not first


def test_prepared_logs_become_the_topics_logs():
    _, manager = made()
    logs = [manager.make("three", THREE, partition, DEFAULT_RULES, DEFAULT_POLICIES) for partition in range(4)]
    assert manager.find("three", 0) is None
    assert manager.find_by_key(logs[0].entry_key) is None
    assert manager.create("three", THREE, 3, made=logs) == tuple(logs[:3])
    assert manager.find_by_key(logs[2].entry_key) is logs[2]
    assert manager.find_by_key(logs[3].entry_key) is None, "it was one too many"
    assert manager.create("three", THREE, 2, made=logs) == tuple(logs[:3]), "a topic never has fewer"


def test_only_missing_logs_are_taken_from_prepared_ones():
    _, manager = made()
    later = [manager.make("one", ONE, partition, DEFAULT_RULES, DEFAULT_POLICIES) for partition in range(1, 4)]
    first, second = manager.partitions("one")
    assert manager.create("one", ONE, 5, made=later)[:4] == (first, second, *later[1:])
    assert [log.partition for log in manager.partitions("one")] == [0, 1, 2, 3, 4]
    too_many = [manager.make("two", TWO, partition, DEFAULT_RULES, DEFAULT_POLICIES) for partition in range(1, 4)]
    assert manager.create("two", TWO, 2, made=too_many)[1:] == (too_many[0],)
    foreign = manager.make("one", THREE, 5, DEFAULT_RULES, DEFAULT_POLICIES)
    assert manager.create("one", ONE, 6, made=[foreign])[5] is not foreign
    beyond = manager.make("one", ONE, 8, DEFAULT_RULES, DEFAULT_POLICIES)
    assert [log.partition for log in manager.create("one", ONE, 9, made=[beyond])] == list(range(9))


def test_deleted_logs_are_not_found_but_still_counted():
    journal, manager = made()
    size_bytes = append(journal, manager, "one", 1, 3)
    first, second = manager.partitions("one")
    manager.delete("one")
    assert manager.find_by_key(second.entry_key) is None
    counts = []
    gone = []
    while manager.is_any_leaving:
        counts.append(finished(manager.totals())["", b""])
        gone += manager.forget_some(1)
    counts.append(finished(manager.totals())["", b""])
    assert gone == [first, second]
    assert counts == [LogTotals(3, size_bytes, 1, 0)] * 3
    assert manager.forget_some(1) == []


def test_a_replay_counts_applied_and_skipped_batches():
    files = MemoryFileSystem()
    journal = Journal.open(Path("/d"), files=files)
    manager = LogManager(journal)
    manager.create("one", ONE, 1)
    manager.create("two", TWO, 1)
    manager.recover(lambda *_: None, 0)
    for topic, count in (("one", 1), ("two", 1), ("one", 2)):
        append(journal, manager, topic, 0, count)
    manager.close()
    again = LogManager(Journal.open(Path("/d"), files=files))
    again.create("one", ONE, 1)
    found = []
    again.recover(lambda log, header, batch: found.append((log.topic, header.base_offset)), 0)
    assert found == [("one", 0), ("one", 1)]
    assert (again.batches_replayed, again.batches_skipped) == (2, 1)
    assert again.find("one", 0).high_watermark == 3


def test_replayed_batches_after_the_deletion_of_their_topic_are_skipped():
    files = MemoryFileSystem()
    journal = Journal.open(Path("/d"), files=files)
    manager = LogManager(journal)
    assert (manager.batches_replayed, manager.batches_skipped) == (0, 0)
    manager.create("one", ONE, 1)
    manager.recover(lambda *_: None, 0)
    for _ in range(3):
        append(journal, manager, "one", 0, 1)
    manager.close()
    again = LogManager(Journal.open(Path("/d"), files=files))
    again.create("one", ONE, 1)
    again.recover(lambda log, header, batch: again.delete("one"), 0)
    assert (again.batches_replayed, again.batches_skipped) == (1, 2)


def test_each_log_draws_its_jitter_from_the_seed_of_its_broker_and_its_own_key():
    journal = Journal.open(Path("/d"), files=MemoryFileSystem())
    one, other = (LogManager(journal, randomness=Random(seed)).create("one", ONE, 2) for seed in (1, 2))
    seeds = [log.roll_seed for log in (*one, *other)]
    assert len(set(seeds)) == 4
    assert seeds == [
        Random(seed).randbytes(ROLL_SEED_BYTES) + entry_key(ONE, partition) for seed in (1, 2) for partition in (0, 1)
    ]


def test_an_edit_returns_only_the_logs_with_a_raised_start():
    bench = Bench()
    bench.produce(5)
    archive_all(bench.journal, bench.logs, NOW_MS)
    key, manifest = bench.log.entry_key, bench.log.archived.manifest
    for start, raised in ((0, []), (2, [bench.log]), (2, []), (1, [])):
        shown = attrs.evolve(manifest, log_start_offset=start)
        edit = Edit(0, {entry_key(ONE, 7): manifest, entry_key(TWO, 0): None, key: shown})
        assert bench.logs.show(edit) == raised
        assert bench.log.archived.manifest is shown
    assert bench.logs.show(Edit(0, {key: None})) == []
    assert bench.log.archived.manifest is shown


def test_only_archived_state_logs_are_replayed_and_before_the_journal():
    bench = Bench()
    bench.produce(3)
    archive_all(bench.journal, bench.logs, NOW_MS)
    bench.produce(2)
    for is_state, expected in ((True, [0, 1, 2, 3, 4]), (False, [3, 4])):
        bench.files.kill()
        archive = open_local_archive(bench.directory, bench.files)
        again = LogManager(Journal.open(bench.directory, files=bench.files), 0, archive)
        again.create("topic", bench.log.topic_id, 1)
        found = []
        again.recover(
            lambda log, header, batch, found=found: found.append(header.base_offset),
            0,
            lambda log, is_state=is_state: is_state,
        )
        assert found == expected
        again.close()


def open_below(directory):
    """The files of a directory that this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found.append(str(descriptor.readlink()))
    return sorted(name.removeprefix(f"{directory}/") for name in found if name.startswith(f"{directory}/"))


def test_logs_that_are_closed_leave_no_file_of_the_data_directory_open(tmp_path):
    bench = Bench(SystemFileSystem(), directory=tmp_path)
    bench.produce(5)
    archive_all(bench.journal, bench.logs, NOW_MS)
    bench.archive.store.write("topic-0/half.log", [b"x"], 0)
    bench.archive.cleaning_store.write("topic-0/half.index", [b"x"], 0)
    assert bench.values() == [0, 1, 2, 3, 4]
    folders = {name.split("/")[0] for name in open_below(tmp_path)}
    assert {"archive", "journal"} <= folders
    bench.logs.close()
    assert open_below(tmp_path) == []
