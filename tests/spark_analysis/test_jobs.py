"""The queries recover planted data: queues with known laws to the microsecond, imbalance, spans, clock steps."""

from __future__ import annotations

import inspect

import pytest

import spark_analysis
from spark_analysis import (
    client_series,
    commit_batches,
    end_to_end_latency,
    latency_by_round,
    littles_law,
    load_run,
    mute_spans,
    queue_imbalance,
    request_lanes,
    shard_latency,
    stage_latency,
    stage_series,
    trace_quality,
)
from spark_analysis.convert import convert
from spark_analysis.latency import client_runs
from spark_analysis.stage import CELL_COLUMNS, QUANTILES
from spark_analysis.tables import REQUEST_STAMPS, STAGES
from tests.spark_analysis import queueing

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

CUSTOMERS = 20_000
GAP_US, SERVICE_US = 200.0, 100
SHARES = {0: 10, 1: 20, 2: 30, 5: 140}
QUEUES = 8
RUNS = {"mm1": 1, "md1": 2, "shards": 3, "spans": 4, "stepped": 5}
DONE = dict.fromkeys(
    ("RequestQueue", "Local", "CommitWait", "Remote", "ResponseOrderWait", "ResponseQueue", "ResponseSend"), 0
)


def simulated():
    return {
        "mm1": queueing.mm1(7, CUSTOMERS, GAP_US, SERVICE_US),
        "md1": queueing.md1(8, CUSTOMERS, GAP_US, SERVICE_US),
    }


def plant_queue(synthetic, raw, name, customers):
    run = synthetic.RawRun(raw, RUNS[name], traced=True, mode=name, in_flight=RUNS[name])
    for sequence, (arrived, started, ended) in enumerate(customers):
        stages = {**DONE, "RequestQueue": started - arrived, "Local": ended - started}
        synthetic.traced_request(run, 0, sequence, synthetic.START_NS + arrived * 1000, stages)
    run.write()


def plant_shards(synthetic, raw):
    told = {"factors": {"queues": QUEUES, "mode": "pipelined"}, "variant": "record_size=100"}
    run = synthetic.RawRun(raw, RUNS["shards"], traced=True, mode="pipelined", connections=4, **told)
    for queue, count in SHARES.items():
        for sequence in range(count):
            stages = {**DONE, "RequestQueue": 10 * queue + sequence, "Local": 5}
            at_ns = synthetic.START_NS + sequence * 1_000_000
            synthetic.traced_request(run, queue, sequence, at_ns, stages, queue=queue)
    for size in (1, 1, 4, 64):
        stamps = {"started_ns": 0, "written_ns": 50_000, "durable_ns": 350_000, "completed_ns": 400_000}
        run.add("commits", commit=size, entries=size, bytes=size * 100, is_on_loop=0, **stamps)
    run.write()


def plant_spans(synthetic, raw):
    """Write 10 ms of requests. One connection has in-flight spans 0-2 and 5-6 ms, a throttle 1-4 ms around two others,
    and one without an end; another has an in-flight span of 4 ms.
    """
    run = synthetic.RawRun(raw, RUNS["spans"], traced=True, in_flight=RUNS["spans"])
    for sequence in range(11):
        waits = {**DONE, "ResponseOrderWait": 700, "ResponseQueue": 700} if sequence == 6 else DONE
        synthetic.traced_request(run, 0, sequence, synthetic.START_NS + sequence * 1_000_000, waits)
    for reason, began, ended in ((0, 0, 2), (0, 2.25, 2.75), (0, 3.25, 3.75), (0, 5, 6), (1, 1, 4), (1, 9, None)):
        stamps = [None if ms is None else synthetic.START_NS + round(ms * 1_000_000) for ms in (began, ended)]
        run.add("mutes", connection=0, reason=reason, began_ns=stamps[0], ended_ns=stamps[1])
    run.add("mutes", connection=1, reason=0, began_ns=synthetic.START_NS, ended_ns=synthetic.START_NS + 4_000_000)
    run.write()


