"""The requests of a broker's trace are sent again at their times."""

import pytest
import trio

from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.recorded import SIZES_MAX, RecordedRequest, drive_recorded, plan, read_trace
from pipeline_broker.measure.load.recorders import RowRecorder
from pipeline_broker.traces.broker_tables import REQUESTS

COLUMNS = [name for name, _ in REQUESTS.columns]


def ring(rows):
    return REQUESTS.header() + b"".join(
        REQUESTS.layout.pack(*(given.get(name, 0) for name in COLUMNS)) for given in rows
    )


def produce(connection, received_ns, size=200, api=0):
    return {"connection": connection, "received_ns": received_ns, "request_bytes": size, "api": api}


def test_produce_requests_are_read_in_the_order_of_their_arrival(tmp_path):
    rows = [produce(9, 700), produce(4, 500, 111), produce(9, 600, api=3), produce(4, 900)]
    (tmp_path / "requests.ring").write_bytes(ring(rows) + b"half a row")
    expected = [RecordedRequest(0, 0, 111), RecordedRequest(1, 200, 200), RecordedRequest(0, 400, 200)]
    assert read_trace(tmp_path) == expected
    assert read_trace(tmp_path / "requests.ring") == expected
    (tmp_path / "requests-1.ring").write_bytes(ring([produce(9, 1000)]))
    assert read_trace(tmp_path) == [*expected, RecordedRequest(1, 500, 200)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "not a trace"),
        (b"PBTRACE1\0\0", "not a trace"),
        (b"PBTRACE1\4\0\0\0{}xx", "header cannot be read"),
        (REQUESTS.header().replace(b"received_ns", b"xxxxxxxx_ns"), "the table requests has no column received_ns"),
        (ring([produce(1, 5, api=1)]), "no Produce request in 1 rows"),
    ],
)
def test_a_trace_that_cannot_be_replayed_gives_a_one_line_error(tmp_path, content, message):
    file = tmp_path / "requests.ring"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ClientError, match=message) as caught:
        read_trace(file)
    assert "\n" not in str(caught.value)


def test_a_replay_can_be_faster_than_the_recording():
    recorded = [RecordedRequest(0, 0, 10), RecordedRequest(1, 1_000, 20), RecordedRequest(0, 4_000, 10)]
    assert plan(recorded, 2.0) == ([[0, 2_000], [500]], [[0, 0], [1]], [10, 20])


def test_many_sizes_are_sent_as_the_nearest_smaller_one():
    recorded = [RecordedRequest(0, it, 100 + it) for it in range(3 * SIZES_MAX)]
    _, (variants,), sizes = plan(recorded, 1.0)
    assert len(sizes) == SIZES_MAX
    assert all(sizes[variant] <= it.size_bytes for variant, it in zip(variants, recorded, strict=True))
    assert max(it.size_bytes - sizes[variant] for variant, it in zip(variants, recorded, strict=True)) <= 3


def test_a_replay_keeps_connections_times_and_sizes(serve_fake):
    recorded = [RecordedRequest(it % 3, it * 2_000_000, 200 + 100 * (it % 2)) for it in range(30)]

    async def main():
        async with serve_fake() as broker:
            options = LoadOptions("127.0.0.1", broker.port)
            return broker, await drive_recorded(options, recorded, 1.0, lambda _: RowRecorder(is_open=True))

    broker, driven = trio.run(main)
    rows = [list(recorder.rows(0)) for recorder in driven.recorders]
    assert [len(it) for it in rows] == [10, 10, 10]
    intended = sorted(row.intended_ns for it in rows for row in it)
    assert [it - intended[0] for it in intended] == [it.offset_ns for it in recorded]
    assert all(row.sent_ns >= row.intended_ns and not row.error for it in rows for row in it)
    sizes = {len(batch) for _, _, batch in broker.produced}
    assert len(sizes) == 2
    assert abs(max(sizes) - min(sizes) - 100) <= 2
