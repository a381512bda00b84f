"""Archiving of journal segments: rolling, skipped batches and memory.

Longer than most files: all tests use one archiver.
"""

import errno
import os
from types import SimpleNamespace

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive import archiver as tested
from pipeline_broker.log.archive import index_files
from pipeline_broker.log.archive.archiver import Archiver, CompleteSegment
from pipeline_broker.log.archive.manifest import Edit
from pipeline_broker.log.archive.segment_file import file_names, log_name, time_index_name
from pipeline_broker.log.producers.producer_snapshot import decode_producers
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.log.segments.retention import RollRules
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from tests.archiving import archive_all, archive_some
from tests.node.upkeep_bench import Bench

ROUNDS = st.lists(
    st.lists(st.tuples(st.integers(-1, 9), st.sampled_from([0, 1, 200]), st.integers(1, 2)), min_size=1, max_size=5),
    max_size=4,
)
"""Of each batch of each round: its time, the bytes of each record, how many there are."""


def append(bench, timestamp=5, size=0, count=1, **producer):
    batch = build_batch([NewRecord(bytes(size), timestamp=timestamp)] * count, **producer)
    entry = bench.log.append(read_header(batch), batch, 0).entry
    bench.journal.sync(bench.journal.write([entry]))
    bench.logs.on_durable([entry])
    return len(batch)


@attrs.define
class Segment:
    """As the rules say that it is."""

    base_offset: int
    first_timestamp: int
    created_ms: int
    last_offset: int = -1
    size_bytes: int = 0
    max_timestamp: int = -1


def goes_on(segment, size_bytes, timestamp, now_ms, rules, seed):
    if segment.size_bytes + size_bytes > rules.segment_bytes:
        return False
    since = segment.first_timestamp
    waited_ms = timestamp - since if since >= 0 else now_ms - segment.created_ms
    return waited_ms <= rules.segment_ms - rules.jitter_ms(seed, segment.base_offset)


@given(
    ROUNDS,
    st.builds(
        RollRules,
        segment_bytes=st.sampled_from([1, 137, 138, 400, 10_000]),
        segment_ms=st.sampled_from([1, 4, 1_000]),
        segment_jitter_ms=st.sampled_from([0, 4]),
    ),
)
def test_segments_roll_by_the_rules_whatever_one_round_contains(rounds, rules):
    bench = Bench(policies=LogPolicies(roll=rules))
    expected, offset = [], 0
    for number, batches in enumerate(rounds):
        now_ms = 10 + 3 * number
        for timestamp, size, count in batches:
            size_bytes = append(bench, timestamp, size, count)
            if not expected or not goes_on(expected[-1], size_bytes, timestamp, now_ms, rules, bench.log.roll_seed):
                expected.append(Segment(offset, timestamp, now_ms))
            active = expected[-1]
            offset += count
            active.last_offset, active.size_bytes = offset - 1, active.size_bytes + size_bytes
            active.max_timestamp = max(active.max_timestamp, timestamp)
        archive_all(bench.journal, bench.logs, now_ms)
        if expected:
            expected[-1].created_ms = now_ms  # the last write time of a resumed segment is known
        manifest = bench.log.archived.manifest
        assert manifest.end_offset == offset
        assert [
            (it.base_offset, it.last_offset, it.size_bytes, it.first_timestamp, it.max_timestamp)
            for it in manifest.segments
        ] == [(it.base_offset, it.last_offset, it.size_bytes, it.first_timestamp, it.max_timestamp) for it in expected]
        assert [it.is_sealed for it in manifest.segments] == [True] * (len(expected) - 1) + [False]
        assert manifest.segments[-1].modified_ms == now_ms
        generations = [it.generation for it in manifest.segments]
        assert generations == sorted(set(generations)), "each has one of its own"


def test_a_segment_ends_by_its_jitter_earlier_and_not_a_moment_before_that():
    rules = RollRules(segment_ms=1000, segment_jitter_ms=1000)
    bench = Bench(policies=LogPolicies(roll=rules))
    span_ms = 1000 - rules.jitter_ms(bench.log.roll_seed, 0)
    assert 0 < span_ms < 1000
    for timestamp in (0, span_ms, span_ms + 1):
        append(bench, timestamp)
    archive_all(bench.journal, bench.logs)
    assert [it.base_offset for it in bench.log.archived.manifest.segments] == [0, 2]


