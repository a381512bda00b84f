"""Request metrics are Kafka's: their names, their formulas, and what falls behind is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.telemetry.exposition import render
from pipeline_broker.telemetry.fan_out import FanOut
from pipeline_broker.telemetry.request_metrics import REQUEST_ROWS_MAX, RequestMetrics
from stages.mode import CLASSIC, PIPELINED
from stages.request import Request
from stages.timeline import stage_durations

NAMES = {0: "Produce", 1: "Fetch", 18: "ApiVersions"}
PREFIX = "kafka_network_requestmetrics_"


def scrape(metrics):
    """Samples by name and labels (without quantile: the count, the sum)."""
    families = text_string_to_metric_families(render(metrics.families()))
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
    metrics.drain(at_ns)
    return metrics


def test_the_times_of_hand_made_stamps(answered):
    """received, enqueued, dequeued, handled, submitted, durable, completed, released, send started, sent."""
    stamps = [0, 10, 2_499, 4_000, 4_000, 10_500, 11_000, 13_000, 13_600, 20_000]
    samples = scrape(drained([answered(stamps=stamps)]))

    expected = {
        "requestqueuetimems": (2, 2.499),
        "localtimems": (2, 1.501),
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


@given(stamps=st.lists(st.integers(0, 10**7), min_size=10, max_size=10))
def test_every_time_is_that_of_the_timeline_cut_to_microseconds(stamps):
    request = Request(None, 0, b"\0\0\0\x09\0\0\0\x07\0\0", 0)
    request.api, request.version = 0, 9
    names = ("received", "enqueued", "dequeued", "handled", "submitted", "durable", "completed", "released")
    for name, value in zip((*names, "send_started", "sent"), stamps, strict=True):
        setattr(request, f"{name}_ns", value)
    durations = stage_durations(request)
    samples = scrape(drained([request]))

    for name, nanoseconds in (
        ("requestqueuetimems", durations.request_queue_ns),
        ("localtimems", durations.local_ns),
        ("remotetimems", durations.remote_ns),
        ("commitwaittimems", durations.commit_wait_ns),
        ("responsequeuetimems", durations.response_queue_ns),
        ("responseorderwaittimems", durations.response_order_wait_ns),
        ("responsesendtimems", durations.response_send_ns),
        ("totaltimems", durations.total_ns),
    ):
        quantiles, _, total = of_request(samples, name)
        assert total == pytest.approx(nanoseconds // 1000 / 1000)
        assert quantiles["0.50"] == (nanoseconds // 1000 + 500) // 1000


def test_request_bytes_are_those_behind_the_header(answered):
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
    """Its number is whatever a client sends: names must not grow with it."""
    assert scrape(drained([answered(api=number) for number in range(100, 300)])).keys() == scrape(drained([])).keys()


def test_what_falls_behind_is_sampled_and_counted(answered):
    surplus = 10
    samples = scrape(drained([answered()] * (REQUEST_ROWS_MAX + surplus)))

    assert of_request(samples, "totaltimems")[1] == REQUEST_ROWS_MAX
    assert samples["pipeline_broker_metrics_rows_dropped_total",] == surplus
    assert samples[f"{PREFIX}requests_total", ("request", "Produce"), ("version", "9")] == REQUEST_ROWS_MAX + surplus


def test_commits_have_sizes_and_sync_times(answered, make_commit, make_entry):
    metrics = RequestMetrics(NAMES, PIPELINED)
    metrics.commit_ended(make_commit(1, [(answered(), [make_entry("t", 0, 0, 0)] * 4)]))
    metrics.drain(1)
    samples = scrape(metrics)

    assert samples["pipeline_broker_commit_entries", ("quantile", "0.50")] == 4
    assert samples["pipeline_broker_commit_bytes_sum",] == 400
    assert samples["kafka_log_logflushstats_logflushrateandtimems_sum",] == pytest.approx(3.0)


@pytest.mark.parametrize(("mode", "busy_ms"), [(PIPELINED, 1), (CLASSIC, 4)])
def test_a_handler_is_busy_while_it_handles_and_in_classic_mode_while_it_waits_for_its_commit(answered, mode, busy_ms):
    """4 handlers; in each tenth of a second one request: dequeued at 3 ms, handled at 4, completed at 7."""
    metrics = RequestMetrics(NAMES, mode)
    metrics.drain(1)
    for tenth in range(1, 6000):
        metrics.request_ended(answered())
        metrics.drain(1 + tenth * 100_000_000)

    assert metrics.idle_share(4) == pytest.approx(1 - busy_ms / 100 / 4, abs=1e-5)


def test_dropped_rows_count_for_the_idle_share_as_the_others_do(answered):
    """Each takes a handler for 100 us; half of them find no room in the ring."""
    metrics = RequestMetrics(NAMES, PIPELINED)
    metrics.drain(1)
    for _ in range(REQUEST_ROWS_MAX * 2):
        metrics.request_ended(answered(stamps=[0, 0, 0, *[100] * 7]))
    metrics.drain(1 + 1_000_000_000)

    assert 1 - metrics.idle_share(1) == pytest.approx(REQUEST_ROWS_MAX * 2 * 1e-4)


def test_a_fan_out_tells_everybody_everything(answered, make_commit):
    first, second = RequestMetrics(NAMES, PIPELINED), RequestMetrics(NAMES, PIPELINED)
    both = FanOut((first, second))
    both.request_ended(answered())
    both.request_dropped(answered())
    both.commit_ended(make_commit(1, [(answered(), [])]))
    both.mute_ended(0, 0, 0, 1)
    both.queue_sampled(0, 0, 1)
    for metrics in (first, second):
        metrics.drain(1_000_000_000)

    assert scrape(first) == scrape(second)
    assert scrape(first)["pipeline_broker_commit_entries_count",] == 1
