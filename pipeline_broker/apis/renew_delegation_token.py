"""RenewDelegationToken: a token lasts longer; the answer says until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.token_requests import may_ask_for_tokens
from pipeline_broker.security.delegation_tokens import TokenError
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = RenewDelegationTokenRequest


def handle(call: Call, request: RenewDelegationTokenRequest) -> Result:
    """Ask the tokens."""
    if not may_ask_for_tokens(call):
        return call.send(error_response(request, call, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    tokens = call.broker.delegation_tokens
    try:
        expires_ms, write = tokens.renew(request.hmac, call.session.principal, request.renew_period_ms, call.now_ms)
    except TokenError as error:
        return call.send(error_response(request, call, error.code))
    answer = call.send(RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms))
    return call.broker.commit_metadata([(write, tokens.durable)], call.now_ms, answer)


def error_response(request: RenewDelegationTokenRequest, call: Call, code: ErrorCode) -> RenewDelegationTokenResponse:
    """The response that carries only an error."""
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)
