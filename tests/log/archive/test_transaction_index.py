"""The index of aborted transactions, compared with the log, and read by Kafka."""

import random
import re

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.inspect.findings import Damage, IndexFound, IndexStatus
from pipeline_broker.inspect.segment_check import SegmentCheck
from pipeline_broker.inspect.topic_names import TopicNames
from pipeline_broker.log.archive.segment_file import log_name, transaction_index_name
from pipeline_broker.log.archive.transaction_index import aborted_in, rebuilt_entries
from pipeline_broker.log.compaction.cleaning import clean
from pipeline_broker.log.errors import DamagedIndexError
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.partition.compaction_of_logs import next_round
from pipeline_broker.log.producers.aborted_transactions import (
    ENTRY,
    AbortedTransaction,
    OpenTransactions,
    encode_entries,
    parse_entries,
)
from pipeline_broker.log.segments.policies import CompactionRules, LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules, RollRules
from pipeline_broker.records.batch import NewRecord, build_batch, read_header, restamp
from tests.archiving import archive_all
from tests.drawn import drawn, measured
from tests.kafka_tools import kafka_tool
from tests.log.compaction.logs import ABORT, COMMIT, marker
from tests.node.upkeep_bench import NOW_MS, Bench

DATA = "data"
OTHER_CONTROL = 2
PRODUCERS = (0, 12, 13)
step = st.tuples(st.sampled_from(PRODUCERS), st.sampled_from([DATA, DATA, DATA, ABORT, ABORT, COMMIT, OTHER_CONTROL]))
steps = st.lists(step, min_size=1, max_size=60) | st.lists(step, min_size=20, max_size=60)
"""Long ones, too: only complete segments, of six batches and more, are archived."""
ROLL = RollRules(segment_bytes=4000)


def batch_of(producer, what, number):
    if what != DATA:
        return marker(producer, what, NOW_MS)
    value = b"%d:" % number + random.Random(number).randbytes(700)
    records = [NewRecord(value, b"key %d" % (number % 5), NOW_MS), NewRecord(b"2", b"more", NOW_MS)]
    return build_batch(records, transactional=True, producer_id=producer, producer_epoch=0, base_sequence=number)


def append(bench, batch):
    log, header = bench.log, read_header(batch)
    base, last = log.log_end_offset, log.log_end_offset + header.last_offset_delta
    parts = restamp(header, batch, base)
    entry = JournalEntry(log, base, last, header.max_timestamp, parts, header.size_bytes)
    log.log_end_offset = last + 1
    bench.journal.sync(bench.journal.write([entry]))
    bench.logs.on_durable([entry])


def naive(story):
    """The entries of a whole log, told from the story; also where each marker lies."""
    offset, opened, entries = 0, {}, []
    for producer, what in story:
        if what == DATA:
            opened.setdefault(producer, offset)
            offset += 2
            continue
        if what in {ABORT, COMMIT}:
            first = opened.pop(producer, None)
            if first is not None and what == ABORT:
                stable = min(opened.values(), default=offset + 1)
                entries.append(AbortedTransaction(producer, first, offset, stable))
        offset += 1
    return entries


def open_at(story, end_offset):
    """Return the open transactions below an offset, with their first offsets."""
    offset, opened = 0, {}
    for producer, what in story:
        if offset >= end_offset:
            break
        if what == DATA:
            opened.setdefault(producer, offset)
        elif what in {ABORT, COMMIT}:
            opened.pop(producer, None)
        offset += 2 if what == DATA else 1
    return opened


def filled(story, policies=None):
    bench = Bench(policies=policies or LogPolicies(roll=ROLL))
    for number, (producer, what) in enumerate(story):
        append(bench, batch_of(producer, what, number))
    return bench


def archived_entries(entries, end_offset):
    return [entry for entry in entries if entry.last_offset < end_offset]


