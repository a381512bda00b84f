"""The child that runs confluent-kafka answers each job with one line, even a failed one."""

import json
import subprocess

import pytest
import trio

from pipeline_broker.measure.experiment.broker_process import (
    BrokerSettings,
    ExperimentError,
    python_environment,
    python_module,
    running,
)
from pipeline_broker.measure.experiment.confluent_pairs import PairJob
from pipeline_broker.measure.experiment.drive import ConfluentChild
from pipeline_broker.measure.load.client import prepared
from pipeline_broker.traces.client_rows import read_client


@pytest.mark.clients
def test_every_message_is_a_row_with_its_delivery_report(tmp_path):
    job = {
        "kind": "produce",
        "topic": "load",
        "producers": 2,
        "linger_ms": 0,
        "seconds": 0.2,
        "warmup_s": 0.05,
        "record_size": 100,
        "ring": str(tmp_path / "client-0.ring"),
    }
    child = ConfluentChild()
    try:
        with running([BrokerSettings("pipelined", tmp_path / "data", flush="os")]) as (broker,):
            here = {**job, "address": f"{broker.host}:{broker.port}"}
            child.connect([here, {**here, "producers": 1, "linger_ms": 5}])
            measured = child.run(here)
            child.connect([])
            with pytest.raises(ExperimentError, match="KeyError"):
                child.run(here)
    finally:
        child.close()
    rows = read_client(tmp_path / "client-0.ring")
    for connection in (0, 1):
        mine = [row for row in rows if row.connection == connection]
        assert [row.sequence for row in mine] == list(range(len(mine)))
        assert not mine[0].measured
        assert mine[-1].measured
    assert all(row.correlation_id is None and row.error == 0 and row.answered_ns >= row.sent_ns for row in rows)
    assert measured.started_ns <= rows[0].sent_ns <= measured.ended_ns


@pytest.mark.clients
def test_every_message_of_a_pair_is_a_row_that_ends_when_it_is_consumed(tmp_path):
    job = {
        "kind": "publish-to-consume",
        "topic": "pairs",
        "pairs": 2,
        "rate_per_s": 400.0,
        "seconds": 0.5,
        "warmup_s": 0.1,
        "hang_up_s": 5.0,
        "record_size": 100,
        "seed": 7,
        "ring": str(tmp_path / "client-0.ring"),
    }
    child = ConfluentChild()
    try:
        with running([BrokerSettings("pipelined", tmp_path / "data", flush="os")]) as (broker,):
            trio.run(prepared, broker.host, broker.port, "pairs", 2, 30.0)
            here = {**job, "address": f"{broker.host}:{broker.port}"}
            child.connect([here])
            child.run(here)
            first = read_client(tmp_path / "client-0.ring")
            child.run(here)
            child.connect([])
    finally:
        child.close()
    second = read_client(tmp_path / "client-0.ring")
    for rows in (first, second):
        assert {row.connection for row in rows} == {0, 1}
        assert all(row.answered_ns > row.sent_ns >= row.intended_ns for row in rows)
        assert {row.measured for row in rows} == {True, False}
    moments = [[row.intended_ns - rows[0].intended_ns for row in rows] for rows in (first, second)]
    assert moments[0] == moments[1]


def test_intended_times_of_pairs_depend_on_the_seed_and_add_up_to_the_rate():
    job = PairJob("", "pairs", 4, 1_000.0, 10.0, 0.0, 0.5, 100, 3, "")
    drawn = [job.moments_ns(pair, began_ns=5) for pair in range(4)]
    assert drawn == [job.moments_ns(pair, began_ns=5) for pair in range(4)]
    assert len(set(map(tuple, drawn))) == 4
    assert sum(map(len, drawn)) == pytest.approx(10_000, rel=0.05)
    assert all(sorted(moments) == moments and moments[-1] < 10 * 10**9 + 5 for moments in drawn)


def test_a_failed_job_is_answered(tmp_path):
    found = subprocess.run(
        python_module("pipeline_broker.measure.experiment.confluent_driver"),
        input=b'{"run": {"kind": "produce", "no": "job"}}\n',
        capture_output=True,
        env=python_environment(),
        timeout=60,
        check=True,
    )
    assert "TypeError" in json.loads(found.stdout)["failed"]