def plant_stepped(synthetic, raw):
    """Write 1,000 requests in the first second and 2,000 in the second; one answer 5 ms early, one missing."""
    run = synthetic.RawRun(raw, RUNS["stepped"], in_flight=RUNS["stepped"])
    for sequence in range(3000):
        at_us = sequence * 1000 if sequence < 1000 else 1_000_000 + (sequence - 1000) * 500
        sent = synthetic.START_NS + at_us * 1000
        run.answer(sent, sent + 1_000_000 * (1 + (sequence >= 1000)), sequence, error=3 if sequence == 9 else 0)
    run.rows["client"][500]["answered_ns"] = run.rows["client"][500]["sent_ns"] - 5_000_000
    run.rows["client"][2999]["answered_ns"] = None
    run.write()


@pytest.fixture(scope="module")
def customers():
    return simulated()


@pytest.fixture(scope="module")
def run(synthetic, spark, customers, tmp_path_factory):
    directory = tmp_path_factory.mktemp("jobs")
    for name, planted in customers.items():
        plant_queue(synthetic, directory / "raw", name, planted)
    for plant in (plant_shards, plant_spans, plant_stepped):
        plant(synthetic, directory / "raw")
    convert(directory, spark)
    return load_run(directory, spark)


@pytest.fixture(scope="module")
def stages(run):
    return {(row["mode"], row["stage"]): row for row in stage_latency(run).collect()}


@pytest.mark.parametrize("law", ["mm1", "md1"])
def test_a_simulated_queue_is_recovered_to_the_microsecond(law, customers, stages):
    waits = [started - arrived for arrived, started, _ in customers[law]]
    row = stages[law, "RequestQueue"]
    assert row["requests"] == CUSTOMERS
    assert row["mean_us"] == pytest.approx(sum(waits) / CUSTOMERS, rel=1e-12)
    for name, quantile in QUANTILES.items():
        assert row[name] == pytest.approx(queueing.interpolated(waits, quantile), rel=1e-12), name


@pytest.mark.parametrize(("law", "theory"), [("mm1", queueing.mm1_wait_us), ("md1", queueing.md1_wait_us)])
def test_the_mean_wait_agrees_with_queueing_theory(law, theory, stages):
    assert stages[law, "RequestQueue"]["mean_us"] == pytest.approx(theory(GAP_US, SERVICE_US), rel=0.06)


@pytest.mark.parametrize("law", ["mm1", "md1"])
def test_littles_law_agrees_with_a_count_over_all_events(law, customers, run, synthetic):
    rows = {row["stage"]: row for row in littles_law(run).where(f"run = {RUNS[law]}").collect()}
    first, last = (customers[law][place][0] for place in (0, -1))
    from_us, to_us = first + (last - first) * 0.1, first + (last - first) * 0.9
    for stage, begin, end in (("RequestQueue", 0, 1), ("Local", 1, 2), ("Total", 0, 2)):
        row = rows[stage]
        spans = [(customer[begin], customer[end]) for customer in customers[law]]
        entered = [ended - began for began, ended in spans if from_us <= began < to_us]
        assert row["entered"] == len(entered)
        assert row["wait_us"] == pytest.approx(sum(entered) / len(entered), rel=1e-9)
        assert row["expected"] == pytest.approx(row["rate_per_s"] * row["wait_us"] / 1e6, rel=1e-9)
        assert row["measured"] == pytest.approx(queueing.mean_inside(spans, from_us, to_us), rel=1e-6)
        assert row["difference"] == pytest.approx(0, abs=0.01 * row["measured"])
    # The server of a queue is busy the share of time that is its load.
    assert rows["Local"]["measured"] == pytest.approx(SERVICE_US / GAP_US, rel=0.03)