@measured(aborted=0.15)
@settings(max_examples=30)
@given(steps, st.lists(st.booleans(), max_size=60))
def test_the_index_of_any_log_matches_the_log(story, restarts):
    """Whatever rounds of the archiver there were, and starts between them: open transactions are remembered."""
    bench = Bench(policies=LogPolicies(roll=ROLL))
    for number, (producer, what) in enumerate(story):
        append(bench, batch_of(producer, what, number))
        if number < len(restarts) and restarts[number]:
            archive_all(bench.journal, bench.logs, NOW_MS)
            bench.start()
    archive_all(bench.journal, bench.logs, NOW_MS)
    archived = bench.log.archived
    if archived is None:
        return
    expected = archived_entries(naive(story), archived.end_offset)
    drawn("aborted", expected)
    manifest, found = archived.manifest, []
    assert dict(manifest.open_transactions) == open_at(story, archived.end_offset)
    for segment in manifest.segments:
        entries = aborted_in(bench.archive.reader, manifest, segment)
        assert all(segment.base_offset <= entry.last_offset <= segment.last_offset for entry in entries)
        assert rebuilt_entries(bench.archive.reader, manifest, segment) == entries
        name = transaction_index_name(manifest.folder, segment.base_offset)
        if entries:
            assert bench.archive.store.size_bytes(name) == segment.aborted_bytes == len(entries) * ENTRY.size
        else:
            assert name.split("/")[1] not in bench.names()
        found += entries
    assert found == expected


@measured(told=0.1)
@settings(max_examples=30)
@given(steps, st.integers(0, 30), st.integers(1, 100))
def test_readers_get_every_aborted_transaction_that_concerns_them(story, offset, size):
    bench = filled(story)
    archive_all(bench.journal, bench.logs, NOW_MS)
    archived = bench.log.archived
    if archived is None:
        return
    end_offset = min(offset + size, archived.end_offset)
    told = archived.aborted_transactions(offset, end_offset)
    entries = told() if told is not None else []
    wanted = archived_entries(naive(story), archived.end_offset)
    overlapping = [it for it in wanted if it.first_offset < end_offset and it.last_offset >= offset]
    drawn("told", overlapping)
    assert entries == overlapping


STORY = [
    (11, DATA),
    (12, DATA),
    (11, ABORT),
    *[(13, DATA)] * 12,
    (12, ABORT),
    (13, COMMIT),
    (11, DATA),
    (11, ABORT),
] * 3


def reference():
    bench = filled(STORY)
    archive_all(bench.journal, bench.logs, NOW_MS)
    manifest = bench.log.archived.manifest
    assert sum(bool(segment.aborted_bytes) for segment in manifest.segments) >= 3
    return bench, manifest


@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_a_damaged_index_is_rebuilt(damage, caplog):
    bench, manifest = reference()
    segment = next(it for it in manifest.segments[1:] if it.aborted_bytes)
    name = transaction_index_name(manifest.folder, segment.base_offset)
    store = bench.archive.store
    expected = parse_entries(store.read(name, segment.aborted_bytes, 0))
    assert expected[0].first_offset < segment.base_offset, "it began in an earlier segment"
    if damage == "missing":
        store.delete([name])
    else:
        content = bytearray(store.read(name, segment.aborted_bytes, 0))
        content[-1] ^= 1
        store.write(name, [content[: -ENTRY.size] if damage == "short" else content], 0)
    assert aborted_in(bench.archive.reader, manifest, segment) == expected
    assert "is rebuilt from the batches" in caplog.text


def test_a_damaged_index_of_a_growing_segment_is_repaired_by_the_next_round(caplog):
    story = [(11, DATA), (11, ABORT)] * 3
    bench = Bench(policies=LogPolicies())
    entries = naive(story * 20)
    for number, (producer, what) in enumerate(story * 10):
        append(bench, batch_of(producer, what, number))
    archive_all(bench.journal, bench.logs, NOW_MS)
    (segment,) = bench.log.archived.manifest.segments
    name = transaction_index_name("topic-0", segment.base_offset)
    bench.archive.store.delete([name])
    for number, (producer, what) in enumerate(story * 10):
        append(bench, batch_of(producer, what, number))
    archive_all(bench.journal, bench.logs, NOW_MS)
    manifest = bench.log.archived.manifest
    (grown,) = manifest.segments
    assert grown.aborted_bytes > segment.aborted_bytes
    content = bench.archive.store.read(name, grown.aborted_bytes, 0)
    assert parse_entries(content) == archived_entries(entries, manifest.end_offset)
    assert "is rebuilt from the batches" in caplog.text


