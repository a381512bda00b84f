"""Fuzz the input of viewers, scrapers, operators and clients that push metrics.

The input is filters, requests over HTTP, operator commands, pushes and batches.

A case is a kind and its bytes. The work on it is watched: processor time, memory and opened files.
"""

import contextlib
import http
import json

import h11  # noqa: F401 - so that no case loads it
import trio
import trio.testing
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.dashboard import routes
from pipeline_broker.dashboard.record_filter import BadFilterError, RecordFilter
from pipeline_broker.dashboard.record_reader import PageReader
from pipeline_broker.dashboard.seeking import ends_of
from pipeline_broker.node.operator_commands import answer_of, fault_commands
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.telemetry.client_metrics_file import POINTS_MAX, _first
from pipeline_broker.telemetry.pushed_metrics import MalformedMetricsError, read_metrics
from pipeline_broker.web.http_server import HttpLimits, serve_connection
from pipeline_broker.web.messages import BadRequestError, json_answer, json_steps, refusal
from pipeline_broker.web.strangers import SameOriginCheck
from tests.dashboard.test_records import FakeLog
from tests.faults.test_commands import RULE, Broker
from tests.fuzz.watchdog import FUZZED, ending, finished_in_turns, repeated, watched
from tests.node.test_control_commands import Observed, heartbeat

POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"
LIMITS = HttpLimits(connections_max=1, response_seconds=10)
EDGE_BYTES = 64 << 20
# Of the values in a batch: more than a page shows of any, and still built in a second.
BATCH_BYTES_MAX = 64 << 20
RECORD = json.dumps({"a": {"a": [1, "a" * 100]}}).encode()
PLACE = SameOriginCheck(host="127.0.0.1", port=80)
HEAD_PARTS = (
    b"GET / HTTP/1.1\r\n",
    b"POST /api/changes/produce HTTP/1.1\r\n",
    b"HEAD /metrics HTTP/1.0\r\n",
    b"Host: 127.0.0.1:80\r\n",
    b"Host: evil\r\n",
    b"Origin: null\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"a:\r\n",
    b" folded\r\n",
    b"9",
    b"\r\n",
    b"\r\n\r\n",
    b"1\r\nx\r\n",
    b"[",
    b"?a=1&",
    b"%ff",
    b"\0",
    b"x",
)
PUSH_PARTS = (
    b"\x0a\x02",
    b"\x12\x04",
    b"\x0a\x80\x01",
    b"\x3a\x03",
    b"\x2a",
    b"\x21" + bytes(8),
    b"\x31",
    b"\xff" * 10,
    b"a",
    b"\x08\x01",
)

COMMANDS = [
    "requests",
    "faults add",
    "faults list",
    "faults remove",
    "faults clear",
    "faults release",
    "faults expire",
    "faults rebalance",
    "no such",
]
ARGUMENTS = [
    "arguments",
    "number",
    "group",
    "member",
    "api",
    "topic",
    "partition",
    "client_id",
    "count",
    "timeout",
    "x",
]

