"""DescribeDelegationToken: the tokens that the client owns, requested, may renew or may describe.

A null list of owners requests the tokens of all owners. An empty list requests none.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.security.token_requests import may_ask_for_tokens
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.security.delegation_tokens import DelegationToken
from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.wire.messages.security.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from stages.request import Send

REQUESTER_FROM = 3
Described = DescribeDelegationTokenResponse.DescribedDelegationToken
Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer


def handle(call: Call, request: DescribeDelegationTokenRequest) -> Send:
    if not may_ask_for_tokens(call):
        return call.refuse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    tokens = call.broker.delegation_tokens
    if not tokens.is_enabled:
        return call.refuse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = [KafkaPrincipal(each.principal_type, each.principal_name) for each in request.owners]

    def may_describe(token: DelegationToken) -> bool:
        by_id = authorize(call, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        return by_id or authorize(call, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))

    visible = tokens.visible(call.session.principal, owners, may_describe)
    described = [_described(call, token, tokens.secret(token.token_id)) for token in visible]
    return call.send(DescribeDelegationTokenResponse(tokens=described))


def _described(call: Call, token: DelegationToken, secret: bytes) -> Described:
    described = Described(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.ends_ms,
        token_id=token.token_id,
        hmac=secret,
        renewers=[Renewer(each.type, each.name) for each in token.renewers],
    )
    if call.version >= REQUESTER_FROM:
        described.token_requester_principal_type = token.requester.type
        described.token_requester_principal_name = token.requester.name
    return described
