"""The files of a compaction round: one segment, or several, for each group."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive import index_files
from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.archive.segment_file import file_names
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.compaction import cleaning as tested
from pipeline_broker.log.compaction.cleaning import clean
from pipeline_broker.log.compaction.schedule import CompactionRules, cleaning_plan
from pipeline_broker.log.partition.compaction_of_logs import next_round
from pipeline_broker.log.partition.retention_of_logs import segments_of
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules, RollRules
from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, build_batch, read_header
from pipeline_broker.records.record import iterate_records
from tests.archiving import archive_all
from tests.log.archive.test_archiver import Noted
from tests.node.upkeep_bench import NOW_MS, Bench

TWO_BATCHES = RollRules(segment_bytes=1200, compact=True)
"""Of those below."""


def bench_of(*keys, roll=TWO_BATCHES, **rules):
    """An archived log of a batch for each key, its own offset the time."""
    policies = LogPolicies(
        retention=RetentionRules(delete=False),
        compaction=CompactionRules(**{"min_cleanable_dirty_ratio": 0.0, "segment_bytes": 1200, **rules}),
        roll=roll,
    )
    bench = Bench(policies=policies)
    append(bench, *keys)
    return bench


def append(bench, *keys, now_ms=NOW_MS):
    for key in keys:
        time = bench.log.log_end_offset
        batch = build_batch([NewRecord(bytes(500), None if key is None else b"%d" % key, timestamp=time)])
        entry = bench.log.append(read_header(batch), batch, 0).entry
        bench.journal.sync(bench.journal.write([entry]))
        bench.logs.on_durable([entry])
    archive_all(bench.journal, bench.logs, now_ms)


def cleaned(bench, **options):
    """A round of it, which then counts."""
    found = next_round([bench.log], NOW_MS)
    result = clean(bench.archive, found.manifest, found.plan, found.last_records, NOW_MS, **options)
    if result is not None:
        edit, deleted = bench.archive.replace(found.key, result)
        bench.archive.delete_files(deleted)
        bench.logs.show(edit)
    return found, result


def offsets_of(bench, segment):
    """Of the records of a segment, as a reader that has nothing in memory finds them, with its index as written."""
    reader = SegmentReader(bench.archive.store)
    offsets = [
        record.offset
        for header, batch in reader.batches("topic-0", segment)
        for record in iterate_records(batch, header)
    ]
    assert reader.write_repairs() == 0
    return offsets


@given(st.lists(st.integers(0, 3), min_size=4, max_size=14), st.lists(st.integers(0, 3), max_size=6))
def test_the_last_record_of_each_key_is_kept_in_new_files(first, second):
    bench = bench_of()
    keys = []
    for number, part in enumerate((first, second)):
        append(bench, *part, now_ms=NOW_MS + number)
        keys += part
        if next_round([bench.log], NOW_MS) is None:
            continue
        before = bench.log.archived.manifest.segments
        found, result = cleaned(bench)
        bound = found.plan.first_uncleanable_offset
        assert result.first_dirty_offset == bench.log.archived.manifest.first_dirty_offset == bound
        assert result.replaced == tuple(it for it in before if it.base_offset < bound)
        groups = {group[0].base_offset: group for group in found.plan.groups(bound)}
        kept = []
        for segment in result.written:
            group = {it.base_offset for it in groups[segment.base_offset]}
            sources = [it for it in result.replaced if it.base_offset in group]
            assert segment.is_sealed
            assert segment.cleanings == 1 + max(it.cleanings for it in sources)
            assert segment.modified_ms == max(it.modified_ms for it in sources)
            assert segment.generation > max(it.generation for it in before)
            assert segment.size_bytes == bench.archive.store.size_bytes(
                file_names("topic-0", segment.base_offset, segment.cleanings)[0]
            )
            kept += offsets_of(bench, segment)
        last = {key: offset for offset, key in enumerate(keys[:bound])}
        assert kept == sorted(last.values())
        manifest = bench.log.archived.manifest
        log = ArchivedLog(SegmentReader(bench.archive.store), manifest)
        found = log.offset_for_timestamp(kept[0], 0)
        assert (found if isinstance(found, tuple) else found()).offset == kept[0]


def test_a_long_segment_has_an_index_of_its_offsets():
    bench = bench_of(*range(12), roll=RollRules(segment_bytes=600, compact=True), segment_bytes=1 << 20)
    _, result = cleaned(bench)
    (segment,) = result.written
    offset_index, time_index = file_names("topic-0", segment.base_offset, segment.cleanings)[1:]
    assert min(bench.archive.store.size_bytes(name) for name in (offset_index, time_index)) > 0
    assert offsets_of(bench, segment) == list(range(11))


def test_a_group_too_large_for_one_index_becomes_several_segments(monkeypatch):
    bench = bench_of(*range(10), roll=RollRules(segment_bytes=600, compact=True), segment_bytes=1 << 20)
    size = bench.log.archived.manifest.segments[0].size_bytes
    monkeypatch.setattr(index_files, "POSITION_MAX", 3 * size)
    _, result = cleaned(bench)
    assert [offsets_of(bench, segment) for segment in result.written] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [it.base_offset for it in result.written] == [0, 3, 6]
    assert [it.size_bytes for it in result.written] == [3 * size] * 3


def test_an_aborted_transaction_is_indexed_in_the_segment_of_its_marker(monkeypatch):
    bench = bench_of(*range(3), roll=RollRules(segment_bytes=600, compact=True), segment_bytes=1 << 20)
    size = bench.log.archived.manifest.segments[0].size_bytes
    data = build_batch([NewRecord(b"x", b"9")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    made = [bench.log.append(read_header(data), data, 0).entry]
    made.append(bench.log.append_marker(7, 0, committed=False, coordinator_epoch=0, now_ms=0).entry)
    bench.journal.sync(bench.journal.write(made))
    bench.logs.on_durable(made)
    append(bench, 10, 11)
    monkeypatch.setattr(index_files, "POSITION_MAX", 3 * size + HEADER_SIZE)
    bench.archive.cleaning_store = store = Noted(bench.archive.cleaning_store)
    _, result = cleaned(bench)
    assert [(it.base_offset, it.aborted_bytes > 0) for it in result.written] == [(0, False), (4, True)]
    assert store.synced == [1, 2], "with its segment"


def test_buffered_batches_are_written_at_the_limit(monkeypatch):
    bench = bench_of(*range(9), segment_bytes=1 << 20)
    size = bench.log.archived.manifest.segments[0].size_bytes // 2
    monkeypatch.setattr(tested, "BUFFERED_BYTES_MAX", 3 * size)
    bench.archive.cleaning_store = store = Noted(bench.archive.cleaning_store)
    cleaned(bench)
    logs = [(size_bytes, position) for kind, size_bytes, position in store.written if kind == ".log"]
    assert logs == [(3 * size, 0), (3 * size, 3 * size), (2 * size, 6 * size)]
    assert store.synced == [1]


def test_a_round_with_a_full_map_ends_at_the_segment_that_does_not_fit():
    bench = bench_of(*range(200), segment_bytes=1 << 20)
    found, result = cleaned(bench, dedupe_buffer_bytes=1600)  # 57 keys
    assert result.first_dirty_offset < found.plan.first_uncleanable_offset
    assert result.first_dirty_offset == 57
    before = result.first_dirty_offset
    found, result = cleaned(bench, dedupe_buffer_bytes=1600)
    assert found.plan.first_dirty_offset == before
    assert result.first_dirty_offset == before + 57


def test_a_round_with_a_full_map_reads_no_later_segment():
    """Otherwise the segments between would count as clean, and older records of their keys would stay forever."""
    bench = bench_of(*range(100), *[None] * 5, segment_bytes=1 << 20)
    _, result = cleaned(bench, dedupe_buffer_bytes=1600)
    assert result.first_dirty_offset == 57


def test_a_round_with_a_full_map_keeps_no_empty_header_at_its_end():
    """As in Apache Kafka, only the last batch below the uncleanable part is kept without records."""
    bench = bench_of(*range(57), None, *range(60, 100), segment_bytes=1 << 20)
    _, result = cleaned(bench, dedupe_buffer_bytes=1600)
    assert result.first_dirty_offset == 58
    (segment,) = result.written
    bases = [header.base_offset for header, _ in bench.archive.reader.batches("topic-0", segment)]
    assert bases == [*range(57), *range(58, segment.last_offset + 1)]


def test_a_merged_segment_is_as_young_as_the_youngest_source():
    """Without timestamps it expires by that."""
    bench = bench_of(0, 1, roll=RollRules(segment_bytes=600, compact=True), segment_bytes=1 << 20)
    append(bench, 2, 3, now_ms=NOW_MS + 1)
    _, result = cleaned(bench)
    assert {it.modified_ms for it in result.replaced} == {NOW_MS, NOW_MS + 1}
    assert [it.modified_ms for it in result.written] == [NOW_MS + 1]


def test_a_log_of_which_all_is_clean_is_not_written_again():
    bench = bench_of(*range(9))
    found, _ = cleaned(bench)
    manifest, names = bench.log.archived.manifest, bench.names()
    log = attrs.evolve(found.plan.log, segments=segments_of(bench.log), checkpoint=manifest.first_dirty_offset)
    assert clean(bench.archive, manifest, cleaning_plan(log, NOW_MS), {}, NOW_MS) is None
    assert bench.names() == names


def test_a_round_calls_check(monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.archive.pace.WORK_NS", -1)
    monkeypatch.setattr("pipeline_broker.log.archive.pace.PAUSE_SECONDS", 0)

    class Ended(Exception):
        pass

    def check():
        looks.append(None)
        if len(looks) > 12:
            raise Ended

    looks, bench = [], bench_of(*range(9))
    before = bench.log.archived.manifest
    try:
        cleaned(bench, check=check)
    except Ended:
        assert bench.log.archived.manifest == before
    assert len(looks) == 13, "once for each batch that it maps, and for each that it cleans"