def test_planted_imbalance_is_recovered(run):
    (row,) = queue_imbalance(run).where(f"run = {RUNS['shards']}").collect()
    loads = [SHARES.get(queue, 0) for queue in range(QUEUES)]
    assert (row["queues"], row["used_queues"], row["requests"], row["busiest_queue"]) == (8, 4, 200, 5)
    assert row["most_over_mean"] == pytest.approx(140 / 25)
    assert row["gini"] == pytest.approx(queueing.gini(loads))
    by_queue = {part["queue"]: part for part in shard_latency(run).where(f"run = {RUNS['shards']}").collect()}
    for queue, count in SHARES.items():
        waits = [10 * queue + sequence for sequence in range(count)]
        assert by_queue[queue]["queue_p99_us"] == pytest.approx(queueing.interpolated(waits, 0.99))
        assert by_queue[queue]["p99_us"] == pytest.approx(queueing.interpolated(waits, 0.99) + 5)
    assert row["busiest_p99_us"] == by_queue[5]["p99_us"]
    assert row["others_p99_us"] == by_queue[2]["p99_us"]


def test_a_variant_belongs_to_the_load_and_an_axis_of_the_broker_does_not(run):
    variants = {row["run"]: row["variant"] for row in run.runs.collect()}
    assert variants == {**dict.fromkeys(RUNS.values(), ""), RUNS["shards"]: "record_size=100"}


def test_commits_are_grouped_by_load(run):
    (row,) = commit_batches(run).collect()
    sizes = (row["outstanding"], row["commits"], row["entries"], row["entries_mean"], row["entries_most"])
    assert sizes == (4, 4, 70, 17.5, 64)
    assert (row["commit_p50_us"], row["sync_p50_us"], row["variant"]) == (350.0, 300.0, "record_size=100")


def test_spans_are_summed_by_reason_and_overlaps_count_once_in_any(run):
    rows = {row["reason"]: row for row in mute_spans(run).collect()}
    found = {reason: (row["spans"], row["unended"], row["total_us"], row["most_us"]) for reason, row in rows.items()}
    assert found == {"in-flight": (5, 0, 8000, 4000), "throttle": (2, 1, 3000, 3000), "any": (3, 0, 9000, 4000)}
    shares = {reason: row["share"] for reason, row in rows.items()}
    assert shares == pytest.approx({"in-flight": 0.4, "throttle": 0.15, "any": 0.45}), "of the time of both connections"


def test_lanes_show_the_request_that_waited_longest_for_earlier_responses(run):
    rows = request_lanes(run, requests=4).where(f"run = {RUNS['spans']}").collect()
    assert sorted(row["sequence"] for row in rows) == [4, 5, 6, 7]


def test_series_show_a_rate_that_doubles_and_a_latency_that_does(run):
    rows = sorted(client_series(run).collect(), key=lambda row: row["at_ms"])
    assert [(row["at_ms"], row["requests"], row["requests_per_s"]) for row in rows] == [
        (0.0, 1000, 1000.0),
        (1000.0, 1999, 1999.0),
    ]
    assert [(row["p50_us"], row["p99_us"]) for row in rows] == [(1000.0, 1000.0), (2000.0, 2000.0)]


def test_by_default_a_series_has_about_forty_buckets(run):
    rows = client_series(run, bucket_ms=None).collect()
    assert {row["bucket_ms"] for row in rows} == {50.0}
    assert len(rows) == 40


def test_stages_over_time_add_up_to_the_stages(run, stages, customers):
    rows = stage_series(run, bucket_ms=500).where(f"run = {RUNS['mm1']} and stage = 'RequestQueue'").collect()
    first = customers["mm1"][0][0]
    assert {row["at_ms"] for row in rows} == {
        (arrived - first) // 500_000 * 500.0 for arrived, _, _ in customers["mm1"]
    }
    whole = sum(row["requests"] * row["mean_us"] for row in rows) / sum(row["requests"] for row in rows)
    assert whole == pytest.approx(stages["mm1", "RequestQueue"]["mean_us"])


def test_a_clock_that_stepped_back_an_error_and_a_lost_answer_are_reported(run):
    rows = {(row["run"], row["table"]): row for row in trace_quality(run).collect()}
    row = rows[RUNS["stepped"], "client"]
    told = (row["rows"], row["backwards"], row["step_us"], row["unanswered"], row["errors"])
    assert told == (3000, 1, 5000.0, 1, 1)
    row = rows[RUNS["mm1"], "requests"]
    assert (row["rows"], row["backwards"], row["step_us"], row["errors"]) == (CUSTOMERS, 0, 0.0, None)