def test_readers_believe_the_index_files_of_a_segment_that_grows(caplog):
    bench = Bench()
    for _ in range(3):
        for _ in range(3):
            bench.produce(1, timestamp=bench.log.log_end_offset)
        archive_all(bench.journal, bench.logs)
        assert bench.values(0) == list(range(bench.log.log_end_offset))
    assert all(bench.archive.store.size_bytes(name) > 0 for name in file_names("topic-0", 0))
    assert caplog.records == []


@pytest.mark.parametrize(
    ("segment_bytes", "count"), [(1, 3), (21 << 20, 3), (22 << 20, 2), (32 << 20, 2), (33 << 20, 1), (1 << 30, 1)]
)
def test_a_round_archives_a_bounded_number_of_segments_and_bytes(segment_bytes, count):
    sealed = [(number, 10 * number) for number in range(1, 6)]
    archiver = Archiver(None, SimpleNamespace(segment_bytes=segment_bytes, sealed=lambda: sealed))
    assert archiver.next_round() == [CompleteSegment(*each) for each in sealed[:count]]


@pytest.mark.parametrize(("start", "bases"), [(0, [0]), (1, [0]), (2, [2]), (3, [2]), (4, [4]), (6, [])])
def test_batches_below_the_log_start_are_not_archived(start, bases):
    bench = Bench()
    for _ in range(3):
        append(bench, count=2)
    bench.log.raise_log_start(start)
    archive_all(bench.journal, bench.logs)
    manifest = bench.log.archived.manifest
    assert (manifest.log_start_offset, manifest.end_offset) == (start, 6)
    assert [it.base_offset for it in manifest.segments] == bases
    append(bench, count=1)
    archive_all(bench.journal, bench.logs)
    manifest = bench.log.archived.manifest
    assert (manifest.log_start_offset, manifest.end_offset) == (start, 7)
    assert [it.base_offset for it in manifest.segments] == (bases or [6])


@pytest.mark.parametrize("silent_ms", [99, 100])
def test_producers_are_archived_until_they_expire(silent_ms):
    bench = Bench(policies=LogPolicies(producer_expiration_ms=100))
    append(bench, producer_id=0, producer_epoch=3, base_sequence=11, count=2)
    archive_all(bench.journal, bench.logs, 1_000)
    (stored,) = decode_producers(bench.log.archived.manifest.producers)
    assert (stored.producer_id, stored.epoch, stored.expected_sequence, stored.last_append_ms) == (0, 3, 13, 1_000)
    append(bench)
    archive_all(bench.journal, bench.logs, 5_000)
    assert list(decode_producers(bench.log.archived.manifest.producers)) == [stored], "the producers were not needed"
    append(bench, producer_id=8, producer_epoch=0, base_sequence=0)
    archive_all(bench.journal, bench.logs, 1_000 + silent_ms)
    ids = [each.producer_id for each in decode_producers(bench.log.archived.manifest.producers)]
    assert ids == ([0, 8] if silent_ms < 100 else [8])


@pytest.mark.parametrize(("later_ms", "bases"), [(100, [0]), (101, [0, 1])])
def test_a_segment_of_records_without_a_time_ends_by_the_clock(later_ms, bases):
    bench = Bench(policies=LogPolicies(roll=RollRules(segment_ms=100)))
    for now_ms in (1_000, 1_000 + later_ms):
        append(bench, timestamp=-1)
        archive_all(bench.journal, bench.logs, now_ms)
    assert [it.base_offset for it in bench.log.archived.manifest.segments] == bases


def test_batches_of_deleted_topics_are_skipped():
    bench = Bench()
    (other,) = bench.logs.create("other", bytes(16), 1)
    kept = bench.log
    for bench.log in (other, kept, other, kept):
        append(bench)
    bench.logs.delete("other")
    archive_all(bench.journal, bench.logs)
    assert kept.archived.manifest.end_offset == 2
    assert set(bench.archive.known()) == {kept.entry_key}


@pytest.mark.parametrize("start", [0, 3])
def test_after_a_damaged_segment_the_log_continues_in_a_new_one(start):
    """The new segment begins with the first batch that is kept; a round may have none."""
    bench = Bench()
    append(bench)
    append(bench)
    archive_all(bench.journal, bench.logs)
    (before,) = bench.log.archived.manifest.segments
    bench.archive.store.write(log_name("topic-0", 0), [b"x"], before.size_bytes - 1)
    append(bench)
    bench.log.raise_log_start(start)
    archive_all(bench.journal, bench.logs)
    assert bench.log.archived.manifest.segments[0] == attrs.evolve(before, is_sealed=True)
    append(bench)
    archive_all(bench.journal, bench.logs)
    _, second = bench.log.archived.manifest.segments
    assert (second.base_offset, second.last_offset) == (max(2, start), 3)
    assert (second.is_sealed, second.cleanings) == (False, 0)
    assert second.generation > before.generation


