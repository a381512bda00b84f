"""Requests as the server reports them, and a reader of ring files that knows only docs/reference/trace-format.md."""

import itertools
import json
import struct

import pytest

from stages.committer import Commit, Submission
from stages.request import Request, Send
from stages.timeline import NO_STAMP, STAMPS

FORMATS = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "string": "i"}
NULLS = {"i1": -(2**7), "i2": -(2**15), "i4": -(2**31), "i8": -(2**63), "string": -1}


class Origin:
    """A connection as far as telemetry looks at it."""

    def __init__(self, index):
        self.index = index
        self.id = f"connection-{index}"


class Log:
    def __init__(self, topic, partition):
        self.topic = topic
        self.partition = partition


class Entry:
    def __init__(self, log, base_offset, last_offset):
        self.log = log
        self.base_offset = base_offset
        self.last_offset = last_offset


def _read_ring(path):
    """The header and the rows as dictionaries; fails on a torn row."""
    raw = path.read_bytes()
    assert raw.startswith(b"PBTRACE1")
    (length,) = struct.unpack_from("<I", raw, 8)
    header = json.loads(raw[12 : 12 + length])
    names = [name for name, _ in header["columns"]]
    kinds = [kind for _, kind in header["columns"]]
    rows = struct.iter_unpack("<" + "".join(FORMATS[kind] for kind in kinds), raw[12 + length :])
    decoded = []
    for row in rows:
        values = [None if value == NULLS[kind] else value for value, kind in zip(row, kinds, strict=True)]
        for place, name in enumerate(names):
            if name in header["enums"]:
                values[place] = header["enums"][name][str(values[place])]
        decoded.append(dict(zip(names, values, strict=True)))
    return header, decoded


def _frame(api, version, client_id, body):
    return struct.pack(">hhih", api, version, 7, len(client_id)) + client_id + body


def _answered(
    sequence=0, *, api=0, version=9, index=3, stamps=None, committed=True, body=b"\0" + bytes(20), result=None
):
    """A request that went all the way, with stamps 1 ms apart, or those given (microseconds, in their order)."""
    request = Request(Origin(index), sequence, _frame(api, version, b"test", body), 0)
    micros = stamps or list(itertools.accumulate([1000] * 9, initial=1000))
    for name, value in zip([stamp for stamp in STAMPS if stamp != "decided_ns"], micros, strict=True):
        setattr(request, name, value * 1000)
    request.decided_ns = request.handled_ns
    if not committed:
        request.submitted_ns = request.durable_ns = NO_STAMP
    else:
        request.commit = 11
    request.api, request.version, request.correlation_id, request.acks = api, version, 7, -1
    request.queue, request.depth, request.response_bytes = 2, 1, 99
    request.result = result or Send(b"x")
    return request


def _commit(number, entries_of_requests):
    """A commit of (request or None, entries) pairs."""
    commit = Commit(number)
    commit.submissions = [Submission(entries, request=request) for request, entries in entries_of_requests]
    commit.entries = [entry for submission in commit.submissions for entry in submission.entries]
    commit.size_bytes = 100 * len(commit.entries)
    commit.started_ns, commit.written_ns, commit.durable_ns, commit.completed_ns = 10, 20, 3_000_020, 3_000_040
    commit.is_on_loop = True
    return commit


@pytest.fixture
def read_ring():
    return _read_ring


@pytest.fixture
def answered():
    return _answered


@pytest.fixture
def make_commit():
    return _commit


@pytest.fixture
def make_entry():
    return lambda topic, partition, base, last: Entry(Log(topic, partition), base, last)
