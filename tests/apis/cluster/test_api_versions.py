"""Expected values are those of Apache Kafka."""

import struct

import pytest

from pipeline_broker.apis.cluster.api_versions import CLIENT_ID_CHARACTERS_MAX, SOFTWARE_CHARACTERS_MAX
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.codec import decode, versions_of
from pipeline_broker.wire.header import RequestHeader, encode_request_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.groups.heartbeat import HeartbeatRequest
from stages.request import Close, Request
from tests.apis.desk import Desk

KEY = ApiVersionsRequest.SCHEMA.key


@pytest.mark.parametrize("version", versions_of(ApiVersionsRequest))
def test_all_served_apis_are_advertised(version):
    named = {"client_software_name": "a-b.c", "client_software_version": "1.0"} if version >= 3 else {}
    response = Desk("pipeline.telemetry.file=pushed.json").ask(ApiVersionsRequest(**named), version)
    ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert response.error_code == 0
    assert ranges == {key: served.advertised for key, served in SERVED.items()}
    assert ranges[0] == (0, 13)  # older librdkafka needs the 0, although versions below 3 are rejected


@pytest.mark.parametrize(("name", "software"), [("", ""), ("-a", "1"), ("a-", "1"), ("a b", "1"), ("a", "")])
def test_a_malformed_software_name_is_refused(name, software):
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
    response = Desk().ask(request, 3)
    assert (response.error_code, response.api_keys) == (42, [])


def test_the_software_is_remembered_with_the_connection():
    """Behaviour 2."""
    desk = Desk()
    desk.ask(ApiVersionsRequest(client_software_name="lib", client_software_version="2.1"), 4)
    session = desk.connection.session
    assert (session.software_name, session.software_version) == ("lib", "2.1")
    assert session.client_id == "desk"
    desk.client_id = "x" * 1_000
    desk.ask(ApiVersionsRequest(client_software_name="lib", client_software_version="2.1"), 4)
    assert session.client_id == "x" * CLIENT_ID_CHARACTERS_MAX
    desk.client_id = None
    desk.ask(ApiVersionsRequest(client_software_name="lib", client_software_version="2.1"), 4)
    assert session.client_id is None


def handle(desk, frame):
    return desk.dispatcher.handle(Request(desk.connection, 0, frame, 0))


def test_a_version_that_is_not_served_is_answered_in_the_layout_of_version_0():
    frame = encode_request_header(RequestHeader(KEY, 99, 7, "x"))
    answer = b"".join(map(bytes, handle(Desk(), frame).parts))
    assert struct.unpack_from(">i", answer) == (7,)
    response, end = decode(ApiVersionsResponse, 0, answer, 4)
    assert end == len(answer)
    assert response.error_code == 35
    assert [(each.api_key, each.min_version, each.max_version) for each in response.api_keys] == [(KEY, 0, 5)]


@pytest.mark.parametrize(("key", "version"), [(HeartbeatRequest.SCHEMA.key, 99), (17, 0), (0, 2), (22, 6)])
def test_an_unserved_api_closes_the_connection(key, version):
    assert isinstance(handle(Desk(), encode_request_header(RequestHeader(key, version, 1, "x"))), Close)


def test_a_long_software_name_is_truncated():
    desk = Desk()
    desk.ask(ApiVersionsRequest(client_software_name="l" * 5_000, client_software_version="2" * 5_000), 4)
    session = desk.connection.session
    assert session.software_name == "l" * SOFTWARE_CHARACTERS_MAX
    assert session.software_version == "2" * SOFTWARE_CHARACTERS_MAX
