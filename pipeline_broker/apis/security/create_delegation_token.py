"""CreateDelegationToken: creates a token that authenticates as its owner (KIP-48)."""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.security.token_requests import may_ask_for_tokens
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.security.delegation_tokens import TokenError
from pipeline_broker.security.principal import USER, KafkaPrincipal
from pipeline_broker.wire.messages.security.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from stages.request import Result

# The first version that may request a token for another owner.
REQUESTER_FROM = 3


def handle(call: Call, request: CreateDelegationTokenRequest) -> Result:
    requester = call.session.principal
    renewers = [KafkaPrincipal(each.principal_type, each.principal_name) for each in request.renewers]
    owner = _owner(call, request)
    if not may_ask_for_tokens(call):
        return call.send(error_response(request, call, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    if not owner.type:
        return call.send(error_response(request, call, ErrorCode.INVALID_PRINCIPAL_TYPE))
    if owner != requester and not authorize(call, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return call.send(error_response(request, call, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED))
    if any(renewer.type != USER for renewer in renewers):
        return call.send(error_response(request, call, ErrorCode.INVALID_PRINCIPAL_TYPE))
    tokens = call.broker.delegation_tokens
    token_id = str(call.broker.new_id())
    try:
        token, write = tokens.create(token_id, owner, requester, renewers, request.max_lifetime_ms, call.now_ms)
    except TokenError as error:
        return call.send(
            _response(call, owner, error.code, time_ms=0)
        )  # 0, like Kafka's controller; other refusals have -1
    response = _response(call, owner, ErrorCode.NONE)
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    response.max_timestamp_ms = token.ends_ms
    response.token_id, response.hmac = token.token_id, tokens.secret(token.token_id)
    return call.broker.commit_metadata([(write, tokens.durable)], call.now_ms, call.send(response))


def _owner(call: Call, request: CreateDelegationTokenRequest) -> KafkaPrincipal:
    if not request.owner_principal_name:
        return call.session.principal
    return KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)


def error_response(request: CreateDelegationTokenRequest, call: Call, code: ErrorCode) -> CreateDelegationTokenResponse:
    return _response(call, _owner(call, request), code)


def _response(call: Call, owner: KafkaPrincipal, code: ErrorCode, time_ms: int = -1) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )
    if call.version >= REQUESTER_FROM:
        requester = call.session.principal
        response.token_requester_principal_type = requester.type
        response.token_requester_principal_name = requester.name
    return response
