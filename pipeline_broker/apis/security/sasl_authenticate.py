"""SaslAuthenticate after authentication, or on a listener without SASL: refused; see `sasl_handshake.py`."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from stages.request import Send

TOO_LATE = "SaslAuthenticate request received after successful authentication"


def handle(call: Call, request: SaslAuthenticateRequest) -> Send:
    return call.send(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=TOO_LATE))


def error_response(request: SaslAuthenticateRequest, call: Call, code: ErrorCode) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code)
