"""Retention of logs, and archiving that must come first, for records in archive and journal."""

import attrs
import pytest

from pipeline_broker.log.partition.retention_of_logs import expiries, segments_of, waits_for_archive
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules, RollRules
from tests.archiving import archive_all
from tests.node.upkeep_bench import NOW_MS, Bench

ROLL = RollRules(segment_bytes=10_000, segment_ms=1_000)


def bench_of(*parts, policies=None):
    """Return a log of batches with these timestamps; the last part is not archived."""
    bench = Bench(policies=policies or LogPolicies(roll=ROLL))
    for number, times in enumerate(parts):
        if number:
            archive_all(bench.journal, bench.logs, NOW_MS)
        for time in times:
            bench.produce(1, timestamp=time)
    return bench


def seen(bench):
    return [
        (each.base_offset, each.last_offset, each.first_timestamp, each.max_timestamp, each.is_sealed)
        for each in segments_of(bench.log)
    ]


def test_an_empty_log_has_no_segments_and_needs_no_archiving():
    bench = bench_of([])
    assert seen(bench) == []
    assert not waits_for_archive(bench.log, NOW_MS * 2)
    assert expiries(bench.logs, NOW_MS * 2) == {}


def test_records_in_the_journal_are_the_active_segment():
    bench = bench_of([5, 9, 7])
    assert seen(bench) == [(0, 2, 5, 9, False)]
    assert segments_of(bench.log)[0].size_bytes == bench.log.index.size_bytes == bench.log.size_bytes


def test_the_active_segment_continues_the_unsealed_archived_one():
    bench = bench_of([5, 9], [7, 8])
    begun = bench.log.archived.manifest.segments[-1]
    assert not begun.is_sealed
    assert seen(bench) == [(0, 3, 5, 9, False)]
    assert segments_of(bench.log)[0].size_bytes == begun.size_bytes + bench.log.index.size_bytes
    bench = bench_of([5, 9], [7, 20])
    assert seen(bench) == [(0, 3, 5, 20, False)]
    archive_all(bench.journal, bench.logs, NOW_MS)
    assert seen(bench)[0][0] == 0, "all is archived"


def test_bytes_available_count_archive_and_journal():
    bench = bench_of([5, 9], [7, 8])
    size_bytes = bench.log.size_bytes
    assert bench.log.bytes_available(0) == size_bytes
    assert bench.log.bytes_available(2) == bench.log.index.size_bytes
    assert bench.log.bytes_available(3) == bench.log.index.size_of(1)
    assert bench.log.bytes_available(4) == bench.log.bytes_available(-1) == 0


def test_after_sealed_segments_the_active_one_is_separate():
    """Sealed by the time that it spans, here."""
    bench = bench_of([5, 9, 2_000, 2_001], [2_002])
    assert [each[:2] for each in seen(bench)] == [(0, 1), (2, 4)]
    assert [each[-1] for each in seen(bench)] == [True, False]


@pytest.mark.parametrize(
    ("policies", "count", "now_ms", "is_waited_for"),
    [
        (LogPolicies(roll=ROLL), 3, 100, False),
        (LogPolicies(roll=ROLL), 4, 100, True),
        (LogPolicies(roll=ROLL), 1, 1_010, False),
        (LogPolicies(roll=ROLL), 1, 1_011, True),
        (LogPolicies(roll=ROLL, retention=RetentionRules(delete=False)), 1, 9_000, False),
        (LogPolicies(roll=ROLL, retention=RetentionRules(retention_ms=500)), 1, 1_100, False),
        (LogPolicies(roll=ROLL, retention=RetentionRules(retention_ms=1_001)), 1, 1_011, True),
        (LogPolicies(roll=ROLL, retention=RetentionRules(retention_ms=1_000)), 1, 1_011, False),
        (LogPolicies(roll=ROLL, retention=RetentionRules(retention_ms=-1)), 1, 9_000, True),
        (LogPolicies(roll=ROLL, retention=RetentionRules(retention_ms=0)), 1, 1_011, False),
        (LogPolicies(roll=attrs.evolve(ROLL, compact=True), retention=RetentionRules(delete=False)), 1, 1_011, True),
        (
            LogPolicies(
                roll=attrs.evolve(ROLL, compact=True), retention=RetentionRules(delete=False, retention_ms=500)
            ),
            1,
            1_100,
            True,  # a compacted log does not expire
        ),
    ],
)
def test_the_journal_is_archived_first_when_a_segment_should_have_ended_within_it(
    policies, count, now_ms, is_waited_for
):
    """By size or time, unless all of it has expired or the log's segments are never deleted or compacted."""
    bench = bench_of([10] * count, policies=policies)
    assert waits_for_archive(bench.log, now_ms) is is_waited_for


