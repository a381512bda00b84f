"""SaslHandshake as a request: too late, or on a listener that asks for no proof.

The one that counts is part of the conversation before requests are served; see `apis/security/authentication.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from stages.request import Send

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = SaslHandshakeRequest


def handle(call: Call, request: SaslHandshakeRequest) -> Send:
    """Refuse it; the connection stays usable."""
    return call.send(error_response(request, call, ErrorCode.ILLEGAL_SASL_STATE))


def error_response(request: SaslHandshakeRequest, call: Call, code: ErrorCode) -> SaslHandshakeResponse:
    """The response that carries only an error."""
    return SaslHandshakeResponse(error_code=code)
