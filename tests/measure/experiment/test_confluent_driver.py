"""The child that runs confluent-kafka answers every job with one line, also one that fails."""

import json
import subprocess

import pytest

from pipeline_broker.measure.experiment.broker_process import (
    BrokerSettings,
    ExperimentError,
    python_environment,
    python_module,
    running,
)
from pipeline_broker.measure.experiment.drive import ConfluentChild
from pipeline_broker.traces.client_rows import read_client


@pytest.mark.clients
def test_every_message_is_a_row_with_its_delivery_report(tmp_path):
    job = {
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


def test_a_failed_job_is_answered(tmp_path):
    found = subprocess.run(
        python_module("pipeline_broker.measure.experiment.confluent_driver"),
        input=b'{"run": {"no": "job"}}\n',
        capture_output=True,
        env=python_environment(),
        timeout=60,
        check=True,
    )
    assert "TypeError" in json.loads(found.stdout)["failed"]
