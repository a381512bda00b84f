"""SaslHandshake after authentication, or on a listener without SASL: refused, and the connection stays open.

Before authentication, `apis/security/authentication.py` handles the request.
"""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from stages.request import Send


def handle(call: Call, request: SaslHandshakeRequest) -> Send:
    return call.refuse(ErrorCode.ILLEGAL_SASL_STATE)