def test_with_jitter_a_segment_ends_earlier():
    roll = attrs.evolve(ROLL, segment_jitter_ms=900)
    bench = bench_of([10], policies=LogPolicies(roll=roll))
    jitter_ms = roll.jitter_ms(bench.log.roll_seed, 0)
    assert 0 <= jitter_ms < 900
    end_ms = 10 + roll.segment_ms - jitter_ms
    assert [waits_for_archive(bench.log, now_ms) for now_ms in (end_ms, end_ms + 1)] == [False, True]


@pytest.mark.parametrize("timestamp", [-1, -2, -(10**12)])
def test_records_without_a_timestamp_age_from_when_they_are_written(timestamp):
    """By the clock of the broker, in the journal and in the archive, as a file in Kafka does."""
    policies = LogPolicies(roll=ROLL, retention=RetentionRules(retention_ms=5_000))
    bench = bench_of([timestamp], policies=policies)
    bench.clock.now_ms += 600
    bench.produce(1, timestamp=timestamp)

    assert [waits_for_archive(bench.log, NOW_MS + after) for after in (1_000, 1_001)] == [False, True]
    archive_all(bench.journal, bench.logs, NOW_MS + 1_001)
    bench.clock.now_ms = NOW_MS + 1_500
    bench.produce(1, timestamp=timestamp)
    assert [waits_for_archive(bench.log, NOW_MS + after) for after in (2_001, 2_002)] == [False, True]
    assert expiries(bench.logs, NOW_MS + 6_500) == {}
    (found,) = expiries(bench.logs, NOW_MS + 6_501).values()
    assert found.log_start_offset == 3


def test_replayed_batches_without_timestamps_are_archived_and_age_from_startup():
    """Their write time is unknown. Archiving them keeps their age over further restarts."""
    bench = bench_of([-1], policies=LogPolicies(roll=ROLL, retention=RetentionRules(retention_ms=5_000)))
    bench.clock.now_ms += 10
    bench.start()
    assert waits_for_archive(bench.log, NOW_MS + 10)
    archive_all(bench.journal, bench.logs, NOW_MS + 20)
    bench.clock.now_ms += 1_000_000
    bench.start()
    assert expiries(bench.logs, NOW_MS + 5_020) == {}
    (found,) = expiries(bench.logs, NOW_MS + 5_021).values()
    assert found.log_start_offset == 1


def test_1970_is_a_time():
    assert waits_for_archive(bench_of([0]).log, 1_001)


def test_expired_segments_are_deleted_and_their_records_in_the_journal_hidden():
    policies = LogPolicies(roll=ROLL, retention=RetentionRules(retention_ms=1_000))
    bench = bench_of([5, 9, 2_000, 2_001], [2_002], policies=policies)
    (key,) = bench.logs.archive_targets()
    bases = [segment.base_offset for segment in bench.log.archived.manifest.segments]
    assert expiries(bench.logs, 1_009) == {}
    found = expiries(bench.logs, 1_010)[key]
    assert (found.folder, found.log_start_offset, found.base_offsets) == (bench.log.folder, 2, frozenset(bases[:1]))
    found = expiries(bench.logs, 10_000)[key]
    assert (found.log_start_offset, found.base_offsets) == (5, frozenset(bases))
    young = bench_of([5, 9], policies=policies)
    found = expiries(young.logs, 10_000)[key]
    assert (found.log_start_offset, found.base_offsets) == (2, frozenset())
