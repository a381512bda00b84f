"""A line of the request log has Kafka's fields and shows no secret."""

import json
import struct

import attrs
import pytest

from pipeline_broker.apis.call import Session
from pipeline_broker.telemetry.request_log_lines import HIDDEN, line_of
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.header import RequestHeader, encode_request_header, response_header
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from stages.request import NO_OP, Close, Request, Send

TOPIC, BROKER, BROKER_LOGGER, UNKNOWN = 2, 4, 8, 16
ENDED_AT = 1_784_000_000.25
FIELDS = [
    "time", "level", "isForwarded", "requestHeader", "request", "response", "connection", "totalTimeMs",
    "requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "throttleTimeMs", "responseQueueTimeMs", "sendTimeMs",
    "securityProtocol", "principal", "listener", "clientInformation",
]  # fmt: skip


@attrs.define
class Connection:
    """A connection as far as the log looks at it."""

    session: Session
    id: str = "127.0.0.1:9092-127.0.0.1:40000-1-0"
    listener: str = "EXTERNAL"


def asked(message, version, *, result=None, answer=None, sequence=5):
    """Return a request with stages of 1, 2, 4, 8 and 16 ms, in their order."""
    header = RequestHeader(type(message).SCHEMA.key, version, 7, "client")
    frame = encode_request_header(header) + b"".join(map(bytes, encode(message, version)))
    session = Session("host", "EXTERNAL", software_name="lib", software_version="2.0", software_since=4)
    request = Request(Connection(session), sequence, frame, 0)
    request.api, request.version = header.api_key, version
    names = ("dequeued_ns", "handled_ns", "completed_ns", "send_started_ns", "sent_ns")
    for name, millis in zip(names, (1, 3, 7, 15, 31), strict=True):
        setattr(request, name, millis * 1_000_000 + 999)
    request.decided_ns = request.handled_ns
    request.result, request.answer = result or Send(b""), answer
    return request


def line(request):
    """As it is written and read again."""
    return json.loads(json.dumps(line_of(request, request.sent_ns, ENDED_AT)))


def test_a_line_has_its_time_and_the_fields_of_kafka_in_their_order():
    """Behaviours 69, 77: the line is JSON, its header names the API, its fields are Kafka's."""
    found = line(asked(MetadataRequest([]), 12, answer=MetadataRequest([])))

    assert list(found) == FIELDS
    assert (found["time"], found["level"]) == ("2026-07-14T03:33:20.250Z", "DEBUG")
    assert found["isForwarded"] is False
    assert found["requestHeader"] == {
        "requestApiKey": 3,
        "requestApiVersion": 12,
        "correlationId": 7,
        "clientId": "client",
        "requestApiKeyName": "METADATA",
    }
    assert found["request"]["topics"] == []
    assert (found["connection"], found["listener"]) == ("127.0.0.1:9092-127.0.0.1:40000-1-0", "EXTERNAL")
    assert (found["securityProtocol"], found["principal"]) == ("PLAINTEXT", "User:ANONYMOUS")
    assert found["clientInformation"] == {"softwareName": "lib", "softwareVersion": "2.0"}


