"""RenewDelegationToken: extends the lifetime of a delegation token; the response has the new expiry time."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.security.token_requests import change_expiry
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.security.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from stages.request import Result


def handle(call: Call, request: RenewDelegationTokenRequest) -> Result:
    tokens, owner = call.broker.delegation_tokens, call.session.principal
    return change_expiry(
        call,
        lambda: tokens.renew(request.hmac, owner, request.renew_period_ms, call.now_ms),
        RenewDelegationTokenResponse,
    )


def error_response(request: RenewDelegationTokenRequest, call: Call, code: ErrorCode) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)