def test_a_segment_ends_before_its_index_overflows(monkeypatch):
    bench = Bench()
    size = append(bench)
    monkeypatch.setattr(index_files, "POSITION_MAX", 2 * size)
    for _ in range(4):
        append(bench)
    archive_all(bench.journal, bench.logs)
    assert [it.base_offset for it in bench.log.archived.manifest.segments] == [0, 2, 4]


class Noted:
    """A store that records writes, their number of parts, and syncs."""

    def __init__(self, store):
        self._store = store
        self.written, self.parts, self.synced = [], [], []

    def write(self, name, parts, position, origins=()):
        self.parts += parts
        self.written.append((name[-4:], sum(map(len, parts)), position))
        self._store.write(name, parts, position, origins)

    def sync(self, names):
        self.synced.append(len(names))
        self._store.sync(names)

    def __getattr__(self, name):
        return getattr(self._store, name)


class NotedJournal:
    """A journal that records which segments are read."""

    def __init__(self, journal):
        self._journal = journal
        self.numbers = []

    def sealed_entries(self, number, end_lsn, start_lsn):
        self.numbers.append(number)
        return self._journal.sealed_entries(number, end_lsn, start_lsn)

    def __getattr__(self, name):
        return getattr(self._journal, name)


@pytest.mark.parametrize(
    ("is_readonly", "less_bytes", "is_copied"), [(True, 1, False), (True, 0, True), (False, 1, True)]
)
def test_a_large_read_only_batch_is_buffered_without_a_copy(is_readonly, less_bytes, is_copied, monkeypatch):
    lent = []

    class Lending(NotedJournal):
        def sealed_entries(self, *segment):
            for entry in super().sealed_entries(*segment):
                lent.append(bytes(entry.batch) if is_readonly else bytearray(entry.batch))
                yield entry._replace(batch=memoryview(lent[-1]))

    bench = Bench()
    monkeypatch.setattr(tested, "COPIED_BYTES_MAX", append(bench) - less_bytes)
    bench.archive.store = store = Noted(bench.archive.store)
    archive_all(Lending(bench.journal), bench.logs)
    held = store.parts[0]
    assert (held == lent[0], isinstance(held, memoryview) and held.obj is lent[0]) == (True, not is_copied)


@pytest.mark.parametrize(("more_bytes", "counts"), [(0, [3, 3, 3]), (1, [4, 4, 1])])
def test_buffered_batches_are_written_at_the_limit(more_bytes, counts, monkeypatch):
    bench = Bench()
    (size,) = {append(bench, size=100) for _ in range(9)}
    monkeypatch.setattr(tested, "BUFFERED_BYTES_MAX", 3 * size + more_bytes)
    bench.archive.store = store = Noted(bench.archive.store)
    archive_all(bench.journal, bench.logs)
    logs = [(size, position) for kind, size, position in store.written if kind == ".log"]
    assert logs == [(count * size, sum(counts[:number]) * size) for number, count in enumerate(counts)]


def test_files_are_synced_some_at_a_time_and_each_once(monkeypatch):
    monkeypatch.setattr(tested, "FILES_SYNCED_AT_ONCE", 2)
    bench = Bench(policies=LogPolicies(roll=RollRules(segment_bytes=1)))
    for _ in range(5):
        append(bench)
    bench.archive.store = store = Noted(bench.archive.store)
    archive_all(bench.journal, bench.logs)
    assert store.synced[:3] == [2, 2, 1]


def test_a_round_whose_sync_fails_changes_nothing_that_counts():
    bench = Bench()
    append(bench)

    def before(operation, path):
        if operation == "sync" and path.suffix == ".log" and "archive" in path.parts:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    bench.files.before = before
    with pytest.raises(OSError, match="Input/output error"):
        archive_all(bench.journal, bench.logs)
    assert bench.archive.lsn == 0
    assert bench.archive.find(bench.log.entry_key) is None
    bench.files.before = lambda _operation, _path: None
    archive_all(bench.journal, bench.logs)
    assert bench.archive.lsn == bench.log.archived.end_offset == 1