def test_times_are_milliseconds_cut_to_microseconds():
    request = asked(MetadataRequest([]), 12, answer=MetadataRequest([]))
    request.decided_ns += 500_000
    request.throttle_ms = 40
    found = line(request)

    assert found["totalTimeMs"] == 31.0
    stages = ("requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "responseQueueTimeMs", "sendTimeMs")
    assert [found[name] for name in stages] == [1.0, 2.5, 3.5, 8.0, 16.0]
    assert found["throttleTimeMs"] == 40


def test_a_stage_that_a_dropped_request_did_not_pass_took_no_time():
    request = asked(MetadataRequest([]), 12)
    request.result = None
    request.completed_ns = request.send_started_ns = request.sent_ns = 0
    found = json.loads(json.dumps(line_of(request, 9_000_000, ENDED_AT)))

    assert [found[name] for name in ("totalTimeMs", "responseQueueTimeMs", "sendTimeMs")] == [9.0, 0.0, 0.0]
    assert found["response"] == ""


@pytest.mark.parametrize("result", [NO_OP, Close("for a test")], ids=["acks=0", "closed"])
def test_a_request_without_a_response_has_an_empty_one(result):
    assert line(asked(ProduceRequest(None, 0, 1000, []), 9, result=result))["response"] == ""


def test_a_response_without_a_message_is_read_from_its_bytes():
    """The short way of produce makes bytes only."""
    response = ProduceResponse([ProduceResponse.TopicProduceResponse("t", bytes(16), [])])
    parts = [response_header(0, 9, 7), *encode(response, 9)]
    found = line(asked(ProduceRequest(None, -1, 1000, []), 9, result=Send(*parts)))

    assert found["response"]["responses"] == [{"name": "t", "partitionResponses": []}]


def test_the_software_of_a_client_is_known_from_the_next_request_on():
    """Behaviour 2: it is unknown on the very request that tells it."""
    request = ApiVersionsRequest("lib", "2.0")
    software = [
        line(asked(request, 3, answer=ApiVersionsResponse(), sequence=sequence))["clientInformation"]["softwareName"]
        for sequence in (4, 5)
    ]
    assert software == ["unknown", "lib"]


def test_an_unknown_version_of_api_versions_has_a_line():
    """ApiVersions answers any version in the layout of version 0; how its body is laid out is unknown."""
    request = asked(ApiVersionsRequest(), 3, answer=ApiVersionsResponse(error_code=35))
    request.version = 99
    request.frame = struct.pack(">hh", 18, 99) + request.frame[4:]
    found = line(request)

    assert (found["request"], found["response"]) == ("", {"errorCode": 35, "apiKeys": []})


def values_of(resource_type, *names):
    request = IncrementalAlterConfigsRequest
    configs = [request.AlterableConfig(name, 0, "the value") for name in names]
    message = request([request.AlterConfigsResource(resource_type, "1", configs)])
    (resource,) = line(asked(message, 1, answer=message))["request"]["resources"]
    return [config["value"] for config in resource["configs"]]


def test_secret_and_unknown_settings_of_a_broker_are_hidden():
    """Behaviours 66, 67: values that are secrets, or that nobody knows, are not logged; paths and the like are."""
    shown = values_of(BROKER, "ssl.keystore.location", "compression.type", "num.io.threads")
    hidden = values_of(
        BROKER,
        "ssl.key.password",
        "listener.name.external.ssl.keystore.password",
        "listener.name.external.scram-sha-256.sasl.jaas.config",
        "no.such.setting",
        "listener.name.external.no.such.setting",
    )
    assert set(shown) == {"the value"}
    assert set(hidden) == {HIDDEN}


def test_known_settings_of_a_topic_are_shown():
    assert values_of(TOPIC, "compression.type", "retention.ms", "ssl.key.password") == [
        "the value",
        "the value",
        HIDDEN,
    ]


def test_levels_of_loggers_are_shown_and_settings_of_other_resources_hidden():
    assert values_of(BROKER_LOGGER, "anything") == ["the value"]
    assert values_of(UNKNOWN, "retention.ms") == [HIDDEN]


def test_other_requests_are_logged_as_they_are():
    """Behaviour 68: only requests that alter settings are changed for the log."""
    message = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="ssl.key.password")])
    assert line(asked(message, 4, answer=message))["request"]["topics"] == [{"name": "ssl.key.password"}]


def test_salts_and_passwords_of_scram_users_are_hidden():
    request = AlterUserScramCredentialsRequest
    upsertion = request.ScramCredentialUpsertion("alice", 1, 4096, b"the salt", b"the password")
    message = request([request.ScramCredentialDeletion("bob", 2)], [upsertion])
    found = line(asked(message, 0, answer=message))["request"]

    assert found["upsertions"] == [
        {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": HIDDEN, "saltedPassword": HIDDEN}
    ]
    assert found["deletions"] == [{"name": "bob", "mechanism": 2}]


def test_credentials_are_hidden_in_requests_and_responses():
    request = SaslAuthenticateRequest(b"the token")
    found = line(asked(request, 2, answer=SaslAuthenticateResponse(0, None, b"the proof", 1000)))

    assert found["request"] == {"authBytes": HIDDEN}
    assert found["response"]["authBytes"] == HIDDEN
