"""The trace files and the metrics of a server are consistent."""

import struct
from itertools import pairwise

import pytest
import trio

from pipeline_broker.base.steps import finished
from pipeline_broker.telemetry.fan_out import FanOut
from pipeline_broker.telemetry.measurements import Measurements
from pipeline_broker.telemetry.trace_files import TraceFiles
from stages.commit_storage import CommitStorage
from stages.listener import open_listener
from stages.mode import CLASSIC, PIPELINED
from stages.mute import MuteReason
from stages.request import NO_OP, Close, Pending, Send, go_on
from stages.socket_server import SocketServer
from stages.timeline import STAMPS

CLIENTS, REQUESTS = 3, 40
VERSION = 4
PRODUCE, NO_ANSWER, ECHO, STEPS, CLOSE = 0, 1, 2, 3, 4
APIS = (PRODUCE, NO_ANSWER, ECHO, STEPS)
HEADER = struct.Struct(">hhih")
ORDER = [stamp for stamp in STAMPS if stamp not in {"submitted_ns", "durable_ns"}]


class Application:
    """An application that does what the first number of a frame requests."""

    def __init__(self, make_entry):
        self._make_entry = make_entry
        self._offset = 0

    def handle(self, request):
        request.api, request.version, request.correlation_id, _ = HEADER.unpack_from(request.frame)
        if request.api == CLOSE:
            return Close("asked to")
        if request.api == ECHO:
            return Send(b"echo")
        if request.api == STEPS:
            return go_on(self._steps())
        result = Send(b"written") if request.api == PRODUCE else NO_OP
        self._offset += 1
        return Pending([self._make_entry("topic", 0, self._offset, self._offset)], result)

    def _steps(self):
        for _ in range(3):
            yield None
        return Send(b"done")

    def failed(self, request, error):
        raise AssertionError(request) from error

    def connection_closed(self, session):
        pass


class Storage(CommitStorage):
    """Durable at once."""

    def write(self, entries):
        return None

    def sync(self, ticket):
        pass

    def key_of(self, entry):
        return entry.log.partition

    def size_of(self, entry):
        return 10


async def client(port):
    """Send everything at once, then read until the server closes."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        apis = [*APIS * (REQUESTS // len(APIS)), CLOSE]
        frames = [HEADER.pack(api, VERSION, number, 0) for number, api in enumerate(apis)]
        await stream.send_all(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        async for _ in stream:
            pass


@pytest.fixture(params=[PIPELINED, CLASSIC], ids=lambda mode: mode.name)
def trace(request, tmp_path, make_entry):
    """The directory of a trace, and the metrics of the same run."""
    files = TraceFiles(tmp_path, {reason.value: reason.name.lower() for reason in MuteReason})
    metrics = Measurements({PRODUCE: "Produce", NO_ANSWER: "NoAnswer", ECHO: "Echo", STEPS: "Steps"}, request.param)
    server = SocketServer(request.param, Application(make_entry), Storage(), timeline=FanOut((files, metrics)))

    async def main():
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                listener = open_listener("TEST", "127.0.0.1", 0)
                await nursery.start(server.run, [listener])
                async with trio.open_nursery() as clients:
                    for _ in range(CLIENTS):
                        clients.start_soon(client, listener.port)
                server.stop()

    trio.run(main)
    files.close()
    finished(metrics.drain(1))
    return tmp_path, metrics


def test_requests_commits_and_appends_of_a_server_fit_together(trace, read_ring):
    directory, _ = trace
    requests = read_ring(directory / "requests.ring")[1]
    commits = {row["commit"]: row for row in read_ring(directory / "commits.ring")[1]}
    appends = read_ring(directory / "appends.ring")[1]
    written = [row for row in requests if row["api"] in {PRODUCE, NO_ANSWER}]

    assert len(requests) == CLIENTS * (REQUESTS + 1)
    assert {row["outcome"] for row in requests} == {"send", "noop", "close"}
    for row in requests:
        stamps = [row[name] for name in ORDER]
        assert stamps == sorted(stamps), row
        assert (row["commit"] is None) == (row["api"] in {ECHO, STEPS, CLOSE})
    assert sorted((row["connection"], row["sequence"], row["commit"]) for row in appends) == sorted(
        (row["connection"], row["sequence"], row["commit"]) for row in written
    )
    assert sum(commit["entries"] for commit in commits.values()) == len(appends)
    for row in written:
        commit = commits[row["commit"]]
        assert row["submitted_ns"] <= commit["started_ns"] <= commit["written_ns"] <= commit["durable_ns"]
        assert commit["durable_ns"] == row["durable_ns"] <= row["completed_ns"] <= commit["completed_ns"]


def test_the_later_steps_of_a_request_are_separate_from_its_waits(trace, read_ring):
    """It was decided when its last step was done; between its steps other requests had their turns."""
    directory, _ = trace
    for row in read_ring(directory / "requests.ring")[1]:
        assert (row["decided_ns"] > row["handled_ns"]) == (row["api"] == STEPS), row


def test_responses_were_released_in_the_order_of_requests(trace, read_ring):
    directory, _ = trace
    requests = read_ring(directory / "requests.ring")[1]
    for connection in range(CLIENTS):
        rows = sorted((row for row in requests if row["connection"] == connection), key=lambda row: row["sequence"])
        assert [row["sequence"] for row in rows] == list(range(len(rows)))
        assert all(one["released_ns"] <= other["released_ns"] for one, other in pairwise(rows))


def test_the_metrics_count_what_the_trace_has(trace, read_ring):
    directory, metrics = trace
    requests = read_ring(directory / "requests.ring")[1]
    families = {
        family.name: family
        for family in (*metrics.requests.families(), *metrics.commits.families())
        if family is not None
    }
    counted = {
        dict(sample.labels)["request"]: sample.value
        for sample in families["kafka_network_requestmetrics_requests_total"].samples
    }
    number_of = {name: sum(row["api"] == api for row in requests) for name, api in (("Produce", 0), ("Echo", 2))}

    assert {name: counted[name] for name in number_of} == number_of
    assert [sample.value for sample in families["pipeline_broker_commit_entries"].samples if sample.suffix] == [
        len(read_ring(directory / "commits.ring")[1]),
        len(read_ring(directory / "appends.ring")[1]),
    ]
