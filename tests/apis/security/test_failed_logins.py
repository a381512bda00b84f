"""Each failed login is reported once to the counter of failures; nothing else is."""

import pytest

from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from stages.authentication import Conversation
from tests.apis.security.test_authentication import VERSIONS, Talk


@pytest.fixture
def talk():
    return Talk()


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ((SaslHandshakeRequest("PLAIN"), SaslAuthenticateRequest(b"\0alice\0wrong")), ("alice", "PLAIN")),
        ((SaslHandshakeRequest("PLAIN"), SaslAuthenticateRequest(b"")), ("", "PLAIN")),
        ((SaslHandshakeRequest("PLAIN"), VERSIONS), ("", "PLAIN")),
        ((SaslHandshakeRequest("<script>"),), ("", "")),
        ((MetadataRequest([]),), ("", "")),
    ],
)
def test_a_failure_is_reported_once_with_user_and_mechanism_if_known(talk, frames, told):
    for frame in frames:
        conversation, _ = talk.ask(frame, 1)
    assert conversation is Conversation.FAILED
    ((name, mechanism, reason),) = talk.failures
    assert (name, mechanism) == told
    assert reason


def test_a_successful_login_is_not_reported(talk):
    talk.login()
    assert talk.failures == []
