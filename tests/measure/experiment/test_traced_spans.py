"""The spans of an experiment join the client's and the broker's view of a request by its timestamps."""

import json

import pytest

from pipeline_broker.measure.experiment.traced_spans import REQUESTS_OF_RUN_MAX, spans_of_experiment
from pipeline_broker.traces.broker_tables import REQUESTS
from pipeline_broker.traces.client_rows import ClientRow, write_client
from pipeline_broker.traces.ring_file import write
from stages.timeline import STAMPS

GAP_NS = 1000
REQUEST_NS = 20 * GAP_NS


def began_ns(connection, number):
    return 1_000_000 + (connection * 7 + number * 5) % 20 * GAP_NS + number * REQUEST_NS * 3


def written(folder, connections, requests, *, names, measured_from=0, traced=True):
    """Write a run; `names` maps the broker's connections to the client's numbers."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"traced": traced, "mode": "pipelined", "run": 3, "client": "raw"}))
    rows, seen = [], []
    for number in range(requests):
        for connection in range(connections):
            first = began_ns(connection, number)
            values = dict.fromkeys((name for name, _ in REQUESTS.columns), 0)
            values |= {"connection": connection, "sequence": number, "correlation_id": number}
            values |= {stamp: first + place * GAP_NS for place, stamp in enumerate(STAMPS, start=1)}
            rows.append(tuple(values.values()))
            answered_ns = first + (len(STAMPS) + 1) * GAP_NS
            is_measured = number >= measured_from
            seen.append(ClientRow(names[connection], number, number, None, first, answered_ns, 0, is_measured))
    write(folder / "requests.ring", REQUESTS, rows)
    write_client(folder / "client-0.ring", seen)


@pytest.mark.parametrize("names", [(0, 1, 2), (2, 0, 1)])
def test_a_connection_of_the_client_is_found_by_its_times(names, tmp_path):
    written(tmp_path / "run-00001", 3, 10, names=names)
    found = list(spans_of_experiment(tmp_path))
    assert len(found) == 30
    assert all(span.client.connection == names[span.connection] for span in found)
    assert all(span.client.sent_ns < span.stamps.received_ns < span.client.answered_ns for span in found)
    assert found[0].attributes == {"pipeline.mode": "pipelined", "pipeline.run": 3, "pipeline.client": "raw"}


def test_a_run_has_its_first_measured_requests(tmp_path):
    written(tmp_path / "run-00001", 1, REQUESTS_OF_RUN_MAX + 50, names=(0,), measured_from=20)
    found = list(spans_of_experiment(tmp_path))
    assert [span.sequence for span in found] == list(range(20, 20 + REQUESTS_OF_RUN_MAX))


def test_untraced_and_incomplete_runs_are_skipped(tmp_path):
    written(tmp_path / "run-00001", 1, 3, names=(0,), traced=False)
    written(tmp_path / "run-00002", 1, 3, names=(0,))
    (tmp_path / "run-00002" / "run.json").unlink()
    written(tmp_path / "run-00003", 1, 3, names=(0,))
    assert len(list(spans_of_experiment(tmp_path))) == 3
