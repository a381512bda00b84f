"""Requests to an object store are counted exactly and priced with the user's prices."""

import json

import pytest

from spark_analysis import load_run, store_requests
from spark_analysis.analyse import report
from spark_analysis.convert import convert
from spark_analysis.costs import Prices, StoreRun
from spark_analysis.run import TRACES_FOLDER

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
MS = 1_000_000
STAGES = {"RequestQueue": 0, "Local": 0, "CommitWait": 50_000, "Remote": 50_000, "ResponseOrderWait": 0}
STAGES |= {"ResponseQueue": 0, "ResponseSend": 0}


def plant(synthetic, raw, number, mode, creations, *, round_number=1):
    """Write a second of requests, one every 10 ms, with commits of 50 ms; `creations` of them are PUTs."""
    start = synthetic.START_NS
    run = synthetic.RawRun(raw, number, traced=True, mode=mode, side=int(mode == "pipelined"), round=round_number)
    for sequence in range(100):
        at = start + sequence * 10 * MS
        synthetic.traced_request(run, 0, sequence, at, STAGES, commit=sequence)
        run.answer(at, at + 51 * MS, sequence)
    for commit in range(creations):
        at = start + commit * 900 * MS // creations
        stamps = {"started_ns": at, "written_ns": at, "durable_ns": at + 50 * MS, "completed_ns": at + 50 * MS}
        run.add("commits", commit=commit, entries=1, bytes=10_000, is_on_loop=0, **stamps)
        store(run, "create", at, 50 * MS, sent_bytes=11_000)
    store(run, "create", start - 200 * MS, 100 * MS)  # of the start
    store(run, "replace", start + 10 * MS, 60 * MS, outcome="unsure")
    store(run, "upload", start + 20 * MS, 60 * MS, requests=4, sent_bytes=16 << 20)
    store(run, "list", start + 30 * MS, 60 * MS, outcome="unavailable")
    store(run, "read", start + 30 * MS, 30 * MS, received_bytes=7)
    store(run, "read_end", start + 30 * MS, 30 * MS)
    store(run, "delete", start + 30 * MS, 30 * MS)
    store(run, "create", start + 5000 * MS, 50 * MS)  # of the end
    run.write()


def store(run, operation, began_ns, took_ns, **row):
    row = {"outcome": "done", "requests": 1, "sent_bytes": 0, "received_bytes": 0, **row}
    run.add("store", operation=operation, began_ns=began_ns, ended_ns=began_ns + took_ns, **row)


@pytest.fixture(scope="module")
def directory(synthetic, spark, tmp_path_factory):
    found = tmp_path_factory.mktemp("costs")
    for round_number in (1, 2):
        for number, (mode, creations) in enumerate({"classic": 80, "pipelined": 20}.items(), start=2 * round_number):
            plant(synthetic, found / "raw", number, mode, creations, round_number=round_number)
    convert(found, spark)
    return found


def test_requests_of_a_run_are_those_that_ended_under_load(directory, spark):
    found = {row["run"]: StoreRun(**row.asDict()) for row in store_requests(load_run(directory, spark)).collect()}
    assert found[2] == StoreRun(
        run=2,
        puts=80 + 1 + 4 + 1,
        gets=2,
        unsure=1,
        failed=1,
        put_bytes=80 * 11_000 + (16 << 20),
        put_p50_us=50_000.0,
        put_p99_us=50_000.0,
        window_us=1_040_000.0,
        written_bytes=800_000,
        produced=100,
    )
    assert (found[3].puts, found[3].written_bytes) == (26, 200_000)


def test_summary_and_page_have_the_costs_at_the_given_prices(directory, spark):
    report(directory, spark, prices=Prices(put=10.0, get=1.0))
    found = json.loads((directory / "summary.json").read_text())["store"]
    assert (found["put_dollars_per_million"], found["get_dollars_per_million"]) == (10.0, 1.0)
    classic, pipelined = found["cells"]
    assert (classic["mode"], classic["rounds"], classic["puts"], classic["gets"]) == ("classic", 2, 172, 4)
    assert classic["puts_per_gb"]["value"] == pytest.approx(86 / 800_000 * 1e9)
    assert classic["dollars_per_gb"]["value"] == pytest.approx((86 * 10 + 2 * 1) / 1e6 / 800_000 * 1e9)
    assert pipelined["requests_per_put"]["value"] == pytest.approx(100 / 26)
    assert pipelined["puts_per_s"]["value"] == pytest.approx(26 / 1.04)
    month = (26 * 10 + 2) / 1e6 / 1.04 * 30 * 86_400
    assert pipelined["dollars_per_month"]["value"] == pytest.approx(month)
    page = (directory / "report.html").read_text()
    assert '<section id="cost"' in page
    assert "$10 for a million PUTs" in page
    assert "107,500" in page


def test_traces_without_the_table_have_no_store(reported, spark):
    directory = reported.directory
    assert not (directory / TRACES_FOLDER / "store").exists()
    assert store_requests(load_run(directory, spark)).collect() == []
    assert "store" not in json.loads((directory / "summary.json").read_text())
    assert '<section id="cost"' not in (directory / "report.html").read_text()
