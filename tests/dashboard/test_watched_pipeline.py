"""The observed request path has exact counts and bounded samples."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.steps import finished
from pipeline_broker.dashboard.pipeline_view import PipelineView
from pipeline_broker.dashboard.watched_pipeline import (
    EXAMINED_MAX,
    LANE_ROWS_MAX,
    LANES_MAX,
    MUTES_MAX,
    OTHER_API,
    QUEUES_MAX,
    SERIES_MAX,
    WatchedPipeline,
)
from pipeline_broker.telemetry.recent_requests import NO_NAMES
from pipeline_broker.telemetry.sampled_rows import ROWS_MAX
from pipeline_broker.traces.broker_tables import Outcome
from pipeline_broker.wire.messages.topics.metadata import MetadataResponse
from stages.request import Close

APIS = range(80)
events = st.lists(
    st.one_of(
        st.tuples(st.just("request"), st.integers(-5, 90), st.integers(-1, 12)),
        st.tuples(st.just("dropped"), st.integers(0, 5), st.integers(0, 3)),
        st.tuples(st.just("commit"), st.integers(1, 50), st.integers(0, 10_000)),
        st.tuples(st.just("mute"), st.integers(0, 6), st.integers(0, 1_000)),
        st.tuples(st.just("queue"), st.integers(0, 300), st.integers(0, 500)),
        st.tuples(st.just("take"), st.none(), st.none()),
    ),
    max_size=300,
)


def tell(watched, event, request_ended, commit_ended):
    kind, first, second = event
    if kind == "request":
        watched.request_ended(request_ended(api=first, version=second, connection=second + 1))
    elif kind == "dropped":
        watched.request_dropped(request_ended(api=first, version=second, result=None))
    elif kind == "commit":
        watched.commit_ended(commit_ended(first, second, 1, 2, 3))
    elif kind == "mute":
        watched.mute_ended(0, first, 0, second)
    elif kind == "queue":
        watched.queue_sampled(first, 0, second)


@given(events=events)
def test_counts_are_exact_between_two_calls_of_take(events, request_ended, commit_ended):
    watched = WatchedPipeline(APIS, 0)
    model, mutes, mute_ns, depths, commits = Counter(), Counter(), Counter(), {}, 0
    for number, event in enumerate([*events, ("take", None, None)]):
        kind, first, second = event
        if kind != "take":
            tell(watched, event, request_ended, commit_ended)
        if kind in {"request", "dropped"}:
            model[(first, second) if first in APIS and second >= 0 else (OTHER_API, 0)] += 1
        elif kind == "commit":
            commits += 1
        elif kind == "mute":
            mutes[first] += 1
            mute_ns[first] += second
        elif kind == "queue" and (first in depths or len(depths) < QUEUES_MAX):
            depths[first] = max(depths.get(first, 0), second)
        if kind == "take":
            interval = watched.take(number)
            assert {(api.api, api.version): api.count for api in interval.apis} == +model
            assert all(len(api.rows) <= api.count for api in interval.apis)
            assert (interval.mute_counts, +interval.mute_ns) == (mutes, +mute_ns)
            assert {queue: seen.depth_max for queue, seen in interval.queues.items()} == depths
            assert interval.commit_count == commits
            model, mutes, mute_ns, depths, commits = Counter(), Counter(), Counter(), {}, 0


def test_a_flood_stays_within_the_bounds(request_ended, commit_ended):
    watched = WatchedPipeline(range(1000), 0)
    for number in range(3 * EXAMINED_MAX):
        watched.request_ended(request_ended(connection=number % 40, sequence=number))
        watched.mute_ended(number, 0, 0, 1)
        watched.queue_sampled(number, 0, 1)
        watched.commit_ended(commit_ended(1, 1, 1, 2, 3))
    for api in range(2 * SERIES_MAX):
        watched.request_ended(request_ended(api=api))
    interval = watched.take(1)

    assert len(interval.lanes) == LANES_MAX
    assert max(map(len, interval.lanes.values())) <= LANE_ROWS_MAX
    assert len(interval.mutes) == MUTES_MAX
    assert interval.mute_counts[0] == 3 * EXAMINED_MAX
    assert len(interval.queues) == QUEUES_MAX
    assert len(interval.apis) == SERIES_MAX + 1
    assert max(len(api.rows) for api in interval.apis) <= ROWS_MAX
    assert len(interval.commits) <= ROWS_MAX


def test_lanes_have_consecutive_requests_in_the_order_of_responses(request_ended):
    watched = WatchedPipeline(APIS, 0)
    for sequence in (0, 2, 1, 3):
        watched.request_ended(request_ended(connection=5, sequence=sequence))

    assert [row.sequence for row in watched.take(1).lanes[5]] == [0, 2, 1, 3]


def test_a_request_in_flight_at_the_start_is_counted_and_not_measured(request_ended):
    watched = WatchedPipeline(APIS, 0)
    watched.request_ended(request_ended(dequeued_ns=0))
    interval = watched.take(1)

    assert [(api.count, list(api.rows)) for api in interval.apis] == [(1, [])]
    assert interval.lanes == {}


def test_requests_of_part_of_the_time_represent_all(request_ended, commit_ended):
    """Counts that cost nothing stay exact."""
    watched = WatchedPipeline(APIS, 0)
    for number in range(100):
        watched.request_ended(request_ended(connection=number))
        watched.commit_ended(commit_ended(1, 1, 1, 2, 3))
    assert watched.times_requests
    watched.rest(250_000_000)
    assert not watched.times_requests
    interval = watched.take(1_000_000_000)

    assert (interval.watched, interval.requests_per_second, interval.commit_count) == (0.25, 400.0, 100)
    assert watched.times_requests, "the next interval begins"
    watched.request_ended(request_ended())
    assert watched.take(2_000_000_000).requests_per_second == 1.0


def test_a_row_has_the_outcome_and_the_first_error(request_ended):
    watched = WatchedPipeline(APIS, 0)
    topics = [MetadataResponse.MetadataResponseTopic(error_code=code) for code in (0, 41, 3)]
    watched.request_ended(request_ended(api=1, answer=MetadataResponse(topics=topics)))
    watched.request_ended(request_ended(api=2, result=Close("why")))
    watched.request_dropped(request_ended(api=3, sent_ns=0))
    found = {api.api: api.rows[0] for api in watched.take(1).apis}

    assert found[1].error == 3
    assert found[2].outcome == Outcome.CLOSE
    assert found[3].outcome == Outcome.DROPPED
    assert found[3].sent_ns > 0


def test_names_are_kept_of_a_bounded_number_of_requests_within_an_interval(request_ended, monkeypatch):
    monkeypatch.setattr("pipeline_broker.dashboard.watched_pipeline.ORIGINS_MAX", 3)
    named = []
    watched = WatchedPipeline(APIS, 0, lambda request: named.append(request) or (lambda: NO_NAMES))
    watched.keeps_origins = True
    view = PipelineView({}, {})
    for number in range(1, 3):
        for _ in range(10):
            watched.request_ended(request_ended(api=0))
        interval = watched.take(number)
        assert sum(row.origin is not None for api in interval.apis for row in api.rows) <= 3
        finished(view.add(interval))
    assert 2 <= len(named) <= 6
    assert not any(api.rows for kept in view._intervals for api in kept.apis)