def test_a_request_without_an_answer_has_no_latency(run):
    (row,) = client_runs(run).where(f"run = {RUNS['stepped']}").collect()
    assert (row["requests"], row["samples"]) == (3000, 2999)


def test_end_to_end_percentiles_reach_to_four_nines(run):
    (row,) = end_to_end_latency(run).collect()
    assert (row["requests"], row["p50_us"], row["p9999_us"], row["most_us"]) == (2999, 2000.0, 2000.0, 2000)


def test_a_round_has_its_rate_and_its_percentiles(run):
    (row,) = latency_by_round(run).collect()
    place = {name: row[name] for name in ("run", "experiment", "round", "side", "mode")}
    assert place == {"run": RUNS["stepped"], "experiment": "grid", "round": 0, "side": 0, "mode": "classic"}
    assert (row["requests"], row["p50_us"], row["p99_us"], row["p999_us"]) == (3000, 2000.0, 2000.0, 2000.0)
    last_answered_s = (1_000_000 + 1998 * 500 + 2000) / 1e6  # that of the request before the one without an answer
    assert row["requests_per_s"] == pytest.approx(3000 / last_answered_s, rel=1e-12)


@pytest.fixture(scope="module")
def warmed_up(synthetic, spark, tmp_path_factory):
    """A replay: five warm-up requests, which fail and take 50 ms, and ten that are sent 0.3 ms late and take 1 ms."""
    directory = tmp_path_factory.mktemp("warmed")
    run = synthetic.RawRun(directory / "raw", 1, client="replay")
    for sequence in range(15):
        due = synthetic.START_NS + sequence * 1_000_000
        is_measured = sequence >= 5
        took_us, error = (1000, 3 if sequence == 9 else 0) if is_measured else (50_000, 9)
        sent, answered = due + 300_000, due + took_us * 1000
        run.answer(sent, answered, sequence, intended_ns=due, measured=is_measured, error=error)
    run.write()
    convert(directory, spark)
    return load_run(directory, spark)


def test_a_warm_up_counts_only_in_the_mean_and_open_loop_latency_starts_at_the_due_time(warmed_up, synthetic):
    (row,) = client_runs(warmed_up).collect()
    assert (row["requests"], row["errors"], row["samples"]) == (10, 1, 10)
    first, last = synthetic.START_NS + 5_300_000, synthetic.START_NS + 15_000_000
    assert (row["first_sent_ns"], row["last_answered_ns"]) == (first, last)
    assert (row["p50_us"], row["p999_us"], row["late_us"]) == (1000.0, 1000.0, 300.0)
    assert row["mean_us"] == pytest.approx((5 * 49_700 + 10 * 700) / 15)
    assert row["growth"] == pytest.approx(0, abs=1e-9)
    (row,) = end_to_end_latency(warmed_up).collect()
    assert (row["requests"], row["p50_us"], row["most_us"]) == (10, 1000.0, 1000)
    (row,) = latency_by_round(warmed_up).collect()
    assert row["requests_per_s"] == pytest.approx(10 * 1e9 / (last - first), rel=1e-12)


FUNCTIONS = {name: getattr(spark_analysis, name) for name in spark_analysis.__all__ if name.islower()}
JOBS = {name: job for name, job in FUNCTIONS.items() if next(iter(inspect.signature(job).parameters)) == "run"}


@pytest.mark.parametrize("name", JOBS)
def test_the_columns_of_a_query_are_documented_and_have_units(name, run):
    columns = JOBS[name](run).columns
    said = JOBS[name].__doc__.split("Returns:")[1]
    named = {column for column in columns if column not in (*CELL_COLUMNS, *STAGES)}
    assert {column for column in named if f"{column}" not in said} == (
        set(REQUEST_STAMPS) if name == "request_lanes" else set()
    )
