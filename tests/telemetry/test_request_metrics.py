"""Request metrics have Kafka's names and formulas, and requests without a row are counted."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.base.steps import finished
from pipeline_broker.telemetry.exposition import render
from pipeline_broker.telemetry.fan_out import FanOut
from pipeline_broker.telemetry.measurements import Measurements
from pipeline_broker.telemetry.request_metrics import RequestMetrics
from pipeline_broker.telemetry.sampled_rows import ROWS_MAX, ROWS_WANTED
from pipeline_broker.traces.stage_durations import STAGES, stage_durations
from pipeline_broker.wire.messages.data.fetch import FetchResponse
from pipeline_broker.wire.messages.data.produce import ProduceResponse
from stages.mode import CLASSIC, PIPELINED
from stages.request import NO_OP, Request
from stages.timeline import STAMPS, Timeline

NAMES = {0: "Produce", 1: "Fetch", 18: "ApiVersions"}
PREFIX = "kafka_network_requestmetrics_"


def scrape(metrics):
    """Samples by name and labels (without quantile: the count, the sum)."""
    families = text_string_to_metric_families(finished(render(metrics.families())).decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def of_request(samples, name, request="Produce"):
    """Quantiles, or count and sum, of one histogram."""
    label = ("request", request)
    quantiles = {dict(key[1:])["quantile"]: value for key, value in samples.items() if key[0] == PREFIX + name
                 and label in key and len(key) == 3}  # fmt: skip
    return quantiles, samples[PREFIX + name + "_count", label], samples[PREFIX + name + "_sum", label]


def drained(requests, mode=PIPELINED, at_ns=1_000_000_000):
    metrics = RequestMetrics(NAMES, mode)
    for request in requests:
        metrics.request_ended(request)
    finished(metrics.drain(at_ns))
    return metrics


def test_the_times_of_hand_made_stamps(answered):
    """received, enqueued, dequeued, handled, submitted, durable, completed, released, send started, sent."""
    stamps = [0, 10, 2_499, 4_000, 4_000, 10_500, 11_000, 13_000, 13_600, 20_000]
    samples = scrape(drained([answered(stamps=stamps)]))

    expected = {
        "requestqueuetimems": (2, 2.499),
        "localtimems": (2, 1.501),
        "laterstepstimems": (0, 0.0),
        "remotetimems": (7, 7.0),
        "commitwaittimems": (7, 6.5),
        "responsequeuetimems": (3, 2.6),
        "responseorderwaittimems": (2, 2.0),
        "responsesendtimems": (6, 6.4),
        "totaltimems": (20, 20.0),
        "throttletimems": (0, 0.0),
    }
    for name, (rounded, total) in expected.items():
        quantiles, count, found = of_request(samples, name)
        assert quantiles == dict.fromkeys(("0.50", "0.75", "0.95", "0.98", "0.99", "0.999"), rounded), name
        assert (count, found) == (1, pytest.approx(total)), name


@given(stamps=st.lists(st.integers(0, 10**7), min_size=11, max_size=11))
def test_every_time_is_that_of_the_timeline_rounded_to_milliseconds(stamps):
    request = Request(None, 0, b"\0\0\0\x09\0\0\0\x07\0\0", 0)
    request.api, request.version = 0, 9
    for name, value in zip(STAMPS, stamps, strict=True):
        setattr(request, name, value)
    durations = stage_durations(request)
    samples = scrape(drained([request]))

    for stage in STAGES:
        nanoseconds = getattr(durations, re.sub(r"\B([A-Z])", r"_\1", stage).lower() + "_ns")
        quantiles, _, total = of_request(samples, f"{stage.lower()}timems")
        assert total == pytest.approx(nanoseconds / 1e6)
        assert quantiles["0.50"] == (nanoseconds // 1000 + 500) // 1000


def test_request_bytes_are_those_after_the_header(answered):
    """A flexible header ends with its (empty) tagged fields, an older one with the client id."""
    flexible = scrape(drained([answered(version=9, body=b"\0" + bytes(200))]))
    older = scrape(drained([answered(version=8, body=bytes(200))]))

    assert of_request(flexible, "requestbytes")[2] == 200
    assert of_request(older, "requestbytes")[2] == 200


def test_a_request_without_a_commit_has_no_commit_wait(answered):
    samples = scrape(drained([answered(api=18, version=3, committed=False)]))

    assert of_request(samples, "totaltimems", "ApiVersions")[1] == 1
    assert (f"{PREFIX}commitwaittimems_count", ("request", "ApiVersions")) not in samples


def test_a_fetch_counts_as_a_fetch_of_a_consumer_too(answered):
    samples = scrape(drained([answered(api=1, version=12)]))

    assert of_request(samples, "totaltimems", "Fetch") == of_request(samples, "totaltimems", "FetchConsumer")
    for name in ("Fetch", "FetchConsumer"):
        assert samples[f"{PREFIX}requests_total", ("request", name), ("version", "12")] == 1


def test_requests_are_counted_by_version_and_dropped_ones_too(answered):
    metrics = drained([answered(version=9), answered(version=9), answered(version=3)])
    metrics.request_dropped(answered(version=9))
    unread = answered()
    unread.api = Request(None, 0, b"", 0).api
    metrics.request_dropped(unread)
    metrics.request_ended(unread)
    samples = scrape(metrics)

    counts = {key[2]: value for key, value in samples.items() if key[0] == f"{PREFIX}requests_total"}
    assert counts == {("version", "9"): 3, ("version", "3"): 1}
    assert samples["pipeline_broker_requests_dropped_total",] == 2


def test_an_api_that_is_not_served_has_no_metrics(answered):
    """A client can send any number, so the number of series must not grow with it."""
    assert scrape(drained([answered(api=number) for number in range(100, 300)])).keys() == scrape(drained([])).keys()


def test_a_busy_api_is_sampled_and_its_numbers_stay_exact(answered):
    """The first interval keeps up to ROWS_MAX rows, and the next ones every n-th. A rare API keeps every row."""
    metrics = RequestMetrics(NAMES, PIPELINED)
    many, stamps = 40 * ROWS_WANTED, [0] * 9 + [7_000]
    rows_before = 0
    for drain in range(1, 4):
        for _ in range(many):
            metrics.request_ended(answered(stamps=stamps))
        metrics.request_ended(answered(api=18, version=3, stamps=stamps))
        finished(metrics.drain(drain * 50_000_000))
        samples = scrape(metrics)
        sampled_out = samples["pipeline_broker_metrics_requests_sampled_out_total",]
        rows, rows_before = many * drain - sampled_out - rows_before, many * drain - sampled_out
        assert rows == (ROWS_MAX if drain == 1 else ROWS_WANTED)

    quantiles, count, total = of_request(samples, "totaltimems")
    assert (count, total) == (many * 3, pytest.approx(many * 3 * 7.0))
    assert set(quantiles.values()) == {7}
    assert of_request(samples, "totaltimems", "ApiVersions")[1] == 3
    assert samples[f"{PREFIX}requests_total", ("request", "Produce"), ("version", "9")] == many * 3


def test_requests_after_a_burst_are_represented_by_the_next_row(answered):
    """If every n-th request has a row, fewer than n leave none. They count at the next row."""
    metrics = RequestMetrics(NAMES, PIPELINED)
    for _ in range(ROWS_MAX):
        metrics.request_ended(answered())
    finished(metrics.drain(1))
    for drain in (2, 3):
        metrics.request_ended(answered())
        finished(metrics.drain(drain))

    assert of_request(scrape(metrics), "totaltimems")[1] == ROWS_MAX + 2


def test_commits_have_sizes_and_sync_times(answered, make_commit, make_entry):
    measurements = Measurements(NAMES, PIPELINED)
    measurements.commit_ended(make_commit(1, [(answered(), [make_entry("t", 0, 0, 0)] * 4)]))
    finished(measurements.drain(1))
    samples = scrape(measurements.commits)

    assert samples["pipeline_broker_commit_entries", ("quantile", "0.50")] == 4
    assert samples["pipeline_broker_commit_bytes_sum",] == 400
    assert samples["kafka_log_logflushstats_logflushrateandtimems_sum",] == pytest.approx(3.0)


@pytest.mark.parametrize(("mode", "busy_ms"), [(PIPELINED, 1), (CLASSIC, 4)])
def test_a_handler_is_busy_while_it_handles_and_in_classic_mode_while_it_waits_for_its_commit(answered, mode, busy_ms):
    """4 handlers; in each tenth of a second one request: dequeued at 3 ms, handled at 4, completed at 7."""
    metrics = RequestMetrics(NAMES, mode)
    finished(metrics.drain(1))
    for tenth in range(1, 6000):
        metrics.request_ended(answered())
        finished(metrics.drain(1 + tenth * 100_000_000))

    assert metrics.idle_share(4) == pytest.approx(1 - busy_ms / 100 / 4, abs=1e-5)


def test_sampled_rows_count_for_the_idle_share_as_all_requests_do(answered):
    """Each request takes a handler for 100 us, and half of them have no row."""
    metrics = RequestMetrics(NAMES, PIPELINED)
    finished(metrics.drain(1))
    for _ in range(ROWS_MAX * 2):
        metrics.request_ended(answered(stamps=[0, 0, 0, *[100] * 7]))
    finished(metrics.drain(1 + 1_000_000_000))

    assert 1 - metrics.idle_share(1) == pytest.approx(ROWS_MAX * 2 * 1e-4)


def test_callbacks_are_part_of_the_local_time_and_not_of_the_remote_one(answered):
    """Behaviour 98: local time is the handling and the callbacks, and remote time is what is left of the wait.

    2 ms of handling, then 8 ms until the result is known, 1 ms of them in a callback.
    """
    request = answered(stamps=[0, 0, 0, 2_000, 2_000, 2_000, 10_000, 10_000, 10_000, 10_000])
    request.decided_ns += 1_000_000
    samples = scrape(drained([request]))

    assert of_request(samples, "localtimems")[2] == pytest.approx(3.0)
    assert of_request(samples, "laterstepstimems")[2] == pytest.approx(1.0)
    assert of_request(samples, "remotetimems")[2] == pytest.approx(7.0)
    assert of_request(samples, "totaltimems")[2] == pytest.approx(10.0)


def test_a_throttle_is_not_part_of_the_total(answered):
    request = answered()
    request.throttle_ms = 250
    samples = scrape(drained([request, answered()]))

    assert of_request(samples, "throttletimems")[1:] == (2, 250)
    assert of_request(samples, "totaltimems")[2] == pytest.approx(18.0)


def errors_of(samples, request):
    found = {key: value for key, value in samples.items() if key[0] == f"{PREFIX}errors_total"}
    return {dict(key[1:])["error"]: value for key, value in found.items() if ("request", request) in key}


def test_each_error_code_of_a_response_counts_and_none_too(answered):
    """ErrorsPerSec counts the codes of the partitions of a produce response; a response without a message has no
    error.
    """
    response = ProduceResponse(
        [
            ProduceResponse.TopicProduceResponse(
                "t", bytes(16), [ProduceResponse.PartitionProduceResponse(index, code, 0) for index, code in parts]
            )
            for parts in ([(0, 0), (1, 3)], [(0, 3)])
        ]
    )
    failed, plain = answered(), answered()
    failed.answer = response
    samples = scrape(drained([failed, plain, plain]))

    assert errors_of(samples, "Produce") == {"NONE": 3, "UNKNOWN_TOPIC_OR_PARTITION": 2}


def test_an_error_code_of_the_whole_response_counts_with_those_of_its_parts(answered):
    request = answered(api=1, version=12)
    request.answer = FetchResponse(
        error_code=70,
        responses=[FetchResponse.FetchableTopicResponse(partitions=[FetchResponse.PartitionData(0, -99)])],
    )
    samples = scrape(drained([request]))

    for name in ("Fetch", "FetchConsumer"):
        assert errors_of(samples, name) == {"FETCH_SESSION_ID_NOT_FOUND": 1, "UNKNOWN_SERVER_ERROR": 1}


def test_a_slot_that_ends_without_bytes_has_no_error_to_count(answered):
    """As in Apache Kafka: the answer to acks=0 that is never made has no error, not even NONE."""
    assert errors_of(scrape(drained([answered(result=NO_OP)])), "Produce") == {}


def test_versions_that_do_not_exist_have_no_metrics_of_their_own(answered):
    """A client can send any version. ApiVersions answers it, under one name; other APIs do not count the request."""
    requests = [answered(api=api, version=version) for api in (0, 18) for version in range(500, 600)]
    samples = scrape(drained(requests))

    assert {key[1:]: value for key, value in samples.items() if key[0] == f"{PREFIX}requests_total"} == {
        (("request", "ApiVersions"), ("version", "unsupported")): 100
    }


def test_a_request_whose_connection_closed_counts_with_its_times(answered):
    """Behaviours 27, 30: the client is gone while the response is in flight: TotalTimeMs counts one more.

    It was received and handled, its response released; the rest of its stages took no time.
    """
    request = answered(stamps=[1_000, 2_000, 3_000, 4_000, 4_000, 4_000, 5_000, 6_000, 0, 0])
    metrics = RequestMetrics(NAMES, PIPELINED)
    metrics.request_dropped(request)
    finished(metrics.drain(1))
    samples = scrape(metrics)

    counts = {
        name: of_request(samples, name)[1] for name in ("totaltimems", "responsesendtimems", "requestqueuetimems")
    }
    assert set(counts.values()) == {1}
    assert of_request(samples, "requestqueuetimems")[2] == pytest.approx(2.0)
    assert of_request(samples, "responsesendtimems")[2] == 0
    assert errors_of(samples, "Produce") == {"NONE": 1}


def test_a_fan_out_forwards_every_event_to_every_timeline(answered, make_commit):
    first, second = Measurements(NAMES, PIPELINED), Measurements(NAMES, PIPELINED)
    both = FanOut((first, second))
    both.request_ended(answered())
    both.request_dropped(answered())
    both.commit_ended(make_commit(1, [(answered(), [])]))
    both.mute_ended(0, 0, 0, 1)
    both.queue_sampled(0, 0, 1)
    for metrics in (first, second):
        finished(metrics.drain(1_000_000_000))

    assert scrape(first.requests) == scrape(second.requests)
    assert [scrape(one.commits)["pipeline_broker_commit_entries_count",] for one in (first, second)] == [1, 1]


class Timed(Timeline):
    """Wants requests to be timed now and then."""

    times_requests = False


def test_a_fan_out_has_requests_timed_while_one_of_its_timelines_wants_it():
    first, second = Timed(), Timed()
    both = FanOut((first, second))
    assert not both.times_requests
    second.times_requests = True
    assert both.times_requests
    second.times_requests = False
    assert not both.times_requests