def test_after_an_index_that_cannot_be_rebuilt_the_log_continues_in_a_new_segment(caplog):
    bench, before = reference()
    store = bench.archive.store
    first, last = before.segments[0], before.segments[-1]
    assert last.aborted_bytes
    assert not last.is_sealed
    store.delete([transaction_index_name(before.folder, last.base_offset)])
    store.write(log_name(before.folder, first.base_offset), [b"x"], first.size_bytes // 2)
    for number, (producer, what) in enumerate([(21, DATA), (21, ABORT)] * 6):
        append(bench, batch_of(producer, what, number))
    archive_all(bench.journal, bench.logs, NOW_MS)
    manifest = bench.log.archived.manifest
    assert manifest.end_offset > before.end_offset
    assert manifest.segments[-1].base_offset > last.base_offset
    assert "the log continues in a new segment" in caplog.text
    newest = manifest.segments[-1]
    content = store.read(transaction_index_name(manifest.folder, newest.base_offset), newest.aborted_bytes, 0)
    assert {entry.producer_id for entry in parse_entries(content)} == {21}


def test_index_files_are_deleted_with_their_segment():
    bench, _ = reference()
    assert any(name.endswith(".txnindex") for name in bench.names())
    bench.start()
    bench.archive.remove_unknown({bench.log.entry_key})
    assert any(name.endswith(".txnindex") for name in bench.names()), "they count"
    bench.archive.remove_unknown(set())
    assert bench.names() == []


def cleaned(bench, now_ms=NOW_MS):
    plan = next_round([bench.log], now_ms, is_forced=True)
    made = clean(bench.archive, plan.manifest, plan.plan, plan.last_records, now_ms)
    edit, deleted = bench.archive.replace(plan.key, made)
    bench.logs.show(edit)
    bench.archive.delete_files(deleted)
    return bench.log.archived.manifest


def test_compaction_keeps_the_entries_whose_markers_stay():
    """One round removes the records of aborted transactions, and a later one the entries."""
    rules = CompactionRules(min_cleanable_dirty_ratio=0.0, delete_retention_ms=1000)
    roll = attrs.evolve(ROLL, compact=True)
    bench = filled(STORY, LogPolicies(compaction=rules, roll=roll, retention=RetentionRules(delete=False)))
    archive_all(bench.journal, bench.logs, NOW_MS)
    manifest = cleaned(bench)
    reader = bench.archive.reader
    entries = [it for segment in manifest.segments for it in aborted_in(reader, manifest, segment)]
    assert entries == archived_entries(naive(STORY), manifest.end_offset)
    cut = manifest.first_dirty_offset
    aborted = {offset for it in entries for offset in range(it.first_offset, it.last_offset) if it.producer_id != 13}
    assert aborted
    left = {
        header.producer_id
        for segment in manifest.segments
        for header, _ in reader.batches(manifest.folder, segment)
        if header.last_offset < cut and not header.is_control and header.record_count
    }
    assert left == {13}, "only committed batches have records"
    names = [name for name in bench.names() if name.endswith(".1.txnindex")]
    assert len(names) == sum(bool(it.aborted_bytes) for it in manifest.segments if it.cleanings)

    for number in range(100, 140):
        append(bench, build_batch([NewRecord(bytes(700), b"%d" % number, NOW_MS)]))
    archive_all(bench.journal, bench.logs, NOW_MS)
    later = cleaned(bench)
    left_behind = [it for segment in later.segments for it in aborted_in(reader, later, segment)]
    assert [it for it in left_behind if it.last_offset < cut] == []


def test_the_entry_of_a_marker_at_the_end_of_a_segment_stays_when_that_is_compacted():
    size_bytes = len(batch_of(11, DATA, 0)) + len(batch_of(11, ABORT, 1))
    policies = LogPolicies(
        compaction=CompactionRules(min_cleanable_dirty_ratio=0.0, segment_bytes=size_bytes),
        roll=RollRules(segment_bytes=size_bytes, compact=True),
        retention=RetentionRules(delete=False),
    )
    bench = filled([(11, DATA), (11, ABORT), (12, DATA), (12, COMMIT), (12, DATA), (12, COMMIT)], policies)
    archive_all(bench.journal, bench.logs, NOW_MS)
    manifest = cleaned(bench)
    first = manifest.segments[0]
    assert (first.last_offset, first.cleanings) == (2, 1)
    assert [it.last_offset for it in aborted_in(bench.archive.reader, manifest, first)] == [2]


def test_an_open_transaction_holds_compaction_back():
    rules = CompactionRules(min_cleanable_dirty_ratio=0.0)
    policies = LogPolicies(compaction=rules, roll=ROLL, retention=RetentionRules(delete=False))
    bench = filled([(12, DATA)] * 8 + [(11, DATA)] + [(12, DATA)] * 40, policies)
    archive_all(bench.journal, bench.logs, NOW_MS)
    manifest = bench.log.archived.manifest
    assert dict(manifest.open_transactions) == {12: 0, 11: 16}
    bench.start()
    assert dict(bench.log.archived.manifest.open_transactions) == {12: 0, 11: 16}
    assert next_round([bench.log], NOW_MS, is_forced=True) is None


def test_kafka_reads_the_entries(tmp_path):
    run = kafka_tool(tmp_path)
    path = tmp_path / "00000000000000000000.txnindex"
    entries = [AbortedTransaction(4711, 3, 17, 5), AbortedTransaction(2**62, 5, 30, 31)]
    path.write_bytes(encode_entries(entries))
    done = run("DumpLogSegments", "--files", str(path))
    assert done.stderr == ""
    pattern = r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    assert [AbortedTransaction(*map(int, found)) for found in re.findall(pattern, done.stdout)] == entries


def test_kafka_reads_markers_and_what_they_end(tmp_path):
    """The archive's own files, by Kafka's own tool: who wrote, in which epoch, how it ended, by which coordinator."""
    run = kafka_tool(tmp_path)
    bench = Bench(directory=tmp_path / "data", files=SystemFileSystem())
    entries = []
    for producer, is_commit in ((11, True), (12, False)):
        batch = batch_of(producer, DATA, 0)
        header = read_header(batch)
        entries.append(bench.log.append(header, batch, NOW_MS).entry)
        marker_options = {"committed": is_commit, "coordinator_epoch": 4, "now_ms": NOW_MS}
        entries.append(bench.log.append_marker(producer, 1, **marker_options).entry)
    bench.journal.sync(bench.journal.write(entries))
    bench.logs.on_durable(entries)
    archive_all(bench.journal, bench.logs, NOW_MS)
    folder = tmp_path / "data" / "archive" / "topic-0"
    done = run("DumpLogSegments", "--deep-iteration", "--files", str(folder / "00000000000000000000.log"))
    assert done.stderr == ""
    control = re.findall(r"producerId: (\d+) producerEpoch: (\d+) .*isTransactional: true isControl: true", done.stdout)
    assert control == [("11", "1"), ("12", "1")]
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", done.stdout) == [("COMMIT", "4"), ("ABORT", "4")]
    index = run("DumpLogSegments", "--files", str(folder / "00000000000000000000.txnindex"))
    assert "producerId: 12 firstOffset: 3 lastOffset: 5 lastStableOffset: 6" in index.stdout


@pytest.mark.parametrize("data", [b"x", bytes(33), b"\0\1" + bytes(32), bytes(34) + b"\0\1" + bytes(32)])
def test_invalid_index_bytes_are_refused(data):
    with pytest.raises(DamagedIndexError):
        parse_entries(data)


def test_an_emptied_marker_ends_nothing():
    """Compaction leaves the header alone of a marker that a producer still needs."""
    opened = OpenTransactions([(11, 0)])
    header = read_header(marker(11, ABORT, NOW_MS))._replace(record_count=0)
    assert opened.add(header, b"") is None
    assert opened.first_offsets == ((11, 0),)


@pytest.mark.parametrize("damage", [None, "missing", "changed"])
def test_an_inspection_holds_the_index_against_its_checksum(damage):
    bench, manifest = reference()
    segment = next(it for it in manifest.segments if it.aborted_bytes)
    name = transaction_index_name(manifest.folder, segment.base_offset)
    store = bench.archive.store
    if damage == "missing":
        store.delete([name])
    elif damage == "changed":
        store.write(name, [bytes(segment.aborted_bytes)], 0)
    check = SegmentCheck(store, bench.log.entry_key, manifest.folder, segment, TopicNames(), None)
    findings = list(check.findings())
    (found,) = (it for it in findings if isinstance(it, IndexFound) and it.file.endswith(name))
    status = {None: IndexStatus.VALID, "missing": IndexStatus.MISSING, "changed": IndexStatus.DAMAGED}[damage]
    assert (found.entries, found.status) == (segment.aborted_bytes // ENTRY.size, status)
    assert [it.file for it in findings if isinstance(it, Damage)] == ([] if damage is None else [found.file])
