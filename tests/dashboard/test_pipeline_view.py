"""The `pipeline` event: stages that add up, percentiles, lanes in order, a bounded size."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.steps import finished
from pipeline_broker.dashboard.pipeline_view import (
    LANES_SHOWN_MAX,
    WINDOW_INTERVALS,
    PipelineView,
    part_spans,
    request_events,
    summary,
)
from pipeline_broker.dashboard.watched_pipeline import WatchedPipeline, WatchedRequest
from pipeline_broker.traces.broker_tables import Outcome
from pipeline_broker.traces.request_rows import ended_values
from pipeline_broker.traces.stage_durations import PARTS
from pipeline_broker.web.messages import event
from stages.timeline import NO_STAMP, STAMPS

NAMES = {0: "Produce", 1: "Fetch", **{api: f"AnApiWithALongishName{api}" for api in range(2, 90)}}
REASONS = {0: "in flight"}
EVENT_BYTES_MAX = 128 * 1024
"""The limit in docs/guides/dashboard.md."""

steps = st.tuples(*[st.integers(0, 10**9)] * 7)
stamps = st.integers(0, 10**12)


def row_of(request):
    return WatchedRequest((*ended_values(request), 0, None))


@given(steps=steps, is_committed=st.booleans())
def test_the_stages_of_a_request_add_up_to_the_whole(steps, is_committed, request_ended):
    request = request_ended(steps=steps)
    if not is_committed:
        request.submitted_ns = request.durable_ns = NO_STAMP
    row = row_of(request)
    spans = part_spans(row)

    assert sum(spans) == row.sent_ns - row.received_ns
    assert spans[PARTS.index("commit wait")] == (steps[2] if is_committed else 0)
    assert spans[PARTS.index("order wait")] == steps[4]


@given(values=st.lists(stamps, min_size=len(STAMPS), max_size=len(STAMPS)))
def test_no_stage_is_negative_for_any_stamps(values, request_ended):
    row = row_of(request_ended(**dict(zip(STAMPS, values, strict=True))))

    assert min(part_spans(row)) >= 0


@given(values=st.lists(st.integers(0, 10**10), min_size=1, max_size=300))
def test_a_summary_is_the_mean_and_the_nearest_rank(values):
    mean_us, p99_us = summary([(value, 1.0) for value in values])

    assert mean_us == pytest.approx(sum(values) / len(values) / 1000, abs=0.51)
    assert p99_us == round(sorted(values)[math.ceil(0.99 * len(values)) - 1] / 1000)


def test_a_sample_counts_with_its_weight():
    assert summary([(1_000, 99.0), (9_000_000, 1.0)])[1] == 1
    assert summary([(1_000, 98.0), (9_000_000, 2.0)])[1] == 9_000


def test_rates_cover_the_last_interval_and_stages_the_window(request_ended):
    watched, view = WatchedPipeline(NAMES, 0), PipelineView(NAMES, REASONS)
    for _ in range(4):
        watched.request_ended(request_ended(steps=(1_000_000,) * 7))
    first = finished(view.add(watched.take(2 * 10**9)))
    later = [finished(view.add(watched.take((2 + number) * 10**9))) for number in range(1, WINDOW_INTERVALS + 1)]

    assert (first["requests_per_s"], first["apis"][0]["requests_per_s"]) == (2.0, 2.0)
    assert first["apis"][0]["total_mean_us"] == 7_000
    assert [stage["mean_us"] for stage in first["apis"][0]["stages"]] == [1_000] * 7
    assert later[0]["requests_per_s"] == 0
    assert [len(each["apis"]) for each in later] == [1] * (WINDOW_INTERVALS - 1) + [0]


@given(order=st.permutations(range(8)))
def test_lanes_have_the_order_of_requests_and_responses(order, request_ended):
    watched = WatchedPipeline(NAMES, 0)
    for sequence in order:
        watched.request_ended(request_ended(connection=3, sequence=sequence, received_ns=1_000 * (1 + sequence)))
    (lane,) = finished(PipelineView(NAMES, REASONS).add(watched.take(10**9)))["lanes"]

    assert [request["sequence"] for request in lane["requests"]] == list(range(8))
    assert [request["out"] for request in lane["requests"]] == [order.index(sequence) for sequence in range(8)]
    assert [request["received_us"] for request in lane["requests"]] == list(range(8))


def test_a_lane_has_the_overlapping_mutes_of_its_connection(request_ended):
    watched = WatchedPipeline(NAMES, 0)
    watched.request_ended(request_ended(connection=3, received_ns=1_000_000, steps=(1_000_000,) * 7))
    for connection, began_ns, ended_ns in (
        (3, 500_000, 2_000_000),
        (3, 1, 2),
        (4, 500_000, 2_000_000),
        (3, 10**8, 10**9),
    ):
        watched.mute_ended(connection, 0, began_ns, ended_ns)
    shown = finished(PipelineView(NAMES, REASONS).add(watched.take(10**9)))

    assert shown["lanes"][0]["mutes"] == [{"reason": "in flight", "began_us": 0, "ended_us": 1_000}]
    assert shown["mutes"] == [
        {"reason": "in flight", "per_s": 4.0, "mean_us": round((1_500 + 0 + 1_500 + 900_000) / 4)}
    ]


def test_commits_are_summed_up(commit_ended):
    watched = WatchedPipeline(NAMES, 0)
    watched.commit_ended(commit_ended(1, 100, 1_000, 2_000, 5_000))
    watched.commit_ended(commit_ended(3, 300, 1_000, 4_000, 9_000))
    shown = finished(PipelineView(NAMES, REASONS).add(watched.take(10**9)))["commits"]

    assert (shown["per_s"], shown["entries_mean"], shown["entries_max"], shown["bytes_mean"]) == (2.0, 2.0, 3, 200)
    assert (shown["write_mean_us"], shown["sync_mean_us"], shown["sync_p99_us"]) == (2, 4, 5)


def test_an_event_of_a_flood_has_a_bounded_size(request_ended, commit_ended):
    watched, view = WatchedPipeline(NAMES, 0), PipelineView(NAMES, REASONS)
    for number in range(3_000):
        request = request_ended(
            connection=10**6 + number % 30, sequence=10**9 + number, api=number % 90, steps=(10**12,) * 7, depth=64
        )
        watched.request_ended(request)
        watched.mute_ended(10**6 + number % 30, 0, 1_500, 10**12)
        watched.queue_sampled(number, 0, 500)
        watched.commit_ended(commit_ended(4096, 1 << 23, 1, 10**9, 10**11))
    interval = watched.take(10**9)
    shown = finished(view.add(interval))

    assert len(shown["lanes"]) == LANES_SHOWN_MAX
    assert len(event(shown, "pipeline")) < EVENT_BYTES_MAX
    assert len(event(finished(request_events(interval, NAMES)), "requests")) < EVENT_BYTES_MAX


def test_the_latest_requests_have_stages_outcome_and_error(request_ended):
    watched = WatchedPipeline(NAMES, 0)
    watched.request_ended(request_ended(sequence=1, received_ns=5_000_000))
    watched.request_dropped(request_ended(sequence=2, api=1, completed_ns=0, released_ns=0, send_started_ns=0))
    watched.request_ended(request_ended(sequence=3, received_ns=1_000_000))
    interval = watched.take(10**15)
    first, second, third = finished(request_events(interval, NAMES))

    assert [each["sequence"] for each in (first, second, third)] == [3, 1, 2]  # by the time at which they ended
    assert (third["api"], third["outcome"]) == ("Fetch", "connection lost")
    assert (first["outcome"], first["error"], len(first["stages_us"])) == ("sent", "NONE", len(PARTS))
    assert interval.apis[1].rows[0].outcome == Outcome.DROPPED
