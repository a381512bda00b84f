"""DescribeDelegationToken: list the tokens that the client may see."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, binary, int16, int32, int64, string


@attrs.define
class DescribeDelegationTokenRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_DELEGATION_TOKEN)

    @attrs.define
    class DescribeDelegationTokenOwner:
        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = array(
        "DescribeDelegationTokenOwner", "0+", nullable="0+"
    )


@attrs.define
class DescribeDelegationTokenResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_DELEGATION_TOKEN)

    @attrs.define
    class DescribedDelegationToken:
        principal_type: str = string("0+")
        principal_name: str = string("0+")
        token_requester_principal_type: str = string("3+")
        token_requester_principal_name: str = string("3+")
        issue_timestamp: int = int64("0+")
        expiry_timestamp: int = int64("0+")
        max_timestamp: int = int64("0+")
        token_id: str = string("0+")
        hmac: bytes = binary("0+")
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = array(
            "DescribedDelegationTokenRenewer", "0+"
        )

    @attrs.define
    class DescribedDelegationTokenRenewer:
        principal_type: str = string("0+")
        principal_name: str = string("0+")

    error_code: int = int16("0+")
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = array("DescribedDelegationToken", "0+")
    throttle_time_ms: int = int32("0+")
