"""Headers that are understood or not: who gets an answer, and who is disconnected without one.

Every request comes over a connection of a whole server, in both modes, behind one that is answered: the answer to the
first must arrive, and nothing after it. Parsing knows no mode, so the facts are the same in both.
"""

import struct

import pytest
import trio
from trio.testing import MockClock

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import decode
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.registry import ApiKey
from stages.mode import MODES
from stages.request import Close
from stages.testing.memory_server import open_memory_server
from tests.bad_input.raw_client import answer_of, batch_of, frame_of, produce_answers, produce_request

both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
NULL_CLIENT_ID = -1
REMOVED_KEYS = (4, 5, 6, 7)
SECONDS_MAX = 60


class Recorder:
    """An application that keeps why requests were refused."""

    def __init__(self, dispatcher):
        self.failed, self.connection_closed = dispatcher.failed, dispatcher.connection_closed
        self.dispatcher = dispatcher
        self.reasons = []

    def handle(self, request):
        result = self.dispatcher.handle(request)
        if isinstance(result, Close):
            self.reasons.append(result.reason)
        return result


def header(key, version, client_id_length=NULL_CLIENT_ID):
    return struct.pack(">hhih", key, version, 1, client_id_length)


def answers_to(mode, application, *frames):
    """Each frame's answer, sent one after the other; None where the connection was closed instead."""
    answers = []

    async def main():
        async with open_memory_server(mode, application) as memory:
            client = await memory.connect()
            with trio.fail_after(SECONDS_MAX):
                for frame in frames:
                    client.send(frame)
                    try:
                        answers.append(await client.receive())
                    except trio.EndOfChannel:
                        answers.append(None)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return answers


def refusal_of(mode, dispatcher, frame):
    """Why a frame is refused: an earlier request is answered, this one closes the connection without a byte."""
    recorder = Recorder(dispatcher)
    first, second = answers_to(mode, recorder, frame_of(ApiVersionsRequest(), 0), frame)
    assert first is not None
    assert second is None
    (reason,) = recorder.reasons
    return reason


@both_modes
@pytest.mark.parametrize("key", [ApiKey.VOTE, ApiKey.FETCH_SNAPSHOT, ApiKey.BROKER_REGISTRATION], ids=str)
def test_an_api_of_controllers_is_refused_on_a_listener_for_clients(dispatcher, mode, key):
    """Behaviour 62: it exists, this listener does not serve it; the reason names it."""
    assert refusal_of(mode, dispatcher, header(key, 0) + bytes(64)) == f"API {int(key)} version 0 is not served"


@both_modes
@pytest.mark.parametrize("key", REMOVED_KEYS)
def test_an_api_that_was_removed_is_refused(dispatcher, mode, key):
    """Behaviour 63: LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown left the protocol with 4.0."""
    assert refusal_of(mode, dispatcher, header(key, 0) + bytes(64)) == f"API {key} version 0 is not served"


@both_modes
@pytest.mark.parametrize("version", range(4))
def test_a_version_that_was_removed_is_refused(dispatcher, mode, version):
    """Behaviour 64: Fetch 0 to 3; there is no error response, because none of that version could be read."""
    assert refusal_of(mode, dispatcher, header(ApiKey.FETCH, version) + bytes(64)).endswith("is not served")


@both_modes
@pytest.mark.parametrize("version", range(3))
def test_produce_0_to_2_are_advertised_and_refused(dispatcher, mode, version):
    """Behaviour 65: librdkafka before 2.0 would otherwise take the broker for one without Produce."""
    answered = decode(ApiVersionsResponse, 0, answers_to(mode, dispatcher, frame_of(ApiVersionsRequest(), 0))[0], 4)[0]
    (advertised,) = [one for one in answered.api_keys if one.api_key == ApiKey.PRODUCE]
    assert advertised.min_version <= version < SERVED[ApiKey.PRODUCE].versions[0]
    assert refusal_of(mode, dispatcher, header(ApiKey.PRODUCE, version) + bytes(64)).endswith("is not served")


@both_modes
@pytest.mark.parametrize("client_id", [None, ""], ids=["null", "empty"])
def test_a_produce_request_without_a_client_id_is_understood(dispatcher, mode, client_id):
    """Behaviour 71: it is answered as any other; here with what is said to a topic that does not exist."""
    request = produce_request((0, batch_of(b"nameless")), topic="missing")
    (answer,) = answers_to(mode, dispatcher, frame_of(request, 9, client_id=client_id))
    assert produce_answers(answer_of(request, 9, answer)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@both_modes
def test_a_header_without_a_body_disconnects(dispatcher, mode):
    """Behaviour 72: a Produce request that ends with its header."""
    assert refusal_of(mode, dispatcher, header(ApiKey.PRODUCE, 7)).startswith("malformed request")


@both_modes
def test_a_negative_api_key_disconnects(dispatcher, mode):
    """Behaviour 73: key -1, with what would be a whole Produce request behind it."""
    frame = frame_of(produce_request((0, batch_of(b"x"))), 9)
    assert refusal_of(mode, dispatcher, struct.pack(">h", -1) + frame[2:]).startswith("malformed header")


@both_modes
def test_a_negative_version_disconnects(dispatcher, mode):
    """Behaviour 74: version -1 of an API other than ApiVersions, which has an answer for every version."""
    frame = frame_of(produce_request((0, batch_of(b"x"))), 9)
    wrong = frame[:2] + struct.pack(">h", -1) + frame[4:]
    assert refusal_of(mode, dispatcher, wrong) == "API 0 version -1 is not served"
    (answer,) = answers_to(mode, dispatcher, header(ApiKey.API_VERSIONS, -1))
    assert decode(ApiVersionsResponse, 0, answer, 4)[0].error_code == ErrorCode.UNSUPPORTED_VERSION


@both_modes
@pytest.mark.parametrize("size", [0, 1, 2, 4, 8, 9], ids=str)
def test_a_header_that_is_cut_off_disconnects(dispatcher, mode, size):
    """Behaviour 75: whatever of it is there, down to an empty frame."""
    assert refusal_of(mode, dispatcher, header(ApiKey.PRODUCE, 9)[:size]).startswith("malformed header")


@both_modes
@pytest.mark.parametrize("length", [-2, 2**15 - 1, 3], ids=["negative", "longest", "one too long"])
def test_a_client_id_that_is_not_there_disconnects(dispatcher, mode, length):
    """Behaviour 75: the length that is declared for it is not what follows."""
    assert refusal_of(mode, dispatcher, header(ApiKey.PRODUCE, 7, length) + b"id").startswith("malformed header")
