"""SaslAuthenticate as a request: too late, or on a listener that asks for no proof; see `sasl_handshake.py`."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from stages.request import Send

TOO_LATE = "SaslAuthenticate request received after successful authentication"


def handle(call: Call, request: SaslAuthenticateRequest) -> Send:
    """Refuse it; the connection stays usable."""
    return call.send(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=TOO_LATE))


def error_response(request: SaslAuthenticateRequest, call: Call, code: ErrorCode) -> SaslAuthenticateResponse:
    """The response that carries only an error."""
    return SaslAuthenticateResponse(error_code=code)
