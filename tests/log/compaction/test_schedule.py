"""The choice of the next log to clean and of its range: the rules one by one, and properties of any log."""

from itertools import pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.compaction.schedule import (
    CompactedLog,
    cleaning_plan,
    group_segments,
    next_plan,
)
from pipeline_broker.log.segments.log_segment import RELATIVE_OFFSET_MAX, LogSegment, segments_from
from pipeline_broker.log.segments.policies import CompactionRules

NOW_MS = 1_000_000


def segment(base_offset, **facts):
    facts.setdefault("last_offset", base_offset + 9)
    facts.setdefault("size_bytes", 100)
    facts.setdefault("first_timestamp", NOW_MS - 1000)
    facts.setdefault("max_timestamp", NOW_MS - 1000)
    return LogSegment(base_offset=base_offset, **facts)


def log_of(*segments, **facts):
    end = segments[-1].last_offset + 1
    facts.setdefault("rules", CompactionRules())
    facts.setdefault("log_start_offset", segments[0].base_offset)
    facts.setdefault("last_stable_offset", end)
    facts.setdefault("log_end_offset", end)
    facts.setdefault("topic", "t")
    return CompactedLog(partition=0, segments=segments, **facts)


def four(**facts):
    """Offsets 0 to 39, of which 30 on are active."""
    return log_of(segment(0), segment(10), segment(20), segment(30, is_sealed=False), **facts)


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (9, 0), (10, 0), (19, 0), (20, 1), (30, 2), (99, 2)])
def test_segments_are_taken_from_the_one_that_an_offset_is_within_or_else_from_the_first(offset, first):
    segments = segment(10), segment(20), segment(30)
    assert segments_from(segments, offset) == segments[first:]


def test_the_active_segment_is_never_cleaned():
    plan = cleaning_plan(four(), NOW_MS)
    assert (plan.first_dirty_offset, plan.first_uncleanable_offset) == (0, 30)
    assert [it.base_offset for it in plan.dirty_segments] == [0, 10, 20]
    assert cleaning_plan(log_of(segment(0, is_sealed=False)), NOW_MS).dirty_segments == ()


def test_where_every_segment_is_sealed_all_may_be_cleaned():
    plan = cleaning_plan(log_of(segment(0), segment(10), log_end_offset=500, last_stable_offset=500), NOW_MS)
    assert plan.first_uncleanable_offset == 20
    assert [it.base_offset for it in plan.dirty_segments] == [0, 10]


def test_nothing_above_the_last_stable_offset_is_cleaned():
    for last_stable, bound in ((40, 30), (30, 30), (29, 20), (20, 20), (19, 10), (0, 0)):
        assert cleaning_plan(four(last_stable_offset=last_stable), NOW_MS).first_uncleanable_offset == bound


def test_a_segment_with_a_record_younger_than_the_lag_and_later_ones_are_not_cleaned():
    young = segment(10, max_timestamp=NOW_MS - 49)
    log = log_of(segment(0, max_timestamp=NOW_MS - 50), young, segment(20), segment(30, is_sealed=False))
    lagging = attrs.evolve(log, rules=CompactionRules(min_compaction_lag_ms=50))
    assert cleaning_plan(lagging, NOW_MS).first_uncleanable_offset == 10
    assert cleaning_plan(log, NOW_MS).first_uncleanable_offset == 30


def test_a_lag_of_a_millisecond_counts_and_without_one_future_records_are_cleaned():
    for lag_ms, timestamp, bound in ((0, NOW_MS + 9, 30), (1, NOW_MS, 10), (1, NOW_MS - 1, 30)):
        log = log_of(segment(0), segment(10, max_timestamp=timestamp), segment(20), segment(30, is_sealed=False))
        lagging = attrs.evolve(log, rules=CompactionRules(min_compaction_lag_ms=lag_ms))
        assert cleaning_plan(lagging, NOW_MS).first_uncleanable_offset == bound


def test_the_dirty_part_spans_the_offsets_between_its_bounds():
    for checkpoint, last_stable, span in ((0, 40, 30), (12, 29, 8), (30, 40, 0), (25, 9, 0)):
        assert cleaning_plan(four(checkpoint=checkpoint, last_stable_offset=last_stable), NOW_MS).dirty_offsets == span


def test_group_offsets_are_distances_from_its_base():
    base = RELATIVE_OFFSET_MAX
    assert len(group_segments((segment(base), segment(base + 10)), 1000)) == 1
    far = segment(base + 10, last_offset=2 * base + 1)
    assert len(group_segments((segment(base), far), 1000)) == 2


