"""ExpireDelegationToken: shortens the lifetime of a delegation token, or expires it at once."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.security.token_requests import change_expiry
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.security.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from stages.request import Result


def handle(call: Call, request: ExpireDelegationTokenRequest) -> Result:
    tokens, owner = call.broker.delegation_tokens, call.session.principal
    return change_expiry(
        call,
        lambda: tokens.expire(request.hmac, owner, request.expiry_time_period_ms, call.now_ms),
        ExpireDelegationTokenResponse,
    )


def error_response(request: ExpireDelegationTokenRequest, call: Call, code: ErrorCode) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)
