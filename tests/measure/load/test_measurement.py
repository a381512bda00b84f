"""Figures of processes add up to those of the run, and have a JSON form and a sentence."""

import json

import pytest

from pipeline_broker.measure.load.histogram import Histogram
from pipeline_broker.measure.load.measurement import Measurement, merged, sentence, summary
from pipeline_broker.measure.load.requests import PRODUCE, READ


def measurement(latencies_us, start_ns=1_000_000_000, end_ns=3_000_000_000, **fields):
    found = Measurement(requests=len(latencies_us), first_sent_ns=start_ns, last_answered_ns=end_ns, processes=1)
    found.histograms[PRODUCE] = Histogram()
    found.histograms[PRODUCE].add(latencies_us)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def test_processes_add_up_over_the_span_of_them_all():
    one = measurement([100] * 30, end_ns=2_000_000_000, cpu_ns=5, wall_ns=10, records=60)
    other = measurement([300] * 10, start_ns=1_500_000_000, cpu_ns=7, wall_ns=12, records=20)
    other.errors[6] = 2
    both = merged([one, other])
    assert (both.requests, both.answered, both.records, both.processes) == (40, 40, 80, 2)
    assert both.seconds == 2.0
    assert (both.cpu_ns, both.wall_ns) == (12, 12)
    figures = summary(both)
    assert figures["requests_per_s"] == 20.0
    assert (figures["p50_ms"], figures["max_ms"]) == (0.1, 0.3)
    assert figures["error_names"] == {"NOT_LEADER_OR_FOLLOWER": 2}


def test_figures_survive_encoding_and_decoding():
    found = measurement([5, 70_000, 2_000_000], read_bytes=9)
    found.errors[87] = 1
    found.answered_in_second[3] = 4
    back = Measurement.decoded(json.loads(json.dumps(found.encode())))
    assert back.encode() == found.encode()
    assert summary(back) == summary(found)


def test_kinds_are_summarized_separately_and_together():
    found = measurement([100] * 20)
    found.histograms[READ] = Histogram()
    found.histograms[READ].add([900] * 20)
    figures = summary(found)
    assert {kind: it["p50_ms"] for kind, it in figures["by_kind"].items()} == {"produce": 0.1, "read": 0.9}
    assert figures["max_ms"] == 0.9


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (measurement([100] * 1000), "1,000 requests, 500/s; p50 0.10 ms, p99 0.10 ms, max 0.10 ms; errors 0, out"),
        (measurement([]), "never answered"),
        (measurement([1], errors={3: 1}), "errors 1"),
    ],
)  # fmt: skip
def test_the_sentence_is_one_line(found, part):
    text = sentence(summary(Measurement.decoded(json.loads(json.dumps(found.encode())))))
    assert part in text
    assert "\n" not in text


def test_the_summary_has_the_slowest_and_the_fastest_whole_second():
    found = measurement([1] * 12, end_ns=4_500_000_000)
    found.answered_in_second.update({0: 5, 1: 1, 2: 4, 3: 2})
    figures = summary(found)
    assert (figures["slowest_second_requests"], figures["fastest_second_requests"]) == (1, 5)


def test_a_second_without_an_answer_is_the_slowest():
    found = measurement([1] * 9, end_ns=4_500_000_000)
    found.answered_in_second.update({0: 5, 2: 4})
    assert summary(found)["slowest_second_requests"] == 0