def test_an_index_of_aborted_transactions_is_synced_with_its_segment():
    bench = Bench()
    append(bench, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    entry = bench.log.append_marker(7, 0, committed=False, coordinator_epoch=0, now_ms=0).entry
    bench.journal.sync(bench.journal.write([entry]))
    bench.logs.on_durable([entry])
    bench.archive.store = store = Noted(bench.archive.store)
    archive_all(bench.journal, bench.logs)
    assert [kind for kind, *_ in store.written if kind in (".log", "ndex")].count("ndex") == 1
    assert store.synced[0] == 2


def test_an_index_of_aborted_transactions_is_written_again_only_where_it_has_more(monkeypatch):
    monkeypatch.setattr(tested, "BUFFERED_BYTES_MAX", 1)  # every batch is written at once
    bench = Bench()
    append(bench, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    entry = bench.log.append_marker(7, 0, committed=False, coordinator_epoch=0, now_ms=0).entry
    bench.journal.sync(bench.journal.write([entry]))
    bench.logs.on_durable([entry])
    append(bench)
    bench.archive.store = store = Noted(bench.archive.store)
    archive_all(bench.journal, bench.logs)
    kinds = [kind for kind, *_ in store.written if kind in (".log", "ndex")]
    assert kinds == [".log", ".log", "ndex", ".log"]


def test_segments_archived_before_a_restart_are_not_archived_again(monkeypatch):
    bench = Bench()
    append(bench)
    bench.journal.seal()
    archiver = Archiver(bench.archive, bench.journal)
    number, edit = archive_some(archiver, bench.logs)
    assert edit.lsn == 1
    with monkeypatch.context() as patch:
        patch.setattr(bench.archive, "commit", None)  # nothing is written
        assert archive_some(archiver, bench.logs) == (number, Edit(1, {}))
    append(bench)
    bench.journal.seal()
    archiver = Archiver(bench.archive, journal := NotedJournal(bench.journal))
    number, edit = archive_some(archiver, bench.logs)
    assert edit.lsn == 2
    assert journal.numbers == [number], "nor read"
    (manifest,) = edit.partitions.values()
    assert manifest.end_offset == 2
    assert [it.last_offset for it in manifest.segments] == [1]


def test_rebuilt_index_files_are_written_by_the_next_round():
    bench = Bench(policies=LogPolicies(roll=RollRules(segment_bytes=1)))
    for _ in range(2):
        append(bench)
    archive_all(bench.journal, bench.logs)
    before = bench.names()
    bench.archive.store.delete([time_index_name("topic-0", 0)])
    assert bench.log.read(0, 1, at_least_one=True).cold()
    assert bench.names() != before
    append(bench)
    archive_all(bench.journal, bench.logs)
    assert set(before) <= set(bench.names())


@pytest.mark.parametrize(("segment_bytes", "looks"), [(1 << 20, [3, 7]), (1, [3, 11])])
def test_a_round_calls_check_for_each_batch_log_and_file(segment_bytes, looks, monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.archive.pace.WORK_NS", -1)
    monkeypatch.setattr("pipeline_broker.log.archive.pace.PAUSE_SECONDS", 0)
    monkeypatch.setattr(tested, "FILES_SYNCED_AT_ONCE", 1)
    counts = []
    for batches in (1, 5):
        bench, seen = Bench(policies=LogPolicies(roll=RollRules(segment_bytes=segment_bytes))), []
        for _ in range(batches):
            append(bench)
        bench.journal.seal()
        archive_some(Archiver(bench.archive, bench.journal), bench.logs, check=lambda seen=seen: seen.append(None))
        counts.append(len(seen))
    assert counts == looks


def test_a_topic_that_has_the_name_of_a_deleted_one_finds_none_of_its_files():
    bench = Bench(policies=LogPolicies(roll=RollRules(segment_bytes=1)))
    for _ in range(3):
        append(bench)
    archive_all(bench.journal, bench.logs)
    bench.logs.delete("topic")
    (bench.log,) = bench.logs.create("topic", bytes(16), 1)
    append(bench)
    archive_all(bench.journal, bench.logs)
    (segment,) = bench.log.archived.manifest.segments
    assert {name.split(".")[0] for name in bench.names()} == {f"{segment.base_offset:020d}"} == {f"{0:020d}"}


def test_a_producer_is_archived_though_its_batches_were_deleted_before():
    bench = Bench()
    append(bench, producer_id=4, producer_epoch=1, base_sequence=0, count=2)
    bench.log.raise_log_start(2)
    archive_all(bench.journal, bench.logs)
    manifest = bench.log.archived.manifest
    assert manifest.segments == ()
    (stored,) = decode_producers(manifest.producers)
    assert (stored.producer_id, stored.expected_sequence) == (4, 2)
