"""Clients and names of requests: addresses with ports, bounded texts, decoding on demand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.apis.request_names import names_of
from pipeline_broker.base.steps import finished
from pipeline_broker.dashboard.origins import (
    NAME_CHARACTERS_MAX,
    NAMES_SHOWN_MAX,
    address_of,
    cut,
    origin_of,
    some_of,
)
from pipeline_broker.dashboard.pipeline_view import REQUESTS_SHOWN_MAX, request_events
from pipeline_broker.dashboard.watched_pipeline import WatchedPipeline
from pipeline_broker.telemetry.recent_requests import RequestNames
from pipeline_broker.web.messages import event
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from tests.apis.groups.group_desk import GroupDesk

EVENT_BYTES_MAX = 256 * 1024
"""The limit in docs/guides/dashboard.md."""


class Connection:
    index = 0

    def __init__(self, connection_id="127.0.0.1:9092-10.0.0.1:51234-0-7", peer="10.0.0.1"):
        self.id, self.peer = connection_id, peer


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        (Connection(), "10.0.0.1:51234"),
        (Connection("::1:9092-fe80::1:51234-12-345", "fe80::1"), "[fe80::1]:51234"),
        (Connection("PLAINTEXT-memory-0-3", "memory"), "memory"),
    ],
)
def test_the_remote_port_is_the_one_in_the_id_of_a_connection(connection, address):
    assert address_of(connection) == address


@given(st.lists(st.text(max_size=300), max_size=9))
def test_the_first_names_are_shown_and_cut(names):
    shown = some_of(names)

    assert len(shown) <= NAMES_SHOWN_MAX + 1
    assert max(map(len, shown), default=0) <= NAME_CHARACTERS_MAX
    if len(set(names)) <= NAMES_SHOWN_MAX:
        assert shown == [cut(name) for name in sorted(set(names))]
    else:
        assert shown[-1] == f"and {len(set(names)) - NAMES_SHOWN_MAX} more"


def frame(client_id, message, version):
    header = RequestHeader(type(message).SCHEMA.key, version, 1, client_id)
    return b"".join([encode_request_header(header), *map(bytes, encode(message, version))])


def test_a_request_has_its_client_address_and_topics(request_ended):
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=1, timestamp=-1)
    message = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic("orders", [partition])])
    request = request_ended(api=2, version=5, frame=frame("shop", message, 5), connection=0)
    request.connection = Connection()
    watched = WatchedPipeline({2}, 0, lambda ended: names_of(GroupDesk().broker, ended))
    watched.request_ended(request)
    watched.keeps_origins = True
    watched.request_ended(request)
    before, after = finished(request_events(watched.take(10**9), {2: "ListOffsets"}))

    assert (before["client"], before["from"], before["topics"]) == ("", "", [])
    assert (after["client"], after["from"], after["topics"]) == ("shop", "10.0.0.1:51234", ["orders"])


def test_names_are_read_on_demand(request_ended):
    read = []
    request = request_ended(frame=bytes(20))
    request.connection = Connection()
    origin = origin_of(request, lambda _: lambda: read.append(1) or RequestNames(groups=("g",)))

    assert read == []
    assert origin.names().groups == ("g",)


def test_an_event_of_hostile_requests_has_a_bounded_size(request_ended):
    name = "\u202e" * 30_000
    names = RequestNames(groups=(name,) * 9, partitions=tuple((f"{number}{name}", 0) for number in range(99)))
    watched = WatchedPipeline(range(9), 0, lambda _: lambda: names)
    watched.keeps_origins = True
    for number in range(500):
        request = request_ended(api=number % 9, frame=b"\0" * 8 + b"\x7f\xff" + b"\x01" * 40_000)
        request.connection = Connection()
        watched.request_ended(request)
    shown = finished(request_events(watched.take(10**9), {}))

    assert len(shown) == REQUESTS_SHOWN_MAX
    assert len(event(shown, "requests")) < EVENT_BYTES_MAX