CORPUS = {
    "a time beyond a float": ("command", b'{"command": "requests", "api": "Fetch", "timeout": 1' + b"0" * 400 + b"}"),
    "a command of brackets": ("command", b"[" * 60_000),
    "a number of 5,000 digits": ("command", b'{"command": "faults remove", "number": ' + b"9" * 5_000 + b"}"),
    "a filter that backtracked": ("filter", b" " * 62 + b"=" + b" " * 62 + b"x" + b" " * 62 + b"\nb"),
    "a head of 4,000 lines": ("http", b"GET / HTTP/1.1\r\nHost: h\r\n" + b"a:\r\n" * 4_000 + b"\r\n"),
    "chunks of one byte": ("http", POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 9_000),
    "a length of 5,000 digits": ("http", POST + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n"),
    "a body of brackets": ("http", POST + b"Content-Length: 16000\r\n\r\n" + b"[" * 16_000),
    "a push of attributes": ("push", b"\x0a\x84\xa7\x12\x0a\x80\xa7\x12" + b"\x0a\x06\x0a\x01a\x12\x01a" * 37_376),
    "a push of varints": ("push", b"\x08\x01" * 400_000),
    "a double of three bytes": ("push", b"\x0a\x0b\x0a\x09\x0a\x07\x0a\x00\x12\x05\x22\x03abc"),
    "a dense batch": ("batch", (200_000).to_bytes(4, "big") + b"\x04"),
    "a bomb": ("batch", (1).to_bytes(4, "big") + b"\x04" + b"\xff"),
}


def _try_filter(data):
    query = dict.fromkeys(("key", "value", "header", "json", "before", "offset", "time"), data.decode("latin-1"))
    log = FakeLog([build_batch([NewRecord(RECORD, RECORD, 1_000, ((data.decode("latin-1"), RECORD),))])])
    for name in query:
        with watched(f"the filter {name}", len(data)), contextlib.suppress(BadFilterError, BadRequestError):
            one = {name: query[name]}
            ends_of(_Query(one))
            _read(log, RecordFilter.from_query(one))


class _Query:
    def __init__(self, query):
        self.query = query


def _read(log, wanted):
    reader = PageReader({0: log}, {0: 0}, wanted, 100)
    while (step := reader.next_work()) is not None:
        reader.take(step[0], finished_in_turns("a piece of a page", step[1]))
    return reader.page


async def _handle(request):
    if PLACE.refusal(request.headers) is not None:
        return refusal(http.HTTPStatus.FORBIDDEN, "a stranger")
    routes.find_route(request.method, request.path)
    request.integer("a", 0)
    if request.method == "POST":
        request.json()
    return json_answer([request.path])


def _try_http(data):
    async def exchange():
        client, server = trio.testing.memory_stream_pair()
        kept = ByteBudget(EDGE_BYTES).keep("connection", 0, lambda: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_connection, server, _handle, LIMITS, kept)
            await client.send_all(data)
            await client.send_eof()
            received = b"".join([bytes(part) async for part in client])
        assert received == b"" or received.startswith(b"HTTP/1.1 "), received[:100]
        assert not received.startswith(b"HTTP/1.1 500"), "a handler failed"

    with watched("a request over HTTP", len(data)):
        trio.run(exchange, clock=trio.testing.MockClock(autojump_threshold=0))


def _try_command(data):
    observed = Observed()
    observed.end(heartbeat())
    commands = fault_commands(Broker()) | {"requests": observed.commands["requests"]}
    with watched("a command", len(data)):
        answer = trio.run(answer_of, data, commands, (), clock=trio.testing.MockClock(autojump_threshold=0))
    found = json.loads(answer.text)
    assert answer.is_refusal == ("error" in found), found
    assert "unexpectedly" not in found.get("error", ""), found
    assert len(found.get("error", "").splitlines()) <= 1, found


def _try_push(data):
    # In a thread that gives the interpreter away: what counts is that it ends, and how large it is.
    with watched("a push", len(data), seconds_max=0.5), contextlib.suppress(MalformedMetricsError):
        lines = "".join(_first(read_metrics(data, POINTS_MAX)))
        assert len(lines) < 300_000
        json.loads(f"[{','.join(lines.splitlines())}]", parse_constant=_refuse)


def _refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def _try_batch(data):
    """A number of records, a codec and what is in each: it may be far larger than what is stored."""
    count, codec = int.from_bytes(data[:4], "big") % 300_000, data[4] % 5 if len(data) > 4 else 0
    value = (data[5:] or b"") * (1 << 20 if data[5:] == b"\xff" else 1)
    count = max(1, min(count, BATCH_BYTES_MAX // max(1, len(value))))
    batch = build_batch([NewRecord(value, None, 1_000)] * count, compression=codec)
    log = FakeLog([batch, batch])
    with watched("a page of records", len(batch), seconds_max=2, per_byte_max=100_000):
        page = _read(log, RecordFilter(value=b"never"))
        finished_in_turns("the JSON of a page", json_steps(page.as_json()))
    assert page.examined <= 5_000 or count <= 5_000


KINDS = {"filter": _try_filter, "http": _try_http, "command": _try_command, "push": _try_push, "batch": _try_batch}


@repeated
def run_one(case):
    """Try a case; raises what a step should not do."""
    kind, data = case
    with ending():
        KINDS[kind](data)


def _runs(parts, size_max):
    """Parts, each again and again."""
    runs = st.lists(st.tuples(st.sampled_from(parts), st.integers(1, 200)), max_size=8)
    return runs.map(lambda found: b"".join(part * times for part, times in found)[:size_max])


def _of_few_records(data):
    return bytes((0, 0, data[0] % 16)) + data


_VALUES = st.sampled_from(
    [
        None,
        True,
        0,
        1,
        -1,
        1.5,
        1e308,
        10**400,
        "",
        "g",
        "Heartbeat",
        "5ms",
        "9" * 400 + "s",
        [],
        {},
        RULE,
        ["x=1"],
        [1],
    ]
)


def _command(name, arguments):
    return json.dumps({"command": name, **arguments}).encode()


CASES = st.one_of(
    st.tuples(
        st.just("command"),
        st.builds(_command, st.sampled_from(COMMANDS), st.dictionaries(st.sampled_from(ARGUMENTS), _VALUES, max_size=4))
        | st.binary(max_size=300),
    ),
    st.tuples(st.just("filter"), _runs([bytes([each]) for each in b" a.=<>!\n\xe9"], 512)),
    st.tuples(st.just("http"), _runs(HEAD_PARTS, 40_000) | st.binary(max_size=300)),
    st.tuples(st.just("push"), _runs(PUSH_PARTS, 40_000) | st.binary(max_size=300)),
    st.tuples(st.just("batch"), st.binary(min_size=3, max_size=40).map(_of_few_records)),
)


@examples(FUZZED)
@given(CASES)
def fuzz(case):
    run_one(case)
