"""SaslHandshake as a request: too late, or on a listener that asks for no proof.

The one that counts is part of the conversation before requests are served; see `apis/security/authentication.py`.
"""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from stages.request import Send


def handle(call: Call, request: SaslHandshakeRequest) -> Send:
    """Refuse it; the connection stays usable."""
    return call.refuse(ErrorCode.ILLEGAL_SASL_STATE)