def test_the_age_of_clean_segments_does_not_matter():
    log = log_of(segment(0, max_timestamp=NOW_MS), segment(10), segment(20, is_sealed=False), checkpoint=10)
    plan = cleaning_plan(attrs.evolve(log, rules=CompactionRules(min_compaction_lag_ms=50)), NOW_MS)
    assert (plan.first_dirty_offset, plan.first_uncleanable_offset) == (10, 20)


def test_the_ratio_is_dirty_bytes_of_those_that_may_be_cleaned():
    assert cleaning_plan(four(), NOW_MS).dirty_ratio == 1.0
    assert cleaning_plan(four(checkpoint=20), NOW_MS).dirty_ratio == 100 / 300
    assert cleaning_plan(four(checkpoint=30), NOW_MS).dirty_ratio == 0.0
    assert cleaning_plan(four(checkpoint=25), NOW_MS).dirty_ratio == 100 / 400, "the segment in between counts twice"


def test_a_log_is_due_above_the_ratio_not_at_it():
    half = CompactionRules(min_cleanable_dirty_ratio=1 / 3)
    assert not cleaning_plan(four(checkpoint=20, rules=half), NOW_MS).is_due
    assert cleaning_plan(four(checkpoint=10, rules=half), NOW_MS).is_due


def test_a_ratio_of_zero_does_not_clean_a_clean_log():
    eager = CompactionRules(min_cleanable_dirty_ratio=0.0)
    assert not cleaning_plan(four(checkpoint=30, rules=eager), NOW_MS).is_due
    assert cleaning_plan(four(checkpoint=20, rules=eager), NOW_MS).is_due


def test_a_dirty_record_older_than_the_largest_lag_makes_a_log_due():
    for lag_ms, overdue_ms in ((1000, 0), (999, 1), (0, 1000), (-5, 1000)):
        plan = cleaning_plan(four(checkpoint=20, rules=CompactionRules(max_compaction_lag_ms=lag_ms)), NOW_MS)
        assert plan.overdue_ms == overdue_ms
        assert plan.is_due is (overdue_ms > 0)
    clean = cleaning_plan(four(checkpoint=30, rules=CompactionRules(max_compaction_lag_ms=0)), NOW_MS)
    assert not clean.is_due


def test_a_dirty_segment_without_timestamps_is_never_overdue():
    rules = CompactionRules(max_compaction_lag_ms=0, min_cleanable_dirty_ratio=1.0)
    for first_timestamp in (-1, 0):
        unknown = segment(0, first_timestamp=first_timestamp)
        assert cleaning_plan(log_of(unknown, segment(10, is_sealed=False), rules=rules), NOW_MS).overdue_ms == 0
    oldest = segment(0, first_timestamp=1)
    assert cleaning_plan(log_of(oldest, segment(10, is_sealed=False), rules=rules), NOW_MS).overdue_ms == NOW_MS - 1


def test_a_log_is_overdue_by_the_oldest_of_its_dirty_segments_wherever_that_lies():
    """Later records may have older timestamps."""
    late = segment(20, first_timestamp=NOW_MS - 5000)
    log = log_of(segment(0), segment(10), late, segment(30, is_sealed=False), checkpoint=10)
    rules = CompactionRules(max_compaction_lag_ms=2000)
    assert cleaning_plan(attrs.evolve(log, rules=rules), NOW_MS).overdue_ms == 3000


def test_a_checkpoint_outside_the_log_counts_as_its_start():
    for checkpoint, first_dirty in ((0, 5), (4, 5), (5, 5), (6, 6), (40, 40), (41, 5)):
        assert cleaning_plan(four(log_start_offset=5, checkpoint=checkpoint), NOW_MS).first_dirty_offset == first_dirty


def test_the_dirtiest_eligible_log_is_first():
    logs = [four(topic="a", checkpoint=10), four(topic="b", checkpoint=0), four(topic="c", checkpoint=30)]
    assert next_plan(logs, NOW_MS).log.topic == "b"
    assert next_plan([logs[2]], NOW_MS) is None
    assert next_plan([attrs.evolve(logs[0], segments=())], NOW_MS) is None


def test_a_forced_round_takes_the_dirtiest_log_with_anything_dirty():
    calm = CompactionRules(min_cleanable_dirty_ratio=1.0)
    logs = [four(topic=topic, checkpoint=place, rules=calm) for topic, place in (("a", 20), ("b", 10), ("c", 30))]
    assert next_plan(logs, NOW_MS) is None
    assert next_plan(logs, NOW_MS, is_forced=True).log.topic == "b"
    assert next_plan(logs[2:], NOW_MS, is_forced=True) is None


