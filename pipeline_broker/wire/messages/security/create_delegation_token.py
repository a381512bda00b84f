"""CreateDelegationToken: create a token with which clients authenticate as its owner."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, binary, int16, int32, int64, string


@attrs.define
class CreateDelegationTokenRequest:
    SCHEMA = schema_of(ApiKey.CREATE_DELEGATION_TOKEN)

    @attrs.define
    class CreatableRenewers:
        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = array("CreatableRenewers", "0+")
    max_lifetime_ms: int = int64("0+")


@attrs.define
class CreateDelegationTokenResponse:
    SCHEMA = schema_of(ApiKey.CREATE_DELEGATION_TOKEN)

    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+")
    throttle_time_ms: int = int32("0+")
