"""Retention and rolling, against a model that follows the text of the rules step by step."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.segments.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from pipeline_broker.log.segments.retention import (
    DeletionReason,
    RetentionRules,
    RollRules,
    retention_plan,
    should_roll,
)

NOW_MS = 1_000_000


@st.composite
def logs(draw):
    """Segments of 10 offsets each, the last active and perhaps empty, with whatever timestamps."""
    times = st.sampled_from([-1, 0, NOW_MS - 600, NOW_MS - 500, NOW_MS - 499, NOW_MS, NOW_MS + 10**9])
    count = draw(st.integers(1, 6))
    segments = [
        LogSegment(
            base_offset=number * 10,
            last_offset=number * 10 + 9,
            size_bytes=draw(st.integers(1, 5)) * 100,
            max_timestamp=draw(times),
            modified_ms=draw(times),
        )
        for number in range(count)
    ]
    empty = draw(st.booleans())
    base = count * 10
    size = 0 if empty else 50
    segments.append(
        LogSegment(
            base_offset=base,
            last_offset=base - 1 if empty else base + 4,
            size_bytes=size,
            max_timestamp=-1 if empty else draw(times),
            modified_ms=NOW_MS,
            is_sealed=False,
        )
    )
    return tuple(segments)


def model(segments, rules, start, watermark):
    """Return the base offsets of the deleted segments, with the reasons."""
    end = segments[-1].last_offset + 1
    rest, gone = list(segments), []

    def next_base():
        return rest[1].base_offset if len(rest) > 1 else end

    def take(reason):
        gone.append((rest.pop(0).base_offset, reason))

    while len(rest) > 1 and next_base() <= min(start, watermark):
        take(DeletionReason.LOG_START)
    while rules.delete and rules.retention_bytes >= 0 and rest and rest[0].size_bytes and next_base() <= watermark:
        if sum(it.size_bytes for it in rest[1:]) < rules.retention_bytes:
            break
        take(DeletionReason.SIZE)
    while rules.delete and rules.retention_ms >= 0 and rest and rest[0].size_bytes and next_base() <= watermark:
        age_from = rest[0].max_timestamp if rest[0].max_timestamp >= 0 else rest[0].modified_ms
        if age_from < 0 or NOW_MS - age_from <= rules.retention_ms:
            break
        take(DeletionReason.TIME)
    return gone


def plan_of(segments, rules, *, start=0, watermark=None):
    end = segments[-1].last_offset + 1
    return retention_plan(
        segments,
        rules,
        NOW_MS,
        log_start_offset=start,
        high_watermark=end if watermark is None else watermark,
        log_end_offset=end,
    )


@given(logs(), st.booleans(), st.sampled_from([-1, 0, 499, 500]), st.integers(-1, 12), st.data())
def test_deletions_follow_the_rules(segments, delete, retention_ms, retention_hundreds, data):
    rules = RetentionRules(delete=delete, retention_ms=retention_ms, retention_bytes=max(retention_hundreds * 100, -1))
    end = segments[-1].last_offset + 1
    watermark = data.draw(st.integers(0, end))
    start = data.draw(st.integers(0, watermark))
    plan = plan_of(segments, rules, start=start, watermark=watermark)
    assert [(it.segment.base_offset, it.reason) for it in plan.deletions] == model(segments, rules, start, watermark)
    assert [it.segment for it in plan.deletions] == list(segments[: len(plan.deletions)]), "a run from the oldest on"
    assert plan.rolls_active == (len(plan.deletions) == len(segments))
    assert start <= plan.log_start_offset <= max(watermark, start)


def segment(base_offset, **facts):
    facts.setdefault("last_offset", base_offset + 9)
    facts.setdefault("size_bytes", 100)
    return LogSegment(base_offset=base_offset, **facts)


def bases(plan):
    return [it.segment.base_offset for it in plan.deletions]


def test_a_compacted_log_loses_only_segments_below_its_start():
    segments = (segment(0, max_timestamp=0), segment(10, max_timestamp=0), segment(20, max_timestamp=0))
    rules = RetentionRules(delete=False, retention_ms=0, retention_bytes=0)
    assert bases(plan_of(segments, rules)) == []
    assert bases(plan_of(segments, rules, start=9)) == []
    assert bases(plan_of(segments, rules, start=10)) == [0]
    assert bases(plan_of(segments, rules, start=30)) == [0, 10], "the last segment stays whatever the log start"


def test_a_future_timestamp_keeps_its_segment_and_all_later_ones():
    segments = (segment(0, max_timestamp=NOW_MS + 1), segment(10, max_timestamp=0), segment(20, max_timestamp=0))
    assert bases(plan_of(segments, RetentionRules(retention_ms=1))) == []


def test_without_timestamps_a_segment_ages_from_its_last_write():
    old = segment(0, modified_ms=NOW_MS - 11)
    unknown = segment(10)
    assert bases(plan_of((old, unknown, segment(20)), RetentionRules(retention_ms=10))) == [0]


def test_a_segment_exactly_as_old_as_the_limit_stays():
    segments = (segment(0, max_timestamp=NOW_MS - 10), segment(10, max_timestamp=NOW_MS))
    assert bases(plan_of(segments, RetentionRules(retention_ms=10))) == []
    assert bases(plan_of(segments, RetentionRules(retention_ms=9))) == [0]


def test_at_least_retention_bytes_remain():
    segments = (segment(0), segment(10), segment(20))
    limits = {300: [], 201: [], 200: [0], 101: [0], 100: [0, 10], 0: [0, 10, 20]}
    for limit, expected in limits.items():
        plan = plan_of(segments, RetentionRules(retention_ms=-1, retention_bytes=limit))
        assert bases(plan) == expected
    assert plan.rolls_active
    assert plan.log_start_offset == 30


def test_segments_below_the_start_do_not_count_as_remaining_bytes():
    segments = (segment(0), segment(10), segment(20), segment(30))
    for limit, expected in {300: [0], 201: [0], 200: [0, 10]}.items():
        rules = RetentionRules(retention_ms=-1, retention_bytes=limit)
        assert bases(plan_of(segments, rules, start=10)) == expected


def test_a_log_without_segments_neither_deletes_nor_rolls():
    plan = retention_plan(
        (), RetentionRules(retention_ms=0), NOW_MS, log_start_offset=3, high_watermark=3, log_end_offset=3
    )
    assert (plan.deletions, plan.log_start_offset, plan.rolls_active) == ((), 3, False)


def test_nothing_that_is_not_yet_durable_is_deleted():
    segments = (segment(0, max_timestamp=0), segment(10, max_timestamp=0), segment(20, max_timestamp=0))
    assert bases(plan_of(segments, RetentionRules(retention_ms=0), watermark=19)) == [0]


def rolls(active, rules=None, *, now=NOW_MS, size=100, last=5, timestamp=NOW_MS, **options):
    options.setdefault("created_ms", now)
    return should_roll(
        active,
        rules or RollRules(),
        now,
        batch_size_bytes=size,
        batch_last_offset=last,
        batch_max_timestamp=timestamp,
        **options,
    )


def test_a_segment_rolls_rather_than_exceed_its_size():
    active = segment(0, size_bytes=900, is_sealed=False)
    assert not rolls(active, RollRules(segment_bytes=1000), size=100)
    assert rolls(active, RollRules(segment_bytes=1000), size=101)


def test_a_segment_rolls_by_the_distance_of_record_times_not_by_the_clock():
    active = segment(0, first_timestamp=5000, is_sealed=False)
    rules = RollRules(segment_ms=100)
    assert not rolls(active, rules, timestamp=5100, created_ms=0)
    assert rolls(active, rules, timestamp=5101, created_ms=NOW_MS)
    assert not rolls(active, rules, timestamp=0, created_ms=0), "an older batch never rolls it"


def test_a_segment_without_timestamps_rolls_by_the_clock():
    active = segment(0, is_sealed=False)
    rules = RollRules(segment_ms=100)
    assert not rolls(active, rules, timestamp=-1, created_ms=NOW_MS - 100)
    assert rolls(active, rules, timestamp=-1, created_ms=NOW_MS - 101)
    assert rolls(active, rules, timestamp=-1, created_ms=NOW_MS - 95, jitter_ms=10)


def test_an_empty_segment_does_not_roll_by_time():
    assert not rolls(segment(0, size_bytes=0, last_offset=-1), RollRules(segment_ms=1), created_ms=0)


def test_a_compacted_log_rolls_within_its_largest_compaction_lag():
    active = segment(0, first_timestamp=0, is_sealed=False)
    for compact, lag_ms, expected in (
        (True, 50, True),
        (True, 1, True),
        (False, 50, False),
        (True, 0, False),
        (True, 500, False),
    ):
        rules = RollRules(segment_ms=100, compact=compact, max_compaction_lag_ms=lag_ms)
        assert rolls(active, rules, timestamp=60) is expected


@given(st.integers(0, 2**60), st.integers(-2, 2))
def test_a_segment_rolls_when_an_offset_is_too_far_from_its_base(base, around):
    active = segment(base, is_sealed=False)
    assert rolls(active, last=base + RELATIVE_OFFSET_MAX + around, timestamp=-1) == (around > 0)
    assert rolls(active, last=base + around, timestamp=-1) == (around < 0)


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(1, 2**40), st.integers(1, 2**40), st.booleans())
def test_a_jitter_is_less_than_the_time_a_segment_may_span(base, jitter_ms, segment_ms, lag_ms, compact):
    rules = RollRules(segment_ms=segment_ms, segment_jitter_ms=jitter_ms, compact=compact, max_compaction_lag_ms=lag_ms)
    drawn_ms = rules.jitter_ms(b"seed", base)
    assert drawn_ms == rules.jitter_ms(b"seed", base)
    assert 0 <= drawn_ms < max(1, min(jitter_ms, rules.roll_ms))


def test_jitters_are_spread_over_what_is_allowed():
    rules = RollRules(segment_jitter_ms=1000)
    drawn = [rules.jitter_ms(b"seed", base) for base in range(1000)]
    assert min(drawn) < 100
    assert max(drawn) >= 900
    assert drawn != [rules.jitter_ms(b"other", base) for base in range(1000)]