def test_a_log_that_is_overdue_is_cleaned_though_its_ratio_is_low():
    overdue = four(topic="old", checkpoint=20, rules=CompactionRules(max_compaction_lag_ms=1))
    assert next_plan([four(topic="a", checkpoint=20), overdue], NOW_MS).log.topic == "old"


def test_a_round_that_ends_early_rewrites_only_the_mapped_segments():
    plan = cleaning_plan(four(rules=CompactionRules(segment_bytes=200)), NOW_MS)
    assert [[it.base_offset for it in group] for group in plan.groups(30)] == [[0, 10], [20]]
    assert [[it.base_offset for it in group] for group in plan.groups(11)] == [[0, 10]]
    assert [[it.base_offset for it in group] for group in plan.groups(10)] == [[0]]


def test_a_group_spans_at_most_the_offsets_of_an_index():
    far = segment(RELATIVE_OFFSET_MAX - 9)
    too_far = segment(RELATIVE_OFFSET_MAX - 8)
    empty = segment(RELATIVE_OFFSET_MAX * 2, last_offset=RELATIVE_OFFSET_MAX * 2 - 1, size_bytes=0)
    assert len(group_segments((segment(0), far), 1000)) == 1
    assert len(group_segments((segment(0), too_far), 1000)) == 2
    assert len(group_segments((segment(0), empty), 1000)) == 1, "an empty segment has no offsets"
    chain = segment(0), segment(RELATIVE_OFFSET_MAX // 2), too_far
    assert group_segments(chain, 1000) == [chain[:2], chain[2:]], "told from the base of the first, not of the last"


@st.composite
def logs(draw):
    base, segments = draw(st.integers(0, 20)), []
    for _ in range(draw(st.integers(1, 8))):
        count = draw(st.integers(0, 5))
        segments.append(
            LogSegment(
                base_offset=base,
                last_offset=base + count - 1,
                size_bytes=count * draw(st.integers(1, 3)),
                first_timestamp=draw(st.integers(-1, 5)),
                max_timestamp=draw(st.integers(-1, 9)),
                modified_ms=draw(st.integers(-1, 9)),
            )
        )
        base += max(count, 1) + draw(st.integers(0, 3))
    if draw(st.booleans()):
        segments[-1] = attrs.evolve(segments[-1], is_sealed=False)
    end = max(segments[-1].last_offset + 1, segments[-1].base_offset)
    start = draw(st.integers(segments[0].base_offset, end))
    rules = CompactionRules(
        min_cleanable_dirty_ratio=draw(st.sampled_from([0.0, 0.3, 1.0])),
        min_compaction_lag_ms=draw(st.integers(0, 9)),
        max_compaction_lag_ms=draw(st.integers(0, 9)),
        segment_bytes=draw(st.integers(1, 30)),
    )
    return log_of(
        *segments,
        rules=rules,
        log_start_offset=start,
        last_stable_offset=draw(st.integers(start, end)),
        log_end_offset=end,
        checkpoint=draw(st.integers(0, end + 3)),
    )


@given(logs(), st.integers(0, 12), st.data())
def test_any_plan_keeps_to_its_bounds(log, now_ms, data):
    plan = cleaning_plan(log, now_ms)
    bound = plan.first_uncleanable_offset
    assert bound <= max(plan.first_dirty_offset, log.last_stable_offset)
    lag_ms = log.rules.min_compaction_lag_ms
    for it in plan.dirty_segments:
        assert it.is_sealed
        assert it.last_offset < bound <= log.last_stable_offset or it.is_empty
        assert lag_ms == 0 or it.largest_timestamp <= now_ms - lag_ms
    assert sum(it.size_bytes for it in plan.dirty_segments) == plan.dirty_bytes
    if plan.is_due:
        assert plan.dirty_segments
        end = data.draw(st.integers(plan.first_dirty_offset + 1, bound))
        groups = plan.groups(end)
        flat = [it for group in groups for it in group]
        assert flat == [it for it in log.segments if it.base_offset < end], "every segment once, in order"
        for group in groups:
            assert len(group) == 1 or sum(it.size_bytes for it in group) <= log.rules.segment_bytes
        for one, other in pairwise(groups):
            assert sum(it.size_bytes for it in (*one, other[0])) > log.rules.segment_bytes, (
                "groups are as full as can be"
            )
